"""pslite.job: schedulers and servers in Python, a server that joins, and Ctrl-C."""

import json
import signal
import subprocess
import sys
import time

import pytest

import harness
from test_python_kv import ENVIRONMENT

# Where a shell put the tests into the background, SIGINT is ignored from the beginning.
SCRIPT = """
import os, signal, time
from array import array
from pslite import job
from pslite.node import Node
from pslite.store import Store
signal.signal(signal.SIGINT, signal.default_int_handler)
{call}
print("over", flush=True)
"""

WORK = """
with Node("worker", root="{root}", workers=1, servers=1) as node, Store(node) as store:
    store.init("a", array("f", [1] * 1000))
    while not os.path.exists("{file}"):
        store.push_pull("a", array("f", [1] * 1000)).wait()
        time.sleep(0.01)
"""


class Job:
    """A scheduler, a server and a worker, which ends when a file is there; each a script."""

    def __init__(self, folder):
        self.root = f"127.0.0.1:{harness.free_port()}"
        self.file = folder / "end"
        self.started = []
        self.scheduler, self.server = (
            self.run(f"job.serve_{role}('{self.root}', workers=1, servers=1)")
            for role in ("scheduler", "server"))
        self.worker = self.run(WORK.format(root=self.root, file=self.file))

    def run(self, call):
        self.started.append(subprocess.Popen(
            [sys.executable, "-c", SCRIPT.replace("{call}", call)], text=True, env=ENVIRONMENT,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self.started[-1]

    def wait_for(self, states):
        """Until the job runs, and its servers have these states."""
        end = harness.patient(30)
        while self.states() != states:
            assert time.monotonic() < end, self.states()
            time.sleep(0.05)

    def states(self):
        asked = subprocess.run(
            [harness.PROGRAM, "status", "--json", "--scheduler", self.root],
            capture_output=True, text=True, timeout=30)
        found = json.loads(asked.stdout) if asked.returncode == 0 else {"phase": "none"}
        return [node["state"] for node in found["nodes"]
                if node["role"] == "server"] if found["phase"] == "running" else []


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        # pytest shows it where the test fails.
        print(process.args[-1], *process.communicate(timeout=30), sep="\n")


def test_a_server_joins_and_returns(job):
    """job.join returns when the job is over, as do the functions that serve."""
    job.wait_for(["live"])
    joined = job.run(f"job.join('{job.root}')")
    job.wait_for(["live", "live"])
    assert joined.poll() is None
    job.file.touch()
    for process in job.started:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "over\n"), err


def test_ctrl_c_ends_a_server_and_a_scheduler(job):
    """At once, by KeyboardInterrupt, as it ends any program in Python; the worker hears of it."""
    job.wait_for(["live"])
    for process in (job.server, job.scheduler):
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT and not out, (process.returncode, out, err)
        assert err.endswith("KeyboardInterrupt\n") and time.monotonic() - begin < 2, err
    out, err = job.worker.communicate(timeout=30)
    assert job.worker.returncode == 1 and "PeerLost" in err and not out, (out, err)
