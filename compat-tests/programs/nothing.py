"""A worker that joins and leaves."""

import mxnet as mx
from common import finish

kv = mx.kv.create("dist_sync")
finish(kv, [])
