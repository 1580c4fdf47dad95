"""dist_async: a push is applied at once, in whatever order they come.

Plain SGD on numbers that are exact in binary: the sum does not depend on the order. Every worker
waits for its own pushes, a barrier waits for the others', then all see the same weights.
"""

import mxnet as mx
import numpy as np
from common import Gradients, finish

kv = mx.kv.create("dist_async")
gradient = Gradients()
shapes = {"small": (5, 5), "big": (70, 50)}
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, wd=0.0))
for name, shape in shapes.items():
    kv.init(name, mx.nd.ones(shape))
results = []
for step in range(5):
    for name, shape in shapes.items():
        grad = np.random.RandomState(10 * step + kv.rank).randint(-8, 8, size=shape) / 4
        kv.push(name, gradient(name, grad.astype("float32")))
        # A pull of the same key queues behind the push: when it has come, the push was applied.
        kv.pull(name, out=mx.nd.zeros(shape))
    mx.nd.waitall()
    kv._barrier()
    for name, shape in shapes.items():
        out = mx.nd.zeros(shape)
        kv.pull(name, out=out)
        results.append(out)
    mx.nd.waitall()
    kv._barrier()
finish(kv, results)
