"""A second kvstore in every worker process, created after the first.

Its keys are those of the first: only the first kvstore of rank 0 initialises.
"""

import mxnet as mx
from common import Gradients, data, finish

first = mx.kv.create("dist_sync")
first.init("a", mx.nd.array(data((40, 30), 1)))
second = mx.kv.create("dist_sync")
second.init("a", mx.nd.zeros((40, 30)))
results = []
for step in range(3):
    for kv in (first, second):
        gradient = Gradients()
        kv.push("a", gradient("a", data((40, 30), 10 * kv.rank + step)))
        out = mx.nd.zeros((40, 30))
        kv.pull("a", out=out)
        out.wait_to_read()
        results.append(out)
        kv._barrier()
finish(first, results, second=[second.rank, second.num_workers])
