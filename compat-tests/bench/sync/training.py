"""A script as anyone writes it, whose computing is sleeping: a kvstore `dist_sync` with SGD, each
tensor pushed and pulled in each step. It knows nothing of what PSLITE_SYNC says.

A worker reads lines from standard input and answers each with a line of JSON:

    train BEFORE STEPS SECONDS JITTER    so many steps, begun together, of which the first ones are
                                         not counted; each computes so many seconds, longer or
                                         shorter by up to that part
    end

Arguments: seconds after which the process ends itself, whatever happens; the number of tensors, and
of float32 in each.
"""

import json
import random
import signal
import sys
import time
from pathlib import Path

signal.alarm(int(sys.argv[1]))

import mxnet as mx  # noqa: E402

COUNT, SIZE = int(sys.argv[2]), int(sys.argv[3])


def library():
    """The file name of the library that serves this process."""
    loaded = "libpslite_mxnet.so" in Path("/proc/self/maps").read_text(encoding="utf-8")
    return "libpslite_mxnet.so" if loaded else "libmxnet.so"


def sent():
    """Bytes that the cards of this host have sent so far, but for loopback."""
    lines = Path("/proc/self/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    return sum(int(line.split()[9]) for line in lines if not line.strip().startswith("lo:"))


class Script:
    """The kvstore, and the tensors."""

    def __init__(self):
        self.kv = mx.kv.create("dist_sync")
        self.kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.001))
        self.weights = [mx.nd.ones((SIZE,)) for _ in range(COUNT)]
        self.gradients = [mx.nd.empty((SIZE,)) for _ in range(COUNT)]
        self.kv.init(list(range(COUNT)), self.weights)
        self.numbers = random.Random(self.kv.rank)

    def step(self, seconds, jitter):
        """How long it computed."""
        begin = time.monotonic()
        time.sleep(seconds * (1 + jitter * (2 * self.numbers.random() - 1)))
        computed = time.monotonic() - begin
        # MXNet pulls through the buffer that it pushed from: gradients must be made anew.
        for key, gradient in enumerate(self.gradients):
            gradient[:] = 1
            self.kv.push(key, gradient, priority=-key)
        for key, weight in enumerate(self.weights):
            self.kv.pull(key, out=weight, priority=-key)
        mx.nd.waitall()
        return computed

    def train(self, before, steps, *how):
        """What the steps took, of that in computing, and what was sent meanwhile. Nothing stands
        still before the first that counts, so what it finds under way is as what it leaves."""
        self.kv._barrier()
        for _ in range(before):
            self.step(*how)
        begin, sent_before = time.monotonic(), sent()
        computed = sum(self.step(*how) for _ in range(steps))
        return {"steps": steps, "seconds": time.monotonic() - begin, "computed": computed,
                "sent": sent() - sent_before}


def main():
    script = Script()
    for line in sys.stdin:
        words = line.split()
        if words == ["end"]:
            break
        _, before, steps, seconds, jitter = words
        print(json.dumps(script.train(int(before), int(steps), float(seconds), float(jitter))),
              flush=True)
    mx.nd.waitall()
    print(json.dumps({"rank": script.kv.rank, "library": library()}), flush=True)


main()
