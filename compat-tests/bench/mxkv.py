"""Seconds of one step of data-parallel training as the kvstore sees it: push and pull every tensor.

Sets of tensors: the 161 of ResNet-50, 1000 keys of 4 KB, those of four ResNet-50, ResNet-50 with
one more that is half as large as all of it, and ResNet-50 at a quarter, a fifth and a fiftieth.
`dist_sync`. Without an optimizer the servers replace the stored value by the workers' sum; with SGD
they apply it. After every command all that was pulled last is compared with what the arithmetic
says.

A worker reads lines from standard input and answers each with a line of JSON; every worker of a job
must be given the same:

    NAME STEPS          resnet50, keys, large, huge, quarter, fifth or fiftieth: that many steps,
                        begun together
    NAME STEPS late     each worker begins some seconds after the one before: what the first ones
                        push waits
    sgd                 from now on the servers have an optimizer
    end

`ended` in an answer is when the last step was over, by the machine's clock (time.monotonic).

One script for all roles: importing mxnet in a scheduler or a server never returns. Argument:
seconds after which the process ends itself, whatever happens.
"""

import itertools
import json
import signal
import sys
import time

signal.alarm(int(sys.argv[1]))

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402

from tensors import fifth, huge, part, resnet50  # noqa: E402

# Powers of two: each step of the arithmetic rounds at most once, whoever computes it in which way.
LEARNING_RATE, MOMENTUM = 0.5, 0.5
# Seconds between the workers of a late step.
LATE = 3
# The gradients of a step are whole numbers, so many times larger than those of the first one, in
# turn: values of an earlier step do not pass for those of this one.
FACTORS = range(1, 9)


def library():
    """The file name of the library that serves this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return "libpslite_mxnet.so" if "libpslite_mxnet.so" in maps.read() else "libmxnet.so"


def step(kv, first, gradients, values):
    """As gluon's Trainer: the tensors in order, early layers first to come back."""
    for i, gradient in enumerate(gradients):
        kv.push(first + i, gradient, priority=-i)
    for i, value in enumerate(values):
        kv.pull(first + i, out=value, priority=-i)
    mx.nd.waitall()


class Expected:
    """What each element is on the servers, in float32 as there (optimizer_op-inl.h,
    SGDMomUpdate)."""

    def __init__(self, workers):
        self.ranks = sum(range(1, workers + 1))
        self.value = self.momentum = np.float32(0)

    def step(self, sgd, factor):
        gradient = np.float32(factor * self.ranks)
        if not sgd:
            self.value = gradient
            return
        step = np.float32(LEARNING_RATE) * gradient
        self.momentum = np.float32(MOMENTUM) * self.momentum - step
        self.value = self.value + self.momentum


class Workload:
    """A set of tensors on the servers, with their gradients and values here."""

    def __init__(self, kv, first, sizes):
        self.kv = kv
        self.first = first
        self.sizes = sizes
        self.expected = Expected(kv.num_workers)
        self.factors = itertools.cycle(FACTORS)
        self.ended = None
        self.gradients = [mx.nd.zeros((size,)) for size in sizes]
        self.values = [mx.nd.zeros((size,)) for size in sizes]
        kv.init(list(range(first, first + len(sizes))), self.values)

    def measure(self, sgd, late):
        """Seconds of one step."""
        # MXNet pulls through the buffer that it pushed from: gradients must be made anew.
        factor = next(self.factors)
        for gradient in self.gradients:
            gradient[:] = factor * (self.kv.rank + 1)
        mx.nd.waitall()
        self.kv._barrier()  # the only way to the kvstore's barrier
        time.sleep(late * self.kv.rank)
        begin = time.perf_counter()
        step(self.kv, self.first, self.gradients, self.values)
        self.expected.step(sgd, factor)
        self.ended = time.perf_counter()
        return self.ended - begin

    def check(self):
        """What the servers have has arrived; then it is wiped out, for the next check."""
        for size, value in zip(self.sizes, self.values):
            numbers = value.asnumpy()
            assert numbers.shape == (size,) and np.all(numbers == self.expected.value), (
                size, numbers[:4], self.expected.value)
            value[:] = 0
        mx.nd.waitall()


class Job:
    """The workloads, each made when it is first asked for, and whether the servers have an
    optimizer."""

    def __init__(self, kv):
        self.kv = kv
        self.sgd = False
        self.workloads = {}
        self.sizes = {"resnet50": resnet50(), "keys": [1024] * 1000, "large": resnet50() * 4,
                      "huge": huge(), "quarter": part(4), "fifth": fifth(),
                      "fiftieth": part(50)}
        assert len(self.sizes["resnet50"]) == 161 and sum(self.sizes["resnet50"]) == 25_557_032

    def set_sgd(self):
        self.kv.set_optimizer(mx.optimizer.SGD(
            learning_rate=LEARNING_RATE, momentum=MOMENTUM, wd=0.0, rescale_grad=1.0))
        self.sgd = True
        return {}

    def obey(self, words):
        if words == ["sgd"]:
            return self.set_sgd()
        name, steps, late = words[0], int(words[1]), LATE * (words[2:] == ["late"])
        if name not in self.workloads:
            self.workloads[name] = Workload(self.kv, 1000 * len(self.workloads), self.sizes[name])
        workload = self.workloads[name]
        seconds = sum(workload.measure(self.sgd, late) for _ in range(steps))
        workload.check()
        return {"ops_per_s": steps / seconds, "seconds": seconds, "ended": workload.ended}


def main():
    kv = mx.kv.create("dist_sync")
    job = Job(kv)
    for line in sys.stdin:
        if line.split() == ["end"]:
            break
        print(json.dumps(job.obey(line.split())), flush=True)
    mx.nd.waitall()
    kv._barrier()
    print(json.dumps({"rank": kv.rank, "library": library()}), flush=True)


if __name__ == "__main__":
    main()
