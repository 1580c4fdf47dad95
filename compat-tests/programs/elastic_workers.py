"""Training whose workers die and are started again. Arguments: rounds, and seconds that a round
takes at least.

Rank r pushes 2^r to every element, and the optimizer is SGD with a momentum of 1/2. So from three
values of an element that follow each other one sees whose gradients were in the round between the
last two, and whether the momentum is what it has to be: that is printed for each round, as the sum
of 2^r over those who were counted, and at the end all values that elements have. The initial values
are large, so that one that is taken for a gradient shows.
"""

import sys
import time

import mxnet as mx
import numpy as np
from common import finish, note

INIT = 1000.0
MOMENTUM = 0.5
# One is cut by MXNet itself (above 1e6 elements).
SHAPES = {"big": (1100, 1000), "small": (40,)}
# Elements that are looked at: a tensor's parts may be at different servers.
PLACES = {"big": (0, 1100 * 1000 - 1), "small": (0,)}
# So many different values are said at most.
VALUES = 50

rounds, pace = int(sys.argv[1]), float(sys.argv[2])
kv = mx.kv.create("dist_sync")
note(f"this is rank {kv.rank} of {kv.num_workers}")
kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, momentum=MOMENTUM, wd=0.0))
for key, shape in SHAPES.items():
    kv.init(key, mx.nd.full(shape, INIT))
gradients = {key: mx.nd.full(shape, 2.0 ** kv.rank) for key, shape in SHAPES.items()}
# What is pushed becomes the kvstore's buffer, into which it pulls.
buffers = {key: mx.nd.zeros(shape) for key, shape in SHAPES.items()}
outs = {key: mx.nd.zeros(shape) for key, shape in SHAPES.items()}


def look():
    """The elements that are looked at."""
    values = {key: out.asnumpy().ravel() for key, out in outs.items()}
    return np.array([values[key][at] for key in SHAPES for at in PLACES[key]], dtype=np.float64)


# Only who was there from the beginning pulls after every round.
back = "back" in sys.argv
seen = [np.full(3, INIT), np.full(3, INIT)]
counted = [[] for _ in range(3)]
for step in range(rounds):
    begin = time.monotonic()
    for key in SHAPES:
        gradients[key].copyto(buffers[key])
        kv.push(key, buffers[key])
        kv.pull(key, out=outs[key])
    mx.nd.waitall()
    if not back:
        before, last, now = seen = seen[-2:] + [look()]
        total = MOMENTUM * (last - before) - (now - last)
        assert np.abs(total - np.rint(total)).max() < 0.01, (total, seen)
        for place, who in zip(counted, np.rint(total).astype(int)):
            place.append(int(who))
    note(f"round {step + 1}")
    time.sleep(max(0.0, begin + pace - time.monotonic()))
values = sorted({float(value) for out in outs.values() for value in np.unique(out.asnumpy())})
finish(kv, list(outs.values()), counted=counted, values=values[:VALUES])
