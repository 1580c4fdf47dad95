"""Synchronous rounds that survive the death of rank 1, if someone starts it again.

The file "rounds" in the working directory says how far rank 1 is; its successor goes on from there.
Rank 1 says "round N done" and, after every round, waits for the test to create "go-N".
"""

import os
import time

import mxnet as mx
from common import Gradients, data, finish, note

ROUNDS = 9
kv = mx.kv.create("dist_sync")
gradient = Gradients()
restarted = os.environ.get("PSLITE_TEST_RESTARTED")
shape = (60, 50)
out = mx.nd.zeros(shape)
kv.init(1, mx.nd.zeros(shape))
begin = 0
if restarted:
    note(f"restarted as rank {kv.rank}")
    assert kv.rank == 1, kv.rank
    with open("rounds") as file:
        begin = int(file.read())
for step in range(begin, ROUNDS):
    kv.push(1, gradient(1, data(shape, 100 * kv.rank + step)))
    kv.pull(1, out=out)
    out.wait_to_read()
    if kv.rank == 1:
        with open("rounds.new", "w") as file:
            file.write(str(step + 1))
        os.replace("rounds.new", "rounds")
        note(f"round {step} done")
        limit = time.monotonic() + 60
        while step % 3 == 2 and not os.path.exists(f"go-{step}") and time.monotonic() < limit:
            time.sleep(0.02)
finish(kv, [out], restarted=bool(restarted))
