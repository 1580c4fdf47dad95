"""pslite.store in a job whose workers die and are started again. Arguments: rounds, seconds that a
round takes at least, and "back" for one that is started again.

Rank r pushes 2^r, and the optimizer is SGD with a momentum of 1/2. So from three values that follow
each other one sees whose gradients were in the round between the last two, and whether values and
momentum are what they have to be: that is printed for each round, as the sum of 2^r over those who
were counted.
"""

import json
import os
import sys
import time

import numpy as np

from pslite import job
from pslite.node import Node
from pslite.store import Store

INIT, MOMENTUM = 1000.0, 0.5
rounds, pace, back = int(sys.argv[1]), float(sys.argv[2]), "back" in sys.argv


def say(text):
    print(text, file=sys.stderr, flush=True)


def train(node, store):
    say(f"this is rank {node.rank} of {node.num_workers}")
    for name in ("two", "one") if back else ("one", "two"):
        store.init(name, np.full(4, INIT, "float32"))
    store.set_optimizer("sgd", learning_rate=1.0, momentum=MOMENTUM)
    gradient, out = np.full(4, 2.0 ** node.rank, "float32"), np.zeros(4, "float32")
    seen, counted = [INIT, INIT], []
    for step in range(rounds):
        begin = time.monotonic()
        for name in ("one", "two"):
            store.push_pull(name, gradient, out).wait()
        before, last, now = seen = [*seen[-2:], float(out[0])]
        total = MOMENTUM * (last - before) - (now - last)
        # One that came back is not in every round, so what it sees is not all.
        assert abs(total - round(total)) < 0.01 or back, (total, seen)
        counted.append(round(total))
        say(f"round {step + 1}")
        time.sleep(max(0.0, begin + pace - time.monotonic()))
    say("comes to the barrier")
    node.barrier("workers")
    return counted


def main():
    role = os.environ["DMLC_ROLE"]
    if role != "worker":
        return job.serve_scheduler() if role == "scheduler" else job.serve_server()
    with Node() as node:
        with Store(node) as store:
            counted = train(node, store)
        print(json.dumps({"rank": node.rank, "back": node.is_recovery, "counted": counted}),
              flush=True)


if __name__ == "__main__":
    main()
