"""A worker whose job is saved from outside while pieces move (`pslite save`): weights that it steps
itself, of which all workers have the same after each round (PSLITE_SYNC=fedavg:steps=1).

    saved_rounds.py rest           after step 10 it prints "rest", and waits for the file `go`
    saved_rounds.py train PAUSE    trains until the file `go` is there

Prints "step N" after each step. In the end a line of JSON: of each array a hash of the worker's
values after each step.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from pslite import sync
from pslite.node import Node

NAMES = [f"weight {number}" for number in range(24)]
#: So small that none is cut.
SIZE = 2_000
#: One that is cut. Each step adds to each element what makes it that multiple of the number of
#: steps: so each element says of which round it is.
BIG, BIG_SIZE, EACH = "big", 300_000, 1.5
REST = 10


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def train(exchange, arrays, rank, step):
    draw = np.random.RandomState([step, rank])
    for name in NAMES:
        arrays[name] += draw.standard_normal(SIZE).astype("float32")
    # The mean of 1 and of 2.
    arrays[BIG] += rank + 1
    exchange.step()
    print(f"step {step}", flush=True)
    return {name: digest(arrays[name]) for name in NAMES}


def main():
    from saved import wait_for
    arrays = {name: np.zeros(SIZE, "float32") for name in NAMES}
    arrays[BIG] = np.zeros(BIG_SIZE, "float32")
    found = []
    with Node() as node, sync.Exchange(node, arrays) as exchange:
        if sys.argv[1] == "rest":
            found += [train(exchange, arrays, node.rank, step) for step in range(1, REST + 1)]
            print("rest", flush=True)
            wait_for("go")
        else:
            while not Path("go").exists():
                found.append(train(exchange, arrays, node.rank, len(found) + 1))
                time.sleep(float(sys.argv[2]))
        print(json.dumps({"rounds": found}), flush=True)


if __name__ == "__main__":
    os.environ["DMLC_ROLE"] = "worker"
    main()
