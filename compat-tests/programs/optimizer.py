"""An optimizer that runs on the servers. Arguments: the kvstore's type, the optimizer's name."""

import sys

import mxnet as mx
from common import Gradients, data, finish

OPTIMIZERS = {
    "sgd": lambda: mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.01),
    "adam": lambda: mx.optimizer.Adam(learning_rate=0.01),
    "schedule": lambda: mx.optimizer.SGD(
        lr_scheduler=mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.1)),
}

kv = mx.kv.create(sys.argv[1])
gradient = Gradients()
shapes = {"weight": (60, 40), "bias": (40,), "one": (1,)}
results = []
kv.set_optimizer(OPTIMIZERS[sys.argv[2]]())
for name, shape in shapes.items():
    kv.init(name, mx.nd.array(data(shape, len(name))))
for step in range(6):
    for name, shape in shapes.items():
        kv.push(name, gradient(name, data(shape, 100 * kv.rank + step)))
        out = mx.nd.zeros(shape)
        kv.pull(name, out=out)
        results.append(out)
        if sys.argv[2] == "schedule":
            # The rate follows the largest count of updates of any key: it is the order of the keys'
            # updates that counts, so one at a time.
            out.wait_to_read()
finish(kv, results)
