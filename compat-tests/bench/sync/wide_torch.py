"""A small convolutional network of torch, trained at several sites: by pslite.sync, or by DiLoCo as
one writes it with torch.distributed over gloo.

    wide_torch.py LIMIT DATA exchange '{"rate": 0.05, ...}'
    wide_torch.py LIMIT DATA diloco '{"rate": 0.05, "steps": 4, "outer": 0.7, "momentum": 0.9, ...}'
    wide_torch.py LIMIT DATA emulate '[{...}, ...]'      DiLoCo's rounds in one process

LIMIT: seconds after which the process ends itself. DATA: images and labels (`data.npz` of wide.py).
A step takes as long as `step` says, beside what torch computes. Rank 0 prints a line of JSON for
each look at the test images: seconds since the first step, steps, accuracy.

`emulate` is for tuning: what a round costs is known, and how many rounds a setting needs does not
depend on it. It prints for each setting the rounds after which the accuracy of `goal` was there.
`round`: the seconds of a round; `best`: those of the best setting that is known.
"""

import json
import os
import random
import signal
import sys
import time
from datetime import timedelta

signal.alarm(int(sys.argv[1]))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

BATCH, TEST_IMAGES = 32, 297
# Steps after which an exchange looks at the test images.
LOOK = 4
PORT = 29500
# Seconds for a sum of all.
PATIENCE = 60


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
                         nn.Linear(32 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10))


class Trainer:
    """A worker's network, its part of the images, and its own SGD."""

    def __init__(self, options, rank, workers):
        self.options, self.rank = options, rank
        data = np.load(sys.argv[2])
        images, labels = torch.tensor(data["images"]), torch.tensor(data["labels"])
        self.test = images[:TEST_IMAGES], labels[:TEST_IMAGES]
        self.images = images[TEST_IMAGES:][rank::workers]
        self.labels = labels[TEST_IMAGES:][rank::workers]
        self.model = network(options["seed"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options["rate"],
                                         momentum=options["own"])
        self.chance = torch.Generator().manual_seed(1000 * options["seed"] + rank)
        self.jitter = random.Random(rank)
        self.criterion = nn.CrossEntropyLoss()
        self.steps = 0

    def step(self, sleep=True):
        rows = torch.randint(len(self.images), (BATCH,), generator=self.chance)
        self.optimizer.zero_grad()
        self.criterion(self.model(self.images[rows]), self.labels[rows]).backward()
        self.optimizer.step()
        self.steps += 1
        if sleep:
            speed = self.options["speeds"][self.rank]
            time.sleep(self.options["step"] * speed * (0.95 + 0.1 * self.jitter.random()))

    def accuracy(self):
        images, labels = self.test
        with torch.no_grad():
            return (self.model(images).argmax(dim=1) == labels).float().mean().item()

    def look(self, begin):
        """Rank 0 says how far it is."""
        if self.rank == 0:
            print(json.dumps({"seconds": time.monotonic() - begin, "steps": self.steps,
                              "accuracy": self.accuracy()}), flush=True)


def exchange(options):
    """Until whoever started it has seen enough."""
    from pslite import sync
    from pslite.node import Node
    with Node() as node:
        one = Trainer(options, node.rank, node.num_workers)
        with sync.Exchange(node, one.model.named_parameters()) as exchanged:
            begin = time.monotonic()
            while True:
                one.step()
                exchanged.step()
                if one.steps % LOOK == 0:
                    one.look(begin)


class Outer:
    """DiLoCo's outer step: Nesterov on the mean of what the workers changed (arXiv 2311.08105)."""

    def __init__(self, model, rate, momentum):
        self.values = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        self.speed = torch.zeros_like(self.values)
        self.rate, self.momentum = rate, momentum

    def changed(self, model):
        return self.values - nn.utils.parameters_to_vector(model.parameters()).detach()

    def apply(self, mean, models):
        self.speed = self.momentum * self.speed + mean
        self.values = self.values - self.rate * (mean + self.momentum * self.speed)
        for model in models:
            nn.utils.vector_to_parameters(self.values.clone(), model.parameters())


class Gloo:
    """The workers' sums. A site's address is on its loopback device, beside 127.0.0.1: so gloo is
    told which one it is."""

    def __init__(self, rank, hosts):
        limit = timedelta(seconds=PATIENCE)
        store = dist.TCPStore(hosts[0], PORT, len(hosts), rank == 0, limit)
        how = dist.ProcessGroupGloo._Options()
        how._devices = [dist.ProcessGroupGloo.create_device(hostname=hosts[rank])]
        how._timeout = limit
        self._group = dist.ProcessGroupGloo(store, rank, len(hosts), how)

    def sum(self, vector):
        self._group.allreduce([vector]).wait()


def diloco(options):
    # The lab starts a command for each host, and says in the environment which one it is.
    hosts = options["hosts"]
    rank, workers = hosts.index(os.environ["DMLC_NODE_HOST"]), len(hosts)
    gloo = Gloo(rank, hosts)
    one = Trainer(options, rank, workers)
    outer = Outer(one.model, options["outer"], options["momentum"])
    gloo.sum(torch.zeros(1))
    begin = time.monotonic()
    while True:
        for _ in range(options["steps"]):
            one.step()
        mean = outer.changed(one.model)
        gloo.sum(mean)
        outer.apply(mean / workers, [one.model])
        one.look(begin)


def emulate(settings):
    """Gives a setting up when it takes `worst` times as long as the best one."""
    best, found = settings[0]["best"], []
    for options in settings:
        if best is not None:
            most = int(options["worst"] * best / options["round"])
            options = {**options, "most": min(options["most"], most)}
        found.append(rounds(options))
        if found[-1] is not None:
            seconds = found[-1] * options["round"]
            best = seconds if best is None else min(best, seconds)
    print(json.dumps(found), flush=True)


def rounds(options):
    """After which DiLoCo's accuracy was there; None: not within `most` rounds."""
    workers = len(options["speeds"])
    every = [Trainer(options, rank, workers) for rank in range(workers)]
    outer = Outer(every[0].model, options["outer"], options["momentum"])
    for number in range(1, options["most"] + 1):
        for one in every:
            for _ in range(options["steps"]):
                one.step(sleep=False)
        mean = sum(outer.changed(one.model) for one in every) / workers
        outer.apply(mean, [one.model for one in every])
        if every[0].accuracy() >= options["goal"]:
            return number
        if not torch.isfinite(outer.values).all():
            return None
    return None


def main():
    torch.set_num_threads(1)
    options = json.loads(sys.argv[4])
    {"exchange": exchange, "diloco": diloco, "emulate": emulate}[sys.argv[3]](options)


main()
