"""The library's own store: in a server process in place of MXNet's, and alone as `pslite server`.

What MXNet's kvstore can do is in cases.py; with the store the results are those of stock's server,
bit for bit. The other test files run with the store too, since that is how a preloaded server runs.
"""

import re

import pytest

import harness
from cases import CASES, SMALL_BOUND, run_case, stock_digests, stock_run
from harness import NATIVE, OURS, STOCK


def servers(kind, others):
    return {"scheduler": others, "server": kind, "worker": others}


# Beside nodes of ours, quickly: test_transport.py has some cases over each carrier.
@pytest.mark.parametrize("others", [STOCK, pytest.param(OURS, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", CASES)
def test_server_without_mxnet(name, others):
    cluster = run_case(name, servers(NATIVE, others))
    assert cluster.digests == stock_digests(name), cluster.describe()


@pytest.mark.parametrize("kind", [NATIVE, OURS])
def test_every_optimizer(kind):
    """By way of the pickle, the commands and the wire; the formulas alone: test_optimizers.py."""
    stock, ours = (harness.run("every_optimizer.py", library=library, env={
        **SMALL_BOUND, "PSLITE_LOG": "info"}) for library in (STOCK, servers(kind, OURS)))
    parts = [dict(zip(run.results[0]["names"], run.results[0]["parts"].split()))
             for run in (stock, ours)]
    unequal = [name for name in parts[0] if parts[0][name] != parts[1][name]]
    assert not unequal, (unequal, ours.describe())
    assert not any("takes over" in node.err for node in ours.of("server")), ours.describe()


def test_one_of_each():
    """Servers of all three kinds hold one model together."""
    library = servers([NATIVE, OURS, STOCK], STOCK)
    cluster = run_case("server_adam", library, servers=3)
    assert cluster.digests == stock_digests("server_adam", servers=3), cluster.describe()


def test_mxnets_server_can_be_kept():
    kept = run_case("server_adam", OURS, env={"PSLITE_STORE": "mxnet"})
    assert kept.digests == stock_digests("server_adam"), kept.describe()


@pytest.mark.parametrize("when", ["early", "late"])
def test_an_unknown_optimizer_goes_to_mxnets_server(when):
    """With all that the store holds by then."""
    stock = stock_run("own_optimizer.py", when, env=SMALL_BOUND, whole=True)
    ours = harness.run("own_optimizer.py", when, library=OURS, whole=True,
                       env={**SMALL_BOUND, "PSLITE_LOG": "info"})
    assert ours.digests == stock and len(set(ours.digests.values())) == 1, ours.describe()
    for node in ours.of("server"):
        assert "Halving" in node.err and "takes over" in node.err, node.describe()


@pytest.mark.parametrize("store", ["native", "mxnet"])
@pytest.mark.parametrize("what, place, text", [
    ("class", "set_optimizer", "put the class into a module that they can import"),
    ("again", "set_optimizer", "put the class into a module that they can import"),
    ("update", "update", "failed, in Python: "),
])
def test_what_fails_in_mxnets_own_server_is_told(what, place, text, store):
    """Python prints an exception in the server's callbacks and goes on: stock trains with plain
    sums."""
    cluster = harness.Cluster("failing_optimizer.py", args=(what,), library=OURS,
                              env={"PSLITE_STORE": store}).run()
    assert not any(node.hung for node in cluster.nodes.values()), cluster.describe()
    for result in cluster.results:
        assert result["place"] == place and text in (result["error"] or ""), cluster.describe()


def test_a_server_without_mxnet_refuses_it_to_workers_of_ours():
    cluster = harness.run("refused_optimizer.py", library=servers(NATIVE, OURS))
    for result in cluster.results:
        assert result["error"] and "halving.Halving" in result["error"], cluster.describe()


def test_a_server_without_mxnet_ends_if_it_cannot_refuse():
    """A stock worker takes every answer for a success: it must not train with something else."""
    with harness.Cluster("refused_optimizer.py", library=servers(NATIVE, STOCK)) as cluster:
        cluster.start()
        assert cluster.wait(40, ["server0", "server1"]), cluster.describe()
        codes = [node.returncode for node in cluster.of("server")]
        logs = [node.err for node in cluster.of("server")]
    assert all(code not in (0, None) for code in codes), cluster.describe()
    assert all("halving.Halving" in log for log in logs), cluster.describe()


def test_all_hear_why_a_server_ended():
    """The scheduler passes the server's own reason on, not that its connection is gone."""
    libraries = {"scheduler": NATIVE, "server": NATIVE, "worker": STOCK}
    with harness.Cluster("refused_optimizer.py", library=libraries) as cluster:
        cluster.start()
        assert cluster.wait(40, ["server0", "server1", "scheduler"]), cluster.describe()
        reason = cluster.nodes["scheduler"].err
    assert ("the scheduler ended: server " in reason
            and "halving.Halving" in reason), cluster.describe()
    assert "its connection is gone" not in reason, cluster.describe()


@pytest.mark.parametrize("worker", [OURS, STOCK])
def test_nothing_is_unpickled_where_that_is_forbidden(worker):
    """A preloaded server would hand an unknown optimizer to MXNet's own server."""
    library = {"scheduler": NATIVE, "server": OURS, "worker": worker}
    cluster = harness.Cluster("forbidden.py", library=library, whole=True,
                              env={"PSLITE_UNPICKLE": "0", "PSLITE_LOG": "info"})
    with cluster:
        cluster.start()
        if worker == OURS:
            assert cluster.wait(names=["worker0", "worker1"]), cluster.describe()
            told = sum((result["errors"] for result in cluster.results), [])
            assert len(told) == 3, cluster.describe()
            assert all("halving.Halving" in text for text in told), cluster.describe()
            assert all("PSLITE_UNPICKLE=0" in text for text in told), cluster.describe()
        else:
            assert cluster.wait(names=["scheduler"]), cluster.describe()
            scheduler = cluster.nodes["scheduler"]
            assert "PSLITE_UNPICKLE=0" in scheduler.err, cluster.describe()
        servers = cluster.of("server")
        assert any("PSLITE_UNPICKLE=0" in node.err for node in servers), cluster.describe()
        assert not any("takes over" in node.err for node in servers), cluster.describe()


@pytest.mark.parametrize("name", ["LARS", "LBSGD"])
@pytest.mark.parametrize("when", ["early", "late"])
def test_what_has_no_kernel_for_rows_goes_to_mxnets_server(name, when):
    """The optimizer comes to row_sparse keys, or they come to it."""
    stock = stock_run("sparse_optimizer.py", name, when)
    ours = harness.run("sparse_optimizer.py", name, when, library=OURS, whole=True,
                       env={"PSLITE_LOG": "info"})
    assert len(set(stock.values())) == 1, stock
    assert ours.digests == stock, ours.describe()
    taken = [node for node in ours.of("server") if "takes over" in node.err]
    assert taken, ours.describe()
    assert all(f"{name} cannot update the row_sparse key" in node.err for node in taken)


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_server_without_mxnet_refuses_what_has_no_kernel_for_rows(when):
    # It ends with errors: the refused worker goes before the others are through.
    cluster = harness.Cluster("sparse_optimizer.py", args=("LARS", when), servers=1,
                              library=servers(NATIVE, OURS)).run()
    assert not any(node.hung for node in cluster.workers), cluster.describe()
    errors = [(result or {}).get("error") or "" for result in cluster.results]
    said = "LARS cannot update the row_sparse key"
    assert any(said in error for error in errors), cluster.describe()


@pytest.mark.parametrize("kind", [NATIVE, OURS])
def test_sums_in_the_order_of_ranks_repeat(kind):
    env = {**SMALL_BOUND, "PSLITE_DETERMINISTIC": "1"}
    numbers = harness.random_numbers()
    runs = [harness.run("order_of_sums.py", numbers.randrange(2**31), library=servers(kind, OURS),
                        workers=3, env=env) for _ in range(2)]
    assert runs[0].digests == runs[1].digests, runs[1].describe()


def borrowed_kb(pid):
    """What other processes lend this one (mapped for reading): their memory, though it counts as
    resident here."""
    total, borrowed = 0, False
    for line in open(f"/proc/{pid}/smaps"):
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            borrowed = " r--s " in line and "memfd:pslite" in line
        elif borrowed and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_of_a_server(workers):
    """Not more than 1.3 times values, states and one round (issue: bars): Adam keeps two values.
    One worker's round counts as the server's although the worker lends it; of two workers, what
    they lend is theirs."""
    with harness.Cluster("memory.py", library=servers(NATIVE, OURS), servers=1, workers=workers,
                         env={"MODEL_MB": "64"}) as cluster:
        cluster.start()
        for worker in range(workers):
            assert cluster.nodes[f"worker{worker}"].wait_for("trained", 120), cluster.describe()
        server = cluster.nodes["server0"].pid
        status, borrowed = open(f"/proc/{server}/status").read(), borrowed_kb(server) / 1024
        assert cluster.wait(60), cluster.describe()
    cluster.check()
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
    if workers == 2:
        peak -= borrowed
        assert borrowed > 0, "nothing is lent: what is measured here is the copies"
    # Value, two moments, one round.
    assert peak < 1.3 * 64 * (1 + 2 + 1), (peak, borrowed)
