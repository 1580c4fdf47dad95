"""Barriers, the number of dead nodes, commands to the servers."""

import pickle
import time

import mxnet as mx
import numpy as np
from common import Gradients, data, finish, number_of_dead_nodes

kv = mx.kv.create("dist_sync")
gradient = Gradients()

# The barrier holds: worker 1 comes late, worker 0 waits for it.
kv._barrier()
begin = time.monotonic()
if kv.rank == 1:
    time.sleep(1)
kv._barrier()
waited = time.monotonic() - begin
for _ in range(100):
    kv._barrier()

# Groups: 1 the scheduler, 2 the servers, 4 the workers, sums of them.
dead = {group: number_of_dead_nodes(kv, group) for group in range(1, 8)}

# Commands. Head 0 is an optimizer, which the servers unpickle; a head that MXNet's server does not
# know is answered all the same. One worker sends, as a second optimizer would begin anew.
kv.init(1, mx.nd.array(data((9, 9), 1)))
if kv.rank == 0:
    kv._send_command_to_servers(77, "a head that nobody knows")
    kv._send_command_to_servers(0, pickle.dumps(mx.optimizer.SGD(learning_rate=0.25), 0).decode())
kv._barrier()
out = mx.nd.zeros((9, 9))
kv.push(1, gradient(1, data((9, 9), 2 + kv.rank)))
kv.pull(1, out=out)
expected = data((9, 9), 1) - np.float32(0.25) * (data((9, 9), 2) + data((9, 9), 3))
commanded = bool(np.allclose(out.asnumpy(), expected, atol=1e-6))
finish(kv, [out], waited=waited > 0.5, dead=dead, type=kv.type, commanded=commanded)
