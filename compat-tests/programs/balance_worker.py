"""A worker of scripts/bench balance; prints a line of JSON with what it measured.

    balance_worker.py emulated RULE NOISE    computing is sleeping, at a speed that drifts
    balance_worker.py mxnet RULE             a gluon net under the stock wheel, preloaded
    balance_worker.py torch RULE             the same as torch's DistributedDataParallel

ITERATIONS in the environment says how many are computed. At each third of them worker 0 prints
"third", so that the bench changes the quotas.
"""

import json
import math
import os
import sys
import time

from pslite import job, lbbsp
from pslite.node import Node

CASE, RULE = sys.argv[1:3]
ITERATIONS = int(os.environ.get("ITERATIONS", "45"))
FEATURES, WIDTH, CLASSES = 256, 512, 10
# Samples of an iteration: torch computes a fifth as fast here.
TOTAL = {"mxnet": 6144, "torch": 1536}.get(CASE, 0)
# Of the emulated workers: samples of an iteration, samples per second of the slowest and by how
# much the fastest is faster, and by how much, and in how many iterations, speeds drift.
SAMPLES, SLOWEST, TIMES, DRIFT, PERIOD = 1600, 1600.0, 4.0, 0.2, 80


def mark(rank, iteration):
    if rank == 0 and iteration in (ITERATIONS // 3, 2 * ITERATIONS // 3):
        print("third", flush=True)


def emulated(node):
    """(size, seconds, samples per second) of each iteration."""
    import random

    noise, chance = float(sys.argv[3]), random.Random(node.rank)
    part = node.rank / (node.num_workers - 1)
    found = []
    with lbbsp.Session(node, length=1000 * SAMPLES, total=SAMPLES, rule=RULE) as session:
        for batch in session:
            phase = 2 * math.pi * (batch.iteration / PERIOD + part)
            share = (1 + DRIFT * math.sin(phase)) / (1 + DRIFT)
            speed = SLOWEST * TIMES**part * share * chance.gauss(1, noise)
            begin = time.monotonic()
            time.sleep(batch.size / speed)
            seconds = time.monotonic() - begin
            after = 2 * math.pi * ((batch.iteration + 1) / PERIOD + part)
            seen = (1 + DRIFT * math.sin(after)) / (1 + DRIFT) * chance.gauss(1, 0.4 * noise)
            session.report(seconds, cpu=seen)
            found.append((batch.size, seconds, speed))
            node.barrier("workers")
            if len(found) == ITERATIONS:
                return found
    raise AssertionError("the epoch is too short")


def mxnet():
    """Seconds of all iterations but the first five, and the losses."""
    import mxnet as mx
    import numpy as np

    chance = np.random.RandomState(1)
    labels = chance.randint(CLASSES, size=8 * TOTAL)
    rows = chance.randn(CLASSES, FEATURES)[labels] + 2 * chance.randn(8 * TOTAL, FEATURES)
    rows, labels = rows.astype("float32"), labels.astype("float32")
    kv = mx.kv.create("dist_sync")
    mx.random.seed(5)
    net = mx.gluon.nn.HybridSequential()
    for _ in range(3):
        net.add(mx.gluon.nn.Dense(WIDTH, activation="relu"))
    net.add(mx.gluon.nn.Dense(CLASSES))
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05}, kvstore=kv)
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses, sizes, begin = [], [], 0.0
    with lbbsp.Session(length=len(rows), total=TOTAL, rule=RULE) as session:
        while len(losses) < ITERATIONS:
            for batch in session:
                at = list(batch.indices)
                data, label = mx.nd.array(rows[at]), mx.nd.array(labels[at])
                with mx.autograd.record():
                    loss = criterion(net(data), label)
                loss.backward()
                trainer.step(TOTAL)
                losses.append(float(loss.sum().asscalar()))
                sizes.append(batch.size)
                mark(kv.rank, len(losses))
                if len(losses) == 5:
                    begin = time.monotonic()
                if len(losses) == ITERATIONS:
                    break
        mx.nd.waitall()
        seconds = time.monotonic() - begin
    return {"rank": kv.rank, "seconds": seconds, "losses": losses, "sizes": sizes}


def torch(node):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    chance = torch.Generator().manual_seed(1)
    labels = torch.randint(CLASSES, (8 * TOTAL,), generator=chance)
    rows = torch.randn(CLASSES, FEATURES, generator=chance)[labels]
    rows = rows + 2 * torch.randn(8 * TOTAL, FEATURES, generator=chance)
    torch.manual_seed(3)
    layers = [nn.Linear(FEATURES, WIDTH), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES)))
    session = lbbsp.Session(node, length=len(rows), total=TOTAL, rule=RULE, rank=dist.get_rank())
    lbbsp.attach(model, session)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()
    losses, sizes, begin = [], [], 0.0
    while len(losses) < ITERATIONS:
        for batch in session:
            at = torch.tensor(batch.indices)
            optimizer.zero_grad()
            loss = criterion(model(rows[at]), labels[at])
            loss.backward()
            optimizer.step()
            losses.append(float(loss) * batch.size)
            sizes.append(batch.size)
            mark(dist.get_rank(), len(losses))
            if len(losses) == 5:
                begin = time.monotonic()
            if len(losses) == ITERATIONS:
                break
    seconds = time.monotonic() - begin
    session.close()
    return {"rank": dist.get_rank(), "seconds": seconds, "losses": losses, "sizes": sizes}


def main():
    role = os.environ["DMLC_ROLE"]
    if CASE == "mxnet":
        found = mxnet()
    elif role == "scheduler":
        return job.serve_scheduler()
    else:
        if CASE == "torch":
            import torch.distributed as dist
            dist.init_process_group("gloo")
        with Node() as node:
            found = globals()[CASE](node)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
