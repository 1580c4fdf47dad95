"""A worker whose job fails while it asks for nothing, and which asks for everything afterwards.

    after_failure.py        prints one line of JSON: what each call says
"""

import json
import os
import time

import numpy as np

from pslite import job, lbbsp
from pslite.kv import KVWorker
from pslite.node import Node
from pslite.store import Store
from refused import refused

#: Seconds. A request that takes longer waits for ever.
LONG = 20


def main():
    role = os.environ["DMLC_ROLE"]
    if role != "worker":
        return job.serve_scheduler() if role == "scheduler" else job.serve_server()
    one, out = np.ones(2, "float32"), np.zeros(2, "float32")
    big = np.ones(400_000, "float32")  # Cut for both servers.
    node = Node().start()
    store, other = Store(node), KVWorker(node, customer=1)
    for name, values in {"a": one, "b": one, "c": one, "big": big}.items():
        store.init(name, values)
    store.set_optimizer("sgd", learning_rate=0.5)
    node.barrier("workers")
    print("ready", flush=True)
    ended = refused(lambda: node.barrier("all"))
    time.sleep(0.5)  # Its customers have heard of it, too.
    calls = {
        **{f"push {name}": lambda name=name: store.push(name, one).wait(LONG) for name in "abc"},
        **{f"pull {name}": lambda name=name: store.pull(name, out).wait(LONG) for name in "abc"},
        "push big": lambda: store.push("big", big).wait(LONG),
        "push and pull big": lambda: store.push_pull("big", big).wait(LONG),
        "push of whole keys": lambda: other.push([7], one).wait(LONG),
        "command": lambda: store.set_optimizer("sgd", learning_rate=0.25),
        "init": lambda: (store.init("d", one), store.push("d", one).wait(LONG)),
        "session": lambda: lbbsp.Session(node, length=100, total=10, rule="dealt"),
        "barrier": lambda: node.barrier("workers"),
    }
    found = {name: refused(call) for name, call in calls.items()}
    print(json.dumps({"ended": ended, "calls": found}), flush=True)
    os._exit(0)  # No farewell: the job has failed.


main()
