"""Workers that die, and come back, while they train on local models (PSLITE_SYNC,
PSLITE_ELASTIC_WORKERS=1): the others go on, and are equal where they align."""

import signal

import pytest

from elastic_job import ended_well
from test_exchange import job
from test_sync import job as of_programs

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

LIVES = {"PSLITE_ELASTIC_WORKERS": "1"}
PAUSE = 0.05
KEYS = ("3", "8")


def rank_of(running, worker):
    for rank in range(3):
        if f"this is worker {rank} (id" in worker.output:
            return rank
    raise AssertionError(running.describe())


def train(sync, steps, every=0):
    """A job of three workers. None of them knows that one is to die."""
    return job(sync, "train", steps, PAUSE, every, workers=3, servers=2, timeout=120,
               env={**LIVES, "PS_VERBOSE": 1})


def kill(running, after):
    """Kills the worker of rank 2 after so many of its steps. The others."""
    training = [worker for worker in running.workers if worker.name != "back"]
    for worker in training:
        assert worker.wait_for(f"step {after}\n", 60), running.describe()
    victim = next(worker for worker in training if rank_of(running, worker) == 2)
    victim.signal(signal.SIGKILL)
    del running.nodes[victim.name]
    victim.name = "lost worker"
    running.nodes[victim.name] = victim
    said = "the job goes on without worker 2"
    assert running.nodes["scheduler"].wait_for(said, 60), running.describe()
    return [worker for worker in training if worker is not victim]


@pytest.mark.parametrize("sync", ("fedavg:steps=1", "nbsync:every=10"))
def test_the_others_go_on_without_one(sync):
    steps = 60
    with train(sync, steps, 10) as running:
        running.start()
        others = kill(running, 11)
        ended_well(running, gone=("lost worker",))
        one, other = (worker.result for worker in others)
        assert one["met"] == other["met"] and len(one["met"]) == 6, running.describe()
        if sync == "fedavg:steps=1":
            # Rounds of three move by the sum of 1, 2 and 3, those of two by 3/2 of that of 1 and 2.
            possible = {-0.25 * (6 * n + 4.5 * (steps - n)) for n in range(11, steps)}
            for key in KEYS:
                assert one["values"][key][0] in possible, running.describe()
            assert one["values"] == other["values"], running.describe()


@pytest.mark.parametrize("sync", ("fedavg:steps=1", "nbsync:every=10"))
def test_one_that_comes_back_trains_with_the_others(sync):
    """It begins with the values of the servers, is in the rounds to which it comes in time, and
    does not keep the others from aligning."""
    with train(sync, 200, 10) as running:
        command = running.command
        running.command = [*command[:4], "12", str(PAUSE)]
        back = running.spawn("worker", name="back", held=True)
        running.command = command
        running.start()
        assert back.wait_for("held", 60), running.describe()
        others = kill(running, 11)
        back.let_go()
        assert back.wait_for("step 12\n", 60), running.describe()
        assert "this is worker 2 (id" in back.output, running.describe()
        ended_well(running, gone=("lost worker",))
        one, other = (worker.result for worker in others)
        assert one["met"] == other["met"] and len(one["met"]) == 20, running.describe()
        # It trained on from where the others were, who had 11 steps at least.
        for key in KEYS:
            assert back.result["values"][key][0] <= -0.25 * 6 * 11, running.describe()


@pytest.mark.parametrize("sync", ("fedavg:steps=1", "nbsync:momentum=0"))
def test_a_program_that_steps_its_own_values_comes_back(sync):
    """pslite.sync without MXNet. The new process begins with the global values, and not with those
    of its own first arrays; and its steps count from then on."""
    with of_programs(sync, "lives", 200, PAUSE, workers=3, servers=2,
                     env={**LIVES, "PS_VERBOSE": 1}) as running:
        command = running.command
        running.command = [*command[:4], "12", str(PAUSE)]
        back = running.spawn("worker", name="back", held=True)
        running.command = command
        running.start()
        assert back.wait_for("held", 60), running.describe()
        others = kill(running, 11)
        back.let_go()
        assert back.wait_for("step 12\n", 60), running.describe()
        assert "this is worker 2 (id" in back.output, running.describe()
        ended_well(running, gone=("lost worker",))
        one, other = (worker.result for worker in others)
        found = back.result
    assert found["steps"] == 12 and one["steps"] == other["steps"] == 200
    for name in ("w", "v"):
        assert one[name] == other[name] and len(one[name]) == 1, (one, other)
        assert found[name][0] > found["begun"] > 0, found
    if sync == "fedavg:steps=1":
        # Rounds of three move by 1/2: the others had ten before one died. Each step of the one that
        # came back waits for such a round.
        assert found["begun"] >= 10 * 0.5, found
        assert found["w"][0] - found["begun"] >= 12 * 0.5, found
        # Rounds without it move by 3/8, and by 1/4 when it has left, since it counts then.
        assert 200 * 0.25 + 22 * 0.25 <= one["w"][0] < 200 * 0.5, (one, found)


def test_without_elastic_workers_the_death_of_one_ends_the_job():
    with job("fedavg:steps=1", "train", 500, PAUSE, workers=2, env={"PS_VERBOSE": 1}) as running:
        running.start()
        for worker in running.workers:
            assert worker.wait_for("step 5\n", 60), running.describe()
        victim = running.workers[1]
        victim.signal(signal.SIGKILL)
        assert running.wait(60), running.describe()
        running._read_all()
        survivor = running.workers[0]
    assert survivor.returncode != 0, running.describe()
