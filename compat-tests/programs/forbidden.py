"""Rank 0 sends an optimizer that the servers may not unpickle; prints what each worker is told."""

import json

import mxnet as mx
from common import data
from halving import Halving

kv = mx.kv.create("dist_sync")
kv.init(1, mx.nd.array(data((4, 5), 1)))
errors = []


def attempt(what):
    try:
        what()
        errors.append("")
    except mx.base.MXNetError as failure:
        errors.append(str(failure))


def step():
    out = mx.nd.zeros((4, 5))
    kv.push(1, mx.nd.ones((4, 5)))
    kv.pull(1, out=out)
    out.wait_to_read()
    mx.nd.waitall()


if kv.rank == 0:
    attempt(lambda: kv.set_optimizer(Halving()))
kv._barrier()
attempt(step)
print(json.dumps({"rank": kv.rank, "errors": errors}), flush=True)
