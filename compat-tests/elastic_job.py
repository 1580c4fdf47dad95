"""Training jobs whose servers and scheduler come, go and die: what test_elastic.py and
bench/kills.py share."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import harness
from cases import stock_run
from harness import NATIVE, OURS, Cluster

ROUNDS = 60
# Seconds that a round takes at least.
PACE = 0.05
MIXED = {"scheduler": OURS, "server": [OURS, NATIVE, OURS, NATIVE], "worker": OURS}


#: A model of 14,000 values. A round of 1.4 million takes most of the processor time of a job; where
#: a server dies or is emptied, it is to be in the middle of one.
SMALL = ("small",)


def cluster(kind="dist_sync", optimizer="sgd", rounds=ROUNDS, env=None, model=(), **more):
    more = {"library": MIXED, **more}
    return Cluster("elastic.py", (kind, optimizer, rounds, PACE, *model),
                   env={"PSLITE_ELASTIC": 1, "PS_VERBOSE": 1, **(env or {})}, **more)


def with_journal(rounds=300, **more):
    """A job whose scheduler can be started again."""
    job = cluster(rounds=rounds, **more)
    job.env["PSLITE_JOURNAL"] = str(job.folder / "job.journal")
    return job


def undisturbed(optimizer, servers=2, rounds=ROUNDS, model=()):
    """The workers' digests of a run on stock that nothing happens to."""
    digests = stock_run("elastic.py", "dist_sync", optimizer, rounds, 0, *model, servers=servers)
    assert len(set(digests.values())) == 1, digests
    return digests


def reach(job, round_number):
    """Waits until a worker has done that round."""
    worker = job.nodes["worker0"]
    assert worker.wait_for(f"round {round_number}\n", 60), job.describe()


#: Rounds that workers do after they hear of an earlier end, at least: one may be under way.
NOTICE = 2


def stop(worker):
    """Holds a process, and waits until it stands still."""
    worker.signal(signal.SIGSTOP)
    limit = harness.patient(30)
    while not worker.poll():
        state = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "T":
            return
        assert time.monotonic() < limit, f"{worker.name} is not stopped, but {state}"
        time.sleep(0.001)


def end_early(job, rounds, every):
    """What was to happen has happened: a job of `rounds` ends with the next round that is a
    multiple of `every`, of which there are few, since a result on stock is needed of each. Gives
    its number. The workers stand still while it is decided: none is beyond it then."""
    try:
        for worker in job.workers:
            stop(worker)
        done = max(int(number) for worker in job.workers
                   for number in re.findall(r"^round (\d+)$", worker.output, re.M))
        last = min(rounds, -(-(done + NOTICE) // every) * every)
        part = job.folder / "last.part"
        part.write_text(str(last))
        part.rename(job.folder / "last")
    finally:
        for worker in job.workers:
            worker.signal(signal.SIGCONT)
    return last


def ended_well(job, gone=()):
    """Waits for the end; fails unless all but the named ended by themselves without an error."""
    assert job.wait(), job.describe()
    job._read_all()
    for node in job.nodes.values():
        if node.name not in gone:
            assert node.returncode == 0 and not node.hung, job.describe()
    return job


def server_of_rank(job, rank):
    """Ranks follow ports, not the order in which processes were started."""
    return next(node for node in job.of("server") if f"this is server {rank} " in node.output)


def pslite(job, *args):
    """Runs the operator's program on that job."""
    command = [str(harness.PROGRAM), *args, "--scheduler", f"127.0.0.1:{job.port}"]
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(harness.FOREIGN)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)


def start_scheduler_again(job):
    """The killed one stays among the nodes as "lost scheduler"."""
    lost = job.nodes.pop("scheduler")
    lost.name = "lost scheduler"
    job.nodes[lost.name] = lost
    return job.spawn("scheduler")
