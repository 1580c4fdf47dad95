"""What goes wrong in real clusters: stock hangs, dies or computes nonsense; ours does not.

Where stock's failure takes seconds to show, a test shows it, so that the difference is no claim.
"""

import os
import re
import socket
import subprocess
import time

import pytest

import harness
from cases import CASES, SMALL_BOUND, run_case, stock_digests
from harness import NATIVE, OURS, STOCK, Cluster
from programs.ports import listening_ports

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

# Stock's failures are shown by running into this many seconds; a healthy run takes 4 to 8.
STOCK_LIMIT = 20


def times(quick, all_of_them):
    """A test that is run so often: by the quick run, and by `--full`. What goes wrong now and then
    is met by many runs, or by many runs of all tests."""
    return pytest.mark.parametrize("time_", [
        pytest.param(number, marks=[] if number <= quick else pytest.mark.full)
        for number in range(1, all_of_them + 1)])


def failed(cluster):
    """True if a run hung or a process of it ended with an error."""
    return any(n.hung or n.returncode != 0 for n in cluster.nodes.values())


def no_abort(cluster):
    """Fails if a process ended by a signal that it did not get from the test."""
    for node in cluster.nodes.values():
        assert node.hung or node.returncode in (None, -9) or node.returncode >= 0, (
            cluster.describe())


# ---- order ---------------------------------------------------------------------------------------

def test_stock_swaps_messages_of_equal_priority():
    cluster = harness.run("order.py", workers=1, servers=1, library=STOCK,
                          env={"MXNET_KVSTORE_BIGARRAY_BOUND": "10000000"})
    assert cluster.results[0]["swapped"] > 0, "stock kept the order this time"


@times(2, 3)
def test_messages_of_equal_priority_keep_their_order(time_):
    cluster = harness.run("order.py", workers=1, servers=1, library=OURS,
                          env={"MXNET_KVSTORE_BIGARRAY_BOUND": "10000000"})
    assert cluster.results[0]["swapped"] == 0, cluster.describe()


@times(1, 2)
def test_compression_without_waiting(time_):
    """Pull, then push of the same key without waiting (the 2-bit test of MXNet itself)."""
    cluster = harness.run("compression.py", "dist_sync", "nowait", 40, library=OURS,
                          env=SMALL_BOUND)
    expected = harness.run("compression.py", "dist_sync", "wait", 40, library=OURS,
                           env=SMALL_BOUND)
    assert cluster.digests == expected.digests, cluster.describe()


@times(2, 3)
def test_gluon_start_gives_all_workers_the_same_weights(time_):
    cluster = harness.run("trainer_start.py", library=OURS, servers=1)
    assert len(set(cluster.digests.values())) == 1, cluster.describe()


# ---- start ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("late", ["scheduler", "server1", "worker1"])
def test_a_node_that_comes_late(late):
    """Seven seconds: longer than stock waits for an application to register."""
    chosen = CASES["dist_sync"]
    with Cluster(chosen.script, chosen.args, library=OURS, env=chosen.env) as cluster:
        for role, count in cluster.counts.items():
            for index in range(count):
                if late not in (role, f"{role}{index}"):
                    cluster.spawn(role, index)
        time.sleep(7)
        cluster.spawn(late.rstrip("01"), int(late[-1]) if late[-1].isdigit() else 0)
        assert cluster.wait(60), cluster.describe()
    cluster.check()
    assert cluster.digests == stock_digests("dist_sync")


