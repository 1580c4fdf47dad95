"""Starts that fail, each for another reason, many times over: what is open afterwards.

    failed_starts.py        prints one line of JSON
"""

import gc
import json
import os
import socket
import threading
import time

from pslite.node import Node
from refused import refused

TIMES = 6
#: A port on which somebody listens who is no scheduler, and one where nobody does.
LISTENER = socket.create_server(("127.0.0.1", 0))
BUSY = LISTENER.getsockname()[1]
JOB = {"root": f"127.0.0.1:{BUSY}", "workers": 1, "servers": 1, "host": "127.0.0.1"}
SOON = {"PSLITE_START_TIMEOUT": "0.1", "PSLITE_REPORT_INTERVAL": "0"}

CASES = {
    "late worker": lambda: Node("worker", **JOB, **SOON),
    "late scheduler": lambda: Node("scheduler", **{**JOB, "root": f"127.0.0.1:{free()}"}, **SOON),
    "busy port": lambda: Node("scheduler", **JOB),
    "no such host": lambda: Node("worker", **{**JOB, "host": "192.0.2.77"}),
    "no port in the range": lambda: Node("worker", **JOB, PSLITE_PORT_RANGE=f"{BUSY}-{BUSY}"),
    "bad setting": lambda: Node("worker", **JOB, PSLITE_TRANSPORT="pigeon"),
    "stopped": lambda: Node("worker", **JOB, PSLITE_REPORT_INTERVAL="0"),
}


def free():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def opened():
    """Descriptors and threads. The kernel has a thread for a moment longer than who joined it."""
    gc.collect()
    for _ in range(500):
        threads = len(os.listdir("/proc/self/task"))
        if threads == 1:
            break
        time.sleep(0.02)
    return len(os.listdir("/proc/self/fd")), threads


def failed(name, kept):
    node = CASES[name]()
    kept.append(node)
    if name != "stopped":
        return refused(node.start)
    # A stop that comes before the start ends nothing.
    ended = threading.Event()
    stopping = threading.Thread(target=stop_until, args=(node, ended))
    stopping.start()
    text = refused(node.start)
    ended.set()
    stopping.join()
    return text


def stop_until(node, ended):
    while not ended.wait(0.1):
        node.stop()


def main():
    found = {}
    for name in CASES:
        # The first one loads what stays for good.
        kept = []
        text = failed(name, kept)
        before = opened()
        texts = {json.dumps(failed(name, kept)[:1]) for _ in range(TIMES)}
        after = opened()
        # Nodes that failed to start are as those that never did: one starts again, and fails so.
        again = refused(kept[0].start) if name in ("busy port", "bad setting") else text
        found[name] = {"text": text, "kinds": len(texts), "before": before, "after": after,
                       "again": again}
        kept.clear()
        found[name]["dropped"] = opened()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
