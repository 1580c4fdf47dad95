"""NBSync beside what others publish: `scripts/bench sync`.

The modules, each using only those above it:

    digits        data, a small network and its gradients (digits.c)
    job           workers on an emulated timeline: what a step takes, and what it learns
    outer         what a server does with the mean of a round's deltas
    turns         methods whose workers and network take turns: SSGD, FedAvg, DiLoCo, ESync
    peers         published methods that overlap, or have no rounds
    machine       when one worker sends, swaps and waits: the rules of core/training/exchange
    exchange      a job whose workers have that machine: NBSync, published, corrected and default
    methods       the list of them, and which settings of each are searched
    search        the best setting of a method
    cells         what is searched and measured, on both cores
    bars          what has to hold
    tables        the results as text
    emulated      real jobs whose computing is sleeping (training.py)
    answer        what it takes to answer a program locally (answering.py)
    hsp           a method that only real jobs and their model have
    real_worker   a worker's part of each method, as a real job has it
    real_server   a server's part of those without rounds
    real_methods  how each method runs for real, and its best settings
    real_heard    what workers of a real job say, and when the loss is there
    real_near     what the model says where exchanges differ
    real_page     what came of real jobs, as text
    real          the methods as real jobs, beside the model (real_program.py)
"""
