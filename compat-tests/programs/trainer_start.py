"""The usual start of a gluon job with many small parameters and the optimizer in the worker.

The first step pulls rank 0's weights and pushes the gradients right behind them, as every gluon
program does. All messages have the same priority; if one of those pulls is overtaken by the push of
the same key, this worker starts with a sum of gradients as its weights.
"""

import mxnet as mx
from mxnet import autograd, gluon
from common import data, finish

kv = mx.kv.create("dist_sync")
mx.random.seed(1)
net = gluon.nn.Sequential()
for _ in range(60):
    net.add(gluon.nn.Dense(4, in_units=4))
net.initialize(mx.init.Constant(0.25))
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.125}, kvstore=kv,
                        update_on_kvstore=False)
weights = []
for step in range(2):
    x = mx.nd.array(data((2, 4), kv.rank))
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    trainer.step(2)
    weights += [p.data().copy() for _, p in sorted(net.collect_params().items())]
finish(kv, weights)
