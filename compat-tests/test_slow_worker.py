"""`pslite status` of a job in which one worker computes longer than the others, so that they wait
for it in each round: it names that worker, and shows what each computes and how long it waits."""

import json
import subprocess
import time

import pytest

import harness
from harness import OURS, Cluster

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

#: Seconds that the slow worker computes more: far more than an iteration takes without them.
MORE = 0.4


def status(cluster):
    """What the scheduler says now."""
    asked = subprocess.run(
        [harness.PROGRAM, "status", "--scheduler", f"127.0.0.1:{cluster.port}", "--json"],
        capture_output=True, text=True, timeout=20)
    return json.loads(asked.stdout) if asked.returncode == 0 else None


def status_with_times(cluster, workers):
    """The first status in which so many workers have said what they do, several times."""
    limit = harness.patient(90)
    seen = 0
    while time.monotonic() < limit:
        found = status(cluster)
        times = [node for node in found["nodes"] if node["computes"] is not None] if found else []
        if len(times) == workers:
            seen += 1
            if seen == 3:
                return found
        time.sleep(1)
    raise AssertionError(cluster.describe())


def by_rank(found):
    """The workers' entries by their ranks."""
    return {node["rank"]: node for node in found["nodes"] if node["role"] == "worker"}


@pytest.mark.parametrize("workers", [2, 3])
def test_the_worker_that_computes_longest_is_named(workers):
    with Cluster("slow_rank.py", (1, MORE), workers=workers, library=OURS, servers=1) as cluster:
        cluster.start()
        found = status_with_times(cluster, workers)
        text = subprocess.run([harness.PROGRAM, "status", "--scheduler",
                               f"127.0.0.1:{cluster.port}"],
                              capture_output=True, text=True, timeout=20, check=True).stdout
    assert found["limit"].startswith("worker 1 holds the others up: it computes 0."), found
    assert found["limit"].count("holds the others up") == 1, found
    nodes = by_rank(found)
    assert nodes[1]["computes"] >= MORE, nodes
    assert found["iteration"] >= MORE, found
    for rank in set(nodes) - {1}:
        # All have the same iterations: what one computes, the others wait.
        assert nodes[rank]["waits"] > nodes[1]["waits"], nodes
        assert nodes[rank]["computes"] < nodes[1]["computes"], nodes
    # Nothing was measured of the network, and what workers wait for each other is not its time.
    assert found["predicted"] is None and found["measured"] < found["iteration"], found
    assert "limit: worker 1 holds the others up" in text and "iteration: 0." in text, text
    assert "computes  waits" in text.splitlines()[1], text
