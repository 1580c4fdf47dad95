"""Workers of which one fails. Arguments: what; the file whose name says that training goes on.

raises: rank 1 raises an exception in round 5. trains: all train until they are ended, 600 rounds at
most. absent: rank 1, as its launcher counts, ends before it makes a kvstore.
"""

import os
import sys
import time
from pathlib import Path

import mxnet as mx

what, going = sys.argv[1], Path(sys.argv[2])
if what == "absent" and os.environ["RANK"] == "1":
    sys.exit(0)
kv = mx.kv.create("dist_sync")
print("rank", kv.rank, "is RANK", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
values = mx.nd.ones((1000,))
for key in range(2):
    kv.init(key, values)
out = mx.nd.zeros((1000,))
for step in range(600):
    for key in range(2):
        kv.push(key, values)
        kv.pull(key, out=out)
        out.wait_to_read()
    if what == "raises" and step == 5 and kv.rank == 1:
        raise ValueError("the cause of it all")
    if what == "trains":
        if step == 3 and kv.rank == 0:
            going.touch()
        time.sleep(0.05)
