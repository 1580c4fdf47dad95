"""pslite.mxnet: the kvstore "pslite" and the names of BytePS, on the stock wheel without preloading
and with it; and the node of a preloaded process in Python."""

import os
import subprocess

import pytest

import harness
from cases import CASES, stock_digests
from harness import NATIVE, OURS, STOCK, Cluster
from test_python_kv import ENVIRONMENT, PACKAGE

PATH = f"{harness.PROGRAMS}:{PACKAGE}"
ENV = {"PYTHONPATH": PATH, "PSLITE_LIBPS": ENVIRONMENT["PSLITE_LIBPS"]}
SERVERS = {"scheduler": NATIVE, "server": NATIVE}


def run(case, *args, workers=STOCK, **options):
    """What each worker saw."""
    library = {**SERVERS, "worker": workers, **options.pop("library", {})}
    job = Cluster("mxnet_worker.py", args=[case, *args], library=library, timeout=60, env=ENV,
                  **options).run().check()
    return job.results


@pytest.mark.parametrize("name,library", [
    ("trainer_server", SERVERS), ("module", SERVERS),
    ("trainer_worker", {"worker": [STOCK, OURS]})])
def test_it_computes_what_dist_sync_does(name, library):
    """Bit for bit: the sum of two gradients does not depend on their order, and the server's
    optimizer rounds as MXNet's. On servers of MXNet's own too; one worker may be a preloaded
    process."""
    chosen = CASES[name]
    script, (_, *args) = chosen.script, chosen.args
    job = harness.run("by_mxnet_kvstore.py", script, "pslite", *args, library=library,
                      light=(STOCK, OURS), env={**chosen.env, **ENV})
    assert job.digests == stock_digests(name), job.describe()
    # Servers of MXNet's own compare nothing, and that is said.
    compares = name != "trainer_worker"
    said = ["no server of this job compares" in worker.err for worker in job.workers]
    assert said == [not compares] * 2, job.describe()


def test_the_names_of_byteps():
    """One host, two workers. What is compared with one process differs in the last bits: gradients
    of two batches are not added in the order of those of one."""
    for found in run("summing"):
        rank = found["rank"]
        assert [each[0] for each in found["before"]] == ["NotStarted"] * 2
        assert "pslite.mxnet.init" in found["before"][0][1] and found["after"][0] == "NotStarted"
        assert [found["size"], found["current"]] == [2, rank] and found["local"] == [rank, 2]
        assert found["trainer"] < 1e-6 and found["devices"] < 1e-6, found
        optimizer = found["optimizer"]
        assert optimizer["off"] < 1e-6 and optimizer["again"] == "Adam", found
        assert optimizer["rate"] == optimizer["known"] == 0.5
        assert found["again"][0] == "InvalidArgument" and "already" in found["again"][1]
        sums = found["sums"]
        assert sums["mean"] == [0, 1.5, 3, 4.5] and sums["total"] == [0, 3, 6, 9]
        assert sums["kept"] == [each * (rank + 1) for each in range(4)]
        assert sums["host"] == [0.5] * 3
        assert sums["first"] == [6, 6] and sums["second"] == [8, 8]
        refusals(found["wrong"], WRONG_SUMS)
        kind, text = found["back"]
        assert kind == "Unsupported" and "the weights are in the other workers" in text, found


WRONG_SUMS = {
    "integers": ("DtypeError", "average=False"),
    "size": ("ShapeError", "4 elements, not 5"),
    "out": ("ShapeError", "4 elements, not 5"),
    "sparse": ("NonContiguousError", "row_sparse"),
    "gradient": ("Unsupported", "row_sparse"),
    "root": ("InvalidArgument", "there are 2 workers"),
    "deferred": ("InvalidArgument", "no values yet"),
    "trainer": ("Unsupported", "DistributedTrainer cannot give it the parameters"),
    "wrapped": ("Unsupported", "DistributedOptimizer cannot give it the parameters"),
    "values": ("Unsupported", "broadcast_parameters cannot give it the parameters"),
}

