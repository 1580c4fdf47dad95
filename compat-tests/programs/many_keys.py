"""A worker with many small keys: makes them, trains a few rounds, rests until a file `go` lies in
its folder, ends.

    many_keys.py KEYS LENGTH ROUNDS

One line of JSON after the rounds, `{"init": s, "rounds": [s, ...], ...}`, and one at the end as
every program.
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import mxnet as mx

WAIT = 600


def main():
    keys, length, rounds = map(int, sys.argv[1:])
    kv = mx.kv.create("dist_sync")
    names = list(range(keys))
    values = [mx.nd.zeros(length) for _ in names]
    ones = [mx.nd.ones(length) for _ in names]
    mx.nd.waitall()
    kv._barrier()
    begin = time.monotonic()
    kv.init(names, values)
    kv._barrier()
    seconds = {"init": time.monotonic() - begin, "rounds": []}
    for _ in range(rounds):
        kv._barrier()
        begin = time.monotonic()
        kv.push(names, ones)
        kv.pull(names, out=values)
        mx.nd.waitall()
        seconds["rounds"].append(time.monotonic() - begin)
    # MXNet pulls into the array that was pushed too (`comm_buf_`), so each round pushes the sum of
    # the last one.
    wanted = kv.num_workers ** rounds
    right = all(float(values[at][0].asscalar()) == wanted for at in (0, keys // 2, keys - 1))
    kv._barrier()
    # What is free must not be counted as what is held: the allocator keeps as much as the last
    # round had under way.
    ctypes.CDLL(None).malloc_trim(0)
    print(json.dumps({"rested": True, **seconds}), flush=True)
    limit = time.monotonic() + WAIT
    while not Path("go").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    mapped = "libpslite_mxnet.so" in Path("/proc/self/maps").read_text()
    print(json.dumps({"rank": kv.rank, "pslite": mapped, "right": right, "pid": os.getpid(),
                      **seconds}), flush=True)


main()
