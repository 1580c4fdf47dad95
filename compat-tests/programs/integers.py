"""Gradients that are small whole numbers, added up on the servers: the weights say how many
arrived.

Arguments: the kvstore's type, the number of rounds, and seconds between two rounds. Every worker
pushes `rank + 1` to every element in every round, and the servers add it (SGD with the rate -1).
The sums stay below 2^24, where float32 is exact: a push that is lost or counted twice shows. Arrays
are from one element to several MB, so that messages are whole, gathered, cut into parts and cut
over the servers.
"""

import sys
import time

import mxnet as mx
import numpy as np
from common import Gradients, finish, note

kv = mx.kv.create(sys.argv[1])
rounds, pause = int(sys.argv[2]), float(sys.argv[3])
kv.set_optimizer(mx.optimizer.SGD(learning_rate=-1.0, momentum=0.0, wd=0.0))
gradient = Gradients()
sizes = {1: 1, 2: 900, 3: 5000, 4: 70_000, 5: 700_000}
for key, size in sizes.items():
    kv.init(key, mx.nd.zeros(size))
kv._barrier()
for step in range(1, rounds + 1):
    outs = []
    for key, size in sizes.items():
        kv.push(key, gradient(key, np.full(size, kv.rank + 1, np.float32)))
        out = mx.nd.zeros(size)
        kv.pull(key, out=out)
        outs.append(out)
    mx.nd.waitall()
    note(f"round {step}")
    if kv.type == "dist_sync":
        expected = step * kv.num_workers * (kv.num_workers + 1) // 2
        for key, out in zip(sizes, outs):
            got = out.asnumpy()
            assert (got == expected).all(), (step, key, expected, got.min(), got.max())
    time.sleep(pause)
kv._barrier()
final = []
for key, size in sizes.items():
    out = mx.nd.zeros(size)
    kv.pull(key, out=out)
    final.append(out)
counts = [sorted({int(value) for value in out.asnumpy()}) for out in final]
finish(kv, final, counts=counts)
