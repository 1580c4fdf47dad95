"""Servers of the methods that have no rounds, for a pslite.kv.KVServer: one rule for each part of
the model. It knows no process, no clock and no job.

An array that comes has the values of its part, zeros, and at last the version of the model that the
worker had; the answer has the part and its version now.
"""

import numpy as np


class FedAsync:
    """peers.fedasync: a model is mixed in, the less the older it is."""

    def __init__(self, start, setting, _):
        self.model, self.version = start.copy(), 0
        self._mix, self._fades = setting["mix"], setting["fades"]

    def takes(self, local, version):
        weight = np.float32(self._mix * (1 + self.version - version) ** -self._fades)
        self.model += weight * (local - self.model)
        self.version += 1


class Asynchronous:
    """peers.asynchronous: a delta at once, momentum once for all workers."""

    def __init__(self, start, setting, workers):
        self.model, self.version, self._workers = start.copy(), 0, workers
        self._momentum = np.float32(setting["momentum"])
        self._rate = np.float32(setting["outer"] / workers)
        self._speed, self._sum = np.zeros_like(start), np.zeros_like(start)

    def takes(self, delta, _):
        self._sum += delta
        self.version += 1
        change = delta
        if self.version % self._workers == 0:
            self._speed = self._momentum * self._speed + self._sum
            change = self._momentum * self._speed + delta
            self._sum[:] = 0
        self.model += self._rate * change


RULES = {"FedAsync": FedAsync, "asynchronous": Asynchronous}


class Handler:
    """Of all parts; the key is the part's number."""

    def __init__(self, rule, start, parts, setting, workers):
        self._rules = [RULES[rule](start[part], setting, workers) for part in parts]

    def __call__(self, request):
        values = np.frombuffer(request.values, "float32")
        rule = self._rules[request.keys[0]]
        count = len(rule.model)
        rule.takes(values[:count], int(values[-1]))
        answer = np.zeros_like(values)
        answer[:count], answer[-1] = rule.model, rule.version
        return answer
