"""Jobs whose workers train while deltas travel (PSLITE_SYNC, docs/nbsync.md): the wheel, scripts
that do not know of it. The program's steps are known, so what is in a value says how many of whom
count."""

import signal
import time

import pytest

import harness
from cases import SMALL_BOUND
from elastic_job import ended_well
from harness import NATIVE, OURS, PROGRAMS, STOCK, Cluster
from test_python_kv import PACKAGE

ALL_OURS = {"scheduler": OURS, "server": [NATIVE, OURS], "worker": OURS}
#: For the case of a batch session.
PYTHONPATH = f"{PROGRAMS}:{PACKAGE}"
STEPS = 12
#: A step of both workers, of rate 1/4 and gradients 1 and 2.
BOTH = -0.75


def job(sync, *args, env=None, node_env=None, library=None, **more):
    nodes = {"scheduler": {"PSLITE_SYNC": sync}, **(node_env or {})}
    return Cluster("exchange.py", args, library=library or ALL_OURS,
                   env={**SMALL_BOUND, **(env or {})}, node_env=nodes, **more)


def values(found):
    return [worker.result["values"] for worker in found.workers]


def all_have(found, value):
    for have in values(found):
        assert have == {"3": [value], "8": [value]}, found.describe()


@pytest.mark.parametrize("sync", ("fedavg:steps=1", "fedavg:steps=4",
                                  "diloco:steps=3,momentum=0,rate=1"))
def test_who_waits_has_the_steps_of_all(sync):
    all_have(job(sync, "train", STEPS).run().check(), BOTH * STEPS)


def test_the_outer_momentum_is_that_of_the_servers():
    """Two rounds of Nesterov's momentum, 0.5, of a mean delta of `d`: 1.5 d, then 1.75 d more."""
    found = job("diloco:steps=6,momentum=0.5,rate=1", "train", STEPS).run().check()
    all_have(found, BOTH * 6 * (1.5 + 1.75))


@pytest.mark.parametrize("sync", ("nbsync", "nbsync:published", "nbsync:sections=2,window=1"))
def test_who_does_not_wait_has_all_its_own_steps_and_some_of_the_others(sync):
    found = job(sync, "train", 40, 0.002).run().check()
    for worker in found.workers:
        for value in sum(worker.result["values"].values(), []):
            # What both have done, and as much again by the momentum; at least what it has done in
            # the last step.
            assert BOTH * 40 * 2 <= value <= -0.25, found.describe()


@pytest.mark.parametrize("sync", ("nbsync:every=6", "nbsync:published,every=6",
                                  "fedavg:steps=4,every=6"))
def test_each_nth_step_ends_with_the_same_values_at_all_workers(sync):
    """The slow worker has half as many steps when the fast one comes to its sixth."""
    found = job(sync, "train", 24, 0.004, 6, workers=3).run().check()
    met = [worker.result["met"] for worker in found.workers]
    assert len(met[0]) == 4 and met[0] == met[1] == met[2], found.describe()
    for values in met[0]:
        assert len(values["3"]) == 1, found.describe()


def test_a_program_can_wait_until_all_are_equal():
    found = job("nbsync", "finish", 17, 0.003, env={"PYTHONPATH": PYTHONPATH}).run().check()
    results = [worker.result for worker in found.workers]
    assert results[0]["exchanges"] and results[0]["values"] == results[1]["values"]
    assert results[0]["before"] != results[1]["before"], found.describe()


def test_batches_that_are_dealt_go_beside_it():
    """A slow worker takes fewer of them. Each sample is computed once in an epoch, and each step
    counts once."""
    env = {"PYTHONPATH": PYTHONPATH}
    found = job("nbsync:momentum=0", "dealt", 0.01, env=env).run().check()
    results = [worker.result for worker in found.workers]
    samples = sum((result["samples"] for result in results), [])
    assert sorted(samples) == sorted(2 * list(range(40))), found.describe()
    steps = sum(result["steps"] * (result["rank"] + 1) for result in results)
    for result in results:
        assert result["values"] == {"3": [-0.25 * steps]}, found.describe()


def test_where_nothing_is_exchanged_there_is_nothing_to_wait_for():
    found = job(None, "finish", 5, env={"PYTHONPATH": PYTHONPATH}).run().check()
    assert not any(worker.result["exchanges"] for worker in found.workers), found.describe()


