"""A worker of the wheel whose servers are relink_wheel.cc: they add up whatever is pushed, so it is
dist_async."""

import mxnet as mx
import numpy as np
from common import finish

SHAPES = {"small": (5, 5), "big": (70, 50)}
ROUNDS = 5


def values(name, factor):
    count = int(np.prod(SHAPES[name]))
    return mx.nd.array((np.arange(count) % 100 * factor).reshape(SHAPES[name]))


kv = mx.kv.create("dist_async")
wrong = []
for name in SHAPES:
    kv.init(name, values(name, 1000))
for number in range(1, ROUNDS + 1):
    for name in SHAPES:
        kv.push(name, values(name, number * (kv.rank + 1)))
    mx.nd.waitall()
    kv._barrier()
    for name, shape in SHAPES.items():
        out = mx.nd.zeros(shape)
        kv.pull(name, out=out)
        want = 1000 + number * (number + 1) // 2 * kv.num_workers * (kv.num_workers + 1) // 2
        if not np.array_equal(out.asnumpy(), values(name, want).asnumpy()):
            wrong.append(f"{name} in round {number}")
    kv._barrier()
finish(kv, [], wrong=wrong)
