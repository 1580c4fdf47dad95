"""A synchronous training of many short rounds, for tests that disturb it.

Arguments: rounds; seconds between rounds. Prints "round N" as it goes. An MXNetError ends it with
exit code 3 and the error in the result line. Prints "ready" when the first round is over.
"""

import json
import sys
import time
import traceback

import mxnet as mx
from common import Gradients, data, finish, mapped, note
from ports import listening_ports

rounds, pause = int(sys.argv[1]), float(sys.argv[2])


def train():
    kv = mx.kv.create("dist_sync")
    gradient = Gradients()
    shapes = {3: (10, 10), 4: (60, 50)}
    outs = {}
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
    for key, shape in shapes.items():
        kv.init(key, mx.nd.array(data(shape, key)))
    for step in range(rounds):
        for key, shape in shapes.items():
            kv.push(key, gradient(key, data(shape, 100 * kv.rank + step)))
            outs[key] = mx.nd.zeros(shape)
            kv.pull(key, out=outs[key])
        mx.nd.waitall()
        note(f"round {step}")
        time.sleep(pause)
    finish(kv, outs.values(), ports=listening_ports())


try:
    train()
except mx.base.MXNetError as error:
    traceback.print_exc()
    print(json.dumps({"error": str(error), "pslite": mapped("libpslite_mxnet")}), flush=True)
    sys.exit(3)
