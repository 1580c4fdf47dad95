"""The global weights of MXNet's kvstores (pslite.sync.global_weights) in a job that exchanges what
was changed: `fedavg:steps=2`. Worker r's gradients are r + 1, of plain SGD with a rate of 1/4."""

import json

import mxnet as mx
import numpy as np
from common import Gradients, mapped
from mxnet import gluon

from pslite import sync
from refused import refused

SHAPES = {3: (5, 2), 8: (400, 3)}


def alike(arrays):
    return [np.unique(array.asnumpy()).tolist() for array in arrays.values()]


def raw(kv):
    """Global and own values of all keys after each of three steps."""
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.25, momentum=0.0, wd=0.0))
    own = {key: mx.nd.ones(shape) for key, shape in SHAPES.items()}
    for key, array in own.items():
        kv.init(key, array)
        kv.pull(key, out=array)
    gradients, seen = Gradients(), []
    for _ in range(3):
        for key, array in own.items():
            kv.push(key, gradients(key, np.full(SHAPES[key], kv.rank + 1.0, "float32")))
            kv.pull(key, out=array)
        mx.nd.waitall()
        kv._barrier()
        into = {key: mx.nd.zeros(shape) for key, shape in SHAPES.items()}
        found = sync.global_weights(kv, into)
        assert all(found[key] is into[key] for key in into)
        seen.append([alike(found), alike(own)])
        kv._barrier()
    return seen


def trainer(kv):
    """Of parameters by name, after one step of its own."""
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.Constant(0.5))
    trained = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.25}, kvstore=kv)
    early = refused(lambda: sync.global_weights(trained))
    with mx.autograd.record():
        loss = net(mx.nd.ones((1, 3))).sum()
    loss.backward()
    trained.step(1)
    mx.nd.waitall()
    # All have made their keys.
    kv._barrier()
    found = sync.global_weights(trained)
    one, = [name for name in found if name.endswith("weight")]
    into = {one: mx.nd.zeros((2, 3))}
    assert sync.global_weights(trained, into)[one] is into[one]
    kv._barrier()
    return {"early": early, "names": sorted(name.rpartition("_")[2] for name in found),
            "global": found[one].asnumpy().ravel().tolist(),
            "into": into[one].asnumpy().ravel().tolist(),
            "own": net.weight.data().asnumpy().ravel().tolist(),
            "unknown": refused(lambda: sync.global_weights(trained, {"none": into[one]}))}


first, second = mx.kv.create("dist_sync"), mx.kv.create("dist_sync")
result = {"rank": first.rank, "pslite": mapped("libpslite_mxnet"), "mxnet": mapped("libmxnet"),
          "first": raw(first), "second": trainer(second),
          "without": refused(lambda: sync.global_weights(first))}
print(json.dumps(result), flush=True)
