"""How long the library takes to get eight nodes through registration and the first barrier."""

import re

import pytest

import harness
from harness import OURS

LIMIT_MS = 50
# The quickest of so many starts counts: other work on the machine can slow one down, but a library
# that has become slow is slow in each.
STARTS = 4


def last_to_come():
    """Milliseconds from Start through the first barrier, at the last of eight nodes to start.

    The others wait for its interpreter, not for the library.
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
    return min(times)


@pytest.mark.alone
def test_eight_nodes_start_quickly():
    """PS_VERBOSE=1: each node says how long it took from Start through the first barrier."""
    times = []
    while not times or (times[-1] >= LIMIT_MS and len(times) < STARTS):
        times.append(last_to_come())
    assert min(times) < LIMIT_MS, times
