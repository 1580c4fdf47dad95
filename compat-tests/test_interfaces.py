"""Hosts with several network interfaces: which address a node advertises.

Two network namespaces stand for two hosts. The scheduler's host reaches the other one through one
interface only; the other host has a second interface, which comes first in its list.
"""

import os
import re
import shutil
import subprocess

import pytest

from harness import OURS, STOCK, Cluster

STOCK_LIMIT = 15
SCHEDULER = "10.77.2.1"
REACHABLE = "10.77.2.2"
ELSEWHERE = "10.77.1.1"


def run(*words):
    subprocess.run(words, check=True, timeout=20, capture_output=True, text=True)


@pytest.fixture
def hosts():
    """The names of both namespaces: the scheduler's and the others'."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the program ip")
    names = [f"pslite-{os.getpid()}-{kind}" for kind in ("scheduler", "others")]
    made = []
    try:
        for name in names:
            try:
                run("ip", "netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
            made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        scheduler, others = names
        # The wrong one first: stock takes the first that is not the loopback.
        run("ip", "-n", others, "link", "add", "first0", "type", "veth", "peer", "name", "first1")
        run("ip", "-n", others, "addr", "add", f"{ELSEWHERE}/24", "dev", "first0")
        run("ip", "-n", others, "link", "set", "first0", "up")
        run("ip", "-n", others, "link", "set", "first1", "up")
        run("ip", "-n", others, "link", "add", "second0", "type", "veth", "peer", "name", "nic0",
            "netns", scheduler)
        run("ip", "-n", others, "addr", "add", f"{REACHABLE}/24", "dev", "second0")
        run("ip", "-n", others, "link", "set", "second0", "up")
        run("ip", "-n", scheduler, "addr", "add", f"{SCHEDULER}/24", "dev", "nic0")
        run("ip", "-n", scheduler, "link", "set", "nic0", "up")
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], timeout=20, check=False)


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
