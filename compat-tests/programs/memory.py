"""Trains a model of $MODEL_MB with Adam on the servers, and waits a moment to be looked at."""

import os
import time

import mxnet as mx
from common import finish, note

kv = mx.kv.create("dist_sync")
count = int(os.environ["MODEL_MB"]) // 4
shape = (1024, 1024)
for key in range(count):
    kv.init(key, mx.nd.zeros(shape))
kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
kv._barrier()
out = mx.nd.zeros(shape)
for _ in range(3):
    for key in range(count):
        kv.push(key, mx.nd.ones(shape))
        kv.pull(key, out=out)
    mx.nd.waitall()
kv._barrier()
note("trained")
time.sleep(1)
finish(kv, [out])
