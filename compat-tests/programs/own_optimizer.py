"""Trains with an optimizer that MXNet does not have; `late`: after rounds without any."""

import sys

import mxnet as mx
from common import Gradients, data, finish
from halving import Halving

late = "late" in sys.argv[1:]
kv = mx.kv.create("dist_sync")
gradient = Gradients()
shapes = {1: (4, 5), 2: (60, 60), 3: (7,)}
for key, shape in shapes.items():
    kv.init(key, mx.nd.array(data(shape, key)))
kv.init(4, mx.nd.array(data((6, 2), 4)).tostype("row_sparse"))


def steps(first, last):
    for step in range(first, last):
        for key, shape in shapes.items():
            kv.push(key, gradient(key, data(shape, 10 * step + kv.rank)))
            out = mx.nd.zeros(shape)
            kv.pull(key, out=out)
            out.wait_to_read()
            outs.append(out)


outs = []
if late:
    steps(0, 2)
    kv._barrier()
kv.set_optimizer(Halving())
kv._barrier()
steps(2, 5)
rows = mx.nd.sparse.zeros("row_sparse", (6, 2))
kv.row_sparse_pull(4, out=rows, row_ids=mx.nd.array(range(6), dtype="int64"))
finish(kv, outs + [rows.tostype("default")])
