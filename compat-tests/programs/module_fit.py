"""The symbolic Module API: fit() over a kvstore. Argument: the kvstore's type."""

import sys

import mxnet as mx
from common import data, finish

kv = mx.kv.create(sys.argv[1])
mx.random.seed(3)
x, y = data((80, 12), kv.rank), (data((80,), 5 + kv.rank) > 0).astype("float32")
train = mx.io.NDArrayIter(x, y, batch_size=16, label_name="softmax_label")
symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=32, name="first")
symbol = mx.sym.Activation(symbol, act_type="relu")
symbol = mx.sym.FullyConnected(symbol, num_hidden=2, name="second")
symbol = mx.sym.SoftmaxOutput(symbol, name="softmax")
module = mx.mod.Module(symbol, context=mx.cpu())
module.fit(train, num_epoch=3, kvstore=kv, initializer=mx.init.Xavier(),
           optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
arguments, _ = module.get_params()
finish(kv, [arguments[name] for name in sorted(arguments)])