WRONG_UPDATES = {
    "scheduler": ("Unsupported", "lr_scheduler of the optimizer was changed"),
    "rate": ("Unsupported", "lr of the optimizer was changed from 0.05 to 0.5"),
    "multiplier": ("Unsupported", "lr_mult and wd_mult of net3_dense0_weight"),
    "save": ("Unsupported", "cannot be saved"),
    "load": ("Unsupported", "cannot be loaded"),
    "compress": ("Unsupported", "compresses nothing"),
    "rows": ("Unsupported", "'dist_sync'"),
    "sum": ("Unsupported", "do not sum"),
    "twice": ("InvalidArgument", "'key 0' already"),
    "mixed": ("InvalidArgument", "cannot both be keys"),
    "none": ("InvalidArgument", "no array 'key 99'"),
    "negative": ("InvalidArgument", "not -1"),
    "counts": ("ShapeError", "2 keys and 1 values"),
    "kind": ("DtypeError", "NDArray"),
    "shape": ("ShapeError", "12 elements, not 2"),
    "dtype": ("DtypeError", "float32, not float64"),
    "text": ("InvalidArgument", "str is no optimizer"),
    "class": ("RemoteError", "Halving"),
}


def refusals(found, wanted):
    assert found.keys() == wanted.keys()
    for name, (kind, text) in wanted.items():
        assert found[name] and found[name][0] == kind and text in found[name][1], (
            name, found[name])


def test_servers_update():
    """They follow the scheduler, and know the multipliers of parameters; what they would not learn
    of is an error."""
    for found in run("updating"):
        assert found["off"] < 1e-6 and found["far"] > 1e-4, found
        refusals(found["wrong"], WRONG_UPDATES)


def test_pushes_in_any_order_and_module_fit():
    """Module by the kvstore's name: both workers end with the same weights."""
    first, second = run("pushes")
    assert first["fitted"] == second["fitted"]
    for found in (first, second):
        assert found["found"] == [[3, 3], [3, 3, 3], [3, 3, 3], [4, 4, 4], [2, 2]], found
        assert found["type"] == "dist_sync_pslite" and found["capable"]


#: What both workers are told.
DIFFERING = {
    "names": ["worker 0 says array 'push_pull y'", "worker 1 says array 'push_pull x'"],
    "keys": ["array 'key ", "worker 0 says float32 of shape (2,), number 0",
             "worker 1 says float32 of shape (2,), number 1"],
    "optimizer": ["lr of optimizer 1: ", "worker 0 says 0.1", "worker 1 says 1.1"],
    "trainer": ["lr of DistributedTrainer 1: ", "worker 0 says 0.1", "worker 1 says 1.1"],
    "change": ["worker 0 says lr of DistributedTrainer 1 at change 2 (0.5)",
               "worker 1 does not: it waits for a round of key"],
    "wrapped": ["lr of DistributedOptimizer 1: ", "worker 0 says 0.1", "worker 1 says 1.1"],
    "wrapped change": ["worker 0 says lr of DistributedOptimizer 1 at change 1 (0.5)",
                       "worker 1 does not: it waits for a round of key"],
    "batch": ["rescale_grad of DistributedTrainer 1 at change 1: ", "worker 0 says 0.0625",
              "worker 1 says 0.0555"],
}


@pytest.mark.parametrize("case", DIFFERING)
def test_workers_that_mean_different_things_are_told_both(case):
    for found in run("differing", case):
        kind, text = found["told"]
        assert kind == "WorkersDiffer", found
        assert all(part in text for part in DIFFERING[case]), found


def test_the_node_of_a_preloaded_process():
    library = {"scheduler": OURS, "server": OURS}
    for found in run("preloaded", workers=OURS, servers=1, library=library):
        rank = found["rank"][0]
        assert found["before"][0] == "NotStarted" and "mx.kv.create" in found["before"][1]
        assert found["rank"] == [rank] * 3 and found["workers"] == [2, 2]
        assert found["role"] == "worker" and found["same"] and found["local"] == [rank, 2]
        # Rank 0 sends the first values, too.
        assert found["sent"] == (2 if rank == 0 else 1), found
        assert found["store"][0] == "InvalidArgument" and "not both" in found["store"][1]
        assert found["given"][0] == "InvalidArgument" and "MXNet's node" in found["given"][1]
        assert not found["libps"]
        assert found["closed"][0] == "ClosedError" and found["goes on"] == [2000, True]
        assert [each[0] for each in found["after"]] == ["NotStarted"] * 2


