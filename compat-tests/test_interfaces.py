"""Hosts with several network interfaces: which address a node advertises.

Two network namespaces stand for two hosts. The scheduler's host reaches the other one through one
interface only; the other host has a second interface, which comes first in its list.
"""

import re

import pytest

import namespaces
from harness import OURS, STOCK, Cluster
from namespaces import connect, give

STOCK_LIMIT = 15
SCHEDULER = "10.77.2.1"
REACHABLE = "10.77.2.2"
ELSEWHERE = "10.77.1.1"


@pytest.fixture
def hosts():
    """The names of both namespaces: the scheduler's and the others'."""
    with namespaces.hosts("scheduler", "others") as names:
        scheduler, others = names
        # The wrong one first: stock takes the first that is not the loopback.
        connect(others, "first0", others, "first1")
        give(others, "first0", ELSEWHERE)
        give(others, "first1")
        connect(others, "second0", scheduler, "nic0")
        give(others, "second0", REACHABLE)
        give(scheduler, "nic0", SCHEDULER)
        yield names


def cluster_on(hosts, library, env=None, **options):
    def prefix(role):
        return ["ip", "netns", "exec", hosts[0 if role == "scheduler" else 1]]
    return Cluster("nothing.py", library=library, host=SCHEDULER, prefix=prefix,
                   env={"DMLC_NODE_HOST": None, "PS_VERBOSE": "1", **(env or {})}, **options)


@pytest.mark.full
def test_stock_advertises_an_address_that_nobody_reaches(hosts):
    cluster = cluster_on(hosts, STOCK, timeout=STOCK_LIMIT).run()
    assert any(node.hung or node.returncode != 0 for node in cluster.nodes.values()), (
        cluster.describe())


@pytest.mark.parametrize("env", [{}, {"DMLC_INTERFACE": "second0"}], ids=["nothing", "interface"])
def test_the_address_towards_the_scheduler_is_taken(hosts, env):
    """Without a setting the right one is found; an interface may be named."""
    cluster = cluster_on(hosts, OURS, {"DMLC_INTERFACE": None, **env})
    if env:
        cluster.node_env["scheduler"] = {"DMLC_INTERFACE": "nic0"}
    cluster.run().check()
    for role in ("server", "worker"):
        for node in cluster.of(role):
            assert re.search(rf"this is {role} \d \(id \d+, {REACHABLE}:", node.err), (
                cluster.describe())