@pytest.mark.waits
def test_with_esync_a_faster_worker_takes_more_steps():
    """Worker 2 pauses three times as long as worker 0. If all took two steps in a stretch, none
    could be more than two ahead."""
    with job("esync:steps=2", "train", 5000, 0.1, workers=3) as running:
        running.start()
        limit = harness.patient(60)
        ahead = 0
        while ahead < 8 and time.monotonic() < limit:
            [worker.poll() for worker in running.workers]
            steps = [worker.output.count("step ") for worker in running.workers]
            ahead = max(steps) - min(steps)
            time.sleep(0.2)
        assert ahead >= 8, running.describe()


def test_without_a_word_nothing_is_exchanged():
    found = job(None, "train", STEPS).run().check()
    all_have(found, BOTH * STEPS)


@pytest.mark.parametrize("env", ({"PSLITE_TRANSPORT": "tcp"}, {"PSLITE_TRANSPORT": "zmq"},
                                 {"PSLITE_TOPOLOGY": "balanced:1"}))
def test_over_every_wire_and_along_trees(env):
    found = job("fedavg:steps=3", "train", STEPS, env=env, workers=2).run().check()
    all_have(found, BOTH * STEPS)


def test_each_kvstore_has_an_exchange_of_its_own():
    found = job("fedavg:steps=3", "two", STEPS).run().check()
    for worker in found.workers:
        for have in (worker.result["values"], worker.result["others"]):
            assert have == {"3": [BOTH * STEPS]}, found.describe()


@pytest.mark.waits
@pytest.mark.parametrize("sync", ("fedavg:steps=2", "nbsync:published"))
def test_a_server_that_is_killed_is_not_missed(sync):
    steps = 60
    with job(sync, "train", steps, 0.05, env={"PSLITE_ELASTIC": 1}) as running:
        running.start()
        assert running.nodes["worker0"].wait_for("step 10\n", 60), running.describe()
        running.nodes["server1"].signal(signal.SIGKILL)
        ended_well(running, gone=("server1",))
    if sync.startswith("fedavg"):
        all_have(running, BOTH * steps)


CASES = {
    "rows": "row_sparse arrays cannot be",
    "compression": "drop compression_params",
    "ftrl": "Ftrl keeps the weights in its state",
    "no optimizer": "no optimizer was set: set update_on_kvstore=True",
    "session": "a batch session with this rule lets them",
    "nan": "key 7: what this worker has changed since its last exchange is not finite",
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_exchanged_is_refused(case):
    with job("fedavg:steps=1", case, workers=1, servers=1, env={"PYTHONPATH": PYTHONPATH},
             library={"scheduler": OURS, "server": NATIVE, "worker": OURS}) as running:
        running.start()
        assert running.wait(60), running.describe()
        running._read_all()
        error = running.workers[0].result["error"]
    assert CASES[case] in (error or ""), running.describe()


@pytest.mark.parametrize(("more", "said"), (
    ({"library": {"scheduler": OURS, "server": NATIVE, "worker": [OURS, STOCK]}}, "is stock"),
    ({"node_env": {"server": {"PSLITE_ELASTIC": 0}}}, "does not follow keys that move"),
    ({"node_env": {"server": {"PSLITE_STORE": "mxnet"}}, "library": OURS, "whole": True}, "server"),
))
def test_a_job_that_cannot_does_not_begin(more, said):
    library = {"scheduler": OURS, "server": NATIVE, "worker": OURS}
    with job("nbsync", "train", 2, servers=1, **{"library": library, **more}) as running:
        running.start()
        # A stock worker hears of nothing.
        assert running.wait(60, ["scheduler", "server0", "worker0"]), running.describe()
        running._read_all()
        text = running.nodes["scheduler"].output
    assert "the job cannot begin with an exchange (PSLITE_SYNC)" in text, running.describe()
    assert said in text, running.describe()
    assert running.nodes["worker0"].returncode != 0, running.describe()


def test_what_is_not_there_is_not_taken_for_something_else():
    for sync, said in (("nbsink", "is no way to exchange"), ("fedavg", "needs the steps"),
                       ("nbsync:every=0", "at least 1"), ("esync:window=2", "has no option")):
        with job(sync, "train", 1, roles=("scheduler",)) as running:
            running.start()
            assert running.wait(30), running.describe()
            running._read_all()
            scheduler = running.nodes["scheduler"]
        assert scheduler.returncode != 0 and said in scheduler.output, running.describe()
