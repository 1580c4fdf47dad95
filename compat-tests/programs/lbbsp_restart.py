"""Workers share batches by a session, and one of them dies and is started again.

Arguments: the rank that dies, after how many batches, and where all end: the first iteration that
nobody computes. "back": this process takes the place of the dead one.

Each push is the batch's size, and the optimizer is SGD with a learning rate of 1: so at any time
the negative weights say how many samples were counted, for each key by itself.
"""

import os
import sys
import time

import mxnet as mx
from common import finish, note
from pslite import lbbsp

TOTAL = 24
PER_EPOCH = 10
KEYS = {"big": (1100, 1000), "small": (40,)}

victim, after, end = (int(argument) for argument in sys.argv[1:4])
back = "back" in sys.argv
kv = mx.kv.create("dist_sync")
note(f"this is rank {kv.rank} of {kv.num_workers}")
for key, shape in KEYS.items():
    kv.init(key, mx.nd.zeros(shape))
kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, wd=0.0, rescale_grad=1.0))
outs = {key: mx.nd.zeros(shape) for key, shape in KEYS.items()}
session = lbbsp.Session(length=TOTAL * PER_EPOCH, total=TOTAL, shuffle=False, rule="cpu-last")
batches = []
while True:
    batch = session.next()
    # What a worker is too late for the others compute: it may be taken past the end.
    if batch.iteration >= end:
        break
    if not back and kv.rank == victim and len(batches) == after:
        # All have reported the batch before, or this one would not have come.
        note("dies")
        os._exit(9)
    time.sleep(0.005 * batch.size)
    for key, shape in KEYS.items():
        kv.push(key, mx.nd.full(shape, batch.size))
        kv.pull(key, out=outs[key])
    mx.nd.waitall()
    place = batch.place % TOTAL
    batches.append((batch.iteration, place, batch.size))
    note(f"batch {len(batches)}: {batch.iteration} {place} {batch.size}")
    if batch.iteration == end - 1:
        break
session.close()
counted = {key: -float(out.asnumpy().ravel()[-1]) for key, out in outs.items()}
finish(kv, list(outs.values()), batches=batches, counted=counted, rank=kv.rank)
