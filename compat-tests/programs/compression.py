"""2-bit gradient compression.

Argument 1: the kvstore's type. Argument 2: "wait" waits between a pull and the next push of the
same key; "nowait" does not, and then everything hangs on messages of equal priority keeping their
order. Argument 3: how many rounds.
"""

import sys

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create(sys.argv[1])
gradient = Gradients()
wait = sys.argv[2] == "wait"
rounds = int(sys.argv[3])
kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
shapes = {"small": (3, 3), "big": (60, 50)}
results = []
for name, shape in shapes.items():
    kv.init(name, mx.nd.zeros(shape))
for step in range(rounds):
    for name, shape in shapes.items():
        kv.push(name, gradient(name, data(shape, 100 * kv.rank + step)))
        out = mx.nd.zeros(shape)
        kv.pull(name, out=out)
        results.append(out)
        if wait:
            out.wait_to_read()
finish(kv, results)
