"""What carries data between nodes of ours: results are the same over all, and a connection that
breaks loses and doubles nothing.

The other test files run with what is usual, which on one host is shared memory.
"""

import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

import harness
from cases import CASES, SMALL_BOUND, run_case, stock_digests
from harness import NATIVE, OURS, STOCK


SAYS = {"tcp": "over TCP", "shm": "through shared memory"}


def carried(node):
    """Peer and carrier of each channel, as the log says."""
    return re.findall(r"data to (\w+) (\d+) .*?go (over TCP|through shared memory)", node.err)


def over(transport, env=None):
    return {"PSLITE_TRANSPORT": transport, "PS_VERBOSE": "1", **(env or {})}


def assert_carried(cluster, by):
    """Of the channels between workers and servers. Where keys may move, servers have some among
    themselves."""
    for node in cluster.workers + cluster.of("server"):
        found = [carrier for role, _, carrier in carried(node) if not node.name.startswith(role)]
        # Each worker has two servers, and each server two workers.
        wanted = [SAYS[by]] * 2 if by in SAYS else []
        assert found == wanted, (by, found, node.describe())


# All cases over shared memory: test_features.py, as nothing is set there. All over ZeroMQ, quickly:
# test_native.py, beside stock nodes, and some here.
SOME = ("dist_sync", "p3", "server_adam")
RUNS = [(name, "tcp") for name in CASES] + [(name, "shm") for name in SOME]
RUNS += [pytest.param(name, "zmq", marks=[] if name in SOME else [pytest.mark.full])
         for name in CASES]


@pytest.mark.parametrize("name,transport", RUNS)
def test_results_do_not_depend_on_it(name, transport):
    cluster = run_case(name, OURS, env=over(transport))
    assert cluster.digests == stock_digests(name), cluster.describe()
    assert_carried(cluster, transport)


@pytest.mark.parametrize("transport", ["zmq", "tcp", "shm"])
@pytest.mark.parametrize("name", ["dist_sync", "row_sparse", "server_adam", "compression"])
def test_a_server_without_mxnet(name, transport):
    library = {"scheduler": OURS, "server": NATIVE, "worker": OURS}
    cluster = run_case(name, library, env=over(transport))
    assert cluster.digests == stock_digests(name), cluster.describe()
    assert_carried(cluster, transport)


def test_on_one_host_it_is_shared_memory():
    assert_carried(run_case("dist_sync", OURS, env={"PS_VERBOSE": "1"}), "shm")


@pytest.mark.parametrize("stock", ["scheduler", "server", "worker"])
def test_with_stock_nodes_it_is_the_stock_wire(stock):
    """Without a word: that is no trouble."""
    library = {**dict.fromkeys(harness.ROLES, OURS), stock: STOCK}
    cluster = run_case("dist_sync", library)
    assert cluster.digests == stock_digests("dist_sync"), cluster.describe()
    for node in cluster.nodes.values():
        assert "stock wire" not in node.err, node.describe()


@pytest.mark.parametrize("setting",
                         [{"PS_RESEND": "1"}, {"DMLC_LOCAL": "1"}, {"PSLITE_LEVEL": "stock"}],
                         ids=lambda setting: next(iter(setting)))
def test_what_is_about_the_stock_wire_has_it(setting):
    assert_carried(run_case("dist_sync", OURS, env={"PS_VERBOSE": "1", **setting}), "zmq")


MEETINGS = [
    # A worker's, the servers', and what carries data between them.
    ("auto", "tcp", "tcp"), ("tcp", "auto", "tcp"), ("shm", "auto", "shm"), ("auto", "shm", "shm"),
    ("zmq", "auto", "zmq"), ("auto", "zmq", "zmq"),
    ("tcp", "shm", None), ("shm", "tcp", None),
]


@pytest.mark.parametrize("worker,server,by", MEETINGS)
def test_nodes_that_are_told_different_things(worker, server, by):
    """What both have, and the stock wire if they have nothing in common: one line of each about
    each."""
    cluster = run_case("dist_sync", OURS, env={"PS_VERBOSE": "1"}, node_env={
        "worker": {"PSLITE_TRANSPORT": worker}, "server": {"PSLITE_TRANSPORT": server}})
    assert cluster.digests == stock_digests("dist_sync"), cluster.describe()
    assert_carried(cluster, by)
    for node in cluster.workers + cluster.of("server"):
        lines = [line for line in node.err.splitlines()
                 if "warning" in line and ("wire" in line or "refused" in line or "memory" in line)]
        assert len(lines) == (0 if by else 2), node.describe()
        assert all("take the stock wire" in line for line in lines), node.describe()


def test_a_range_without_a_port_for_it():
    """Four ports for four nodes, as it was enough without it: nobody takes a second one."""
    low = harness.free_port(following=3)
    cluster = run_case("dist_sync", OURS, env={"PSLITE_PORT_RANGE": f"{low}-{low + 3}"})
    assert cluster.digests == stock_digests("dist_sync"), cluster.describe()
    for node in cluster.workers + cluster.of("server"):
        assert "data take the stock wire: PSLITE_PORT_RANGE=" in node.err, node.describe()


