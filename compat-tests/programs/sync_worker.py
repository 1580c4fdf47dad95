"""pslite.sync: a worker that steps its values itself (PSLITE_SYNC), without MXNet.

    sync_worker.py CASE ...        prints one line of JSON with what it saw
"""

import json
import os
import sys
import time

import numpy as np

import common  # noqa: F401 (a process that is held waits in it)
import sync_steps
from pslite import errors, sync
from pslite.kv import KVWorker
from pslite.node import Node
from pslite.store import Store
from refused import refused

CASE, ARGUMENTS = sys.argv[1], sys.argv[2:]
#: Cut for all servers.
BIG = 1_000_001
#: A worker's step, times its rank and one.
UNIT = 0.25
DTYPES = ("float16", "float32", "float64")


def settled(node, exchange):
    """The global values when all that workers have changed is in them, by those that are alike."""
    node.barrier("workers", leaving=True)
    found = sync.global_weights(exchange)
    return {name: np.unique(values).tolist() for name, values in found.items()}


def sums(node):
    """STEPS [PAUSE]: all types, and an array that is cut. Each step adds what is known."""
    steps = [int(each) for each in ARGUMENTS[0].split(",")][node.rank % 2]
    pause = float(ARGUMENTS[1]) if len(ARGUMENTS) > 1 else 0
    arrays = {dtype: np.full((3, 2), 8 if node.rank == 0 else 9, dtype) for dtype in DTYPES}
    arrays["big"] = np.full(BIG, 8 + node.rank, "float32")
    with sync.Exchange(node, arrays) as exchange:
        begun = {name: np.unique(array).tolist() for name, array in arrays.items()}
        for step in range(1, steps + 1):
            for array in arrays.values():
                array += UNIT * (node.rank + 1)
            exchange.step()
            print(f"step {step}", flush=True)
            time.sleep(pause * (node.rank + 1))
        own = {name: np.unique(array).tolist() for name, array in arrays.items()}
        counts = exchange.counts
        return {"begun": begun, "own": own, "global": settled(node, exchange),
                "mode": exchange.mode, "names": exchange.names(), "counts": counts._asdict()}


def lives(node):
    """STEPS PAUSE: a worker may die and come back. What it began and ended with, and in how many
    steps."""
    steps, pause = int(ARGUMENTS[0]), float(ARGUMENTS[1])
    arrays = {"w": np.zeros(5), "v": np.zeros((2, 3), "float32")}
    with sync.Exchange(node, arrays) as exchange:
        begun = float(arrays["w"][0])
        for step in range(1, steps + 1):
            for array in arrays.values():
                array += UNIT * (node.rank + 1)
            exchange.step()
            print(f"step {step}", flush=True)
            time.sleep(pause)
        exchange.finish()
        # What its own steps and those of the others have made of it.
        return {"begun": begun, "w": np.unique(arrays["w"]).tolist(),
                "v": np.unique(arrays["v"]).tolist(), "steps": exchange.counts.iterations}


def recurrence(node):
    """DTYPE STEPS: what the worker has after each step, as a hash."""
    dtype, steps = ARGUMENTS[0], int(ARGUMENTS[1])
    mine = {name: sync_steps.first(name, dtype) for name in sync_steps.SHAPES}
    if node.rank:
        for array in mine.values():
            array[...] = 0  # Rank 0's count.
    optimizer, digests = sync_steps.Momentum(node.rank, dtype), []
    # Pairs in another order, as a generator gives them.
    with sync.Exchange(node, (each for each in reversed(list(mine.items())))) as exchange:
        digests.append(sync_steps.digest(mine))
        for _ in range(steps):
            optimizer.step(mine)
            exchange.step()
            digests.append(sync_steps.digest(mine))
    return {"digests": digests}


def aligned(node):
    """EVERY: what it has after each EVERY-th step, and when all have waited for each other."""
    every, met = int(ARGUMENTS[0]), []
    arrays = {"w": np.zeros(5), "v": np.zeros((2, 3), "float32")}
    with sync.Exchange(node, arrays) as exchange:
        for step in range(1, 18):
            for array in arrays.values():
                array += UNIT * (node.rank + 1)
            exchange.step()
            if step % every == 0:
                met.append(sync_steps.digest(arrays))
            time.sleep(0.003 * (node.rank + 1))
        exchange.finish()
        met.append(sync_steps.digest(arrays))
        finished = np.unique(arrays["w"]).tolist()
        for array in arrays.values():
            array += UNIT * (node.rank + 1)
        exchange.step()
        assert sync.finish(exchange)
        met.append(sync_steps.digest(arrays))
        return {"met": met, "finished": finished, "last": np.unique(arrays["w"]).tolist()}


