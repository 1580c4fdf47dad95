"""torch's DistributedDataParallel with batches that follow what each worker can do (LB-BSP).

    pslite scheduler -n 3 -s 0 --host 127.0.0.1 --port 9091 &
    for rank in 0 1 2; do
      RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \\
        DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=9091 python examples/torch_ddp.py &
    done; wait

Gradients are torch's business (gloo here). pslite's scheduler says how many samples each worker
takes, and `attach` measures, reports and weights. The four lines that a script needs have a mark.
The rest is a small net on data that it makes itself; `--rule fixed` is plain DDP.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from pslite import lbbsp
from pslite.node import Node

FEATURES, CLASSES, SAMPLES = 32, 5, 6000


def dataset(dtype):
    chance = torch.Generator().manual_seed(1)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=chance)
    centers = torch.randn(CLASSES, FEATURES, generator=chance)
    rows = centers[labels] + torch.randn(SAMPLES, FEATURES, generator=chance)
    return TensorDataset(rows.to(dtype), labels)


def train(options, node):
    dtype = getattr(torch, options.dtype)
    data = dataset(dtype)
    session = lbbsp.Session(node, length=len(data), total=options.total, rule=options.rule,
                            rank=dist.get_rank())                                          # (1)
    loader = DataLoader(data, batch_sampler=session.batches())                             # (2)
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(FEATURES, options.width), nn.Tanh(),
                        nn.Linear(options.width, options.width), nn.Tanh(),
                        nn.Linear(options.width, CLASSES)).to(dtype)
    model = DistributedDataParallel(net)
    lbbsp.attach(model, session)                                                           # (3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    losses, sizes, begin = [], [], time.monotonic()
    while len(sizes) < options.steps:
        for rows, labels in loader:
            if options.speed:
                time.sleep(len(rows) / options.speed)  # A slow worker, for the test.
            optimizer.zero_grad()
            loss = criterion(model(rows), labels)
            loss.backward()
            optimizer.step()
            losses.append(float(loss) * len(rows) / options.total)
            sizes.append(len(rows))
            if len(sizes) == options.steps:
                break
    seconds = time.monotonic() - begin
    session.close()                                                                        # (4)
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total)
    return {"rank": dist.get_rank(), "losses": total.tolist(), "sizes": sizes, "seconds": seconds}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rule", default="cpu")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--total", type=int, default=240)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--speed", type=float, help="samples per second of this worker, at most")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    workers = dist.get_world_size()
    # An address as for every node of pslite: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT.
    with Node("worker", workers=workers, servers=0) as node:
        found = train(options, node)
    dist.destroy_process_group()
    if options.json:
        print(json.dumps(found), flush=True)
    else:
        print(f"rank {found['rank']}: {found['seconds']:.2f} s, batches of {found['sizes'][0]} to "
              f"{found['sizes'][-1]} samples, loss {found['losses'][0]:.3f} to "
              f"{found['losses'][-1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
