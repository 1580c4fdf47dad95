"""What MXNet's own server makes of three workers' pushes, for each element type.

Argument 1: the kvstore's type. The workers push fixed data one after the other, without an
optimizer. In the result there is a line for each type: its name and the bits of the three parts and
of what is pulled, in hexadecimal.
"""

import sys
import time

import mxnet as mx
import numpy as np
from common import finish

COUNT = 48
# Of integers MXNet's server says "This operation only support floating point types", and aborts.
TYPES = ("float32", "float64", "float16")
# Seconds between two workers' pushes: they arrive in order of rank.
APART = 0.4


def parts(dtype):
    """Three arrays: values of all sizes, and what is special. At most one of three is a NaN."""
    state = np.random.RandomState(TYPES.index(dtype))
    kind = np.dtype(dtype)
    three = [np.frombuffer(state.bytes(COUNT * kind.itemsize), kind).copy() for _ in range(3)]
    info = np.finfo(kind)
    tiny = np.ldexp(kind.type(info.tiny), -3)
    special = ((info.max, info.tiny, tiny, np.inf, np.nan, -0.0, 1, -1.5),
               (info.max, -tiny, tiny, -1, 1, -0.0, info.eps / 2, info.eps * 1.5),
               (-info.max, tiny, -info.tiny, 3, 2, -0.0, info.eps / 2, info.eps))
    half = COUNT // 2
    for scale, array, head in zip((1, 4, 16), three, special):
        array[~np.isfinite(array)] = 1
        array[:8] = head
        # Sums whose rounding has to break ties.
        array[half:] = 1 + state.randint(0, 2048, COUNT - half) * info.eps * scale
    return three


kv = mx.kv.create(sys.argv[1])
lines, results = [], []
for key, name in enumerate(TYPES):
    kv.init(key, mx.nd.zeros(COUNT, dtype=name))
# From here on all workers are at the same point.
kv._barrier()
time.sleep(APART * kv.rank)
for key, name in enumerate(TYPES):
    three = parts(name)
    kv.push(key, mx.nd.array(three[kv.rank], dtype=name))
    out = mx.nd.zeros(COUNT, dtype=name)
    kv.pull(key, out=out)
    lines.append(" ".join([name] + [a.tobytes().hex() for a in (*three, out.asnumpy())]))
    results.append(out)
    time.sleep(APART * kv.rank)
finish(kv, results, sums=lines)
