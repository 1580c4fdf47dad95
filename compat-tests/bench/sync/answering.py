"""What it takes to answer a push and a pull of every tensor of ResNet-50 (25.6 M of float32) with
Adam: by the local model of a job that exchanges deltas (PSLITE_SYNC), and by MXNet's `local`
kvstore, in one process and in turn.

    answering.py LIMIT TIMES      prints {"ours": [seconds], "local": [seconds]}

LIMIT: seconds after which the process ends itself, whatever happens.
"""

import json
import signal
import sys
import time
from pathlib import Path

signal.alarm(int(sys.argv[1]))

import mxnet as mx  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tensors import resnet50  # noqa: E402

# Steps of each that are not counted: the first makes the optimizer's state.
BEFORE = 2


class Trained:
    """A model on a kvstore."""

    def __init__(self, kind, sizes):
        self.kv = mx.kv.create(kind)
        self.kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.001))
        self.weights = [mx.nd.ones((size,)) for size in sizes]
        self.gradients = [mx.nd.empty((size,)) for size in sizes]
        self.kv.init(list(range(len(sizes))), self.weights)
        mx.nd.waitall()

    def step(self):
        """Seconds."""
        # MXNet pulls through the buffer that it pushed from: gradients must be made anew.
        for gradient in self.gradients:
            gradient[:] = 0.01
        mx.nd.waitall()
        begin = time.perf_counter()
        for key, gradient in enumerate(self.gradients):
            self.kv.push(key, gradient, priority=-key)
        for key, weight in enumerate(self.weights):
            self.kv.pull(key, out=weight, priority=-key)
        mx.nd.waitall()
        return time.perf_counter() - begin


def main():
    both = {"ours": Trained("dist_sync", resnet50()), "local": Trained("local", resnet50())}
    found = {name: [] for name in both}
    for number in range(BEFORE + int(sys.argv[2])):
        for name, one in both.items():
            seconds = one.step()
            if number >= BEFORE:
                found[name].append(seconds)
    for ours, local in zip(both["ours"].weights, both["local"].weights):
        assert (ours.asnumpy() == local.asnumpy()).all(), "the two models are not the same"
    print(json.dumps(found), flush=True)


main()
