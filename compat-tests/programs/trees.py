"""Pushes and pulls whose sums are whole numbers, and checks each of them. Argument: rounds. With
TREES_FRACTIONS the sums are fractions, which depend on their order, and nothing is checked. With
TREES_COMPRESSED pushes have 2 bits for each element; sums do not depend on their order then, and
nothing is checked either. The worker TREES_LEAVES does half of the rounds only; the worker
TREES_SLEEPS rests in the middle until there is a file TREES_GO."""

import os
import sys
import time

import mxnet as mx
import numpy as np
from common import finish

SHAPES = {"one": (1,), "small": (40,), "middle": (300, 100), "long": (900, 600)}

COMPRESSED = "TREES_COMPRESSED" in os.environ
FRACTIONS = COMPRESSED or "TREES_FRACTIONS" in os.environ

kv = mx.kv.create("dist_sync")
if COMPRESSED:
    kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})


def pushed(shape, number):
    """What this worker pushes."""
    if FRACTIONS:
        return mx.nd.array(np.random.RandomState(100 * kv.rank + number).uniform(-1, 1, shape))
    return mx.nd.full(shape, (kv.rank + 1) * number)


for key, shape in SHAPES.items():
    kv.init(key, mx.nd.zeros(shape))
# Trees are planned while the first keys are made, which takes no time here.
time.sleep(1)
ROUNDS = int(sys.argv[1])
LEAVES = int(os.environ.get("TREES_LEAVES", -1))
SLEEPS = int(os.environ.get("TREES_SLEEPS", -1))
for number in range(1, ROUNDS // 2 + 1 if kv.rank == LEAVES else ROUNDS + 1):
    left = {LEAVES} if number > ROUNDS // 2 else set()
    ranks = [rank + 1 for rank in range(kv.num_workers) if rank not in left]
    outs = {key: mx.nd.zeros(shape) for key, shape in SHAPES.items()}
    if kv.rank == SLEEPS and number == ROUNDS // 2 + 1:
        while not os.path.exists(os.environ["TREES_GO"]):
            time.sleep(0.05)
    for place, (key, shape) in enumerate(SHAPES.items()):
        kv.push(key, pushed(shape, number), priority=-place)
        kv.pull(key, out=outs[key], priority=-place)
    for key, out in outs.items():
        # As in training: the next push of a key comes after its pull.
        values = out.asnumpy()
        assert FRACTIONS or (values == sum(ranks) * number).all(), (number, key, values)
finish(kv, [] if LEAVES >= 0 else list(outs.values()))
