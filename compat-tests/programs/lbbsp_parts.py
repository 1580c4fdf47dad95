"""torch's DistributedDataParallel with several backward passes for a step. By the environment of
torch.distributed and of pslite; prints one line of JSON with what it saw.

The parts of a batch are computed one after the other, and only the last one's pass exchanges
gradients. Then several batches are, which `attach` cannot follow.
"""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pslite import lbbsp
from pslite.node import Node
from refused import refused

FEATURES, SAMPLES, TOTAL = 6, 120, 24


def trained(node, parts):
    """The weights after an epoch whose batches are computed in so many parts."""
    chance = torch.Generator().manual_seed(1)
    rows = torch.randn(SAMPLES, FEATURES, generator=chance, dtype=torch.float64)
    wanted = rows.sum(1, keepdim=True)
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Linear(FEATURES, 1).double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def backward(at, size):
        """size: of the batch that these samples are of."""
        loss = nn.functional.mse_loss(model(rows[at]), wanted[at])
        (loss * len(at) / size).backward()

    with lbbsp.Session(node, length=SAMPLES, total=TOTAL, rule="fixed", min=parts,
                       name=str(parts)) as session:
        lbbsp.attach(model, session)
        for batch in session:
            cut = torch.tensor(list(batch.indices)).chunk(parts)
            for part in cut[:-1]:
                with model.no_sync():
                    backward(part, batch.size)
            backward(cut[-1], batch.size)
            optimizer.step()
            optimizer.zero_grad()
        weights = [parameter.tolist() for parameter in model.parameters()]
        # One of the next epoch, and no exchange.
        with model.no_sync():
            taken = 0

            def accumulated():
                nonlocal taken
                while True:
                    batch = session.next()
                    backward(torch.tensor(list(batch.indices)), batch.size)
                    taken += 1

            return weights, refused(accumulated), taken


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with Node("worker", workers=dist.get_world_size(), servers=0) as node:
        found = {"rank": dist.get_rank(), "found": [trained(node, parts) for parts in (1, 3)]}
    dist.destroy_process_group()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
