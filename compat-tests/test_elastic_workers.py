"""Workers that die, and come back, while the wheel trains: each gradient counts once or not at all,
and the program says whose did in which round."""

import json
import signal

import pytest

from elastic_job import MIXED, ended_well, pslite, start_scheduler_again
from harness import STOCK, Cluster
from test_python_kv import ENVIRONMENT

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

ALL = 7
# Rounds of those who live on; enough for a worker to be missed and for another to take its place,
# which takes a few seconds.
ROUNDS = 160
PACE = 0.1


def cluster(rounds=ROUNDS, env=None, **more):
    flags = {"PSLITE_ELASTIC": 1, "PSLITE_ELASTIC_WORKERS": 1, "PS_VERBOSE": 1}
    return Cluster("elastic_workers.py", (rounds, PACE), workers=3, library=MIXED,
                   env={**flags, **(env or {})}, timeout=80, **more)


def of_rank(job, rank):
    """Ranks follow ports, not the order in which processes were started."""
    said = f"this is rank {rank} of 3"
    worker = next((worker for worker in job.workers if said in worker.output), None)
    assert worker, job.describe()
    return worker


def kill(job, rank, after):
    """Kills a worker in the middle. It, and the others that train."""
    training = [worker for worker in job.workers if worker.name != "back"]
    for worker in training:
        assert worker.wait_for(f"round {after}\n", 60), job.describe()
    victim = of_rank(job, rank)
    victim.signal(signal.SIGKILL)
    others = [worker for worker in training if worker is not victim]
    del job.nodes[victim.name]
    victim.name = "lost worker"
    job.nodes[victim.name] = victim
    return victim, others


def successor(job, rounds):
    """A process that is to take the place of one that dies, and does so many rounds there."""
    command = job.command
    job.command = [*command[:3], str(rounds), str(PACE), "back"]
    held = job.spawn("worker", name="back", held=True)
    job.command = command
    return held


def history(worker, place):
    """In which phases which gradients were counted: [(who, how many rounds), ...]."""
    phases = []
    for who in worker.result["counted"][place]:
        if phases and phases[-1][0] == who:
            phases[-1][1] += 1
        else:
            phases.append([who, 1])
    return [tuple(phase) for phase in phases]


@pytest.mark.parametrize("rank", (0, 2))
def test_the_others_go_on_without_one(rank):
    with cluster(rounds=80) as job:
        job.start()
        victim, others = kill(job, rank, 10)
        ended_well(job, gone=("lost worker",))
        one, other = others
        assert one.result["digest"] == other.result["digest"], job.describe()
        for place in range(3):
            before, after = history(one, place)
            assert history(other, place) == [before, after]
            assert before[0] == ALL and before[1] >= 10, job.describe()
            assert after == (ALL - 2 ** rank, 80 - before[1]), job.describe()
        assert "the job goes on without worker" in job.nodes["scheduler"].output, job.describe()


def states(job):
    """What `pslite status` says of each worker, by rank."""
    status = pslite(job, "status", "--json")
    assert status.returncode == 0, (status, job.describe())
    nodes = json.loads(status.stdout)["nodes"]
    return {node["rank"]: node["state"] for node in nodes if node["role"] == "worker"}


def comes_back(job, rank, rounds):
    """Starts the job, kills a worker, and lets another take its place when the others go on. The
    new one, when it pushes, and the others."""
    back = successor(job, rounds)
    job.start()
    assert back.wait_for("held", 60), job.describe()
    victim, others = kill(job, rank, 10)
    assert job.nodes["scheduler"].wait_for("the job goes on without worker", 30), job.describe()
    assert states(job)[rank] == "dead", job.describe()
    back.let_go()
    assert back.wait_for("round 3\n", 30), job.describe()
    assert f"this is rank {rank} of 3" in back.output, job.describe()
    assert states(job)[rank] == "back", job.describe()
    return back, others


def rounds_with(one, other, rank, job):
    """In how many rounds the gradients of the worker that came back were, at each place; all
    others' were in all."""
    counts = []
    for place in range(3):
        counted = one.result["counted"][place]
        assert other.result["counted"][place] == counted, job.describe()
        rest = ALL - 2 ** rank
        first = counted.index(rest)
        assert counted[:first] == [ALL] * first and set(counted) == {ALL, rest}, job.describe()
        counts.append(counted[first:].count(ALL))
    return counts


