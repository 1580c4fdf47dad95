"""Workers that keep each other waiting. Arguments: what; seconds.

late: the second worker comes so much later to the second round. circle: the first worker waits for
a round, for which the second one has pushed nothing: it is in a barrier.
compute: both compute for so long between two rounds.
"""

import sys
import time

import mxnet as mx
from common import data, finish

what, seconds = sys.argv[1], float(sys.argv[2])

kv = mx.kv.create("dist_sync")
value = mx.nd.array(data((4, 4), 3))
kv.init(3, value)
if what == "circle" and kv.rank:
    kv._barrier()
out = mx.nd.zeros((4, 4))
for step in range(2):
    kv.push(3, value)
    kv.pull(3, out=out)
    out.wait_to_read()
    if step == 0 and (what == "compute" or what == "late" and kv.rank == 1):
        time.sleep(seconds)
finish(kv, [out])
