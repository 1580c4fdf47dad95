"""pslite.lbbsp under the stock wheel, preloaded: a gluon script and a Module script.

    lbbsp_mxnet.py gluon|module RULE      prints one line of JSON with what it saw

Workers are slowed down by sleeping: SPEED is samples per second of each rank.
"""

import json
import sys
import time

import mxnet as mx
import numpy as np

from pslite import lbbsp

CASE, RULE = sys.argv[1:]
SPEED = (200.0, 600.0, 400.0)
FEATURES, CLASSES, SAMPLES, TOTAL, EPOCHS = 10, 3, 480, 48, 2


def problem():
    """Samples of three classes, the same at every worker."""
    chance = np.random.RandomState(1)
    labels = chance.randint(CLASSES, size=SAMPLES)
    rows = chance.randn(CLASSES, FEATURES)[labels] + chance.randn(SAMPLES, FEATURES)
    return rows.astype("float32"), labels.astype("float32")


def gluon(kv, session):
    """A stock script, but for the session, its batch sampler, and the number in step()."""
    rows, labels = problem()
    dataset = mx.gluon.data.ArrayDataset(rows, labels)
    loader = mx.gluon.data.DataLoader(dataset, batch_sampler=session.batches(), num_workers=2,
                                      thread_pool=True)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, activation="tanh"), mx.gluon.nn.Dense(CLASSES))
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd",
                               {"learning_rate": 0.5, "momentum": 0.5}, kvstore=kv)
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses, sizes = [], []
    for _ in range(EPOCHS):
        for data, label in loader:
            mx.nd.waitall()  # What follows is computing, which needs the weights.
            time.sleep(len(data) / SPEED[kv.rank])
            with mx.autograd.record():
                loss = criterion(net(data), label)
            loss.backward()
            trainer.step(TOTAL)
            losses.append(float(loss.sum().asscalar()))
            sizes.append(len(data))
    return {"losses": losses, "sizes": sizes}


def module(kv, session):
    """Module.fit with our iterator in place of NDArrayIter."""
    rows, labels = problem()
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=CLASSES)
    net = mx.mod.Module(mx.sym.SoftmaxOutput(symbol, name="softmax"))
    sizes = []

    class SlowIter(lbbsp.DataIter):
        def __next__(self):
            batch = super().__next__()
            sizes.append(batch.data[0].shape[0])
            mx.nd.waitall()
            time.sleep(sizes[-1] / SPEED[kv.rank])
            return batch

        next = __next__

    net.fit(SlowIter(session, rows, labels), num_epoch=EPOCHS, kvstore=kv, optimizer="sgd",
            optimizer_params={"learning_rate": 0.5})
    weights, _ = net.get_params()
    return {"sizes": sizes, "weights": {name: array.asnumpy().tolist()
                                        for name, array in weights.items()}}


def main():
    kv = mx.kv.create("dist_sync")
    mx.random.seed(5)
    # Module binds its executors again for each new size.
    prefetch, quantum = (4, 1) if CASE == "gluon" else (0, 4)
    with lbbsp.Session(length=SAMPLES, total=TOTAL, rule=RULE, prefetch=prefetch,
                       quantum=quantum) as session:
        found = globals()[CASE](kv, session)
    print(json.dumps([kv.rank, found]), flush=True)


if __name__ == "__main__":
    main()