@pytest.mark.parametrize("connections", [2, 8])
def test_several_connections_to_each_peer(connections, tmp_path):
    """Each server makes several, each worker one. The result is the same."""
    own = {"PSLITE_CONNECTIONS": str(connections)}
    cluster = run_case("dist_sync", OURS,
                       env=over("tcp", {"PSLITE_METRICS": f"{tmp_path}/%r.jsonl:60"}),
                       node_env={"server": own})
    assert cluster.digests == stock_digests("dist_sync"), cluster.describe()
    assert_carried(cluster, "tcp")
    for name in ("server0", "server1", "worker0", "worker1"):
        metrics = json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[-1])["metrics"]
        made = [sample["value"] for sample in metrics if sample["name"] == "connections"
                and sample["carrier"] == "tcp" and sample["direction"] == "sent"]
        # A server has channels to two workers and to the other server, a worker to two servers.
        wanted = [connections] * 3 if name.startswith("server") else [1, 1]
        assert made == wanted, (name, made)


# ---- connections that break ----------------------------------------------------------------------

def sockets(pid, kind):
    """The connected stream sockets of a process: descriptors, of `unix` or `tcp`."""
    table = open(f"/proc/{pid}/net/{kind}").read().splitlines()[1:]
    if kind == "tcp":
        inodes = {line.split()[9] for line in table if line.split()[3] == "01"}
    else:
        # Type 0001 is a stream, state 03 connected.
        inodes = {line.split()[6] for line in table if line.split()[4:6] == ["0001", "03"]}
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in inodes:
            found.append(int(name))
    return found


PIDFD_GETFD = 438


def cut_unix(pid):
    """Shuts the Unix sockets of a process, as the end of its peer does; how many."""
    libc = ctypes.CDLL(None, use_errno=True)
    cut = 0
    process = os.pidfd_open(pid)
    try:
        for number in sockets(pid, "unix"):
            copy = libc.syscall(PIDFD_GETFD, process, number, 0)
            if copy < 0:
                continue
            with socket.socket(fileno=copy) as peer:
                # Those of nodes have a name of ours at one end or the other.
                names = [name if isinstance(name, bytes) else name.encode()
                         for name in (peer.getsockname(), peer.getpeername())]
                if any(b"pslite-" in name for name in names):
                    peer.shutdown(socket.SHUT_RDWR)
                    cut += 1
    finally:
        os.close(process)
    return cut


def native_ports(cluster):
    """The ports of the native data plane: each node has told its peers."""
    ports = set()
    for node in cluster.workers + cluster.of("server"):
        ports.update(re.findall(r"go over TCP to \S+:(\d+)", node.err))
    return ports


def cut_tcp(ports):
    """Resets all connections to these ports; how many."""
    cut = 0
    for port in ports:
        done = subprocess.run(["ss", "-H", "-t", "-K", "state", "established", "dport",
                               f"= :{port}"],
                              capture_output=True, text=True, check=False)
        cut += len(done.stdout.splitlines())
    return cut


def can_reset():
    """True if the kernel and our rights allow connections of others to be reset."""
    if not shutil.which("ss"):
        return False
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            peer, _ = listener.accept()
            with peer:
                cut_tcp([port])
                client.settimeout(1)
                try:
                    return client.recv(1) == b""
                except ConnectionError:
                    return True
                except TimeoutError:
                    return False


@pytest.mark.parametrize("name", ["p3", "row_sparse"])
def test_an_answer_that_overtakes_its_call_waits_for_it(name, tmp_path):
    """MXNet reads an operation's slices until its last push has returned, and with the end of that
    push the operation is freed. Keys of rows are made anew by the next request."""
    library = tmp_path / "slow_send.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o", library,
                    harness.PROGRAMS / "slow_send.c", "-ldl"], check=True, timeout=60)
    slow = {"worker": {"LD_PRELOAD": f"{library}:{harness.LIBRARY}"}}
    cluster = run_case(name, OURS, env=over("tcp"), node_env=slow)
    assert cluster.digests == stock_digests(name), cluster.describe()


def can_take_descriptors():
    """True if descriptors of other processes can be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        process = os.pidfd_open(os.getpid())
    except OSError:
        return False
    copy = libc.syscall(PIDFD_GETFD, process, 1, 0)
    os.close(process)
    if copy >= 0:
        os.close(copy)
    return copy >= 0


@pytest.mark.parametrize("mode", ["dist_sync", "dist_async"])
@pytest.mark.parametrize("kind", [OURS, NATIVE])
@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_every_push_counts_once_though_connections_break(transport, kind, mode):
    if transport == "tcp" and not can_reset():
        pytest.skip("`ss -K` resets no connection here: no such program, kernel option or right")
    if transport == "shm" and not can_take_descriptors():
        pytest.skip("pidfd_getfd(2) is not allowed here")
    rounds = 150
    library = {"scheduler": OURS, "server": kind, "worker": OURS}
    with harness.Cluster("integers.py", args=[mode, rounds, 0.0], library=library,
                         env={**SMALL_BOUND, **over(transport)}) as cluster:
        cluster.start()
        assert cluster.nodes["worker0"].wait_for("round 3", 60), cluster.describe()
        ports = native_ports(cluster)
        cut = times = 0
        while not any(f"round {rounds - 5}\n" in node.out for node in cluster.workers):
            if transport == "tcp":
                found = cut_tcp(ports)
            else:
                found = sum(cut_unix(node.pid) for node in cluster.workers)
            cut, times = cut + found, times + 1
            time.sleep(0.05)
            assert times < 2000 and not any(node.poll() for node in cluster.workers), (
                cut, cluster.describe())
        assert cluster.wait(60), cluster.describe()
    cluster.check()
    assert cut > 10, (cut, cluster.describe())
    expected = rounds * (1 + 2)
    for result in cluster.results:
        assert result["counts"] == [[expected]] * 5, (cut, cluster.describe())
