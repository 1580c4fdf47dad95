"""Trains with an optimizer with which MXNet's own server fails; prints what the worker is told, and
where.

`class`: one of this script, which a server cannot unpickle. `update`: one whose update raises.
`again`: `class`, after another one that works.
"""

import json
import sys

import mxnet as mx
from common import data
from halving import Halving


class Mine(mx.optimizer.SGD):
    """Servers end inside `import mxnet`, and never come here."""


def train():
    yield "set_optimizer"
    if sys.argv[1] == "again":
        kv.set_optimizer(Halving())
    kv.set_optimizer(mx.optimizer.DCASGD(momentum=0.9) if sys.argv[1] == "update" else Mine())
    yield "update"
    kv.push(1, mx.nd.ones((4, 5)))
    out = mx.nd.zeros((4, 5))
    kv.pull(1, out=out)
    out.wait_to_read()
    yield "nowhere"


kv = mx.kv.create("dist_sync")
kv.init(1, mx.nd.array(data((4, 5), 1)))
error = place = None
try:
    for place in train():
        pass
except mx.base.MXNetError as failure:
    error = str(failure)
print(json.dumps({"rank": kv.rank, "place": place, "error": error}), flush=True)
