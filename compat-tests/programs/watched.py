"""Rounds of pushes and pulls of one key, ten a second, on every worker; then it waits until it was
looked at. Arguments: how many rounds, the file that says so, how many rows of 20 the key has."""

import os
import sys
import time

import mxnet as mx
from common import Gradients, data, finish

ROUNDS, SEEN = int(sys.argv[1]), sys.argv[2]
SHAPE = (int(sys.argv[3]), 20)

kv = mx.kv.create("dist_sync")
gradient = Gradients()
kv.init(3, mx.nd.array(data(SHAPE, 3)))
out = mx.nd.zeros(SHAPE)
for step in range(ROUNDS):
    kv.push(3, gradient(3, data(SHAPE, kv.rank)))
    kv.pull(3, out=out)
    out.wait_to_read()
    time.sleep(0.1)
print("all rounds are over", flush=True)
limit = time.monotonic() + 120
while not os.path.exists(SEEN):
    assert time.monotonic() < limit, "nobody has looked"
    time.sleep(0.1)
finish(kv, [out])
