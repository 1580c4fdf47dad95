"""Training that something happens to. Arguments: the kvstore's type, the optimizer's name, rounds,
seconds that a round takes at least, and "small" for a model of which a round takes little else.

Values have fixed gradients, so the result is the same to the bit however often servers come and go.
A line "round N" is printed by each worker when it has pulled round N; the times of rounds are in
the result. An earlier last round may be written into the file "last", before any worker is there.
"""

import os
import sys
import time
from pathlib import Path

IS_SMALL = sys.argv[5:] == ["small"]
if IS_SMALL:
    os.environ.setdefault("MXNET_KVSTORE_BIGARRAY_BOUND", "10000")

import mxnet as mx  # noqa: E402
from common import Gradients, data, finish, note  # noqa: E402

OPTIMIZERS = {
    "none": lambda: None,
    "sgd": lambda: mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.01),
    "adam": lambda: mx.optimizer.Adam(learning_rate=0.01),
}
# One is cut by MXNet itself (above 1e6 elements, or 1e4), some are small, one is a scalar.
SHAPES = {"big": (1100, 1000), "weight": (600, 400), "matrix": (300, 70), "bias": (400,),
          "one": (1,)}
if IS_SMALL:
    SHAPES = {"big": (110, 100), "weight": (60, 40), "matrix": (30, 7), "bias": (40,), "one": (1,)}

kind, optimizer, rounds, pace = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
kv = mx.kv.create(kind)
gradient = Gradients()
optimizer = OPTIMIZERS[optimizer]()
if optimizer is not None:
    kv.set_optimizer(optimizer)
for key, shape in SHAPES.items():
    kv.init(key, mx.nd.array(data(shape, len(key))))
outs = {key: mx.nd.zeros(shape) for key, shape in SHAPES.items()}
# A few different gradients are enough, and making them takes time.
steps = [{key: mx.nd.array(data(shape, 100 * kv.rank + step)) for key, shape in SHAPES.items()}
         for step in range(4)]
buffers = {key: mx.nd.zeros(shape) for key, shape in SHAPES.items()}
took = []


def last_round():
    """The test says that all it wanted has happened (elastic_job.py)."""
    told = Path("last")
    return min(rounds, int(told.read_text())) if told.exists() else rounds


for step in range(rounds):
    if step >= last_round():
        break
    begin = time.monotonic()
    for priority, key in enumerate(SHAPES):
        steps[step % 4][key].copyto(buffers[key])
        kv.push(key, buffers[key], priority=-priority)
        kv.pull(key, out=outs[key], priority=-priority)
    mx.nd.waitall()
    took.append(round(time.monotonic() - begin, 4))
    note(f"round {step + 1}")
    time.sleep(max(0.0, begin + pace - time.monotonic()))
finish(kv, list(outs.values()), took=took)
