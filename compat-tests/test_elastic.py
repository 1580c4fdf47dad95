"""Servers that come, go and die while the wheel trains: the result is that of an undisturbed run,
to the bit."""

import json
import signal
import time

import pytest

import harness
from elastic_job import (SMALL, cluster, end_early, ended_well, pslite, reach, server_of_rank,
                         start_scheduler_again, undisturbed, with_journal)
from harness import NATIVE, OURS

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits


@pytest.mark.parametrize("optimizer", ("none", "sgd", "adam"))
def test_nothing_happens(optimizer):
    with cluster(optimizer=optimizer, model=SMALL) as job:
        job.start()
        ended_well(job)
    assert job.digests == undisturbed(optimizer, model=SMALL)


@pytest.mark.parametrize("optimizer", ("sgd", "adam"))
@pytest.mark.parametrize("victim", ("server0", "server1"))
def test_a_server_that_is_killed_is_not_missed(optimizer, victim):
    with cluster(optimizer=optimizer) as job:
        job.start()
        reach(job, 10)
        pause = harness.random_numbers().uniform(0, 0.2)
        print(f"killed {pause:.3f} s after round 10")
        time.sleep(pause)
        job.nodes[victim].signal(signal.SIGKILL)
        ended_well(job, gone=(victim,))
    assert job.digests == undisturbed(optimizer), job.describe()


@pytest.mark.parametrize("victim", ("server0", "server1", "server2"))
def test_keys_without_an_element_are_not_missed_either(victim):
    """MXNet cuts a tensor that it calls big over all servers, and an array of one element leaves
    most of them none."""
    with cluster(servers=3, library={"scheduler": OURS, "server": NATIVE, "worker": OURS},
                 env={"MXNET_KVSTORE_BIGARRAY_BOUND": 1}, model=SMALL) as job:
        job.start()
        reach(job, 10)
        job.nodes[victim].signal(signal.SIGKILL)
        ended_well(job, gone=(victim,))
    assert job.digests == undisturbed("sgd", model=SMALL), job.describe()


@pytest.mark.long
def test_a_server_that_is_stopped_is_not_missed_and_does_not_come_back():
    """Its connections stay, so only its silence tells; when it wakes up it is told that it is
    out."""
    # The others wait for it in the middle, until it is dead.
    with cluster(rounds=200, env={"PSLITE_SILENCE_LIMIT": 8}, model=SMALL) as job:
        job.start()
        reach(job, 10)
        job.nodes["server1"].signal(signal.SIGSTOP)
        assert job.nodes["worker0"].wait_for("policy 2", 30), job.describe()
        job.nodes["server1"].signal(signal.SIGCONT)
        ended_well(job, gone=("server1",))
    assert job.nodes["server1"].returncode != 0, job.describe()
    # It may find that it was alone for too long before it is told that others serve in its place.
    said = ("others serve in its place", "no sign of life")
    assert any(text in job.nodes["server1"].output for text in said), job.describe()
    assert job.digests == undisturbed("sgd", rounds=200, model=SMALL), job.describe()


@pytest.mark.parametrize("kind", ("worker0", "scheduler"))
def test_the_death_of_others_ends_the_job_as_before(kind):
    with cluster(rounds=400, model=SMALL) as job:
        job.start()
        reach(job, 5)
        job.nodes[kind].signal(signal.SIGKILL)
        assert job.wait(20), job.describe()
        job._read_all()
    for worker in job.workers:
        if worker.name != kind:
            assert worker.returncode != 0 and kind.rstrip("0") in worker.err, job.describe()


def test_without_replicas_the_death_of_a_server_ends_the_job_and_says_why():
    with cluster(env={"PSLITE_REPLICAS": 0}, model=SMALL) as job:
        job.start()
        reach(job, 5)
        job.nodes["server1"].signal(signal.SIGKILL)
        job.wait()
        job._read_all()
    for worker in job.workers:
        assert not worker.hung and worker.returncode != 0, job.describe()
        assert "PSLITE_REPLICAS" in worker.output, job.describe()


def test_two_servers_die_one_after_the_other():
    with cluster(servers=3) as job:
        job.start()
        for victim, when in (("server2", 8), ("server0", 25)):
            reach(job, when)
            job.nodes[victim].signal(signal.SIGKILL)
        ended_well(job, gone=("server2", "server0"))
    assert job.digests == undisturbed("sgd", servers=3), job.describe()


