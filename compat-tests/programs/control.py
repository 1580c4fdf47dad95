"""Barriers, the number of dead nodes, commands to the servers."""

import time

import mxnet as mx
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

# Only rank 0, so that every server prints one line. Heads that MXNet's server does not know go to
# its Python controller, which prints them.
if kv.rank == 0:
    kv._send_command_to_servers(77, "hello servers")
kv._barrier()

kv.init(1, mx.nd.array(data((9, 9), 1)))
out = mx.nd.zeros((9, 9))
kv.push(1, gradient(1, data((9, 9), kv.rank)))
kv.pull(1, out=out)
finish(kv, [out], waited=waited > 0.5, dead=dead, type=kv.type)
