"""float16 weights with multi_precision: the servers keep float32 masters."""

import sys

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create(sys.argv[1])
gradient = Gradients()
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.01, momentum=0.9, multi_precision=True))
shapes = {0: (20, 5), 1: (60, 50)}
results = []
for key, shape in shapes.items():
    kv.init(key, mx.nd.array(data(shape, key, "float16"), dtype="float16"))
for step in range(6):
    for key, shape in shapes.items():
        kv.push(key, gradient(key, data(shape, 40 * kv.rank + step, "float16")))
        out = mx.nd.zeros(shape, dtype="float16")
        kv.pull(key, out=out)
        results.append(out)
finish(kv, results)
