"""Sends an optimizer that no native server has; prints what the worker is told."""

import json

import mxnet as mx
from common import data, mapped
from halving import Halving

kv = mx.kv.create("dist_sync")
kv.init(1, mx.nd.array(data((4, 5), 1)))
error = None
try:
    kv.set_optimizer(Halving())
except mx.base.MXNetError as failure:
    error = str(failure)
print(json.dumps({"rank": kv.rank, "error": error, "pslite": mapped("libpslite_mxnet"),
                  "mxnet": mapped("libmxnet")}), flush=True)
