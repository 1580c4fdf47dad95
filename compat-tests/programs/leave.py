"""Rank 1 leaves without the push that rank 0 waits for."""

import json
import sys
import traceback

import mxnet as mx
from common import data, finish, mapped, note

kv = mx.kv.create("dist_sync")
kv.init(77, mx.nd.array(data((5, 5), 1)))
if kv.rank == 1:
    finish(kv, [])
    note("rank 1 leaves")
    sys.exit(0)
out = mx.nd.zeros((5, 5))
try:
    kv.push(77, mx.nd.array(data((5, 5), 2)))
    kv.pull(77, out=out)
    out.wait_to_read()
    mx.nd.waitall()
    kv._barrier()
except mx.base.MXNetError as error:
    traceback.print_exc()
    print(json.dumps({"error": str(error), "rank": kv.rank,
                      "pslite": mapped("libpslite_mxnet")}), flush=True)
    sys.exit(3)
finish(kv, [out])
