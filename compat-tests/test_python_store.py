"""pslite.store: arrays on pslite's own servers, and on MXNet's, without MXNet in the worker."""

import json
import subprocess

import pytest

import harness
from harness import STOCK, Cluster
from test_python_kv import ENVIRONMENT


def run(case, **options):
    """What each worker saw."""
    job = Cluster("store_worker.py", args=[case], library=STOCK, timeout=60, whole=True,
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
