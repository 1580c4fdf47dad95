"""gluon.Trainer on a small network.

Arguments: the kvstore's type; "server" or "worker", where the optimizer runs. (Gradient compression
is not for gluon in MXNet 1.9.1: its trainer calls pushpull, which refuses compression.)
"""

import sys

import mxnet as mx
from mxnet import autograd, gluon
from common import data, digest, finish

kind, side = sys.argv[1:3]
kv = mx.kv.create(kind)
mx.random.seed(1)
net = gluon.nn.Sequential()
net.add(gluon.nn.Dense(64, activation="relu", in_units=20),
        gluon.nn.Dense(40, activation="relu", in_units=64),
        gluon.nn.Dense(3, in_units=40))
net.initialize(mx.init.Xavier())
trainer = gluon.Trainer(net.collect_params(), "sgd",
                        {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.001}, kvstore=kv,
                        update_on_kvstore=side == "server")
# The trainer's first step pulls rank 0's weights and does not wait for them. On stock such a pull
# can be overtaken by the gradient that follows it (see trainer_start.py); here that is not the
# question.
trainer._check_and_rescale_grad(trainer._scale / (16 * kv.num_workers))
trainer._init_kvstore()
trainer._init_params()
mx.nd.waitall()
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
weights = [p.data() for _, p in sorted(net.collect_params().items())]
finish(kv, weights, losses=digest(losses))
