"""One kvstore, and keys that are initialised twice in it. Arguments: MODE KIND.

init      by two calls
trainers  two gluon.Trainers share it; servers run no optimizer
reborn    kvstores that follow each other, each with the same key: nothing is twice
"""

import gc
import sys

import mxnet as mx
from common import finish

MODE, KIND = sys.argv[1:]


def net(value):
    made = mx.gluon.nn.Dense(1, use_bias=False, in_units=1)
    made.initialize(mx.init.Constant(value))
    return made


def trainers(kv):
    nets = [net(1.0), net(10.0)]
    # Servers run no optimizer; of dist_async MXNet demands that they do.
    on_servers = KIND == "dist_async"
    made = [mx.gluon.Trainer(each.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=kv,
                             update_on_kvstore=on_servers) for each in nets]
    for each, trainer in zip(nets, made):
        with mx.autograd.record():
            loss = each(mx.nd.ones((1, 1))).sum()
        loss.backward()
        trainer.step(1)
        # Else the other Trainer's push of the key may come between this one's push and its pull.
        mx.nd.waitall()
    # One worker alone: each Trainer gets its own gradient back.
    weights = [float(each.weight.data().asscalar()) for each in nets]
    assert weights == [0.5, 9.5], weights


def init(kv):
    kv.init(0, mx.nd.ones((2, 2)))
    kv.init([1, 0], [mx.nd.ones((2, 2)), mx.nd.full((2, 2), 7)])
    out = mx.nd.zeros((2, 2))
    kv.pull(0, out=out)
    assert (out.asnumpy() == 7).all(), out


kv = mx.kv.create(KIND)
if MODE == "reborn":
    kv.init(0, mx.nd.zeros((2,)))
    for number in range(8):
        other = mx.kv.create(KIND)
        other.init(0, mx.nd.full((2,), number))
        out = mx.nd.zeros((2,))
        other.pull(0, out=out)
        assert (out.asnumpy() == number).all(), (number, out)
        del other
        gc.collect()
else:
    {"init": init, "trainers": trainers}[MODE](kv)
finish(kv, [mx.nd.zeros((1,))])