def test_one_process_is_one_worker():
    for found in run("doubled"):
        for kind, text in [*found["kvstores"], found["trainer"]]:
            assert kind == "InvalidArgument" and "mx.kv.create('pslite')" in text, found
        assert found["types"] == ["local", "dist_sync_pslite"]
        for (kind, text), name in zip(found["other"], ("workers", "rank")):
            assert kind == "InvalidArgument" and text.startswith(f"{name}: "), found
        assert found["same"] == [None, None] and found["sum"] == [2, 2]


def test_mxnet_s_own_kvstore_was_first():
    for found in run("beside"):
        for kind, text in found["refused"]:
            assert kind == "InvalidArgument" and "'dist_sync' of MXNet's own" in text, found
        assert found["out"] == [1, 1]


def test_a_trainer_of_parameters_without_shapes():
    first, second = run("late")
    for found in (first, second):
        assert found["shapes"][0] == [3, 0] and found["shapes"][2] == [2, 3], found
        assert found["stepped"] == [-1, -1], found
    assert first["first"] == second["first"] and first["last"] == second["last"]
    assert first["first"] != first["last"]


def test_a_worker_that_leaves_early():
    """Both fail: one that waits for it, and itself, since the others have not come to their end."""
    library = {**SERVERS, "worker": STOCK}
    job = Cluster("mxnet_worker.py", args=["early"], library=library, timeout=60, env=ENV).run()
    ranks = {worker.result["rank"]: worker for worker in job.workers if worker.result}
    other, = [worker for worker in job.workers if worker is not ranks[1]]
    assert ranks[1].returncode == 1 and other.returncode not in (0, None), job.describe()
    assert not any(node.hung for node in job.nodes.values()), job.describe()
    said = ranks[1].err
    assert "this worker could not leave its job: " in said, job.describe()
    assert "Traceback" not in said and "gnored" not in said, job.describe()
    assert len(said.splitlines()) <= 4, job.describe()
    assert "Traceback" in other.err, job.describe()


# ---- without a cluster ---------------------------------------------------------------------------

def python(code, **env):
    base = {k: v for k, v in os.environ.items() if not k.startswith(harness.FOREIGN)}
    return subprocess.run([harness.PYTHON, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**base, **ENV, "PYTHONDONTWRITEBYTECODE": "1", **env})


def test_without_mxnet():
    done = python("import sys; sys.modules['mxnet'] = None; import pslite.mxnet")
    assert done.returncode == 1 and "ImportError: pslite.mxnet needs MXNet" in done.stderr
    assert "pip install mxnet==1.9.1" in done.stderr


def test_no_other_module_needs_mxnet():
    names = sorted(path.stem for path in (PACKAGE / "pslite").glob("*.py")
                   if "mxnet" not in path.stem and path.stem not in ("__init__", "preload"))
    assert {"store", "node", "_process"} <= set(names)
    names += [f"lbbsp.{path.stem}" for path in (PACKAGE / "pslite/lbbsp").glob("[a-z]*.py")]
    assert {"lbbsp.mxnet", "lbbsp.torch"} <= set(names)
    code = "".join(f"import pslite.{name}\n" for name in names)
    done = python(f"import sys\n{code}assert not {{'mxnet', 'torch'}} & set(sys.modules)\n"
                  "from pslite.lbbsp import Batch, BatchSampler, DataIter, Session, attach")
    assert done.returncode == 0, done.stderr


def test_current_without_a_node():
    done = python("from pslite.node import current\ncurrent()")
    assert "NotStarted: this process has no node" in done.stderr, done.stderr


def test_a_preloaded_library_is_the_one(tmp_path):
    """Wherever libps.so is."""
    code = ("from pslite import _library\nprint(_library.get()._name)\n"
            "assert 'libps.so' not in open('/proc/self/maps').read()")
    done = python(code, LD_PRELOAD=str(harness.LIBRARY), PSLITE_LIBPS="/nowhere.so")
    assert done.stdout.strip() == str(harness.LIBRARY), done.stderr