def global_values(node):
    """Reading them changes nothing, and they are not the worker's own."""
    w = np.full(3, 1.0)
    with sync.Exchange(node, {"w": w}) as exchange:
        seen = []
        for _ in range(4):
            w += node.rank + 1
            exchange.step()
            node.barrier("workers")
            found = sync.global_weights(exchange)["w"]
            node.barrier("workers")
            seen.append([found.tolist(), w.tolist()])
        into = np.zeros(3)
        same = sync.global_weights(exchange, {"w": into})["w"] is into
        wrong = refused(lambda: sync.global_weights(exchange, {"w": np.zeros(2)}))
        return {"seen": seen, "same": same, "into": into.tolist(), "wrong": wrong,
                "nothing": refused(lambda: sync.global_weights(object()))}


def dictionary(node):
    """An array that is put in place of another one counts."""
    arrays = {"w": np.zeros(3)}
    with sync.Exchange(node, arrays) as exchange:
        for _ in range(4):
            arrays["w"] = arrays["w"] + 1.0 + node.rank
            exchange.step()
        kept = arrays.pop("w")
        gone = refused(exchange.step)
        arrays["w"] = np.zeros(4)
        other = refused(exchange.step)
        arrays["w"] = kept
        return {"w": kept.tolist(), "gone": gone, "other": other}


def wrong_arrays(node):
    """What is refused before anything is sent; then it works."""
    good = np.zeros(4, "float32")
    locked = np.zeros(4)
    locked.setflags(write=False)
    cases = {
        "integers": {"w": np.zeros(4, "int32")}, "strided": {"w": np.zeros((4, 4)).T[1:]},
        "read-only": {"w": locked}, "list": {"w": [1.0]}, "none": {}, "name": {3: good},
        "twice": [("w", good), ("w", good)],
    }
    found = {name: refused(lambda arrays=arrays: sync.Exchange(node, arrays))
             for name, arrays in cases.items()}
    with sync.Exchange(node, {"w": good}) as exchange:
        good += 1
        exchange.step()
        found["second"] = refused(lambda: sync.Exchange(node, {"v": np.zeros(1)}))
        found["store"] = refused(lambda: Store(node))
        found["optimizer"] = refused(lambda: exchange._store.set_optimizer("sgd"))
        found["goes on"] = good.tolist()
    return found


def mixed(node):
    """A Store in such a job: its gradients need an optimizer, and an Exchange a node without."""
    with Store(node) as store:
        store.init("w", np.zeros(2, "float32"))
        gradient = np.ones(2, "float32")
        found = {"gradient": refused(lambda: store.push("w", gradient).wait()),
                 "exchange": refused(lambda: sync.Exchange(node, {"v": gradient}))}
        store.set_optimizer("sgd", learning_rate=0.5)
        begin = node._library.pslite_exchange_begin
        status = begin(store._worker.handle)
        found["begun"] = [status, node._library.pslite_last_error().decode()]
        return found


def without(node):
    """A job that exchanges nothing; and then it is a job as ever."""
    w = np.ones(2)
    found = {"refused": refused(lambda: sync.Exchange(node, {"w": w}))}
    worker = KVWorker(node, customer=1)
    status = node._library.pslite_exchange_begin(worker.handle)
    found["begun"] = [status, node._library.pslite_last_error().decode()]
    with Store(node) as store:
        store.init("w", w)
        found["sum"] = store.push_pull("w", np.ones(2) * (node.rank + 1), w).wait().tolist()
    return found


def differ(node):
    """Workers that mean something else."""
    arrays = {"w": np.zeros((2, 3) if node.rank else (3, 2), "float32")}
    found = {"told": refused(lambda: sync.Exchange(node, arrays))}
    node.close(barrier=False)
    return found


def other_use(node):
    """One steps its values, and the other one has an optimizer."""
    def begin():
        if node.rank:
            store = Store(node)
            store.init("w", np.zeros(3))
            store.set_optimizer("sgd")
        else:
            sync.Exchange(node, {"w": np.zeros(3)})
    found = {"told": refused(begin)}
    node.close(barrier=False)
    return found


def diverges(node):
    """A value that is no number: the text names the array, also at the next call."""
    arrays = {"layer.weight": np.zeros(3, "float32"), "layer.bias": np.zeros(2, "float32")}
    exchange = sync.Exchange(node, arrays)
    exchange.step()
    arrays["layer.bias"][1] = np.nan
    # It is looked at when it is sent.
    found = {"told": refused(lambda: [(exchange.step(), time.sleep(0.01)) for _ in range(500)])}
    found["again"] = refused(exchange.step)
    found["closed"] = refused(exchange.close)
    node.close(barrier=False)
    return found


def raises(node):
    """An exception leaves the block of a worker, and the other one is told."""
    w = np.zeros(2)
    with sync.Exchange(node, {"w": w}) as exchange:
        while True:
            w += 1
            if node.rank and exchange.counts.iterations == 3:
                raise RuntimeError("the program's own")
            exchange.step()


os.environ["DMLC_ROLE"] = "worker"
try:
    with Node() as node:
        result = {"rank": node.rank, **globals()[CASE](node)}
except errors.PsliteError as error:
    result = {"ended": [type(error).__name__, str(error)]}
print(json.dumps(result), flush=True)