@pytest.mark.long
@pytest.mark.parametrize("rank", (0, 1))
def test_one_comes_back(rank):
    """All its gradients count, each in one round, and nothing else: not the initial values that
    rank 0 pushes again. Neither do its optimizers reset the momentum. It ends before the others,
    who go on without it."""
    with cluster() as job:
        back, (one, other) = comes_back(job, rank, 20)
        ended_well(job, gone=("lost worker",))
        assert one.result["digest"] == other.result["digest"], job.describe()
        assert rounds_with(one, other, rank, job) == [20, 20, 20], job.describe()


@pytest.mark.long
def test_one_that_comes_back_ends_alone():
    with cluster(rounds=110) as job:
        back, (one, other) = comes_back(job, 0, 140)
        ended_well(job, gone=("lost worker",))
        assert one.result["digest"] == other.result["digest"], job.describe()
        assert all(0 < count < 140 for count in rounds_with(one, other, 0, job)), job.describe()
        assert back.result["digest"] != one.result["digest"], "it has trained on"


@pytest.mark.long
def test_a_server_dies_while_one_is_back():
    """What it pushed is where its pieces go: none of it is lost or counted twice."""
    with cluster(rounds=240) as job:
        back, (one, other) = comes_back(job, 2, 50)
        assert back.wait_for("round 15\n", 30), job.describe()
        job.nodes["server1"].signal(signal.SIGKILL)
        ended_well(job, gone=("lost worker", "server1"))
        assert one.result["digest"] == other.result["digest"], job.describe()
        assert rounds_with(one, other, 2, job) == [50, 50, 50], job.describe()


@pytest.mark.long
def test_a_scheduler_that_is_started_again_without_the_variable():
    """What the job began with counts: the others go on without a worker that dies then."""
    with cluster(rounds=200) as job:
        job.env["PSLITE_JOURNAL"] = str(job.folder / "job.journal")
        job.start()
        for worker in job.workers:
            assert worker.wait_for("round 5\n", 60), job.describe()
        job.nodes["scheduler"].signal(signal.SIGKILL)
        assert job.workers[0].wait_for("data go on", 30), job.describe()
        job.node_env["scheduler"] = {"PSLITE_ELASTIC_WORKERS": None}
        start_scheduler_again(job)
        assert job.workers[0].wait_for("the scheduler is back", 30), job.describe()
        said = job.nodes["scheduler"].output
        assert "PSLITE_ELASTIC_WORKERS=1 is not set at this scheduler" in said
        victim, (one, other) = kill(job, 2, 10)
        ended_well(job, gone=("lost scheduler", "lost worker"))
        assert one.result["digest"] == other.result["digest"], job.describe()
        assert "the job goes on without worker 2" in job.nodes["scheduler"].output, job.describe()


def test_without_the_variable_a_death_ends_the_job():
    with cluster(node_env={"worker1": {"PSLITE_ELASTIC_WORKERS": 0}}) as job:
        job.start()
        victim, others = kill(job, 2, 5)
        assert job.wait(30), job.describe()
        assert "PSLITE_ELASTIC_WORKERS=1 has no effect" in job.nodes["scheduler"].output, (
            job.describe())
        for worker in others:
            assert worker.returncode != 0 and "lost worker 2" in worker.err, job.describe()


@pytest.mark.long
@pytest.mark.parametrize("rank", (0, 1))
def test_a_worker_of_a_store_comes_back(rank):
    """It begins at once, trains with the others, and resets nothing. The barrier of its program
    ends when the others come to theirs, and it says so."""
    env = {**ENVIRONMENT, "PSLITE_ELASTIC": 1, "PSLITE_ELASTIC_WORKERS": 1, "PS_VERBOSE": 1}
    with Cluster("store_restart.py", (ROUNDS, PACE), workers=3, library=STOCK, whole=True, env=env,
                 timeout=80) as job:
        job.start()
        victim, others = kill(job, rank, 10)
        assert job.nodes["scheduler"].wait_for("the job goes on without worker", 30), job.describe()
        job.command = [*job.command[:3], "20", str(PACE), "back"]
        back = job.spawn("worker", name="back")
        assert back.wait_for("comes to the barrier", 60), job.describe()
        assert all(worker.returncode is None for worker in others), job.describe()
        assert back.wait_for("waits until all others come to their next one", 10), job.describe()
        ended_well(job, gone=("lost worker",))
        counts = [worker.result["counted"] for worker in others]
        assert counts[0] == counts[1], job.describe()
        counted, rest = counts[0], ALL - 2 ** rank
        first = counted.index(rest)
        assert set(counted) == {ALL, rest} and counted[:first] == [ALL] * first, job.describe()
        # Each of its pushes is in one round; rounds do not wait for it.
        assert counted[first:].count(ALL) == 20, job.describe()
        assert back.result == {**back.result, "rank": rank, "back": True}, job.describe()
