"""gluon.Trainer on a small network.

Arguments: the kvstore's type; "server" or "worker", where the optimizer runs; "none" or "2bit".
"""

import sys

import mxnet as mx
from mxnet import autograd, gluon
from common import data, digest, finish

kind, side, compression = sys.argv[1:4]
kv = mx.kv.create(kind)
mx.random.seed(1)
net = gluon.nn.Sequential()
net.add(gluon.nn.Dense(64, activation="relu", in_units=20),
        gluon.nn.Dense(40, activation="relu", in_units=64),
        gluon.nn.Dense(3, in_units=40))
net.initialize(mx.init.Xavier())
options = {"update_on_kvstore": side == "server"}
if compression != "none":
    options["compression_params"] = {"type": compression, "threshold": 0.1}
trainer = gluon.Trainer(net.collect_params(), "sgd",
                        {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.001}, kvstore=kv, **options)
loss_function = gluon.loss.L2Loss()
losses = []
for step in range(8):
    x = mx.nd.array(data((16, 20), 1000 * kv.rank + step))
    y = mx.nd.array(data((16, 3), 2000 * kv.rank + step))
    with autograd.record():
        loss = loss_function(net(x), y)
    loss.backward()
    trainer.step(16 * kv.num_workers)
    losses.append(loss)
    if compression != "none":
        mx.nd.waitall()
weights = [p.data() for _, p in sorted(net.collect_params().items())]
finish(kv, weights, losses=digest(losses))
