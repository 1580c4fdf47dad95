"""A torch model whose workers train with an optimizer of torch's, and exchange what they have
changed (pslite.sync).

    PSLITE_SYNC=nbsync pslite run -n 2 -s 1 --native-scheduler --native-servers -- \\
        python examples/sync_torch.py

The parameters are read and written where torch has them. The four lines that a script needs have a
mark; without them it trains alone. What torch keeps in buffers (the statistics of BatchNorm) is the
worker's own.
"""

import argparse
import math

import torch
from torch import nn

from pslite import sync
from pslite.node import Node                                                               # (1)


def data(rank, workers, seed):
    """Points of two rings; this worker's part of them."""
    chance = torch.Generator().manual_seed(seed)
    angle = 2 * math.pi * torch.rand(800, generator=chance)
    ring = torch.randint(0, 2, (800,), generator=chance)
    points = torch.stack([angle.cos(), angle.sin()], 1) * (1 + ring)[:, None]
    points += 0.1 * torch.randn(points.shape, generator=chance)
    return points[rank::workers], ring[rank::workers]


def train(node, options):
    torch.manual_seed(options.seed + node.rank)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    points, rings = data(node.rank, node.num_workers, options.seed)
    criterion, losses = nn.CrossEntropyLoss(), []
    with sync.Exchange(node, model.named_parameters()) as exchange:                        # (2)
        for step in range(options.steps):
            rows = torch.randint(len(points), (32,))
            optimizer.zero_grad()
            loss = criterion(model(points[rows]), rings[rows])
            loss.backward()
            optimizer.step()
            exchange.step()                                                                # (3)
            losses.append(loss.item())
        exchange.finish()                                                                  # (4)
    with torch.no_grad():
        right = (model(points).argmax(dim=1) == rings).float().mean().item()
    total = sum(float(parameter.sum()) for parameter in model.parameters())
    print(f"worker {node.rank}: loss {losses[0]:.4f}, then {losses[-1]:.4f}; the model of all has "
          f"{right:.4f} right; its parameters sum up to {total!r}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with Node() as node:
        train(node, options)


if __name__ == "__main__":
    main()
