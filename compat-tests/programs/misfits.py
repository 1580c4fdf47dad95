"""Pushes an array that is not what its key was made as: `misfits.py CASE [async]`. Prints what the
worker is told.

A case says what the key is made as, what worker 0 pushes, what the others push, and how it is
pulled then.
"""

import json
import sys

import mxnet as mx
import numpy as np
from common import mapped
from mxnet import autograd, gluon

# LARGE is more than MXNET_KVSTORE_BIGARRAY_BOUND of the test: both servers hold it.
SMALL, LARGE = (6, 3), (400, 30)


def dense(shape=SMALL, dtype="float32"):
    return mx.nd.ones(shape, dtype=dtype)


def rows(shape=SMALL, count=1):
    return mx.nd.sparse.row_sparse_array((np.ones((count, shape[1]), "float32"),
                                          list(range(count))), shape=shape)


def all_rows(shape=SMALL):
    return dense(shape).tostype("row_sparse")


CASES = {
    "rows to dense": (dense, rows, rows, "pull"),
    "all rows to dense": (dense, all_rows, all_rows, "pull"),
    "rows of one to dense": (dense, dense, rows, "pull"),
    "rows to large dense": (*[lambda: dense(LARGE)] + [lambda: rows(LARGE)] * 2, "pull"),
    "dense to rows": (all_rows, dense, dense, "rows"),
    "dense of one to rows": (all_rows, rows, dense, "rows"),
    "dense to large rows": (*[lambda: all_rows(LARGE)] + [lambda: dense(LARGE)] * 2, "pull"),
    "lengths": (dense, dense, lambda: dense((5, 3)), "wait"),
    "types": (dense, dense, lambda: dense(dtype="float16"), "wait"),
}
kv = mx.kv.create("dist_async" if "async" in sys.argv else "dist_sync")
case = sys.argv[1]
error = None


def train():
    """Gluon's own way to the first case."""
    net = gluon.nn.Embedding(*SMALL, sparse_grad=True)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=kv)
    for _ in range(2):
        with autograd.record():
            loss = net(mx.nd.array([kv.rank, 3])).sum()
        loss.backward()
        trainer.step(1)
        net.weight.data().asnumpy()


def push():
    made, first, others, then = CASES[case]
    kv.set_optimizer(mx.optimizer.SGD())
    kv.init(0, made())
    pushed = (others if kv.rank else first)()
    kv.push(0, pushed)
    if then == "pull":
        out = mx.nd.zeros(made().shape)
        kv.pull(0, out=out)
        out.asnumpy()
    elif then == "rows":
        out = mx.nd.sparse.zeros("row_sparse", made().shape)
        kv.row_sparse_pull(0, out=out, row_ids=mx.nd.array([0, 1], dtype="int64"))
        out.asnumpy()
    mx.nd.waitall()


try:
    train() if case == "gluon" else push()
except mx.base.MXNetError as failure:
    error = str(failure)
print(json.dumps({"rank": kv.rank, "error": error, "pslite": mapped("libpslite_mxnet"),
                  "mxnet": mapped("libmxnet")}),
      flush=True)
