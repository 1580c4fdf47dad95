"""How long the library takes to get eight nodes through registration and the first barrier."""

import re

import pytest

import harness
from harness import OURS

LIMIT_MS = 50


@pytest.mark.alone
def test_eight_nodes_start_quickly():
    """PS_VERBOSE=1: each node says how long it took from Start through the first barrier.

    What counts is the last node to come: the others wait for its interpreter, not for the library.
    """
    with harness.Cluster("nothing.py", workers=4, servers=3, library=OURS,
                         env={"PS_VERBOSE": "1"}) as cluster:
        cluster.start()
        assert cluster.wait(), cluster.describe()
    cluster.check()
    times = [float(found[1]) for node in cluster.nodes.values()
             for found in [re.search(r"first barrier, ([0-9.]+) ms after the start", node.err)]
             if found]
    assert len(times) == 8, cluster.describe()
    assert min(times) < LIMIT_MS, times