def test_a_busy_port_is_named():
    """Address, port and who holds it: this process."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with Cluster("nothing.py", library=OURS, port=port, roles=("scheduler",)) as cluster:
            cluster.start()
            assert cluster.wait(20), cluster.describe()
    scheduler = cluster.nodes["scheduler"]
    assert scheduler.returncode > 0, cluster.describe()
    for part in ("MXNetError", "127.0.0.1", str(port), str(os.getpid())):
        assert part in scheduler.err, (part, cluster.describe())


def test_stock_does_not_name_a_busy_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with Cluster("nothing.py", library=STOCK, port=port, roles=("scheduler",)) as cluster:
            cluster.start()
            cluster.wait(STOCK_LIMIT)
    scheduler = cluster.nodes["scheduler"]
    assert scheduler.returncode != 0 and str(os.getpid()) not in scheduler.err, cluster.describe()


def test_port_range():
    """With PSLITE_PORT_RANGE every node but the scheduler listens inside it."""
    low = harness.free_port(following=30)
    cluster = harness.run("slow.py", 3, 0.01, library=OURS,
                          env={"PSLITE_PORT_RANGE": f"{low}-{low + 30}"})
    for result in cluster.results:
        assert result["ports"] and all(low <= p <= low + 30 for p in result["ports"]), result
    assert not any(r["ports"][0] in range(low, low + 31) for r in harness.run(
        "slow.py", 3, 0.01, library=STOCK).results)


def test_a_full_port_range_is_named():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with Cluster("nothing.py", library=OURS, roles=("scheduler", "server"), servers=1,
                     env={"PSLITE_PORT_RANGE": f"{port}-{port}"}) as cluster:
            cluster.start()
            assert cluster.nodes["server0"].wait_for("PSLITE_PORT_RANGE", 20), cluster.describe()


def dns_names(library):
    chosen = CASES["dist_sync"]
    return Cluster(chosen.script, chosen.args, library=library, host="localhost",
                   env={**chosen.env, "DMLC_NODE_HOST": "localhost"}, timeout=STOCK_LIMIT).run()


def test_stock_cannot_bind_a_dns_name():
    assert failed(dns_names(STOCK))


def test_a_dns_name_as_host():
    assert dns_names(OURS).check().digests == stock_digests("dist_sync")


def test_a_network_interface_by_name():
    cluster = run_case("dist_sync", OURS, env={"DMLC_NODE_HOST": None, "DMLC_INTERFACE": "lo"})
    assert cluster.digests == stock_digests("dist_sync")


MISSING = [("server1", "server"), ("worker1", "worker"), ("scheduler", "scheduler")]


def without(missing, library, **options):
    """A cluster whose processes all start but one."""
    cluster = Cluster("slow.py", args=[2, 0.01], library=library, **options)
    for role, count in cluster.counts.items():
        for index in range(count):
            if missing not in (role, f"{role}{index}"):
                cluster.spawn(role, index)
    return cluster


@pytest.mark.parametrize("missing,role", MISSING)
def test_a_missing_role_is_named(missing, role):
    """After 10 seconds every node says what is missing; imports take 2 to 4 of them more, and
    beside another test's cluster as long again."""
    with without(missing, OURS) as cluster:
        limit = harness.patient(30)
        waiting = set(cluster.nodes)
        while waiting and time.monotonic() < limit:
            time.sleep(0.2)
            waiting = {n for n in waiting if not says_missing(cluster.nodes[n], role)}
        assert not waiting, f"silent: {waiting}\n{cluster.describe()}"
        # None of them gave up: there is no limit unless one is set.
        assert all(not node.poll() for node in cluster.nodes.values()), cluster.describe()


def says_missing(node, role):
    return any(role in line and re.search(r"missing|waiting|not (yet )?(here|reach|answer)", line)
               for line in node.err.splitlines())


@pytest.mark.full
def test_stock_says_nothing_about_a_missing_role():
    with without("server1", STOCK) as cluster:
        time.sleep(17)
        assert all(not node.poll() for node in cluster.nodes.values()), cluster.describe()
        assert not any(says_missing(node, "server") for node in cluster.nodes.values())


def late_names(tmp_path):
    """A library for LD_PRELOAD to which a name is unknown until a file is there."""
    library = tmp_path / "late_name.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o", library,
                    harness.PROGRAMS / "late_name.c", "-ldl"], check=True, timeout=60)
    return library


@pytest.mark.parametrize("role,library", [("scheduler", OURS), ("server", OURS), ("worker", OURS),
                                          ("scheduler", NATIVE), ("server", NATIVE)])
def test_a_name_that_comes_later_is_waited_for(role, library, tmp_path):
    """In a pod of Kubernetes, where a service gets its address after its pods were started: the
    node that meets the name too early says so again and again, and is in the job when it comes."""
    comes = tmp_path / "comes"
    preload = [late_names(tmp_path)] + ([harness.LIBRARY] if library == OURS else [])
    late = {"LATE_NAME": "scheduler.late.invalid", "LATE_FILE": comes,
            "PSLITE_REPORT_INTERVAL": "0.5", "DMLC_PS_ROOT_URI": "scheduler.late.invalid",
            "KUBERNETES_SERVICE_HOST": "10.96.0.1", "LD_PRELOAD": ":".join(map(str, preload))}
    with Cluster("nothing.py", workers=1, servers=1,
                 library={**dict.fromkeys(harness.ROLES, OURS), role: library},
                 node_env={role: late}) as cluster:
        cluster.start()
        node = cluster.nodes[role if role == "scheduler" else f"{role}0"]
        assert node.wait_for("late.invalid does not resolve"), cluster.describe()
        assert node.wait_for("has waited 1 s for it"), cluster.describe()
        assert not node.poll(), cluster.describe()
        comes.touch()
        assert cluster.wait(), cluster.describe()
    cluster.check()


