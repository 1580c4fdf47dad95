"""Trains while deltas travel (PSLITE_SYNC): `exchange.py train STEPS [PAUSE [EVERY]]`. Worker r's
gradients are r + 1, of plain SGD with a rate of 1/4, so each step's part of a value is known.
It pauses r + 1 times as long between steps. Prints "step N", and in the end the values that the
worker has, and those that it had after each EVERY-th step. `finish` in place of `train`: in the
end it waits until all are equal. `dealt PAUSE`: trains on batches that are dealt.

`exchange.py CASE`: does what a job that exchanges deltas refuses, and prints what it is told.
"""

import json
import sys
import time

import mxnet as mx
import numpy as np
from common import Gradients, mapped
from mxnet import gluon

if sys.argv[1] in ("finish", "dealt"):
    from pslite import sync

#: The second one is more than MXNET_KVSTORE_BIGARRAY_BOUND of the test: all servers have a part.
SHAPES = {3: (5, 2), 8: (400, 3)}
RATE = 0.25

kv = mx.kv.create("dist_sync")


def unique(weights):
    """The different values among the elements of each key. They are alike, but where the parts of a
    key are exchanged at different times."""
    return {str(key): np.unique(weight.asnumpy()).tolist() for key, weight in weights.items()}


def train(kv, steps, pause, keys, every=0, met=None):
    """The values of all keys in the end. met: gets those after each every-th step."""
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=RATE, momentum=0.0, wd=0.0))
    weights = {key: mx.nd.zeros(SHAPES[key]) for key in keys}
    for key, weight in weights.items():
        kv.init(key, weight)
        kv.pull(key, out=weight)
    gradients, ones = Gradients(), {key: np.full(SHAPES[key], kv.rank + 1.0) for key in keys}
    for step in range(1, steps + 1):
        for key in keys:
            gradient = gradients(key, ones[key].astype("float32"))
            if step % 2:
                kv.push(key, gradient)
                kv.pull(key, out=weights[key])
            else:
                kv.pushpull(key, gradient, out=weights[key])
        mx.nd.waitall()
        if every and step % every == 0:
            met.append(unique(weights))
        print(f"step {step}", flush=True)
        time.sleep(pause * (kv.rank + 1))
    if sys.argv[1] == "finish":
        result["before"] = unique(weights)
        result["exchanges"] = sync.finish(kv)
        for key in keys:
            kv.pull(key, out=weights[key])
    return unique(weights)


def dealt(kv, pause):
    """Trains on batches that are dealt, two epochs of 40 samples. The samples, the steps, and the
    values when all workers are equal."""
    from pslite import lbbsp
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=RATE, momentum=0.0, wd=0.0))
    weight = mx.nd.zeros(SHAPES[3])
    kv.init(3, weight)
    kv.pull(3, out=weight)
    gradients, samples, steps = Gradients(), [], 0
    ones = np.full(SHAPES[3], kv.rank + 1.0, dtype="float32")
    session = lbbsp.Session(length=40, total=2, rule="dealt", epochs=2)
    for _ in range(2):
        for batch in session:
            with session.compute():
                time.sleep(pause * (1 + 4 * kv.rank))
                kv.pushpull(3, gradients(3, ones), out=weight)
                weight.wait_to_read()
            samples += [int(sample) for sample in batch.indices]
            steps += 1
    session.close()
    sync.finish(kv)
    kv.pull(3, out=weight)
    return samples, steps, unique({3: weight})


def refused(case):
    if case == "rows":
        kv.set_optimizer(mx.optimizer.SGD())
        kv.init(0, mx.nd.ones((6, 3)).tostype("row_sparse"))
        kv.push(0, mx.nd.ones((6, 3)).tostype("row_sparse"))
    elif case == "compression":
        kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    elif case == "ftrl":
        kv.set_optimizer(mx.optimizer.Ftrl())
    elif case == "no optimizer":
        net = gluon.nn.Dense(2, in_units=3)
        net.initialize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=kv, update_on_kvstore=False)
        with mx.autograd.record():
            loss = net(mx.nd.ones((1, 3))).sum()
        loss.backward()
        trainer.step(1)
    elif case == "nan":
        kv.set_optimizer(mx.optimizer.SGD())
        kv.init(7, mx.nd.ones((2,)))
        out = mx.nd.zeros((2,))
        kv.pull(7, out=out)
        for _ in range(3):
            kv.push(7, mx.nd.full((2,), float("nan")))
            kv.pull(7, out=out)
            mx.nd.waitall()
    elif case == "session":
        from pslite import lbbsp
        from pslite.errors import PsliteError
        try:
            lbbsp.Session(length=100, total=20)
        except PsliteError as error:
            raise mx.base.MXNetError(str(error)) from error
    mx.nd.waitall()


result = {"rank": kv.rank, "error": None, "pslite": mapped("libpslite_mxnet"),
          "mxnet": mapped("libmxnet")}
if sys.argv[1] in ("train", "finish"):
    steps, pause = int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    every, result["met"] = int(sys.argv[4]) if len(sys.argv) > 4 else 0, []
    result["values"] = train(kv, steps, pause, list(SHAPES), every, result["met"])
elif sys.argv[1] == "dealt":
    result["samples"], result["steps"], result["values"] = dealt(kv, float(sys.argv[2]))
elif sys.argv[1] == "two":
    other = mx.kv.create("dist_sync")
    result["values"] = train(kv, int(sys.argv[2]), 0.0, [3])
    result["others"] = train(other, int(sys.argv[2]), 0.0, [3])
else:
    try:
        refused(sys.argv[1])
    except mx.base.MXNetError as failure:
        result["error"] = str(failure)
print(json.dumps(result), flush=True)