def join(job, number):
    """A server more, that serves when this returns."""
    command = [str(harness.PROGRAM), "server", "--join", f"127.0.0.1:{job.port}"]
    joiner = harness.Node(f"server{number}", "server", NATIVE, command,
                          {"DMLC_NODE_HOST": "127.0.0.1", "PS_VERBOSE": "1"}, job.folder)
    job.nodes[joiner.name] = joiner
    assert joiner.wait_for("serve\n", 30), job.describe()


def pieces(job, number):
    """How many pieces a server has."""
    status = pslite(job, "status", "--json")
    assert status.returncode == 0, (status, job.describe())
    return {node["id"]: node["pieces"]
            for node in json.loads(status.stdout)["nodes"]}[8 + 2 * number]


def has_pieces(job, number):
    limit = harness.patient(60)
    while not pieces(job, number):
        assert time.monotonic() < limit, job.describe()
        time.sleep(0.5)


@pytest.mark.long
def test_servers_join_and_leave_while_it_trains():
    rounds = 900
    with cluster(rounds=rounds) as job:
        job.start()
        reach(job, 5)
        for number in (2, 3):
            join(job, number)
            has_pieces(job, number)
        for number in (3, 0, 2):
            drained = pslite(job, "drain", f"server:{number}", "--wait", "20")
            assert drained.returncode == 0, (drained, job.describe())
            node = server_of_rank(job, number)
            assert job.wait(20, [node.name]) and node.returncode == 0, job.describe()
        assert f"round {rounds}\n" not in job.nodes["worker0"].output, (
            "all of it was to happen while it trains")
        rounds = end_early(job, rounds, every=200)
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=rounds), job.describe()


def test_who_cannot_be_drained_is_named():
    with cluster(rounds=300, model=SMALL) as job:
        job.start()
        reach(job, 5)
        assert pslite(job, "drain", "server:1").returncode == 0, job.describe()
        refused = pslite(job, "drain", "server:0")
        assert refused.returncode != 0 and "there is no other server" in refused.stderr, refused
        unknown = pslite(job, "drain", "server:7")
        assert unknown.returncode != 0 and "server 7" in unknown.stderr, unknown
        rounds = end_early(job, 300, every=100)
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=rounds, model=SMALL), job.describe()


def test_status_where_nobody_is():
    with cluster() as job:
        asked = pslite(job, "status")
    assert asked.returncode != 0 and f"127.0.0.1:{job.port}" in asked.stderr, asked


def lose_scheduler(job):
    """Kills it, and starts it again after a few rounds without one."""
    job.nodes["scheduler"].signal(signal.SIGKILL)
    worker = job.nodes["worker0"]
    assert worker.wait_for("data go on", 30), job.describe()
    reach(job, worker.output.count("round ") + 20)
    start_scheduler_again(job)
    assert job.nodes["worker0"].wait_for("the scheduler is back", 30), job.describe()


@pytest.mark.long
def test_the_scheduler_is_killed_and_started_again():
    with with_journal(model=SMALL) as job:
        job.start()
        reach(job, 20)
        lose_scheduler(job)
        rounds = end_early(job, 300, every=100)
        ended_well(job, gone=("lost scheduler",))
    assert job.digests == undisturbed("sgd", rounds=rounds, model=SMALL), job.describe()


@pytest.mark.long
def test_a_server_dies_while_there_is_no_scheduler():
    """Its replica takes over when the scheduler is back."""
    with with_journal(optimizer="adam") as job:
        job.start()
        reach(job, 20)
        job.nodes["scheduler"].signal(signal.SIGKILL)
        victim = server_of_rank(job, 0)
        victim.signal(signal.SIGKILL)
        time.sleep(1)
        start_scheduler_again(job)
        assert job.nodes["worker0"].wait_for("servers 1 serve", 30), job.describe()
        rounds = end_early(job, 300, every=100)
        ended_well(job, gone=("lost scheduler", victim.name))
    assert job.digests == undisturbed("adam", rounds=rounds), job.describe()


def test_a_scheduler_that_does_not_come_back_ends_the_job():
    with with_journal(env={"PSLITE_SCHEDULER_WAIT": 3}, model=SMALL) as job:
        job.start()
        reach(job, 5)
        job.nodes["scheduler"].signal(signal.SIGKILL)
        assert job.wait(30), job.describe()
        job._read_all()
    for name in ("worker0", "worker1", "server0", "server1"):
        assert "did not come back for 3 s" in job.nodes[name].output, job.describe()


def test_dist_async_survives_too():
    with cluster(kind="dist_async") as job:
        job.start()
        reach(job, 10)
        job.nodes["server1"].signal(signal.SIGKILL)
        ended_well(job, gone=("server1",))
    # The order of updates is open, but the workers end with one barrier and pull the same values.
    assert all(result is not None for result in job.results), job.describe()
