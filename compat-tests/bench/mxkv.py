"""Seconds of one step of data-parallel training as the kvstore sees it: push and pull every tensor.

Two sets of tensors: the 161 of ResNet-50, and 1000 keys of 4 KB. `dist_sync`, no optimizer on the
servers: they replace the stored value by the workers' sum, which is checked after every command.

A worker reads lines from standard input and answers each with a line of JSON; every worker of a job
must be given the same: `resnet50 STEPS`, `keys STEPS`, `end`. One script for all roles: importing
mxnet in a scheduler or a server never returns. Argument: seconds after which the process ends
itself, whatever happens.
"""

import json
import signal
import sys
import time

signal.alarm(int(sys.argv[1]))

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402


def resnet50():
    """Sizes of the trainable tensors of ResNet-50 v1 (He et al. 2015, table 1), input to output.

    A convolution has weights and no bias, and is followed by a normalisation with scale and shift:
    53 of each, then the classifier's weights and bias: 161 tensors, 25 557 032 numbers.
    """
    def convolution(inputs, outputs, kernel):
        return [inputs * outputs * kernel * kernel, outputs, outputs]

    sizes = convolution(3, 64, 7)
    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            sizes += convolution(inputs, width, 1)
            sizes += convolution(width, width, 3)
            sizes += convolution(width, 4 * width, 1)
            if block == 0:  # the shortcut changes the number of channels
                sizes += convolution(inputs, 4 * width, 1)
            inputs = 4 * width
    return sizes + [2048 * 1000, 1000]


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


class Workload:
    """A set of tensors on the servers, with their gradients and values here."""

    def __init__(self, kv, first, sizes):
        self.kv = kv
        self.first = first
        self.sizes = sizes
        self.gradients = [mx.nd.zeros((size,)) for size in sizes]
        self.values = [mx.nd.zeros((size,)) for size in sizes]
        kv.init(list(range(first, first + len(sizes))), self.values)
        self.measure()  # warm-up: makes the connections and the buffers

    def measure(self):
        """Seconds of one step."""
        # MXNet pulls through the buffer that it pushed from: gradients must be made anew.
        for gradient in self.gradients:
            gradient[:] = self.kv.rank + 1
        mx.nd.waitall()
        self.kv._barrier()  # the only way to the kvstore's barrier
        begin = time.perf_counter()
        step(self.kv, self.first, self.gradients, self.values)
        return time.perf_counter() - begin

    def check(self):
        """The servers' sums have arrived; then they are wiped out, for the next check."""
        total = sum(range(1, self.kv.num_workers + 1))
        for size, value in zip(self.sizes, self.values):
            numbers = value.asnumpy()
            assert numbers.shape == (size,) and np.all(numbers == total), (size, numbers[:4], total)
            value[:] = 0
        mx.nd.waitall()


def main():
    sizes = {"resnet50": resnet50(), "keys": [1024] * 1000}
    assert len(sizes["resnet50"]) == 161 and sum(sizes["resnet50"]) == 25_557_032
    kv = mx.kv.create("dist_sync")
    workloads = {}
    for line in sys.stdin:
        words = line.split()
        if words == ["end"]:
            break
        name, steps = words[0], int(words[1])
        if name not in workloads:
            workloads[name] = Workload(kv, 1000 * len(workloads), sizes[name])
        seconds = sum(workloads[name].measure() for _ in range(steps))
        workloads[name].check()
        print(json.dumps({"ops_per_s": steps / seconds, "seconds": seconds}), flush=True)
    mx.nd.waitall()
    kv._barrier()
    print(json.dumps({"rank": kv.rank, "library": library()}), flush=True)


if __name__ == "__main__":
    main()
