"""pslite.lbbsp under the stock wheel, preloaded, with loaders and iterators that are looked at or
left early, and with batches that nobody reports.

    lbbsp_mxnet_cases.py CASE      prints one line of JSON with what it saw

Each sample is its own number, so the samples that are computed are known.
"""

import json
import sys
import time

import mxnet as mx
import numpy as np

from pslite import lbbsp
from pslite.lbbsp import _session
from refused import refused

CASE = sys.argv[1]
SAMPLES, TOTAL = 120, 24
#: Samples per second of each rank.
SPEED = (300.0, 900.0)


class Job:
    """A session, and a kvstore in which each batch of this worker is pushed and pulled."""

    def __init__(self, kv, prefetch, **options):
        self.kv = kv
        self.session = lbbsp.Session(length=SAMPLES, total=TOTAL, rule="cpu-last",
                                     prefetch=prefetch, **options)
        net = mx.gluon.nn.Dense(1)
        net.initialize()
        self.net = net
        self.trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0},
                                        kvstore=kv)
        self.sizes, self.places = [], []

    def loader(self, workers, **options):
        rows = mx.gluon.data.ArrayDataset(np.arange(SAMPLES, dtype="float32"))
        return mx.gluon.data.DataLoader(rows, batch_sampler=self.session.batches(),
                                        num_workers=workers, thread_pool=True, **options)

    def backward(self, rows):
        time.sleep(len(rows) / SPEED[self.kv.rank])
        with mx.autograd.record():
            loss = self.net(rows.reshape((-1, 1))).sum()
        loss.backward()
        self.sizes.append(len(rows))
        self.places += rows.asnumpy().astype(int).tolist()

    def step(self, rows):
        """The gradients are still on their way when it returns."""
        self.backward(rows)
        self.trainer.step(TOTAL)

    def found(self, **more):
        mx.nd.waitall()
        state = self.session.state_dict()
        self.session.close()
        return {"sizes": self.sizes, "places": self.places, "again": self.session.given_again,
                "computed": state["iteration"], **more}


def peek(kv, workers, prefetch):
    job = Job(kv, prefetch)
    loader = job.loader(workers)
    first = iter(loader)  # It is kept.
    seen = next(first)
    for _ in range(2):
        for rows in loader:
            job.step(rows)
    return job.found(seen=len(seen))


def reload(kv, workers, prefetch):
    """The loader takes batches before anybody asks, and after each epoch."""
    job = Job(kv, prefetch)
    loader = job.loader(workers, auto_reload=True)
    next(iter(job.loader(workers)))
    del loader
    loader = job.loader(workers, auto_reload=True)
    for _ in range(2):
        for rows in loader:
            job.step(rows)
    return job.found()


def early(kv, workers, prefetch):
    job = Job(kv, prefetch)
    for leave in (1, 3, 9, 4, 9):
        for number, rows in enumerate(job.loader(workers)):
            if number == leave:
                break
            job.step(rows)
    return job.found()


def told(kv):
    """A step for each second batch, which the script reports."""
    job = Job(kv, 4)
    for number, rows in enumerate(job.loader(2)):
        job.backward(rows)
        if number % 2:
            job.trainer.step(TOTAL, ignore_stale_grad=True)
            mx.nd.waitall()
            job.session.report(iteration=job.session.batch.iteration + 1)
    return job.found()


def untold(kv):
    """A step for each second batch: the library sees one exchange for two batches."""
    _session._LONG = 1.0
    job = Job(kv, 2)

    def steps():
        for _ in range(4):
            for number, rows in enumerate(job.loader(1)):
                job.backward(rows)
                if number % 2:
                    job.trainer.step(TOTAL, ignore_stale_grad=True)

    return {"refused": refused(steps)}


def looked_at(kv):
    """Batches are taken and validated, and none is pushed."""
    _session._LONG = 1.0
    job = Job(kv, 0)
    return {"refused": refused(lambda: [len(rows) for rows in job.loader(0)])}


def module(kv):
    """A batch of a DataIter is looked at before the first epoch, an epoch is left early, and then
    somebody scores on it."""
    _session._LONG = 1.0
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="f")
    net = mx.mod.Module(mx.sym.SoftmaxOutput(symbol, name="softmax"))
    session = lbbsp.Session(length=SAMPLES, total=TOTAL, rule="fixed")
    rows = np.arange(SAMPLES, dtype="float32").reshape(-1, 1)
    batches = lbbsp.DataIter(session, rows, rows[:, 0] % 2)
    sizes, places = [], []
    next(batches)
    next(iter(batches))

    class Stop(Exception):
        pass

    def seen(param):
        data = param.locals["data_batch"].data[0].asnumpy()
        sizes.append(len(data))
        places.extend(data[:, 0].astype(int).tolist())
        if len(sizes) == 3:
            raise Stop

    options = {"kvstore": kv, "batch_end_callback": seen, "optimizer": "sgd",
               "optimizer_params": {"learning_rate": 0.0}}
    try:
        net.fit(batches, num_epoch=1, **options)
    except Stop:
        pass
    net.fit(batches, num_epoch=2, **options)
    mx.nd.waitall()
    found = {"sizes": sizes, "places": places, "computed": session.state_dict()["iteration"],
             "score": refused(lambda: net.score(batches, "acc"))}
    kv._barrier()
    return found


def main():
    kv = mx.kv.create("dist_sync")
    case, *numbers = CASE.split()
    print(json.dumps([kv.rank, globals()[case](kv, *map(int, numbers))]), flush=True)
    kv._barrier()


if __name__ == "__main__":
    main()