@pytest.mark.parametrize("role", ["scheduler", "server", "worker"])
def test_a_name_that_does_not_come_ends_the_start(role):
    """PSLITE_START_TIMEOUT: the last word is what the resolver said, not that it had no time left
    to answer."""
    env = {"DMLC_PS_ROOT_URI": "nosuchhost.invalid", "PSLITE_START_TIMEOUT": "3",
           "PSLITE_REPORT_INTERVAL": "1"}
    with Cluster("nothing.py", workers=1, servers=1, library=OURS, roles=(role,),
                 env=env) as cluster:
        cluster.start()
        assert cluster.wait(), cluster.describe()
    node, = cluster.nodes.values()
    assert node.returncode > 0, cluster.describe()
    assert node.output.count("does not resolve") >= 3, cluster.describe()
    ends = ("PSLITE_START_TIMEOUT has passed: DMLC_PS_ROOT_URI=nosuchhost.invalid: "
            "nosuchhost.invalid does not resolve")
    assert ends in node.output, cluster.describe()


@pytest.mark.parametrize("missing,role", MISSING)
def test_start_timeout(missing, role):
    """PSLITE_START_TIMEOUT ends the wait with an MXNetError in every process. It is longer than
    imports beside other work differ: who comes when the scheduler has given up finds nobody who
    could say what is missing."""
    with without(missing, OURS, env={"PSLITE_START_TIMEOUT": "12"}, whole=True) as cluster:
        assert cluster.wait(40), cluster.describe()
    no_abort(cluster)
    for node in cluster.nodes.values():
        assert node.returncode > 0 and "MXNetError" in node.err, cluster.describe()
        assert role in node.err, cluster.describe()
        # 12 seconds, and the import, beside other tests' clusters.
        assert node.ended - node.started < 12 + 20 * harness.PATIENCE, cluster.describe()


# ---- leaving and dying ---------------------------------------------------------------------------

@pytest.mark.full
def test_stock_hangs_when_a_worker_leaves_without_its_push():
    cluster = Cluster("leave.py", library=STOCK, timeout=15).run()
    assert cluster.nodes["worker0"].hung or cluster.nodes["worker1"].hung, cluster.describe()


def test_a_worker_that_leaves_without_its_push():
    """The waiting worker ends with an MXNetError that names who left and what is lacking."""
    with Cluster("leave.py", library=OURS) as cluster:
        cluster.start()
        assert cluster.wait(30), cluster.describe()
    no_abort(cluster)
    left = [n.result["error"] for n in cluster.workers if n.result and "error" in n.result]
    assert len(left) == 1, cluster.describe()
    assert re.search(r"worker\D{0,20}1\b", left[0]), left
    assert re.search(r"\bkey\D{0,10}77\b", left[0]), left


def killed(library, victim, moment, limit, env=None, whole=False):
    """Kills one process of a running job; returns the cluster when the rest ended or time is up.

    moment: what is asked of the nodes until it is true, or a text in worker 0's output and seconds
    after it.
    """
    with Cluster("slow.py", args=[400, 0.05], library=library, env=env, whole=whole) as cluster:
        cluster.start()
        if isinstance(moment, tuple):
            assert cluster.nodes["worker0"].wait_for(moment[0], 40), cluster.describe()
            time.sleep(moment[1])
        else:
            latest = harness.patient(40)
            while not moment(cluster.nodes):
                assert time.monotonic() < latest, cluster.describe()
                time.sleep(harness.POLL)
        cluster.nodes[victim].kill()
        cluster.wait(limit, [n for n in cluster.nodes if n != victim], exact=True)
    return cluster


# Seconds until the rest must have ended: 10 as promised, and what an interpreter takes to exit.
DEATH_LIMIT = 14
VICTIMS = ("scheduler", "server0", "server1", "worker0", "worker1")


