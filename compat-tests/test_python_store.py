"""pslite.store: arrays on pslite's own servers, and on MXNet's, without MXNet in the worker."""

import json
import subprocess
import time

import pytest

import harness
from harness import NATIVE, STOCK, Cluster
from test_python_kv import ENVIRONMENT


def run(case, *args, **options):
    """What each worker saw."""
    # What a scheduler of Python is like: test_python_kv.py.
    library = {"scheduler": NATIVE, "server": STOCK, "worker": STOCK}
    job = Cluster("store_worker.py", args=[case, *args], library=library, timeout=60, whole=True,
                  env={**ENVIRONMENT, **options.pop("env", {})}, **options).run()
    for node in job.nodes.values():
        assert node.returncode == 0 and not node.hung, job.describe()
    return [json.loads(worker.out.splitlines()[-1]) for worker in job.workers]


@pytest.mark.parametrize("elastic", ("0", "1"))
def test_sums_of_all_types(elastic):
    for found in run("sums", env={"PSLITE_ELASTIC": elastic}):
        for dtype in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8"):
            assert found[dtype] == [0, 3, 6, 9, 12, 15], dtype
        # The values of rank 0, and then what both pushed.
        assert found["start"] == [1, 1] and found["big"] == [3, 3]
        assert found["names"][-1] == "big" and len(found["names"]) == 8


def test_an_optimizer_at_the_servers():
    first, second = run("optimizer")
    assert first["off"] < 1e-5 and first["weight"] == second["weight"]


def test_multi_precision():
    for found in run("half"):
        assert found["first"] == [-(2.0**-11)] * 4 and found["weight"] == [-(2.0**-10)] * 4, found


WRONG = {
    "twice": ("InvalidArgument", "already"),
    "none": ("InvalidArgument", "there"),
    "dtype": ("DtypeError", "float32, not float64"),
    "shape": ("ShapeError", "4 elements, not 5"),
    "kind": ("DtypeError", "uint16"),
    "empty": ("ShapeError", "no elements"),
    "optimizer": ("InvalidArgument", "adagrad"),
    "parameter": ("InvalidArgument", "momentum"),
    "number": ("InvalidArgument", "much"),
}


def test_bad_input():
    for found in run("bad_input"):
        for name, (kind, text) in WRONG.items():
            assert found[name] and found[name][0] == kind and text in found[name][1], found[name]
        assert found["goes on"] == [2, 2, 2, 2]


@pytest.mark.parametrize("elastic", ("0", "1"))
def test_arrays_are_made_in_any_order(elastic):
    for found in run("order", env={"PSLITE_ELASTIC": elastic}):
        assert found["start"] == {"a": [1, 1], "b": [2, 2], "big": [3, 3]}, found
        assert found["sums"] == {"a": [3, 3], "b": [6, 6], "big": [9, 9]}, found


#: What both workers are told.
DIFFER = {
    "names": ["worker 0 says array 'c' (float64 of shape (4,))",
              "worker 1 says array 'd' (float64 of shape (4,))"],
    "one more": ["worker 0 says array 'c' (float64 of shape (4,)), and worker 1 does not"],
    "shapes": ["array 'a': ", "worker 0 says float32 of shape (4,)",
               "worker 1 says float32 of shape (2, 2)"],
    "dtypes": ["worker 0 says float32 of shape (4,)", "worker 1 says int32 of shape (4,)"],
}


@pytest.mark.parametrize("case", DIFFER)
def test_workers_that_make_other_arrays_are_told_both(case):
    for found in run("differ", case):
        for told in found["told"]:
            assert told[0] == "WorkersDiffer", found
            assert all(part in told[1] for part in DIFFER[case]), found


def test_an_array_more_in_the_middle():
    """One waits for a push of the other one, which waits for it to make that array too."""
    for found in run("later"):
        assert found["told"][0] == "WorkersDiffer", found
        assert "worker 0 says array 'more'" in found["told"][1], found
        assert "worker 1 does not: it waits for a round of key" in found["told"][1], found


def test_it_is_said_who_has_not_made_an_array():
    env = {**ENVIRONMENT, "PSLITE_STALL_REPORT": "0.2"}
    with Cluster("store_worker.py", args=["late"], library=STOCK, timeout=60, whole=True,
                 env=env) as job:
        job.start()
        text = "array 'a' (float32 of shape (4,)) of worker 0 waits for worker 1: "
        limit = harness.patient(30)
        while not any(text in worker.err for worker in job.workers):
            assert time.monotonic() < limit, job.describe()
            time.sleep(harness.POLL)
        (job.folder / "go").touch()
        assert job.wait(), job.describe()
        assert all(worker.result == {"out": [2] * 4} for worker in job.workers), job.describe()


def test_optimizers_that_differ():
    for found in run("optimizers"):
        assert found["out"] == [-2] * 4, "1 and 1.0 are the same"
        kind, text = found["told"]
        assert kind == "WorkersDiffer" and "learning_rate of optimizer 2: " in text, found
        assert "worker 0 says 0.1" in text and "worker 1 says 1.1" in text, found


def test_names_of_one_number():
    for found in run("numbers"):
        kind, text = found["told"]
        assert kind == "InvalidArgument" and "'one' and 'two' have the same number" in text, found
        assert found["names"] == ["one", "two"]


def test_modes_that_differ():
    job = Cluster("store_worker.py", args=["mode"], library=STOCK, timeout=60, whole=True,
                  env=ENVIRONMENT).run()
    for worker in job.workers:
        assert worker.returncode == 1 and "WorkersDiffer: the mode: " in worker.err, job.describe()
        assert "worker 0 says sync=True" in worker.err, job.describe()
        assert "worker 1 says sync=False" in worker.err, job.describe()


def test_optimizers_are_those_of_mxnet():
    """What is written without MXNet, MXNet reads, and it is the object that it makes itself."""
    code = """
import pickle, mxnet as mx
from pslite._optimizers import KINDS, described
for name in KINDS:
    for more in ({}, {"learning_rate": 0.25, "wd": 0.5, "clip_gradient": 2.0}):
        ours, theirs = pickle.loads(described(name, more)), mx.optimizer.create(name, **more)
        assert type(ours) is type(theirs), name
        assert ours.__dict__ == {**theirs.__dict__, "aggregate_num": ours.aggregate_num}, name
print(len(KINDS))
"""
    done = subprocess.run([harness.PYTHON, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0 and int(done.stdout) >= 13, done.stderr
