"""pslite.sync: weights that the program steps itself, in jobs that exchange what was changed
(PSLITE_SYNC, docs/nbsync.md)."""

import itertools
import os
import re
import signal
import subprocess

import numpy as np
import pytest

import harness
from cases import SMALL_BOUND
from harness import NATIVE, OURS, STOCK, Cluster
from test_python_kv import ENVIRONMENT, PACKAGE, python_with_torch

sync_steps = harness.program("sync_steps")

LIBRARY = {"scheduler": NATIVE, "server": NATIVE, "worker": STOCK}
NAMES = ["float16", "float32", "float64", "big"]


def job(sync, *args, env=None, **more):
    nodes = {"scheduler": {"PSLITE_SYNC": sync} if sync else {}}
    return Cluster("sync_worker.py", args, library=LIBRARY, node_env=nodes, timeout=60,
                   env={**ENVIRONMENT, **(env or {})}, **more)


def run(sync, *args, **more):
    """What each worker saw, by rank."""
    done = job(sync, *args, **more).run()
    assert all(node.returncode == 0 and not node.hung for node in done.nodes.values()), (
        done.describe())
    return sorted((worker.result for worker in done.workers), key=lambda found: found["rank"])


# ---- sums of steps -------------------------------------------------------------------------------

STEPS = 12
#: What a step of both workers adds to the global values, if it is not scaled: the mean.
BOTH = 0.25 * (1 + 2) / 2


@pytest.mark.parametrize("sync", ("fedavg:steps=1", "fedavg:steps=4",
                                  "diloco:steps=3,momentum=0,rate=1"))
