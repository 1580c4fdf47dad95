"""Jobs that must not begin: nodes that were told different things, or addresses nobody reaches.

All of them hear why. Network namespaces stand for hosts.
"""

import os
import subprocess
import time

import pytest

import harness
import namespaces
from harness import NATIVE, OURS, PROGRAM, STOCK, Cluster
from namespaces import IP, connect, give

NATIVES = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}
HERE, THERE = "10.78.2.1", "10.78.2.2"
NAME = "pslite-agreed-host"


def ended_with(cluster, *parts):
    """Every process of ours has ended with an error that says all of that."""
    for node in cluster.nodes.values():
        if node.library != STOCK:
            assert not node.hung and node.returncode, cluster.describe()
            assert all(part in node.err for part in parts), (parts, cluster.describe())


@pytest.mark.parametrize("library", [OURS, NATIVES], ids=["preloaded", "native"])
def test_counts_that_differ_are_named_everywhere(library):
    """Both values and both nodes; stock would train, and scale gradients for three."""
    cluster = Cluster("nothing.py", workers=2, servers=1, library=library,
                      node_env={"worker1": {"DMLC_NUM_WORKER": "3"}}).run()
    ended_with(cluster, "DMLC_NUM_WORKER is 3 at the worker at 127.0.0.1:",
               "and 2 at the scheduler (127.0.0.1:")


def test_bounds_that_differ_are_named_and_not_shapes():
    bound = "MXNET_KVSTORE_BIGARRAY_BOUND"
    cluster = Cluster("nothing.py", workers=2, servers=1, library=NATIVES,
                      node_env={"worker0": {bound: "1000"}}).run()
    ended_with(cluster, f"{bound} is ", "1000 at the worker at", "1000000 at the worker at")


def test_a_stock_scheduler_compares_nothing_but_its_list_does():
    cluster = Cluster("nothing.py", workers=2, servers=1, whole=True,
                      library={"scheduler": STOCK, "server": STOCK, "worker": [OURS, STOCK]},
                      node_env={"worker0": {"DMLC_NUM_WORKER": "3"}})
    with cluster:
        cluster.start()
        cluster.wait(names=["worker0"])
        ended_with_list = cluster.nodes["worker0"]
        assert ended_with_list.returncode, cluster.describe()
        assert "has 2 workers and 1 servers" in ended_with_list.err, cluster.describe()
        assert "was told 3 and 1" in ended_with_list.err, cluster.describe()


@pytest.mark.waits
def test_the_reason_of_one_that_does_not_start_reaches_the_others():
    cluster = Cluster("nothing.py", workers=1, servers=1, library=NATIVES,
                      node_env={"server0": {"PSLITE_LOG": "loud"}})
    with cluster:
        scheduler, worker = cluster.spawn("scheduler"), cluster.spawn("worker")
        assert scheduler.wait_for("is not complete"), cluster.describe()
        server = cluster.spawn("server")
        cluster.wait(names=["server0"])
        assert server.returncode and "PSLITE_LOG=loud" in server.err, cluster.describe()
        for node in (scheduler, worker):
            said = "refused: a server on 127.0.0.1 (pid "
            assert node.wait_for(said) and "PSLITE_LOG=loud" in node.err, cluster.describe()


@pytest.fixture
def hosts():
    """Two hosts, by role: the scheduler's and the servers', and the workers'."""
    with namespaces.hosts("agreed-a", "agreed-b") as names:
        connect(names[0], "nic0", names[1], "nic0")
        for name, address in zip(names, (HERE, THERE)):
            give(name, "nic0", address)
        yield names


def test_an_address_of_the_loopback_is_refused_on_both_hosts(hosts):
    """A stock worker, which does not look, tells it; the scheduler sees where it comes from."""
    cluster = Cluster(
        "nothing.py", workers=1, servers=1, host=HERE,
        prefix=lambda role: [IP, "netns", "exec", hosts[role == "worker"]],
        library={"scheduler": NATIVE, "server": NATIVE, "worker": STOCK},
        node_env={"server": {"DMLC_NODE_HOST": HERE}})
    with cluster:
        cluster.start()
        assert cluster.wait(names=["scheduler", "server0"]), cluster.describe()
        ended_with(cluster, "worker at 127.0.0.1:", f"is on another host ({THERE})")


@pytest.mark.waits
@pytest.mark.parametrize("told", ["127.0.0.1", "0.0.0.0", "255.255.255.255"])
def test_who_tells_such_an_address_ends_and_the_others_know(hosts, told):
    cluster = Cluster(
        "nothing.py", workers=1, servers=1, host=HERE,
        prefix=lambda role: [IP, "netns", "exec", hosts[role == "server"]],
        library=NATIVES, node_env={"server": {"DMLC_NODE_HOST": told}, "worker": {
            "DMLC_NODE_HOST": HERE}})
    with cluster:
        scheduler = cluster.spawn("scheduler")
        worker = cluster.spawn("worker")
        assert scheduler.wait_for("1 of 1 workers are here", 60), cluster.describe()
        server = cluster.spawn("server")
        cluster.wait(names=["server0"])
        assert server.returncode and f"DMLC_NODE_HOST={told}" in server.err, cluster.describe()
        for node in (scheduler, worker):
            assert node.wait_for(f"a server on {THERE} (pid "), cluster.describe()
            assert f"DMLC_NODE_HOST={told}" in node.err, cluster.describe()


def in_host(host, names, *words, **env):
    """A command on that host, whose /etc/hosts is `names`."""
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "PSLITE_"))}
    return subprocess.Popen(
        ["ip", "netns", "exec", host, "unshare", "-m", "sh", "-c", script, str(names), *words],
        env={**clean, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_scheduler_whose_name_is_its_loopback_says_so(hosts, tmp_path):
    """As Debian and Ubuntu name a host; the other hosts know its address."""
    own, others = tmp_path / "own", tmp_path / "others"
    own.write_text(f"127.0.0.1 localhost\n127.0.1.1 {NAME}\n")
    others.write_text(f"127.0.0.1 localhost\n{HERE} {NAME}\n")
    port = str(harness.free_port())
    job = {"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "DMLC_PS_ROOT_URI": NAME,
           "DMLC_PS_ROOT_PORT": port, "PSLITE_REPORT_INTERVAL": "0.2"}
    doctor = [str(PROGRAM), "doctor", "--python", "/nowhere/python"]
    said, _ = in_host(hosts[0], own, *doctor, DMLC_ROLE="scheduler", **job).communicate(timeout=60)
    assert f"{NAME} (127.0.1.1) is an address of the loopback here" in said and HERE in said, said
    scheduler = in_host(hosts[0], own, str(PROGRAM), "scheduler", **job)
    try:
        worker = in_host(hosts[1], others, str(PROGRAM), "server", PSLITE_START_TIMEOUT="3", **job)
        said, _ = worker.communicate(timeout=60)
        assert worker.returncode and f"the scheduler at {NAME}:{port} does not answer" in said, said
        doctor = in_host(hosts[1], others, *doctor, DMLC_ROLE="worker", **job)
        said, _ = doctor.communicate(timeout=60)
        assert doctor.returncode == 1 and "nobody listens" in said and "loopback" in said, said
        time.sleep(0.5)
    finally:
        scheduler.terminate()
        said, _ = scheduler.communicate(timeout=60)
    warned = [line for line in said.splitlines() if "only processes of that host reach it" in line]
    assert len(warned) >= 2 and HERE in warned[0], said
    assert "the job is not complete" in warned[-1], said
