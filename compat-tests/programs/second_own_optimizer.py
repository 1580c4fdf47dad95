"""Two kvstores, and for the second one an optimizer that only MXNet's own server can run."""

import mxnet as mx
from common import data
from halving import Halving

kvs = [mx.kv.create("dist_sync") for _ in range(2)]
for kv in kvs:
    kv.init(1, mx.nd.array(data((4, 5), 1)))
kvs[1].set_optimizer(Halving())