def test_who_waits_has_the_mean_of_all_steps(sync):
    for found in run(sync, "sums", f"{STEPS},{STEPS}"):
        assert found["begun"] == {name: [8] for name in NAMES}, found
        assert found["own"] == found["global"] == {name: [8 + STEPS * BOTH] for name in NAMES}
        assert found["mode"].startswith(sync.partition(":")[0]) and found["names"] == NAMES
        steps = int(sync.partition("steps=")[2][0])
        assert found["counts"]["iterations"] == STEPS, found
        # The last one was not over when the last iteration began.
        counts = found["counts"]
        assert (counts["sent"], counts["done"]) == (STEPS // steps, STEPS // steps - 1), found


@pytest.mark.parametrize("sync", ("nbsync:momentum=0", "nbsync:published", "nbsync:momentum=0,"
                                  "sections=2,window=1"))
def test_who_does_not_wait_loses_no_step_and_counts_none_twice(sync):
    for found in run(sync, "sums", "40,40", "0.002"):
        assert found["global"] == {name: [8 + 40 * BOTH] for name in NAMES}, found
        assert found["counts"]["iterations"] == 40 and found["counts"]["sent"] > 1, found
        for values in found["own"].values():
            # At least what it has done in the last step, at most what both have, and its own that
            # is not sent.
            assert all(8 < value <= 8 + 40 * (BOTH + 0.5) for value in values), found


def test_the_outer_momentum_is_that_of_the_servers():
    """Two rounds of Nesterov's momentum, 0.5, of a mean delta of `d`: 1.5 d, then 1.75 d more."""
    for found in run("diloco:steps=6,momentum=0.5,rate=1", "sums", "12,12"):
        assert found["own"] == {name: [8 + BOTH * 6 * (1.5 + 1.75)] for name in NAMES}, found


@pytest.mark.parametrize("sync", ("fedavg:steps=2", "nbsync:momentum=0"))
def test_who_ends_early_is_not_awaited_and_counts(sync):
    for found in run(sync, "sums", "20,5"):
        mean = 0.25 * (20 + 2 * 5) / 2
        assert found["global"] == {name: [8 + mean] for name in NAMES}, found


@pytest.mark.parametrize("sync", ("nbsync:momentum=0,every=6", "nbsync:published,every=6",
                                  "nbsync:momentum=0"))
def test_workers_are_equal_when_they_align_and_no_step_is_lost(sync):
    every = 6 if "every" in sync else 100
    # Four: sums of such numbers are exact, and so is a quarter of them.
    found = run(sync, "aligned", every, workers=4)
    met = found[0]["met"]
    assert len(met) == 17 // every + 2 and all(each["met"] == met for each in found), found
    mean = 0.25 * (1 + 2 + 3 + 4) / 4
    for each in found:
        assert (each["finished"], each["last"]) == ([17 * mean], [18 * mean]), found


def test_who_is_faster_takes_more_steps_and_each_counts():
    for found in run("esync:steps=2,momentum=0,rate=1", "sums", f"{STEPS},{STEPS}", "0.02"):
        assert found["global"] == {name: [8 + STEPS * BOTH] for name in NAMES}, found


@pytest.mark.parametrize("env", ({"PSLITE_TRANSPORT": "tcp"}, {"PSLITE_TRANSPORT": "zmq"},
                                 {"PSLITE_TOPOLOGY": "balanced:1"}))
def test_over_every_wire_and_along_trees(env):
    for found in run("fedavg:steps=5", "sums", f"{STEPS},{STEPS}", env=env):
        assert found["global"] == {name: [8 + STEPS * BOTH] for name in NAMES}, found


@pytest.mark.waits
def test_a_server_that_is_killed_is_not_missed():
    steps = 60
    with job("fedavg:steps=2", "sums", f"{steps},{steps}", 0.02,
             env={"PSLITE_ELASTIC": 1}) as running:
        running.start()
        assert running.nodes["worker0"].wait_for("step 10\n", 60), running.describe()
        running.nodes["server1"].signal(signal.SIGKILL)
        assert running.wait(), running.describe()
        running._read_all()
    for worker in running.workers:
        assert worker.returncode == 0, running.describe()
        assert worker.result["global"] == {name: [8 + steps * BOTH] for name in NAMES}


# ---- the recurrence ------------------------------------------------------------------------------

def mean(deltas):
    """As a server sums them, in whatever order they come: these are exact."""
    sums = {np.sum(np.array(order, "float32"), axis=0, dtype="float32").tobytes()
            for order in itertools.permutations(deltas)}
    assert len(sums) == 1, "the order counts: take other numbers"
    total = deltas[0].astype("float32")
    for delta in deltas[1:]:
        total = total + delta.astype("float32")
    return total / np.float32(len(deltas))


def reference(workers, dtype, steps, every, outer):
    """What the workers have after each step: one process, no job. outer: momentum and rate."""
    momentum, rate = (np.float32(each) for each in outer)
    names = list(sync_steps.SHAPES)
    values = {name: sync_steps.first(name, dtype).astype("float32") for name in names}
    speed = {name: np.zeros(sync_steps.SHAPES[name], "float32") for name in names}
    local = [{name: values[name].astype(dtype) for name in names} for _ in range(workers)]
    optimizers = [sync_steps.Momentum(rank, dtype) for rank in range(workers)]
    digests = [[sync_steps.digest(mine)] for mine in local]
    for step in range(1, steps + 1):
        for optimizer, mine in zip(optimizers, local):
            optimizer.step(mine)
        if step % every == 0:
            for name in names:
                start = values[name].astype(dtype).astype("float32")
                deltas = [(mine[name].astype("float32") - start).astype(dtype) for mine in local]
                before = momentum * speed[name]
                speed[name] = before + rate * mean(deltas)
                values[name] = values[name] + speed[name] if momentum == 0 else (
                    values[name] - before + (momentum + np.float32(1)) * speed[name])
                for mine in local:
                    mine[name][...] = values[name].astype(dtype)
        for own, mine in zip(digests, local):
            own.append(sync_steps.digest(mine))
    return digests


@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("workers", (1, 2, 3, 4))
def test_the_recurrence_is_that_of_one_process(workers, dtype):
    found = run("fedavg:steps=3", "recurrence", dtype, STEPS, workers=workers)
    wanted = reference(workers, dtype, STEPS, 3, (0, 1))
    assert [each["digests"] for each in found] == wanted
    assert len({each[-1] for each in wanted}) == 1 and len(set(wanted[0])) == STEPS + 1


def test_the_recurrence_with_nesterov():
    found = run("diloco:steps=4", "recurrence", "float32", STEPS)
    assert [each["digests"] for each in found] == reference(2, "float32", STEPS, 4, (0.9, 0.7))


# ---- what it gives and takes ---------------------------------------------------------------------

def test_the_global_values_are_read_without_a_swap():
    for found in run("fedavg:steps=2", "global_values"):
        one = found["rank"] + 1
        # A round adds the mean of 2 and 4.
        wanted = [[1, 1 + one], [4, 4], [4, 4 + one], [7, 7]]
        assert found["seen"] == [[[each] * 3 for each in pair] for pair in wanted], found
        assert found["same"] and found["into"] == [7] * 3, found
        assert found["wrong"][0] == "ShapeError" and "3 elements, not 2" in found["wrong"][1]
        assert found["nothing"][0] == "InvalidArgument", found


def test_an_array_may_be_replaced_in_its_dictionary():
    for found in run("fedavg:steps=2", "dictionary"):
        assert found["w"] == [6.0] * 3, found
        assert found["gone"][0] == "InvalidArgument" and "'w' is gone" in found["gone"][1], found
        assert found["other"][0] == "ShapeError" and "3 elements, not 4" in found["other"][1]


WRONG = {
    "integers": ("DtypeError", "w has elements of int32"),
    "strided": ("NonContiguousError", "w is not contiguous"),
    "read-only": ("ReadOnlyError", "w is read-only"),
    "list": ("DtypeError", "w is of the type builtins.list"),
    "none": ("InvalidArgument", "needs an array"),
    "name": ("InvalidArgument", "is a text, not 3"),
    "twice": ("InvalidArgument", "two arrays 'w'"),
    "second": ("InvalidArgument", "this node has an Exchange"),
    "store": ("InvalidArgument", "this node has an Exchange"),
    "optimizer": ("InvalidArgument", "leave set_optimizer out"),
}


def test_what_cannot_be_exchanged_is_refused():
    for found in run("fedavg:steps=1", "wrong_arrays"):
        for name, (kind, text) in WRONG.items():
            assert found[name] and found[name][0] == kind and text in found[name][1], (name, found)
        assert found["goes on"] == [1.0] * 4, found


def test_beside_an_optimizer_it_is_refused():
    for found in run("fedavg:steps=1", "mixed"):
        assert found["gradient"][0] == "RemoteError" and "pslite.sync" in found["gradient"][1]
        assert found["exchange"][0] == "InvalidArgument", found
        assert "a Store already" in found["exchange"][1], found
        status, text = found["begun"]
        assert status == -1 and "SGD was set for these keys" in text, found


def test_a_job_that_exchanges_nothing_says_what_to_set():
    for found in run(None, "without"):
        kind, text = found["refused"]
        assert kind == "ConfigError" and "set PSLITE_SYNC at the scheduler" in text, found
        status, text = found["begun"]
        assert status == -2 and "set PSLITE_SYNC at the scheduler" in text, found
        assert found["sum"] == [3.0, 3.0], found


def told(case, sync="fedavg:steps=1", **more):
    """What each worker is told in a job that cannot go on, by rank."""
    with job(sync, case, **more) as running:
        running.start()
        assert running.wait(60), running.describe()
        running._read_all()
    found = [worker.result for worker in running.workers]
    assert all(found), running.describe()
    return found


def test_workers_that_mean_other_arrays_are_told_both():
    for found in told("differ"):
        kind, text = found["told"]
        assert kind == "WorkersDiffer" and "array 'w'" in text, found
        assert "(3, 2)" in text and "(2, 3)" in text, found


def test_one_with_an_optimizer_and_one_without_are_told():
    for found in told("other_use"):
        kind, text = found["told"]
        assert kind == "WorkersDiffer" and "who steps the values" in text, found


@pytest.mark.parametrize("sync", ("fedavg:steps=1", "nbsync", "nbsync:published"))
def test_a_value_that_is_no_number_is_told_with_its_array(sync):
    found, = told("diverges", sync, workers=1, servers=1)
    for when in ("told", "again", "closed"):
        kind, text = found[when]
        assert kind == "RemoteError" and "array 'layer.bias': what this worker has changed" in text
        assert "not finite" in text and "key " not in text, found


def test_a_program_that_fails_ends_the_job():
    with job("fedavg:steps=1", "raises") as running:
        running.start()
        assert running.wait(60), running.describe()
        running._read_all()
    failed, = [worker for worker in running.workers if "the program's own" in worker.err]
    other, = [worker for worker in running.workers if worker is not failed]
    assert failed.returncode == 1, running.describe()
    assert other.result["ended"][0] == "PeerLost", running.describe()


def test_the_global_weights_of_kvstores():
    """Of a script of MXNet's, which knows nothing else of pslite; the second kvstore has keys of
    its own."""
    done = Cluster("sync_global.py", library={"scheduler": NATIVE, "server": NATIVE,
                                              "worker": OURS},
                   env={**SMALL_BOUND, "PYTHONPATH": f"{harness.PROGRAMS}:{PACKAGE}"},
                   node_env={"scheduler": {"PSLITE_SYNC": "fedavg:steps=2"}}).run().check()
    for worker in done.workers:
        found, step = worker.result, -0.25 * (worker.result["rank"] + 1)
        # A gradient counts twice, for two workers: a round adds two steps of both.
        own = [1 + 2 * step, -0.5, -0.5 + 2 * step]
        wanted = [[[[each]] * 2 for each in pair] for pair in zip([1, -0.5, -0.5], own)]
        assert found["first"] == wanted, found
        second = found["second"]
        assert second["global"] == second["into"] == [0.5] * 6, found
        assert second["own"] == [0.5 - 0.25 * 2] * 6 and second["names"] == ["bias", "weight"]
        assert "has not begun" in second["early"][1] and "'none'" in second["unknown"][1], found
        assert found["without"][0] == "InvalidArgument" and "pass out" in found["without"][1]


# ---- the examples --------------------------------------------------------------------------------

def example(python, name, sync, *words):
    """What an example prints, run as its first lines say, but for the mode."""
    text = (harness.ROOT / "examples" / name).read_text()
    command = ["run", "-n", "2", "-s", "1", "--native-scheduler", "--native-servers", "--"]
    assert f" pslite {' '.join(command)} \\\\\n        python examples/{name}\n" in text
    done = subprocess.run(
        [harness.PROGRAM, *command, python, f"examples/{name}", *words], cwd=harness.ROOT,
        capture_output=True, text=True, timeout=120,
        env={**ENVIRONMENT, "PATH": os.environ["PATH"], "PSLITE_SYNC": sync})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("sync", ("fedavg:steps=8", "nbsync"))
def test_the_example_in_numpy(sync):
    # With nbsync the machine decides how many steps lie between two rounds, and so how far a short
    # training comes: after the example's own 8 epochs 0.90 to 0.94 of the images are right. After
    # 24 all of that is past, 0.95 and more.
    text = example(harness.PYTHON, "sync_numpy.py", sync, "--epochs", "24")
    found = re.findall(r"accuracy ([\d.]+), then ([\d.]+); weights sum up to (\S+)", text)
    assert len(found) == 2 and found[0] == found[1], text
    begun, ended, _ = map(float, found[0])
    assert begun < 0.4 and ended > 0.9, text


@pytest.mark.parametrize("sync", ("fedavg:steps=8", "nbsync"))
def test_the_example_with_torch(sync):
    text = example(python_with_torch(), "sync_torch.py", sync)
    found = re.findall(r"model of all has ([\d.]+) right; its parameters sum up to (\S+)", text)
    assert len(found) == 2 and found[0][1] == found[1][1], text
    assert all(float(right) > 0.9 for right, _ in found), text
