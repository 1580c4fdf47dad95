"""A torch model trained by several workers over a parameter server, all on CPUs, without MXNet.

    pslite run -n 2 -s 1 -- python examples/torch_server.py

The server keeps the parameters and makes the steps: it waits for the gradients of all workers,
takes their mean, and gives all of them the new values. So the workers' models are always
equal. Gradients and parameters are torch's own memory; nothing is copied to be sent.
"""

import argparse

import numpy as np
import torch

from pslite.kv import KVServer, KVWorker
from pslite.node import Node

RATE = 1.0
INIT, STEP = 0, 1


class Steps:
    """Values by key, and the gradients of the round that is open."""

    def __init__(self, workers):
        self.workers = workers
        self.values, self.sums, self.pushes = {}, {}, {}

    def __call__(self, request):
        """A push brings a gradient (STEP) or the first values (INIT); a pull gets the values."""
        key = request.keys[0]
        if request.push:
            came = np.frombuffer(request.values, "float32")
            if request.cmd == INIT:
                self.values[key] = came.copy()
            else:
                self.add(key, came)
        return self.values[key].copy() if request.pull else None

    def add(self, key, gradient):
        """The last worker's gradient of a round makes the step."""
        self.sums[key] = self.sums[key] + gradient if key in self.sums else gradient.copy()
        self.pushes[key] = self.pushes.get(key, 0) + 1
        if self.pushes[key] % self.workers == 0:
            self.values[key] -= RATE / self.workers * self.sums.pop(key)


def data(rank, workers, seed):
    """Points of two rings; this worker's part of them."""
    chance = np.random.RandomState(seed)
    angle, ring = chance.uniform(0, 2 * np.pi, 400), chance.randint(0, 2, 400)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * (1 + ring)[:, None]
    points += chance.normal(0, 0.1, points.shape)
    mine = slice(rank, None, workers)
    return torch.tensor(points[mine], dtype=torch.float32), torch.tensor(ring[mine])


def work(node, steps, seed):
    """Trains; prints the loss of the first and the last step, and what the parameters sum up to."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    parameters = list(model.parameters())
    worker = KVWorker(node)
    if node.rank == 0:
        for key, parameter in enumerate(parameters):
            worker.push(key, parameter.data, cmd=INIT).wait()
    node.barrier("workers")
    points, rings = data(node.rank, node.num_workers, seed)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(points), rings)
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        # All at once; each key goes as soon as it is handed over.
        pushes = [worker.push(key, parameter.grad, cmd=STEP)
                  for key, parameter in enumerate(parameters)]
        for push in pushes:
            push.wait()
        node.barrier("workers")
        pulls = [worker.pull(key, parameter.data) for key, parameter in enumerate(parameters)]
        for pull in pulls:
            pull.wait()
        node.barrier("workers")
    total = sum(float(parameter.sum()) for parameter in parameters)
    print(f"worker {node.rank}: loss {losses[0]:.4f}, then {losses[-1]:.4f}; parameters sum up to "
          f"{total!r}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with Node() as node:
        if node.role == "server":
            KVServer(node, Steps(node.num_workers))
        node.barrier()
        if node.role == "worker":
            work(node, options.steps, options.seed)


if __name__ == "__main__":
    main()
