"""Trains dense and row_sparse keys with an optimizer; `late`: the row_sparse ones are made when it
is there.

`sparse_optimizer.py CLASS [late]`. Prints what the worker is told, or the digest of what it pulled.
"""

import json
import sys

import mxnet as mx
from common import Gradients, data, finish, mapped

name, late = sys.argv[1], "late" in sys.argv[2:]
kv = mx.kv.create("dist_sync")
gradient = Gradients()
dense = {1: (4, 5), 2: (60, 60)}
sparse = {11: (9, 3), 12: (400, 30)}
for key, shape in dense.items():
    kv.init(key, mx.nd.array(data(shape, key)))


def init_sparse():
    for key, shape in sparse.items():
        kv.init(key, mx.nd.array(data(shape, key)).tostype("row_sparse"))


def train():
    outs = []
    for step in range(4):
        for key, shape in dense.items():
            kv.push(key, gradient(key, data(shape, 10 * step + kv.rank)))
            out = mx.nd.zeros(shape)
            kv.pull(key, out=out)
            outs.append(out)
        for key, shape in sparse.items():
            rows = sorted({step, step + 2 + kv.rank, shape[0] - 1})
            values = mx.nd.array(data((len(rows), shape[1]), 100 * step + kv.rank))
            kv.push(key, mx.nd.sparse.row_sparse_array((values, rows), shape=shape))
            out = mx.nd.sparse.zeros("row_sparse", shape)
            ids = mx.nd.array(range(shape[0]), dtype="int64")
            kv.row_sparse_pull(key, out=out, row_ids=ids)
            outs.append(out.tostype("default"))
        # The next push of a key is a new array: it must not overtake this round.
        mx.nd.waitall()
    mx.nd.waitall()
    return outs


try:
    if not late:
        init_sparse()
    kv.set_optimizer(mx.optimizer.create(name, learning_rate=0.1, momentum=0.9, wd=0.01))
    kv._barrier()
    if late:
        init_sparse()
    finish(kv, train())
except mx.base.MXNetError as failure:
    print(json.dumps({"rank": kv.rank, "error": str(failure), "pslite": mapped("libpslite_mxnet"),
                      "mxnet": mapped("libmxnet")}), flush=True)
