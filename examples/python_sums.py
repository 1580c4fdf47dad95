"""A server in Python that sums, and workers that use it, without MXNet.

    pslite run -n 2 -s 1 -- python examples/python_sums.py
"""

import numpy as np

from pslite.kv import KVServer, KVWorker
from pslite.node import Node

sums = {}


def handler(request):
    """Runs on the server, for one request after the other."""
    key = request.keys[0]
    if request.push:
        sums[key] = sums.get(key, 0) + np.frombuffer(request.values, "float32")
    return sums[key] if request.pull else None


with Node() as node:
    if node.role == "server":
        KVServer(node, handler)
    node.barrier()
    if node.role == "worker":
        worker = KVWorker(node)
        worker.push([7], np.ones(4, "float32")).wait()
        node.barrier("workers")
        print("worker", node.rank, "gets", worker.pull([7], np.zeros(4, "float32")).wait())
