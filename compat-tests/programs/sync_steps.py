"""What a worker of the recurrence computes, in numpy alone: sync_worker.py does it in a job, and
test_sync.py in one process."""

import hashlib

import numpy as np

SHAPES = {"w": (5, 3), "b": (7,), "scale": ()}
RATE, MOMENTUM = 0.01, 0.9


def first(name, dtype):
    """From 1 to 1.5: differences of such numbers are exact, and so are sums of a few."""
    count = int(np.prod(SHAPES[name]))
    values = 1 + 0.5 * np.arange(1, count + 1) / (count + 1)
    return values.reshape(SHAPES[name]).astype(dtype)


class Momentum:
    """SGD with momentum of a gradient that depends on the worker, the step and the value."""

    def __init__(self, rank, dtype):
        self.rank, self.dtype, self.steps = rank, np.dtype(dtype), 0
        self.velocity = {name: np.zeros(SHAPES[name], dtype) for name in SHAPES}

    def step(self, values):
        """Changes the arrays in place."""
        self.steps += 1
        for name, value in values.items():
            phase = np.arange(value.size).reshape(value.shape) + self.rank + 0.5 * self.steps
            gradient = (value - 1.25 + 0.5 * np.sin(phase)).astype(self.dtype)
            velocity = self.velocity[name]
            velocity *= self.dtype.type(MOMENTUM)
            velocity += gradient
            value -= self.dtype.type(RATE) * velocity


def digest(values):
    sha = hashlib.sha256()
    for name in sorted(values):
        sha.update(np.ascontiguousarray(values[name]).tobytes())
    return sha.hexdigest()
