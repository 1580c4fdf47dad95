"""Arrays of millions of elements, with MXNet's default of where to cut. Argument: kvstore's
type."""

import sys

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create(sys.argv[1])
gradient = Gradients()
shapes = {1: (2000, 1001), 2: (999_999,), 3: (1_000_000,)}
results = []
for key, shape in shapes.items():
    kv.init(key, mx.nd.array(data(shape, key)))
for step in range(3):
    for key, shape in shapes.items():
        out = mx.nd.zeros(shape)
        kv.push(key, gradient(key, data(shape, 100 * kv.rank + 10 * step + key)))
        kv.pull(key, out=out)
        results.append(out)
finish(kv, results)
