"""Workers that train until they are ended, 400 iterations at most. Arguments: the rank of the
worker that computes long, or -1 for none; seconds that it computes more in an iteration.
"""

import sys
import time

import mxnet as mx
from common import Gradients, data, finish

slow, seconds = int(sys.argv[1]), float(sys.argv[2])

kv = mx.kv.create("dist_sync")
values = data((64, 64), 3)
for key in range(3):
    kv.init(key, mx.nd.array(values))
gradient = Gradients()
outs = [mx.nd.zeros((64, 64)) for _ in range(3)]
for _ in range(400):
    if kv.rank == slow:
        time.sleep(seconds)
    for key, out in enumerate(outs):
        kv.push(key, gradient(key, values), priority=-key)
        kv.pull(key, out=out, priority=-key)
    for out in outs:
        out.wait_to_read()
finish(kv, outs)
