"""The servers' profiler, steered by a worker. The servers write rank<N>_<file> where they run."""

import mxnet as mx
from common import Gradients, data, finish

kv = mx.kv.create("dist_sync")
gradient = Gradients()
key, shape = 1, (40, 40)
kv.init(key, mx.nd.zeros(shape))
if kv.rank == 0:
    mx.profiler.set_config(profile_all=True, filename="profile_servers.json",
                           profile_process="server")
    mx.profiler.set_state("run", profile_process="server")
kv._barrier()
results = []
for step in range(3):
    kv.push(key, gradient(key, data(shape, kv.rank + step)))
    out = mx.nd.zeros(shape)
    kv.pull(key, out=out)
    results.append(out)
mx.nd.waitall()
kv._barrier()
if kv.rank == 0:
    mx.profiler.set_state("stop", profile_process="server")
    mx.profiler.dump(True, profile_process="server")
kv._barrier()
finish(kv, results)
