"""pslite.kv without MXNet: a server that sums, in Python, and workers that use it.

    kv_worker.py CASE [NUMBER]

Each worker prints one line of JSON with what it saw. DMLC_ROLE says what this process is.
"""

import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time

import numpy as np

from pslite import _calls
from pslite.kv import KVServer, KVWorker
from pslite.node import Node
from refused import refused

CASE = sys.argv[1]
LONG = 1 << 20


class Sums:
    """Adds up what is pushed. Command 1: fails; 2: does not answer for a while; 3: two lens."""

    def __init__(self):
        self.values = {}

    def __call__(self, request):
        if request.cmd == 1:
            raise RuntimeError(f"no key {request.keys[0]} here")
        if request.cmd == 2:
            time.sleep(3)
        keys = list(request.keys)
        if request.push:
            values = np.frombuffer(request.values, "float32")
            parts = np.split(values, np.cumsum(request.lens)[:-1]) if len(request.lens) else \
                values.reshape(len(keys), -1)
            for key, part in zip(keys, parts):
                self.values[key] = self.values.get(key, 0) + part
        if not request.pull:
            return None
        found = [self.values[key] for key in keys]
        values = np.concatenate(found).astype("float32")
        return (values, [len(part) for part in found]) if len(request.lens) else values


def sums(node, worker):
    """Values of both workers, by all three calls, with keys at both servers."""
    ranges = node.key_ranges()
    keys = np.array([ranges[0][0] + 3, ranges[0][0] + 4, ranges[1][0] + 3], "uint64")
    mine = np.arange(6, dtype="float32") + 10 * node.rank
    worker.push(keys, mine).wait()
    node.barrier("workers")
    out = np.zeros(6, "float32")
    assert worker.pull(keys, out).wait() is out
    node.barrier("workers")
    again = np.ones(6, "float32")
    worker.push_pull(keys, again).wait(10)
    node.barrier("workers")
    lens = worker.push_pull([1, 2], np.arange(5, dtype="float32"), np.zeros(5, "float32"), [2, 3])
    long = np.ones(LONG, "float32")
    worker.push_pull(ranges[1][0] + 9, long).wait()
    whole = float(long.min()), float(long.max())
    return {"out": out.tolist(), "again": float(again.sum()), "lens": lens.wait().tolist(),
            "long": whole, "ranges": ranges, "metrics": sorted(node.metrics())[:2]}


def bad_input(node, worker):
    """Each is refused, says why, and nothing is sent or written."""
    good, fixed = np.zeros(4, "float32"), np.zeros(4, "float32")
    fixed.flags.writeable = False
    strided = np.zeros((4, 4), "float32")[:, ::2]
    found = {
        "dtype": refused(lambda: worker.push([1], np.zeros(4))),
        "read-only": refused(lambda: worker.pull([1], fixed)),
        "strided": refused(lambda: worker.push([1], strided)),
        "swapped": refused(lambda: worker.push([1], np.zeros(4, ">f4"))),
        "list": refused(lambda: worker.push([1], [1.0, 2.0])),
        "shape": refused(lambda: worker.push([1, 2, 3], good)),
        "lens": refused(lambda: worker.push([1, 2], good, [1, 2])),
        "lens count": refused(lambda: worker.push([1, 2], good, [4])),
        "out": refused(lambda: worker.push_pull([1], good, np.zeros(3, "float32"))),
        "no keys": refused(lambda: worker.push([], good)),
        "negative": refused(lambda: worker.push([-1], good)),
        "float keys": refused(lambda: worker.push(np.zeros(1), good)),
        "unsorted": refused(lambda: worker.push([node.key_ranges()[1][0], 1], good).wait()),
        "twice": refused(lambda: KVWorker(node)),
        "group": refused(lambda: node.barrier("nobody")),
        "kind": refused(lambda: KVWorker(node, "complex64", customer=3)),
        "remote": refused(lambda: worker.push([1], good, cmd=1).wait()),
    }
    worker.push([1], good).wait()
    # More comes than fits: the array stays as it was.
    small = np.full(3, 7, "float32")
    found["fits"] = refused(lambda: worker.pull([1], small).wait())
    found["small"] = small.tolist()
    # After all that it goes on.
    found["goes on"] = worker.pull([1], good).wait().tolist()
    return found


def timeouts(node, worker):
    begin = time.monotonic()
    handle = worker.push([1], np.ones(2, "float32"), cmd=2)
    found = {"text": refused(lambda: handle.wait(0.3)), "took": time.monotonic() - begin,
             "done": handle.done, "none": refused(lambda: handle.wait(0))}
    # Ctrl-C, on the main thread, in a wait without a limit.
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        handle.wait()
    except KeyboardInterrupt:
        found["heard"] = time.monotonic() - begin - 0.5
    # And in a barrier that nobody else enters; it ends the node.
    return found


def interrupted(node, worker):
    """Ctrl-C in a barrier that the others do not enter: the node ends."""
    if node.rank != 0:
        time.sleep(2)
        return {}
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        node.barrier("workers")
    except KeyboardInterrupt:
        return {"heard": time.monotonic() - begin - 0.5}
    return {}


def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * 4096


