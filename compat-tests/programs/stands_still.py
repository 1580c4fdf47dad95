"""Many keys, whose sums are checked. In the middle of the rounds worker 0 stands still until
somebody lets it go on, while the others push.

    stands_still.py KEYS LENGTH ROUNDS
"""

import os
import signal
import sys

import mxnet as mx
from common import finish, note

keys, length, rounds = map(int, sys.argv[1:])
kv = mx.kv.create("dist_sync")
names = list(range(keys))
kv.init(names, [mx.nd.zeros(length) for _ in names])
outs = [mx.nd.zeros(length) for _ in names]
for number in range(1, rounds + 1):
    pushed = [mx.nd.full(length, (kv.rank + 1) * number) for _ in names]
    mx.nd.waitall()
    kv._barrier()
    if kv.rank == 0 and number == rounds // 2 + 1:
        note("stands still")
        os.kill(os.getpid(), signal.SIGSTOP)
    kv.push(names, pushed)
    kv.pull(names, out=outs)
    mx.nd.waitall()
    wanted = number * kv.num_workers * (kv.num_workers + 1) // 2
    for name, out in zip(names, outs):
        assert (out.asnumpy() == wanted).all(), (number, name, out)
finish(kv, outs[:1])
