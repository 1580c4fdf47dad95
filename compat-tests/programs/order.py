"""Do messages of equal priority from one worker to one server keep their order?

For one worker: while the server is busy with a large array, a pull and then a push of each of many
small keys. The engine starts them in falling order of the priorities given here (kvstore's default
van does not put them on the wire), so each pull leaves before its push and must bring the old
value.
"""

import mxnet as mx
from common import finish

KEYS = 60
BIG = 1000
kv = mx.kv.create("dist_sync")
for key in range(KEYS):
    kv.init(key, mx.nd.zeros((4,)))
kv.init(BIG, mx.nd.zeros((6_000_000,)))
mx.nd.waitall()
turn = 0


def before():
    global turn
    turn -= 1
    return turn


swapped = 0
for step in range(4):
    outs = [mx.nd.zeros((4,)) for _ in range(KEYS)]
    news = [mx.nd.full((4,), step + 1) for _ in range(KEYS)]
    large = mx.nd.zeros((6_000_000,))
    mx.nd.waitall()
    kv.pull(BIG, out=large, priority=before())
    for key in range(KEYS):
        kv.pull(key, out=outs[key], priority=before())
        kv.push(key, news[key], priority=before())
    mx.nd.waitall()
    swapped += sum(int(out.asnumpy()[0] != step) for out in outs)
finish(kv, outs, swapped=swapped)
