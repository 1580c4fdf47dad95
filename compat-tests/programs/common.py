"""What the worker programs share: data that every run makes the same, and the last line.

A program is one script for all roles. Importing mxnet in a scheduler or server never returns: it
serves until the job ends. So what follows the import is the worker's part. Programs import this
after mxnet: a process that is held waits in it.
"""

import ctypes
import hashlib
import json
import os
import sys
import time

import numpy as np


def data(shape, seed, dtype="float32"):
    """Numbers that depend on the arguments alone."""
    return np.random.RandomState(seed).uniform(-1, 1, size=shape).astype(dtype)


class Gradients:
    """One array per key, filled anew for every step, as training does.

    A push reads this array and the pull that follows writes it (MXNet pulls through the buffer that
    it pushed from), so the engine keeps push, pull, push of one key in order. With a new array per
    step it would not: two pushes of one worker could then make up a round by themselves.
    """

    def __init__(self):
        self._arrays = {}

    def __call__(self, key, values):
        import mxnet as mx
        if key not in self._arrays:
            self._arrays[key] = mx.nd.zeros(values.shape, dtype=values.dtype)
        self._arrays[key][:] = mx.nd.array(values, dtype=values.dtype)
        return self._arrays[key]


def digest(arrays):
    """SHA-256 over shapes, types and bytes of numpy or mxnet arrays, in their order."""
    sha = hashlib.sha256()
    for array in arrays:
        host = array if isinstance(array, np.ndarray) else array.asnumpy()
        sha.update(repr((host.shape, str(host.dtype))).encode())
        sha.update(np.ascontiguousarray(host).tobytes())
    return sha.hexdigest()


def mapped(name):
    """True if this process has mapped a shared library whose path contains the name."""
    with open("/proc/self/maps") as maps:
        return name in maps.read()


def number_of_dead_nodes(kv, group, timeout=60):
    """MXKVStoreGetNumDeadNode, which the Python class of 1.9.1 does not wrap."""
    from mxnet.base import _LIB, check_call
    number = ctypes.c_int(-1)
    check_call(_LIB.MXKVStoreGetNumDeadNode(
        kv.handle, ctypes.c_int(group), ctypes.byref(number), ctypes.c_int(timeout)))
    return number.value


def note(text):
    """A line for the test to wait for."""
    print(text, flush=True)


def _wait_if_held():
    """A process that is to replace another is ready before that dies (`Cluster.spawn`)."""
    path = os.environ.get("PSLITE_TEST_HELD")
    if path is None:
        return
    note("held")
    limit = time.monotonic() + 300
    while not os.path.exists(path):
        if time.monotonic() > limit:
            sys.exit("nobody let it go")
        time.sleep(0.02)


def finish(kv, arrays, wait=True, **more):
    """Prints the result line. Everything queued is done first, unless `wait` is False."""
    import mxnet as mx
    if wait:
        mx.nd.waitall()
    # Each array's own digest, short: where two runs differ, this says in what.
    parts = " ".join(digest([array])[:6] for array in arrays)
    result = {"rank": kv.rank, "parts": parts, "workers": kv.num_workers, "digest": digest(arrays),
              "pslite": mapped("libpslite_mxnet"), "mxnet": mapped("libmxnet")}
    result.update(more)
    print(json.dumps(result, sort_keys=True), flush=True)
    sys.stdout.flush()


_wait_if_held()
