"""Several kvstores in every worker process: each trains as if it were alone, and this program knows
what each must have. Arguments: MODE STEPS.

sync      two of `dist_sync`; under one key they have arrays of different shapes
async     the second one is of `dist_async`
closed    the first is destroyed in the middle, and two more are made
trainers  two gluon.Trainers, each by the name of its kvstore (mxnet 13054, 5659)
module    a Module and a Trainer
"""

import gc
import json
import sys
import time

import mxnet as mx
import numpy as np
from common import Gradients, digest, finish, mapped, note

MODE, STEPS = sys.argv[1], int(sys.argv[2])
# The large ones are cut by MXNet (MXNET_KVSTORE_BIGARRAY_BOUND).
SHAPES = [[(3,), (40, 30)], [(50, 30), (5,), (2, 2)], [(7,)], [(40, 31)]]


class Model:
    """A kvstore, its arrays, and what they must be. All numbers are exact in float32."""

    def __init__(self, number, kind):
        self.kv = mx.kv.create(kind)
        self.rate = 0.5 ** (number + 1)
        self.wanted = [np.full(shape, 100.0 * number + key, "float32")
                       for key, shape in enumerate(SHAPES[number])]
        self.gradient = Gradients()
        for key, value in enumerate(self.wanted):
            self.kv.init(key, mx.nd.array(value))
        self.kv.set_optimizer(mx.optimizer.SGD(learning_rate=self.rate))
        # Of `dist_async` a push may come before another worker has set it.
        self.kv._barrier()

    def push(self, step):
        self.arrays = []
        for key, value in enumerate(self.wanted):
            array = self.gradient(key, np.full(value.shape, self.kv.rank + step + key, "float32"))
            self.kv.push(key, array)
            self.kv.pull(key, out=array)
            self.arrays.append(array)

    def finish(self, step):
        for array in self.arrays:
            array.wait_to_read()
        self.kv._barrier()
        for key, value in enumerate(self.wanted):
            value -= self.rate * sum(rank + step + key for rank in range(self.kv.num_workers))
            self.kv.pull(key, out=self.arrays[key])
            found = self.arrays[key].asnumpy()
            assert (found == value).all(), (MODE, step, key, found.flat[0], value.flat[0])
        self.kv._barrier()


def kvstores():
    kinds = ["dist_sync", "dist_async" if MODE == "async" else "dist_sync"]
    models = [Model(number, kind) for number, kind in enumerate(kinds)]
    for step in range(STEPS):
        if MODE == "closed" and step == 1:
            del models[0]
            gc.collect()
            models.append(Model(2, "dist_sync"))
        if MODE == "closed" and step == 2:
            models.append(Model(3, "dist_sync"))
        for model in models:
            model.push(step)
        for model in models:
            model.finish(step)
        note(f"step {step + 1}")
        time.sleep(0.02 if STEPS > 10 else 0)
    last = models[-1]
    finish(last.kv, [array for model in models for array in model.wanted])


def net(value):
    block = mx.gluon.nn.Dense(1, use_bias=False, in_units=1)
    block.initialize(mx.init.Constant(value))
    return block


def trained(block, trainer):
    """One step with the gradient 1 of each worker, of a batch of all of them."""
    with mx.autograd.record():
        loss = block(mx.nd.ones((1, 1))).sum()
    loss.backward()
    trainer.step(2)


def trainer_of(block, rate):
    return mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": rate},
                            kvstore="dist_sync")


def trainers():
    nets = [net(1.0), net(10.0)]
    by = [trainer_of(nets[0], 0.5), trainer_of(nets[1], 0.25)]
    for step in range(STEPS):
        for block, trainer in zip(nets, by):
            trained(block, trainer)
        mx.nd.waitall()
        found = [float(block.weight.data().asscalar()) for block in nets]
        assert found == [1.0 - 0.5 * (step + 1), 10.0 - 0.25 * (step + 1)], (step, found)
    report(by[0]._kvstore, found)


def module():
    data = mx.sym.Variable("data")
    symbol = mx.sym.MakeLoss(mx.sym.FullyConnected(data, num_hidden=1, no_bias=True, name="fc"))
    of = mx.mod.Module(symbol, label_names=None)
    of.bind(data_shapes=[("data", (1, 1))])
    of.init_params(mx.init.Constant(2.0))
    of.init_optimizer(kvstore="dist_sync", optimizer="sgd",
                      optimizer_params={"learning_rate": 0.5, "rescale_grad": 0.5})
    block = net(10.0)
    trainer = trainer_of(block, 0.25)
    for step in range(STEPS):
        trained(block, trainer)
        of.forward_backward(mx.io.DataBatch([mx.nd.ones((1, 1))]))
        of.update()
        mx.nd.waitall()
        found = [float(of.get_params()[0]["fc_weight"].asscalar()),
                 float(block.weight.data().asscalar())]
        assert found == [2.0 - 0.5 * (step + 1), 10.0 - 0.25 * (step + 1)], (step, found)
    report(trainer._kvstore, found)


def report(kv, found):
    """The result line, as `finish` prints it."""
    print(json.dumps({"rank": kv.rank, "digest": digest([np.array(found)]), "found": found,
                      "workers": kv.num_workers, "pslite": mapped("libpslite_mxnet"),
                      "mxnet": mapped("libmxnet")}), flush=True)


{"trainers": trainers, "module": module}.get(MODE, kvstores)()
