"""row_sparse arrays: push of some rows, row_sparse_pull of others, small and cut over servers.

With an optimizer: without one MXNet's server puts the pushed rows at the beginning of the matrix,
wherever they belong (docs/divergences.md).
"""

import sys

import mxnet as mx
import numpy as np
from common import data, finish

kv = mx.kv.create(sys.argv[1])
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.25, wd=0.01))
results = []
for key, shape in ((1, (10, 3)), (2, (400, 8))):
    kv.init(key, mx.nd.array(data(shape, key)).tostype("row_sparse"))
for step in range(4):
    for key, shape in ((1, (10, 3)), (2, (400, 8))):
        rows = np.sort(np.random.RandomState(step * 10 + kv.rank).choice(
            shape[0], shape[0] // 3, replace=False))
        value = mx.nd.sparse.row_sparse_array(
            (data((len(rows), shape[1]), 99 * kv.rank + step + key), rows), shape=shape)
        kv.push(key, value)
        wanted = mx.nd.array(np.arange(step, shape[0], 3), dtype="int64")
        out = mx.nd.sparse.zeros("row_sparse", shape)
        kv.row_sparse_pull(key, out=out, row_ids=wanted)
        results.extend([out.tostype("default"), out.indices])
    # A push without any row: the servers get the key alone.
    kv.push(2, mx.nd.sparse.zeros("row_sparse", (400, 8)))
    out = mx.nd.sparse.zeros("row_sparse", (400, 8))
    kv.row_sparse_pull(2, out=out, row_ids=mx.nd.array([0, 399], dtype="int64"))
    results.append(out.tostype("default"))
finish(kv, results)
