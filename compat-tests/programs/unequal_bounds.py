"""Two workers with unequal MXNET_KVSTORE_BIGARRAY_BOUND: one cuts the array, the other does not."""

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create("dist_sync")
kv.init(3, mx.nd.array(data((40, 50), 3)))
array = Gradients()(3, data((40, 50), kv.rank))
kv.push(3, array)
kv.pull(3, out=array)
array.wait_to_read()
finish(kv, [array])
