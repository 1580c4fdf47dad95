"""A known number of pushes and pulls of one key: ten of each, on every worker. With an argument it
has so many rows."""

import sys

import mxnet as mx
from common import Gradients, data, finish

ROUNDS = 10
SHAPE = (int(sys.argv[1]) if len(sys.argv) > 1 else 50, 20)

kv = mx.kv.create("dist_sync")
gradient = Gradients()
# Rank 0 pushes the value.
kv.init(3, mx.nd.array(data(SHAPE, 3)))
outs = []
for step in range(ROUNDS):
    kv.push(3, gradient(3, data(SHAPE, 10 * step + kv.rank)))
    out = mx.nd.zeros(SHAPE)
    kv.pull(3, out=out)
    out.wait_to_read()
    outs.append(out)
finish(kv, outs)
