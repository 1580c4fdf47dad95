"""A running job that stands still says for whom it waits; one that computes says nothing."""

import json
import re
import subprocess

import pytest

import harness
from harness import OURS, Cluster

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits


def stalls(what, seconds=0, limit=1):
    """Two workers and a server; what has waited for so long is said."""
    return Cluster("stalls.py", (what, seconds), library=OURS, servers=1, timeout=40,
                   env={"PSLITE_STALL_REPORT": str(limit)})


def test_a_server_says_for_whom_a_round_waits():
    cluster = stalls("late", 4).run()
    cluster.check()
    said = re.findall(r"round 2 of key 3 has waited \d s for worker 1 \(id \d+, [\d.:]+\); "
                      r"it last pulled key 3 \d s ago", cluster.nodes["server0"].err)
    assert 1 <= len(said) <= 3, cluster.describe()
    # Processes get their ranks in the order in which they register.
    err = {node.result["rank"]: node.err for node in cluster.workers}
    waits = r"a pu(sh|ll) \(request \d+\) has waited \d s for server 0 \(id 8, "
    assert re.search(waits, err[0]), cluster.describe()
    assert "has waited" not in err[1], cluster.describe()


def test_nodes_that_wait_for_each_other_are_named():
    """Stock stands still and says nothing."""
    circle = (r"nodes wait for each other: a barrier of all workers \(group 4\) waits for worker 0 "
              r".*, which is in round 1 of key 3 at server 0 .*; .* waits for worker 1 ")
    with stalls("circle") as cluster:
        cluster.start()
        scheduler = cluster.nodes["scheduler"]
        assert scheduler.wait_for("nodes wait for each other", 30), cluster.describe()
        status = subprocess.run(
            [harness.PROGRAM, "status", "--scheduler", f"127.0.0.1:{cluster.port}", "--json"],
            capture_output=True, text=True, timeout=20, check=True)
        text = scheduler.err
    said = [line for line in text.splitlines() if re.search(circle, line)]
    assert len(said) == 1, text
    assert "a barrier of all workers (group 4) has waited" in text, text
    waits = json.loads(status.stdout)["waits"]
    assert len(waits) == 3 and re.search(circle, waits[2]), waits


def test_nothing_is_said_where_all_compute():
    cluster = stalls("compute", 3, limit=2).run()
    cluster.check()
    for node in cluster.nodes.values():
        assert "has waited" not in node.err, cluster.describe()
