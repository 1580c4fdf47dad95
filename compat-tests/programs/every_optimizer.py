"""Every optimizer that MXNet registers and the native server has, one after the other on the
servers.

One key, cut over all servers: where there are several, a few of MXNet's optimizers depend on which
one comes first (docs/divergences.md).
"""

import mxnet as mx
from common import Gradients, data, finish

NAMES = ["sgd", "ccsgd", "nag", "signum", "ftml", "lars", "lbsgd", "lamb", "adam", "adagrad",
         "rmsprop", "adadelta", "ftrl", "adamax", "nadam", "dcasgd"]
MORE = {"sgd": {"momentum": 0.9}, "nag": {"momentum": 0.8}, "lars": {"momentum": 0.9},
        "rmsprop": {"centered": True}}
SCHEDULERS = [
    lambda: None,
    lambda: mx.lr_scheduler.FactorScheduler(step=2, factor=0.7),
    lambda: mx.lr_scheduler.MultiFactorScheduler(step=[2, 3], factor=0.5),
    lambda: mx.lr_scheduler.PolyScheduler(max_update=6),
    lambda: mx.lr_scheduler.CosineScheduler(max_update=6, warmup_steps=2),
]

kv = mx.kv.create("dist_sync")
gradient = Gradients()
shape = (60, 40)
kv.init("weight", mx.nd.array(data(shape, 1)))
outs = []
for number, name in enumerate(NAMES):
    scheduler = SCHEDULERS[number % len(SCHEDULERS)]()
    settings = {"learning_rate": 0.05, "wd": 0.01, "clip_gradient": 0.9, **MORE.get(name, {})}
    if scheduler is not None:
        settings["lr_scheduler"] = scheduler
    optimizer = mx.optimizer.create(name, rescale_grad=0.5, param_idx2name={0: "weight"},
                                    **settings)
    optimizer.set_lr_mult({"weight": 1.25})
    kv.set_optimizer(optimizer)
    kv._barrier()
    for step in range(4):
        kv.push("weight", gradient("weight", data(shape, 100 * number + 10 * step + kv.rank)))
        out = mx.nd.zeros(shape)
        kv.pull("weight", out=out)
        out.wait_to_read()
    outs.append(out)
finish(kv, outs, names=NAMES)
