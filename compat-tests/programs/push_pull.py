"""Every call of mx.kv on dense arrays, without an optimizer: a round's result is the sum.

Arguments: the kvstore's type. Run with a small MXNET_KVSTORE_BIGARRAY_BOUND so that some arrays
are cut over the servers and some are not.
"""

import sys

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create(sys.argv[1])
gradient = Gradients()
shapes = {3: (5, 7), 4: (40, 30), 5: (1,), 9: (2000,), 11: (3, 4, 5)}
results = []

# One key at a time, then lists of keys.
for key, shape in shapes.items():
    kv.init(key, mx.nd.array(data(shape, key)))
for step in range(4):
    for key, shape in shapes.items():
        kv.push(key, gradient(key, data(shape, 1000 * kv.rank + 10 * step + key)), priority=-key)
        out = mx.nd.zeros(shape)
        kv.pull(key, out=out, priority=-key)
        results.append(out)
    # On stock a pull can be overtaken by the push of the next round (order.py is about that).
    mx.nd.waitall()
keys = list(shapes)
for step in range(3):
    kv.push(keys, [gradient(k, data(shapes[k], 7777 * kv.rank + step + k)) for k in keys])
    outs = [mx.nd.zeros(shapes[k]) for k in keys]
    kv.pull(keys, out=outs)
    results.extend(outs)
    mx.nd.waitall()

# Several values of one key are summed in the process before they leave it, in a buffer of their
# own: without waiting the engine could send it before what came earlier in this program.
mx.nd.waitall()
several = [mx.nd.array(data(shapes[4], 50 + i + kv.rank)) for i in range(3)]
kv.push(4, several)
out = mx.nd.zeros(shapes[4])
kv.pull(4, out=out)
results.append(out)

mx.nd.waitall()

# One request that brings the values and takes the sum back.
for step in range(3):
    for key, shape in shapes.items():
        out = mx.nd.zeros(shape)
        kv.pushpull(key, gradient(key, data(shape, 31 * kv.rank + step + key)), out=out)
        results.append(out)
    mx.nd.waitall()

# broadcast is init and pull: everybody gets rank 0's values.
for key, shape in ((20, (6, 6)), (21, (60, 60))):
    out = mx.nd.zeros(shape)
    kv.broadcast(key, mx.nd.array(data(shape, key + kv.rank)), out=out)
    results.append(out)

# Other element types; MXNet's server takes floating point alone. Numbers that float32 holds
# exactly: MXNet's server never initialises its flag multi_precision_, and where that happens to be
# true, it adds float64 up as float32.
for key, dtype in ((30, "float64"), (31, "float16")):
    out = mx.nd.zeros((50, 20), dtype=dtype)
    kv.init(key, out)
    exact = (data((50, 20), key + kv.rank) * 256).round() / 256
    kv.push(key, gradient(key, exact.astype(dtype)))
    kv.pull(key, out=out)
    results.append(out)

finish(kv, results)
