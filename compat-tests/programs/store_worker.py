"""pslite.store: a worker that trains on pslite's own servers, without MXNet.

    store_worker.py CASE        prints one line of JSON with what it saw
"""

import json
import os
import sys
import time

import numpy as np

from pslite import job
from pslite.node import Node
from pslite.store import Store
from refused import refused

CASE = sys.argv[1]
BIG = 1_000_001


def sums(node, store):
    """Without an optimizer servers sum; each type, and an array that is cut for both servers."""
    found = {}
    for dtype in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8"):
        store.init(dtype, np.zeros(6, dtype))
        out = np.full(6, 9, dtype)
        store.push(dtype, np.arange(6, dtype=dtype) * (node.rank + 1)).wait()
        store.pull(dtype, out).wait()
        found[dtype] = out.tolist()
    big = np.full(BIG, node.rank + 1, "float32")
    store.init("big", big)
    start = store.pull("big", np.zeros(BIG, "float32")).wait()
    found["start"] = [float(start.min()), float(start.max())]
    store.push_pull("big", big).wait()
    found["big"] = [float(big.min()), float(big.max())]
    found["names"] = store.names()
    return found


def optimizer(node, store):
    """Adam at the servers, whose parameters are float32 as in MXNet, against Adam here."""
    weight = np.linspace(-1, 1, 5)
    store.init("weight", weight)
    store.set_optimizer("adam", learning_rate=0.1, rescale_grad=0.5)
    mine, mean, square = weight.copy(), np.zeros(5), np.zeros(5)
    for step in range(1, 6):
        gradient = np.sin(mine + node.rank)
        both = (np.sin(mine) + np.sin(mine + 1)) * 0.5
        store.push_pull("weight", gradient, weight).wait()
        mean = 0.9 * mean + 0.1 * both
        square = 0.999 * square + 0.001 * both * both
        rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        mine = mine - rate * mean / (np.sqrt(square) + 1e-8)
    return {"off": float(abs(weight - mine).max()), "weight": weight.tolist()}


def half(node, store):
    """A sum, and then a step, that a float16 of this size does not show."""
    weight = np.ones(4, "float16")
    store.init("half", weight)
    store.set_optimizer("sgd", learning_rate=2.0**-11, multi_precision=True)
    store.push_pull("half", np.full(4, 1 if node.rank else 2048, "float16"), weight).wait()
    first = weight.tolist()
    for _ in range(64):
        store.push_pull("half", np.full(4, 1 / 128, "float16"), weight).wait()
    return {"first": first, "weight": weight.tolist()}


def bad_input(node, store):
    store.init("there", np.zeros(4, "float32"))
    good = np.zeros(4, "float32")
    found = {
        "twice": refused(lambda: store.init("there", good)),
        "none": refused(lambda: store.push("elsewhere", good)),
        "dtype": refused(lambda: store.push("there", np.zeros(4))),
        "shape": refused(lambda: store.pull("there", np.zeros(5, "float32"))),
        "kind": refused(lambda: store.init("odd", np.zeros(3, "uint16"))),
        "empty": refused(lambda: store.init("empty", np.zeros(0, "float32"))),
        "optimizer": refused(lambda: store.set_optimizer("adm")),
        "parameter": refused(lambda: store.set_optimizer("sgd", momentun=0.9)),
        "number": refused(lambda: store.set_optimizer("sgd", momentum="much")),
    }
    found["goes on"] = store.push_pull("there", good + 1, good).wait().tolist()
    return found


def order(node, store):
    """The same arrays, made in another order."""
    names = ["a", "b", "big"]
    made = {"a": np.full(4, 1.0), "b": np.full(4, 2.0), "big": np.full(BIG, 3.0)}
    for name in reversed(names) if node.rank else names:
        store.init(name, made[name])
    start = {name: store.pull(name, np.zeros_like(made[name])).wait()[:2].tolist()
             for name in names}
    sums = {name: store.push_pull(name, made[name] * (node.rank + 1)).wait()[-2:].tolist()
            for name in names}
    return {"start": start, "sums": sums}


def differ(node, store):
    """Each worker makes something else, and uses an array. What it is told, twice."""
    mine = SAID[sys.argv[2]][node.rank]
    for name in mine:
        store.init(name, mine[name])
    value = np.zeros_like(mine["a"])
    told = refused(lambda: store.push("a", value))
    return {"told": [told, refused(lambda: store.pull("a", value))]}


SAID = {
    "names": [{"a": np.zeros(4, "float32"), "c": np.zeros(4)},
              {"a": np.zeros(4, "float32"), "d": np.zeros(4)}],
    "one more": [{"a": np.zeros(4, "float32"), "c": np.zeros(4)}, {"a": np.zeros(4, "float32")}],
    "shapes": [{"a": np.zeros(4, "float32")}, {"a": np.zeros((2, 2), "float32")}],
    "dtypes": [{"a": np.zeros(4, "float32")}, {"a": np.zeros(4, "int32")}],
}


def later(node, store):
    """In the middle one makes an array more, and the other one waits for its push."""
    value = np.ones(4, "float32")
    store.init("a", value)
    store.push_pull("a", value).wait()
    if node.rank == 0:
        store.init("more", value)
        return {"told": refused(lambda: store.push("more", value).wait())}
    return {"told": refused(lambda: store.push_pull("a", value).wait())}


def late(node, store):
    """One comes to the array when the test has seen that the other one says for whom it waits."""
    value = np.ones(4, "float32")
    if node.rank == 1:
        end = time.monotonic() + 60
        while not os.path.exists("go") and time.monotonic() < end:
            time.sleep(0.05)
    store.init("a", value)
    return {"out": store.push_pull("a", value).wait().tolist()}


def optimizers(node, store):
    """Of other numbers; then of the same, in other words."""
    value = np.zeros(4, "float32")
    store.init("a", value)
    rate = [1, 1.0][node.rank]
    store.set_optimizer("sgd", learning_rate=rate, **({"momentum": 0} if node.rank else {}))
    out = store.push_pull("a", value + 1, value).wait().tolist()
    told = refused(lambda: store.set_optimizer("sgd", learning_rate=0.1 + node.rank))
    return {"out": out, "told": told}


def numbers(node, store):
    """Two names of one number: their text is what users see."""
    from pslite import store as module
    real, module._number = module._number, lambda name: module.NAMED
    store.init("one", np.zeros(4))
    found = {"told": refused(lambda: store.init("two", np.zeros(4)))}
    module._number = real
    store.init("two", np.zeros(4))
    return {**found, "names": store.names()}


def main():
    role = os.environ["DMLC_ROLE"]
    if role != "worker":
        return job.serve_scheduler() if role == "scheduler" else job.serve_server()
    with Node() as node:
        # In the case "mode" they differ.
        with Store(node, sync=CASE != "mode" or node.rank == 0) as store:
            print(json.dumps(globals()[CASE](node, store)), flush=True)
        store.close()


if __name__ == "__main__":
    main()