def dead_node_is_named(cluster, victim):
    """Every node that ended says the word, at least one says whom."""
    role = victim.rstrip("01")
    survivors = [n for n in cluster.nodes.values() if n.name != victim]
    return any(re.search(rf"{role}\b.*(lost|dead|died|gone|left|unreachable)|"
                         rf"(lost|dead|died|gone|left|unreachable).*\b{role}", n.err)
               for n in survivors)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["server0", "worker1"])
def test_stock_hangs_when_a_node_dies(victim):
    cluster = killed(STOCK, victim, ("round 5", 0.02), DEATH_LIMIT)
    assert any(node.hung for node in cluster.nodes.values()), cluster.describe()


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("after", [0.0, 0.31, 1.13])
def test_a_node_dies_in_the_middle(victim, after):
    # Once with the limits that are there by default, which end within the 10 seconds.
    env = {"PSLITE_PEER_TIMEOUT": "1"} if after else None
    cluster = killed(OURS, victim, ("round 3", after), DEATH_LIMIT, env=env)
    assert not any(n.hung for n in cluster.nodes.values()), cluster.describe()
    no_abort(cluster)
    assert dead_node_is_named(cluster, victim), cluster.describe()
    for worker in cluster.workers:
        if worker.name != victim:
            assert worker.returncode != 0 and "MXNetError" in worker.err, cluster.describe()


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("listener", ["itself", "another"])
def test_a_node_dies_at_the_start(victim, listener):
    """Around registration: a node registers when it has begun to listen. One that died before is
    one that is missing: without PSLITE_START_TIMEOUT the others would wait, and say so, for
    ever."""
    def registers(nodes):
        # The limit is for the library: how long an interpreter takes to load it is another matter.
        loaded = [not node.poll() and len(node.libraries) == 2 for node in nodes.values()]
        names = ([victim] if listener == "itself"
                 else [name for name in nodes if name not in (victim, "scheduler")])
        return all(loaded) and any(listening_ports(nodes[name].pid) for name in names)
    # Whole: a scheduler that starts seconds before the others would wait in vain that much longer.
    cluster = killed(OURS, victim, registers, DEATH_LIMIT + 6, env={"PSLITE_START_TIMEOUT": "8"},
                     whole=True)
    assert not any(n.hung for n in cluster.nodes.values()), cluster.describe()
    no_abort(cluster)
    role = victim.rstrip("01")
    assert any(role in n.err for n in cluster.nodes.values() if n.name != victim), (
        cluster.describe())


@pytest.mark.parametrize("victim", ["server0", "worker1"])
@pytest.mark.parametrize("limits", [
    {"PS_HEARTBEAT_INTERVAL": "1", "PS_HEARTBEAT_TIMEOUT": "4", "PSLITE_RECOVERY_WAIT": "2"},
    {"PSLITE_SILENCE_LIMIT": "6"}], ids=["stock-settings", "own-settings"])
def test_a_stopped_node_is_dead_by_heartbeat(victim, limits):
    """SIGSTOP: its connections stay, its heartbeats do not come."""
    import signal
    with Cluster("slow.py", args=[400, 0.05], library=OURS, env=limits) as cluster:
        cluster.start()
        assert cluster.nodes["worker0"].wait_for("round 3", 40), cluster.describe()
        cluster.nodes[victim].signal(signal.SIGSTOP)
        rest = [n for n in cluster.nodes if n != victim]
        ended = cluster.wait(DEATH_LIMIT + 4, rest, exact=True)
        assert ended, cluster.describe()
    assert dead_node_is_named(cluster, victim), cluster.describe()


def recover(library, times, env=None):
    """Kills worker rank 1 and starts it again, so many times; returns the cluster at its end."""
    heart = {"PS_HEARTBEAT_INTERVAL": "1", "PS_HEARTBEAT_TIMEOUT": "3", **SMALL_BOUND}
    with Cluster("recovery.py", library=library, env={**heart, **(env or {})}) as cluster:
        cluster.start()
        current = None
        limit = harness.patient(40)
        while current is None and time.monotonic() < limit:
            time.sleep(0.05)
            current = next((n for n in cluster.workers if "round 2 done" in n.out), None)
        assert current is not None, cluster.describe()
        for number in range(times):
            successor = cluster.spawn("worker", 1, name=f"again{number}", held=True,
                                      more={"PSLITE_TEST_RESTARTED": "1"})
            assert successor.wait_for("held", 60), cluster.describe()
            current.kill()
            # Stock takes a new node for the dead one only when the heartbeats have stopped.
            time.sleep(3)
            current = successor
            current.let_go()
            (cluster.folder / f"go-{3 * number + 2}").touch()
            if not current.wait_for(f"round {3 * number + 5} done", 25):
                break
        (cluster.folder / "go-5").touch()
        (cluster.folder / "go-8").touch()
        names = [n.name for n in cluster.nodes.values() if n.returncode != -9]
        cluster.wait(15, names)
    return cluster


