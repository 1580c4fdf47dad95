"""Trains float16 weights with optimizers that keep float32 beside them: `narrow_weights.py
[multi_precision]`.

The key is there before the first optimizer, and a second one comes after it. Prints the digest of
what is pulled.
"""

import sys

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create("dist_sync")
gradient = Gradients()
shape = (7, 5)
outs = []
for at, name in enumerate(("RMSProp", "AdaGrad", "Ftrl", "AdaDelta")):
    keys = (2 * at, 2 * at + 1)

    def make(key):
        kv.init(key, mx.nd.array(data(shape, key)).astype("float16"))

    make(keys[0])
    kv.set_optimizer(mx.optimizer.create(name, multi_precision="multi_precision" in sys.argv))
    kv._barrier()
    make(keys[1])
    for step in range(3):
        for key in keys:
            kv.push(key,
                    gradient(key, data(shape, 100 * step + 10 * key + kv.rank)).astype("float16"))
            out = mx.nd.zeros(shape, dtype="float16")
            kv.pull(key, out=out)
            outs.append(out)
        # The next push of a key is a new array: it must not overtake this round.
        mx.nd.waitall()
finish(kv, outs)
