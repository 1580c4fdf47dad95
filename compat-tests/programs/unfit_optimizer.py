"""An optimizer meets a key that it can never update: `unfit_optimizer.py CASE [late]`; `late`: the
key comes second.

Prints where a worker was told so, and what.
"""

import json
import sys

import mxnet as mx
from common import mapped

optimizers = mx.optimizer
CASES = {
    "AdaGrad rows": (lambda: optimizers.AdaGrad(wd=0.01), "row_sparse"),
    "GroupAdaGrad rows": (lambda: optimizers.contrib.GroupAdaGrad(wd=0.01), "row_sparse"),
    "GroupAdaGrad dense": (lambda: optimizers.contrib.GroupAdaGrad(), "default"),
}
make, stype = CASES[sys.argv[1]]
late = "late" in sys.argv
kv = mx.kv.create("dist_sync")
weight = mx.nd.ones((6, 3)).tostype(stype)
place, error = None, None
try:
    for step in ("optimizer", "key") if late else ("key", "optimizer"):
        place = step
        kv.set_optimizer(make()) if step == "optimizer" else kv.init(0, weight)
        # MXNet waits for an init only in the worker that makes the key.
        mx.nd.waitall()
        kv._barrier()
    place = "push"
    kv.push(0, weight)
    place = "after"
    mx.nd.waitall()
    kv.pull(0, out=mx.nd.zeros((6, 3)))
    mx.nd.waitall()
except mx.base.MXNetError as failure:
    error = str(failure)
print(json.dumps({"rank": kv.rank, "place": place, "error": error,
                  "pslite": mapped("libpslite_mxnet"), "mxnet": mapped("libmxnet")}), flush=True)
