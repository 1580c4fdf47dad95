"""Rounds along packed trees over sites that few links join: every sum is exact, each link carries
what the trees on paper say, in each direction, and a link that no tree uses is known all the same.

The kernel counts the bytes, so a slow machine changes nothing. Needs namespaces, as test_mesh.py.
"""

import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness
from netlab import Mesh, Rates, graph
from test_lab import needs_lab

sys.path.insert(0, str(Path(__file__).parent / "bench"))
import tensors  # noqa: E402
import wan_changes  # noqa: E402
import wan_jobs  # noqa: E402
import wan_paper  # noqa: E402

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

# A ring: two thirds of the model go round it one way, one third the other. As a star, b's link to a
# would carry the model twice in each direction.
RING = graph.parse("a b 60, b c 40, c d 60, a d 20")
MODEL = wan_paper.model_bytes(50)
# Trees by the rates that are set, and no probes.
OPTIONS = SimpleNamespace(model="fiftieth", set={"PSLITE_PLANNING": "0"})
ROUNDS = 5
# The wire's bytes by TCP's payload, at most: a segment has 66 of headers (docs/lab.md).
HEADERS = 1514 / 1448
# Of a tensor in a round over one link: messages without values, and acknowledgements. Bytes.
CONTROL = 600
# A piece takes one tree, so a tree's share may be off by a part.
PART = max(MODEL / wan_paper.PARTS, wan_paper.SHORTEST) / MODEL


def carried(mesh, job):
    """Bytes that have come over each link, in each direction."""
    at = {site: wan_changes.received(pid) for site, pid in zip(mesh.hosts, job.pids()["worker"])}
    return {(one, other): at[other][mesh.host(other).device(mesh.host(one))]
            for one, other in RING.rates}


@needs_lab
def test_each_link_carries_what_its_trees_say():
    with Mesh(RING) as mesh, ExitStack() as stack:
        job = wan_jobs.ours(stack, mesh, OPTIONS, "packed", ["a"])
        wan_jobs.settle(job, OPTIONS)
        before = carried(mesh, job)
        for _ in range(ROUNDS):
            wan_jobs.one_round(job, OPTIONS)
        after = carried(mesh, job)
        job.end()
    said = wan_paper.paper(RING, "packed", ["a"], MODEL)
    shares, off = said.carried(), PART * len(said.trees)
    assert max(shares.values()) < 1.01 and min(shares.values()) > 0.3, said
    models = {pair: (after[pair] - before[pair]) / ROUNDS / MODEL for pair in before}
    control = CONTROL * len(tensors.part(50)) / MODEL
    for pair, share in shares.items():
        assert share - off < models[pair] < HEADERS * (share + off) + control, (pair, models, said)
    assert models.keys() == shares.keys()


# No tree uses the slow link.
TRIANGLE = graph.parse("a b 40, b c 40, a c 1")
PROBED = SimpleNamespace(model="fiftieth", set={})


def known(job, mesh, one, other):
    """Mbit/s of that link, as the scheduler said last; 0: it did not."""
    way = f"{mesh.hosts[one].address} to {mesh.hosts[other].address} "
    said = re.findall(re.escape(way) + r"([0-9.]+)", job.logs()[0].read_text())
    return float(said[-1]) if said else 0.0


@needs_lab
def test_a_link_that_no_tree_uses_is_known():
    """Only probes show that it has become fast."""
    with Mesh(TRIANGLE) as mesh, ExitStack() as stack:
        job = wan_jobs.ours(stack, mesh, PROBED, "packed", ["a"])
        wan_jobs.settle(job, PROBED)
        assert known(job, mesh, "a", "c") < 5 and known(job, mesh, "c", "a") < 5
        mesh.shaped("a-c").rates = Rates.both(40)
        # Each probe doubles the pause before the next one: up to 30 s.
        limit = harness.patient(40)
        while min(known(job, mesh, "a", "c"), known(job, mesh, "c", "a")) < 30:
            assert time.monotonic() < limit, job.logs()[0].read_text()[-3000:]
            wan_jobs.one_round(job, PROBED)
        job.end()
