"""Idle links of an elastic job are probed, so that the planner knows what they can carry."""

import json

import pytest

from harness import NATIVE, OURS, Cluster
from test_metrics import total

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

ROUNDS = 5
# Between two rounds nothing is sent for longer than the time after which a link of a busy job is
# probed first, 2 s.
PACE = 2.9
SECONDS = {"PSLITE_ELASTIC": 1, "PSLITE_REPLICAS": 0, "PSLITE_METRICS": "%r.jsonl:0.5"}


def run(env):
    """The last line of each server and worker."""
    with Cluster("elastic.py", ("dist_sync", "sgd", ROUNDS, PACE), servers=2, workers=2,
                 library={"scheduler": OURS, "server": [NATIVE, OURS], "worker": OURS},
                 env={**SECONDS, **env}) as cluster:
        cluster.start()
        cluster.wait()
        files = {path.stem: path.read_text() for path in cluster.folder.glob("*.jsonl")}
    cluster.check()
    lines = {name: json.loads(text.splitlines()[-1]) for name, text in files.items()}
    assert len(set(cluster.digests.values())) == 1, cluster.describe()
    return {name: line for name, line in lines.items() if name != "scheduler"}


def test_idle_links_are_probed():
    lines = run({"PSLITE_TRANSPORT": "tcp", "PSLITE_PROBE_AFTER": 0.7})
    sent = {name: total(line, "probes", direction="sent") for name, line in lines.items()}
    received = {name: total(line, "probes", direction="received") for name, line in lines.items()}
    # Both directions of links between servers and workers, and not more than a probe in a second
    # for each node.
    most = ROUNDS * PACE + 10
    assert all(0 < sent[name] + received[name] <= most for name in lines), (sent, received)
    assert sum(sent.values()) >= sum(received.values()) >= 4, (sent, received)


# A job that never keeps a link busy is probed after that time only.
@pytest.mark.parametrize("env", [{"PSLITE_TRANSPORT": "tcp", "PSLITE_PROBE_AFTER": 200},
                                 {"PSLITE_TRANSPORT": "tcp", "PSLITE_PROBE_AFTER": 0},
                                 {"PSLITE_TRANSPORT": "shm", "PSLITE_PROBE_AFTER": 0.7}],
                         ids=["at rest", "never", "shared memory"])
def test_others_are_not(env):
    lines = run(env)
    probes = {name: total(line, "probes") for name, line in lines.items()}
    assert probes == dict.fromkeys(lines, 0)
