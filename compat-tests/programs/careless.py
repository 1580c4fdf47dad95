"""Workers of pslite's package whose programs are careless: what they forget, do twice, or do in the
wrong order is repaired or refused, and nobody waits for it.

    careless.py CASE        prints one line of JSON with what it saw
"""

import contextlib
import json
import os
import sys
import time

import numpy as np

from pslite import errors, job
from pslite.kv import KVWorker
from pslite.node import Node
from pslite.store import Store
from refused import refused

CASE = sys.argv[1]


def twice():
    """`start` and `with`, `start` again, after `stop` too."""
    with Node().start() as node:
        same = node.start() is node
        with Store(node) as store:
            store.init("a", np.ones(2, "float32"))
            store.push_pull("a", np.ones(2, "float32")).wait()
    again = refused(node.start)
    stopped = Node("scheduler", root="127.0.0.1:1", workers=1, servers=1)
    stopped._started = True
    after = refused(stopped.start)
    stopped._started = False
    return {"same": same, "closed": again, "stopped": after}


def unclosed():
    """Nobody closes the store; `close` of the node does."""
    node = Node().start()
    store = Store(node)
    store.init("a", np.zeros(3, "float32"))
    out = store.push_pull("a", np.ones(3, "float32")).wait()
    node.close()
    node.close()
    return {"out": out.tolist(), "closed": store._closed}


def closed():
    """A store after its end; the node goes on."""
    one = np.ones(2, "float32")
    with Node() as node:
        store = Store(node)
        store.init("a", one)
        store.push_pull("a", one, np.zeros(2, "float32")).wait()
        store.close()
        store.close()
        calls = {
            "init": lambda: store.init("b", one),
            "push": lambda: store.push("a", one),
            "pull": lambda: store.pull("a", one),
            "push_pull": lambda: store.push_pull("a", one),
            "unknown": lambda: store.pull("b", one),
            "set_optimizer": lambda: store.set_optimizer("sgd"),
        }
        found = {name: refused(call) for name, call in calls.items()}
        found["again"] = refused(lambda: Store(node))
        node.barrier("workers")
    found["node"] = refused(lambda: Store(node))
    return found


def second():
    """A second store, and one that fails: the first one, and the node, are as they were."""
    node = Node()
    early = refused(lambda: Store(node))
    node.start()
    whole = KVWorker(node)
    taken = refused(lambda: Store(node))
    whole._leave(node)
    # One whose first command fails: the servers are asked by a store that is none yet.
    sent, Store._command = Store._command, _failing
    node.barrier = _failing
    try:
        failed = refused(lambda: Store(node))
    finally:
        Store._command = sent
        del node.barrier
    left = threads_of_customers()
    store = Store(node)
    another = refused(lambda: Store(node))
    other = refused(lambda: KVWorker(node))
    store.init("a", np.zeros(2, "float32"))
    out = store.push_pull("a", np.ones(2, "float32")).wait().tolist()
    further = KVWorker(node, customer=1)
    further._leave(node)
    store.close()
    node.close()
    return {"early": early, "taken": taken, "failed": failed, "second": another, "worker": other,
            "out": out, "left": left}


def threads_of_customers():
    """How many there are, once there is none, or after a while: the kernel has a thread for a
    moment longer than who joined it."""
    for _ in range(500):
        names = []
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as name:
                names.append(name.read())
        count = sum(name.startswith("pslite-c") and name[8].isdigit() for name in names)
        if count == 0:
            break
        time.sleep(0.02)
    return count


def _failing(*_, **__):
    raise errors.RemoteError("the server has no room")


def numbers():
    """numpy's scalars, wherever a number is wanted; and what is none."""
    with Node(workers=np.int64(2), servers=np.uint8(2), PSLITE_ELASTIC=np.bool_(False),
              PSLITE_STALL_REPORT=np.float32(9.5), PSLITE_CONNECTIONS=np.int32(1),
              PSLITE_HEARTBEAT=None) as node:
        root = f"{os.environ['DMLC_PS_ROOT_URI']}:{os.environ['DMLC_PS_ROOT_PORT']}"
        with Store(node) as store:
            weight = np.ones(3, "float32")
            store.init("w", weight)
            store.set_optimizer("sgd", learning_rate=np.float32(0.5), momentum=np.float64(0),
                                begin_num_update=np.int64(0), multi_precision=np.bool_(False))
            store.push_pull("w", np.ones(3, "float32"), weight, priority=np.int16(3)).wait(
                np.float32(20))
            found = {
                "weight": weight.tolist(),
                "dead": node.dead_nodes(np.int64(30)),
                "status": job.status(root, np.float64(9)).workers,
                "wrong": {
                    "priority": refused(lambda: store.push("w", weight, priority=2**31)),
                    "fraction": refused(lambda: store.push("w", weight, priority=1.5)),
                    "timeout": refused(lambda: store.pull("w", weight).wait("soon")),
                    "nan": refused(lambda: store.pull("w", weight).wait(float("nan"))),
                    "rank": refused(lambda: job.drain(root, np.int64(-1))),
                    "dead": refused(lambda: node.dead_nodes(1.5)),
                    "customer": refused(lambda: KVWorker(node, customer="one")),
                    "rate": refused(lambda: store.set_optimizer("sgd", learning_rate=weight)),
                },
            }
        keys = KVWorker(node, customer=np.int64(1))._keys
        found["keys"] = [list((keys.view(each).count, keys.view(each).dtype)) for each in (
            np.int64(7), np.uint64(2**63), [np.int32(1), 2], np.array(5), np.arange(3, dtype="int8")
        )]
        found["bad keys"] = [refused(lambda each=each: keys.view(each)) for each in (
            np.float64(7), [np.float32(1)], np.bool_(True), np.int64(-1))]
    return found


def main():
    role = os.environ["DMLC_ROLE"]
    if role != "worker":
        return job.serve_scheduler() if role == "scheduler" else job.serve_server()
    print(json.dumps(globals()[CASE]()), flush=True)


if __name__ == "__main__":
    main()
