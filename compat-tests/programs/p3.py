"""P3: slices with priorities. Run with DMLC_PS_VAN_TYPE=p3, small MXNET_KVSTORE_SLICE_THRESHOLD.

P3 has neither server-side optimizers nor row_sparse nor compression. Keys are initialised in the
same order everywhere, as P3 demands.
"""

import sys

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create(sys.argv[1])
gradient = Gradients()
shapes = {1: (10,), 2: (70, 50), 3: (300, 40)}
results = []
for key, shape in shapes.items():
    kv.init(key, mx.nd.array(data(shape, key)))
for step in range(5):
    outs = {k: mx.nd.zeros(s) for k, s in shapes.items()}
    for key, shape in reversed(list(shapes.items())):
        kv.pushpull(key, gradient(key, data(shape, 100 * kv.rank + 7 * step + key)),
                    out=outs[key], priority=-key)
    results.extend(outs.values())
for step in range(3):
    for key, shape in shapes.items():
        kv.push(key, gradient(key, data(shape, 900 * kv.rank + step + key)), priority=-key)
    mx.nd.waitall()
    for key, shape in shapes.items():
        out = mx.nd.zeros(shape)
        kv.pull(key, out=out, priority=-key)
        results.append(out)
    mx.nd.waitall()
finish(kv, results)
