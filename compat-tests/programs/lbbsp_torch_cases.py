"""torch's DistributedDataParallel and loaders that are looked at, left early, made twice, or
iterated by two; models that share a batch; and what `attach` refuses. By the environment of
torch.distributed and of pslite.

    lbbsp_torch_cases.py [OPTION ...] CASES     prints one line of JSON with what it saw

CASES follow each other, with a `;` between them: an import of torch takes longer than they do.

Each step is a pair: how many samples were computed, and the weight of their gradients, as a number
of samples. The weight is read from the gradients: the loss of a sample is the parameter itself.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from pslite import lbbsp
from pslite.node import Node
from refused import refused

SAMPLES, TOTAL, CASES = 120, 24, sys.argv[-1].split(";")
#: Samples per second of each rank, which reports are made of.
SPEED = (100.0, 300.0)


class Ones(nn.Module):
    """Its output's mean has the gradient 1 at each worker, so the exchanged gradient is the sum of
    the workers' weights. `own` differs from worker to worker: there it says which weight this
    worker had."""

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.zeros(dist.get_world_size(), dtype=torch.float64))

    def forward(self, rows):
        return self.one[dist.get_rank()].expand(len(rows))


class Job:
    """A session and a model that follows it, with made-up times."""

    def __init__(self, node, name="default", models=1, follows=None, **options):
        options = {"length": SAMPLES, "total": TOTAL, "rule": "cpu-last", **options}
        self.session = lbbsp.Session(node, name=name, **options)
        self.models = [DistributedDataParallel(Ones()) for _ in range(models)]
        for model in self.models:
            lbbsp.attach(model, self.session, **(follows or {}))
        # The times are those of SPEED, whatever the machine does.
        report, session = self.session._report, self.session

        def reported(_, iteration=None, *more):
            batch = session._taken.oldest(iteration or 0)
            report(batch.size / SPEED[dist.get_rank()], batch.iteration)

        session._report = reported
        self.pairs, self.places = [], []

    def step(self, indices, model=0):
        """What the exchanged gradient has of this worker: its weight, as a number of samples."""
        model = self.models[model]
        model(indices).mean().backward()
        weight = float(model.module.one.grad[dist.get_rank()])
        model.zero_grad()
        self.pairs.append([len(indices), round(weight * TOTAL, 9)])
        self.places += indices.tolist()

    def loader(self, workers=0):
        data = TensorDataset(torch.arange(SAMPLES))
        return DataLoader(data, batch_sampler=self.session.batches(), num_workers=workers)

    def found(self, **more):
        self.session.close()
        return {"pairs": self.pairs, "places": self.places,
                "again": self.session.given_again, "skipped": self.session.skipped, **more}


def peek(node, workers, prefetch):
    """A loader is looked at before training."""
    job = Job(node, f"peek {workers}", prefetch=prefetch)
    loader = job.loader(workers)
    seen = next(iter(loader))
    for _ in range(3):
        for indices, in loader:
            job.step(indices)
    return job.found(seen=len(seen[0]))


def early(node, workers, prefetch):
    """Epochs that are left by `break`, in another loader each."""
    job = Job(node, f"early {workers}", prefetch=prefetch)
    for leave in (2, 4, 1, 9, 9):
        for number, (indices,) in enumerate(job.loader(workers)):
            if number == leave:
                break
            job.step(indices)
    return job.found()


def kept(node, workers, prefetch):
    """The iterator that was looked at is kept, and used again when another one has begun."""
    job = Job(node, f"kept {workers}", prefetch=prefetch)
    loader = job.loader(workers)
    first = iter(loader)
    seen = next(first)
    for indices, in loader:
        job.step(indices)
    return job.found(seen=len(seen[0]), refused=refused(lambda: next(first)))


def seeks(node):
    """Each epoch is left early, and set_epoch goes on with the next one. Then a session begins
    where that one was."""
    job = Job(node, "seeks", prefetch=4)
    loader = job.loader(2)
    for epoch in range(3):
        job.session.set_epoch(epoch)
        for number, (indices,) in enumerate(loader):
            if number == 2:
                break
            job.step(indices)
    state = job.session.state_dict()
    back = refused(lambda: job.session.set_epoch(1))
    found = job.found(state=state, back=back)
    for name, options in (("state", {"state": state}), ("epoch", {"epoch": 2, "iteration": 2}),
                          ("loaded", {})):
        job = Job(node, name, **options)
        if name == "loaded":
            job.session.load_state_dict(state)
        found[name] = []
        for batch in job.session:
            found[name].append([batch.epoch, batch.iteration])
            job.step(torch.tensor(batch.indices))
        job.session.close()
    return found


def models(node):
    """Two models share each batch, and one exchanges twice for a batch."""
    job = Job(node, "models", models=2, prefetch=4)
    for indices, in job.loader(2):
        job.step(indices, 0)
        job.step(indices, 1)
    found = {"two": job.found(progress=job.session.progress)}
    job = Job(node, "exchanges", follows={"exchanges": 2}, prefetch=4)
    for indices, in job.loader(2):
        job.step(indices)
        job.step(indices)
    found["twice"] = job.found(progress=job.session.progress)
    return found


def wrong(node):
    """What `attach` refuses."""
    found = {}
    job = Job(node, "again", prefetch=4)
    indices, = next(iter(job.loader()))
    job.step(indices)
    found["again"] = refused_step(lambda: job.step(indices))
    job.session.close()
    job = Job(node, "size", prefetch=4)
    found["size"] = refused_step(lambda: job.step(next(iter(job.loader()))[0][:-1]))
    job.session.close()
    # One worker is a batch ahead.
    job = Job(node, "apart", prefetch=4)
    batches = iter(job.session)
    batch = next(batches)
    if node.rank == 0:
        job.session.report(1.0)
        batch = next(batches)
    found["apart"] = refused_step(lambda: job.step(torch.tensor(batch.indices)))
    job.session.close()
    job = Job(node, "none")
    found["none"] = refused(lambda: job.session.batch)
    found["model"] = refused(lambda: lbbsp.attach(job.models[0], job.session))
    job.session.close()
    return found


def refused_step(call):
    try:
        return refused(call)
    except RuntimeError as error:
        return ["RuntimeError", str(error)]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {"rank": dist.get_rank()}
    with Node("worker", workers=dist.get_world_size(), servers=0) as node:
        for words in CASES:
            case, *numbers = words.split()
            found[words] = globals()[case](node, *map(int, numbers))
            node.barrier("workers")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
