"""A worker whose job is saved from outside (`pslite save`): prints "empty" before there are values,
"ready" when there are, and goes on when the file `go` is there. saved.py STORE: "sync" for an
Exchange, "store" for a Store.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from pslite import sync
from pslite.node import Node
from pslite.store import Store

#: Cut for all servers.
BIG = 1_000_003
ARRAYS = {
    "layer.weight": np.arange(6, dtype="float32").reshape(3, 2), "it's": np.float64(0.5),
    "half": np.linspace(0, 1, 5, dtype="float16"), "big": np.arange(BIG, dtype="float32"),
}


def wait_for(name):
    end = time.monotonic() + 120
    while not Path(name).exists():
        if time.monotonic() > end:
            raise SystemExit(f"no file {name}")
        time.sleep(0.02)


def main():
    arrays = {name: np.array(array) for name, array in ARRAYS.items()}
    with Node() as node:
        print("empty", flush=True)
        wait_for("begin")
        if sys.argv[1] == "sync":
            with sync.Exchange(node, arrays) as exchange:
                for _ in range(2):
                    for array in arrays.values():
                        array += node.rank + 1
                    exchange.step()
                print("ready", flush=True)
                wait_for("go")
        else:
            with Store(node) as store:
                for name, array in arrays.items():
                    store.init(name, array)
                # The first sum takes the place of the values.
                for name, array in arrays.items():
                    store.push(name, ARRAYS[name] + np.array(1.5, array.dtype)).wait()
                    store.pull(name, array).wait()
                node.barrier("workers")
                print("ready", flush=True)
                wait_for("go")


if __name__ == "__main__":
    os.environ["DMLC_ROLE"] = "worker"
    main()
