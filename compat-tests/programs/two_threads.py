"""Two kvstores in one process, each created in its own thread: two workers of the job."""

import json
import threading

import mxnet as mx
from common import data, digest, mapped

outs = {}
failures = []


def work(number):
    try:
        kv = mx.kv.create("dist_sync")
        kv.init("a", mx.nd.array(data((40, 40), 1)))
        for step in range(5):
            # Whole numbers: the order in which the two arrive does not matter.
            kv.push("a", mx.nd.full((40, 40), 2.0 ** (number + step)))
            out = mx.nd.zeros((40, 40))
            kv.pull("a", out=out)
            out.wait_to_read()
            outs[number, step] = out.asnumpy()
            # What thread 0 and thread 1 pushed in this step.
            assert (outs[number, step] == 2.0 ** step + 2.0 ** (step + 1)).all(), outs
        kv._barrier()
        # Both threads must be in the destructor's barrier together.
        del kv
    except Exception as error:
        failures.append(repr(error))


threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(50)
alive = [t.is_alive() for t in threads]
assert not failures and not any(alive), (failures, alive)
print(json.dumps({"rank": 0, "digest": digest([outs[k] for k in sorted(outs)]),
                  "pslite": mapped("libpslite_mxnet"), "mxnet": mapped("libmxnet")}), flush=True)
