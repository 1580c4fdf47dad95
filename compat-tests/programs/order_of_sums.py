"""Sums whose result depends on the order in which they are made. Workers take turns in being
late.

    python order_of_sums.py SEED    of how late: another one in every run
"""

import sys
import time

import mxnet as mx
import numpy as np
from common import Gradients, data, finish

kv = mx.kv.create("dist_sync")
gradient = Gradients()
shapes = {1: (50, 3), 2: (40, 50)}
for key, shape in shapes.items():
    kv.init(key, mx.nd.zeros(shape))
pauses = np.random.RandomState((int(sys.argv[1]) + kv.rank) % 2**32)
outs = []
for step in range(4):
    for key, shape in shapes.items():
        time.sleep(pauses.uniform(0, 0.05))
        kv.push(key, gradient(key, data(shape, 100 * step + kv.rank) * 10.0 ** (3 * kv.rank)))
        out = mx.nd.zeros(shape)
        kv.pull(key, out=out)
        out.wait_to_read()
        outs.append(out)
finish(kv, outs)