def recovered(cluster):
    """True if the job ended well, the killed ones apart."""
    rest = [n for n in cluster.nodes.values() if n.hung or n.returncode != -9]
    return all(not n.hung and n.returncode == 0 for n in rest) and any(
        n.result and n.result.get("restarted") for n in rest)


@pytest.mark.full
def test_stock_recovers_no_second_time():
    assert not recovered(recover(STOCK, 2))


@pytest.mark.long
@pytest.mark.parametrize("resend", [{}, {"PS_RESEND": "1"}], ids=["plain", "resend"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_is_restarted(times, resend):
    undisturbed = harness.run("recovery.py", library=OURS, env=SMALL_BOUND,
                              prepare=lambda folder: [(folder / f"go-{n}").touch()
                                                      for n in (2, 5, 8)])
    cluster = recover(OURS, times, resend)
    assert recovered(cluster), cluster.describe()
    no_abort(cluster)
    assert set(cluster.digests.values()) == set(undisturbed.digests.values()), cluster.describe()


# ---- loss ----------------------------------------------------------------------------------------

LOSS = {"PS_RESEND": "1", "PS_RESEND_TIMEOUT": "200", "PS_DROP_MSG": "30"}
#: Nearly all of the time passes in waiting for the timeout.
SOON = {**LOSS, "PS_RESEND_TIMEOUT": "60"}


@pytest.mark.full
def test_stock_fails_with_loss():
    """Stock ends well in 1 of 10 runs: three in a row would be one in a thousand."""
    for _ in range(3):
        cluster = Cluster("push_pull.py", args=["dist_sync"], library=STOCK,
                          env={**SMALL_BOUND, **LOSS}, timeout=STOCK_LIMIT).run()
        if failed(cluster):
            return
    pytest.fail("stock completed three runs with 30 % loss")


@pytest.mark.long
@pytest.mark.parametrize("name", ["dist_sync", "server_sgd_momentum", "p3"])
def test_thirty_percent_loss(name):
    """Completes, and nothing was counted twice: the results are exact."""
    assert run_case(name, OURS, env=SOON).digests == stock_digests(name)


@times(2, 5)
def test_resend_without_loss(time_):
    assert run_case("dist_sync", OURS, env={"PS_RESEND": "1"}).digests == (
        stock_digests("dist_sync"))


def two_threads(library, env, limit):
    with Cluster("two_threads.py", library=library, env=env) as cluster:
        for role, index in (("scheduler", 0), ("server", 0), ("server", 1), ("worker", 0)):
            cluster.spawn(role, index)
        cluster.wait(limit)
    return cluster


@pytest.mark.full
def test_stock_drops_messages_of_a_second_customer_with_resend():
    assert failed(two_threads(STOCK, {"PS_RESEND": "1"}, STOCK_LIMIT))


def test_two_customers_with_resend():
    two_threads(OURS, {"PS_RESEND": "1"}, 60).check()


@pytest.mark.full
def test_stock_hangs_on_a_second_kvstore():
    assert failed(Cluster("several_kvstores.py", ("sync", 3), library=STOCK,
                          timeout=STOCK_LIMIT).run())


def test_a_second_kvstore_in_every_process():
    """More in test_kvstores.py."""
    cluster = harness.run("several_kvstores.py", "sync", 3, library=OURS)
    assert len(set(cluster.digests.values())) == 1, cluster.describe()


def test_a_kvstore_after_the_end_of_the_job():
    """Nobody is left to answer: the error comes at once and says so."""
    cluster = harness.run("kvstore_again.py", library=OURS)
    for node in cluster.nodes.values():
        if node.role == "worker":
            said = re.search(r"again after ([0-9.]+) s: .*the job of this process is over",
                             node.err)
            assert said and float(said[1]) < 10, cluster.describe()