def memory(node, worker):
    """Memory stays flat, with handles that are waited for and handles that are dropped. NUMBER of
    requests; looked at after each fifth of them."""
    values = np.ones(64, "float32")
    key = node.key_ranges()[0][0] + 100 + node.rank
    count = int(sys.argv[2])
    sizes, blocks = [], []
    for number in range(1, count + 1):
        handle = worker.push_pull([key], values) if number % 2 else worker.push([key], values)
        if number % 10:
            handle.wait()
        if number % (count // 5) == 0:
            handle.wait()
            gc.collect()
            sizes.append(resident())
            blocks.append(sys.getallocatedblocks())
    return {"sizes": sizes, "blocks": blocks, "open": len(worker._open)}


def kept(node, worker):
    """What is kept for the next requests is bounded, and nothing of an array that has changed."""
    begin = node.key_ranges()[node.rank][0] + 10_000
    # More keys than are kept, and more requests at a time.
    values = np.ones(2, "float32")
    for number in range(_calls.ARRAYS_KEPT + 100):
        worker.push([begin + number], values).wait()
    handles = [worker.push([begin], np.ones(2, "float32")) for _ in range(3 * _calls.CALLS_KEPT)]
    for handle in handles:
        handle.wait()
    found = {"arrays": len(worker._keys), "calls": len(worker._calls), "open": len(worker._open)}
    # An equal number that is no integer does not find the array of the integer.
    worker.pull([begin], values).wait()
    found["float"] = refused(lambda: worker.pull([float(begin)], values))
    found["nested"] = refused(lambda: worker.pull([[begin]], values))
    # The same array twice, which has moved in between; while it is lent it may not.
    moves = bytearray(4 * values.itemsize)
    own = KVWorker(node, "uint8", customer=1)
    far = [begin + 5000]
    handle = own.push(far, moves, cmd=2)
    try:
        moves.extend(bytes(1 << 20))
    except BufferError:
        found["lent"] = True
    handle.wait()
    moves.extend(bytes(1 << 20))
    found["grown"] = refused(lambda: own.pull(far, moves).wait())
    del moves[16:]
    found["shrunk"] = own.pull(far, moves).wait() is moves
    # Answers go to their own requests, whichever ends first.
    outs = [np.zeros(2, "float32") for _ in range(20)]
    handles = [worker.pull([begin + number], out) for number, out in enumerate(outs)]
    for handle in reversed(handles):
        handle.wait()
    found["sums"] = [float(out[0]) for out in outs]
    return found


def customers(node, worker):
    """Of a store: a second worker shares the keys of the first, unless it is to have its own. (A
    store counts bytes.)"""
    first = KVWorker(node, "uint8", customer=1)
    sharing = KVWorker(node, "uint8", customer=2)
    own = KVWorker(node, "uint8", customer=3, own_keys=True)

    def pulled(of, key, count):
        out = np.zeros(4 * count, "uint8")
        return of.pull([key], out, [4 * count]).wait().view("float32").tolist()

    if node.rank == 0:
        first.push([3], np.full(4, 5, "float32").view("uint8"), [16]).wait()
        own.push([3], np.full(2, 7, "float32").view("uint8"), [8]).wait()
    node.barrier("workers")
    found = {"first": pulled(first, 3, 4), "shared": pulled(sharing, 3, 4),
             "own": pulled(own, 3, 2), "large": refused(lambda: pulled(own, 1 << 40, 2)),
             "beyond": refused(lambda: pulled(first, 2 << 40, 2))}
    node.barrier("workers")
    if node.rank == 0:
        # kStopServer: a server without an application waits for it.
        worker._library.pslite_simple_request(
            worker.handle, 2, None, 0, 2, ctypes.byref(ctypes.c_int32()))
    return found


def forked(node, worker):
    """A child of fork() has no node; it ends as any process does, and the parent goes on."""
    pid = os.fork()
    if pid == 0:
        text = refused(lambda: worker.push([1], np.ones(2, "float32")))
        sys.exit(0 if text and "fork" in text[1] else 3)
    _, status = os.waitpid(pid, 0)
    out = worker.push_pull([50 + node.rank], np.full(2, 3, "float32")).wait()
    return {"child": status, "out": out.tolist()}


def lost(node, worker):
    """A server ends itself while it is asked."""
    begin = time.monotonic()
    text = refused(lambda: worker.pull([1], np.zeros(2, "float32"), cmd=2).wait())
    return {"text": text, "took": time.monotonic() - begin}


def unclosed(node, worker):
    """A process may end without a word, while something is under way."""
    worker.push_pull([1], np.ones(2, "float32"), cmd=2)
    print(json.dumps({"case": CASE}), flush=True)
    sys.exit(0)


def serve(node):
    """A server, until all are at their end."""
    handler = Sums()
    KVServer(node, handler)
    if CASE == "lost" and node.rank == 0:
        threading.Timer(1.5, lambda: os._exit(9)).start()
    node.barrier("all")


def work(node):
    worker = KVWorker(node)
    if CASE != "customers":  # The servers of that are `pslite server`.
        node.barrier("all")
    found = globals()[CASE](node, worker)
    print(json.dumps(found), flush=True)
    return worker


def main():
    # Where a shell put the tests into the background, SIGINT is ignored from the beginning.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    node = Node().start()
    waits = CASE not in ("interrupted", "timeouts", "lost", "unclosed")
    worker = None
    if node.role == "server":
        serve(node)
    elif node.role == "worker":
        worker = work(node)
    else:
        node.barrier("all")
    if node.role != "worker" and not waits:
        # The others end without a word; so does this one, when they have.
        time.sleep(4)
    node.close(barrier=waits)
    node.close()
    assert refused(node.barrier)[0] == "ClosedError"
    if worker is not None:
        assert refused(lambda: worker.pull([1], np.zeros(1, "float32")))[0] == "ClosedError"


if __name__ == "__main__":
    main()
