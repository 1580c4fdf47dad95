"""How long a local model takes to answer, beside MXNet's `local` kvstore (answering.py): a job of
one worker that exchanges nothing while it is measured."""

import json
import sys
from pathlib import Path
from statistics import median

import harness
from harness import NATIVE, OURS

from .bars import Bar

ANSWERING = Path(__file__).resolve().parent / "answering.py"
# Seconds after which the job ends itself, whatever happens.
LIMIT = 600
# More steps than are taken.
NEVER = "fedavg:steps=1000000"
MOST = 1.2
# Threads of MXNet's operators. Jobs of the other benchmarks have one; with more, MXNet alone
# spreads an update over them.
THREADS = (1, 2)


def measure(times, say):
    """{threads: {"ours": [seconds], "local": [seconds]}}."""
    found = {}
    for threads in THREADS:
        found[threads] = one(threads, times)
        say(f"{threads} threads: ours {median(found[threads]['ours']):.3f} s, MXNet's "
            f"{median(found[threads]['local']):.3f} s")
    return found


def one(threads, times):
    job = harness.Cluster(
        ANSWERING, args=[LIMIT, times], workers=1, servers=1, timeout=LIMIT,
        library={"scheduler": NATIVE, "server": NATIVE, "worker": OURS},
        env={"OMP_NUM_THREADS": threads}, node_env={"scheduler": {"PSLITE_SYNC": NEVER}})
    job.run()
    if any(node.hung or node.returncode != 0 for node in job.nodes.values()):
        sys.exit(job.describe())
    return json.loads(job.workers[0].out.splitlines()[-1])


def bars(found):
    """[Bar]."""
    for threads, times in found.items():
        ours, theirs = median(times["ours"]), median(times["local"])
        bar = threads == THREADS[0]
        yield Bar("a push and pull of 25.6 M float32, Adam, answered by the local model: by "
                  f"MXNet's `local` kvstore, {threads} thread{'s' * (threads > 1)}",
                  f"at most {MOST}" if bar else "reported",
                  f"{ours:.3f} s / {theirs:.3f} s = {ours / theirs:.2f}",
                  ours / theirs <= MOST if bar else None)
