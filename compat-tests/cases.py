"""The programs and the arguments and settings with which they run, and stock's answers to them."""

import json
import os
from collections import namedtuple
from pathlib import Path

import harness

Case = namedtuple("Case", "script args env")

# Elements from which an array is cut over the servers: small, so that cheap arrays are "big".
SMALL_BOUND = {"MXNET_KVSTORE_BIGARRAY_BOUND": "1000"}
P3 = {"DMLC_PS_VAN_TYPE": "p3", "DMLC_PS_WATER_MARK": "10",
      "MXNET_KVSTORE_SLICE_THRESHOLD": "1000"}


def case(script, *args, **env):
    return Case(script, args, {**SMALL_BOUND, **env})


CASES = {
    "dist_sync": case("push_pull.py", "dist_sync"),
    "dist_device_sync": case("push_pull.py", "dist_device_sync"),
    "dist_sync_device": case("push_pull.py", "dist_sync_device"),
    "dist_async": case("dist_async.py"),
    "p3": case("p3.py", "dist_sync", **P3),
    "p3_device": case("p3.py", "dist_device_sync", **P3),
    "row_sparse": case("row_sparse.py", "dist_sync"),
    "server_sgd_momentum": case("optimizer.py", "dist_sync", "sgd"),
    "server_adam": case("optimizer.py", "dist_sync", "adam"),
    "server_schedule": case("optimizer.py", "dist_sync", "schedule"),
    "compression": case("compression.py", "dist_sync", "wait", 5),
    "fp16": case("fp16.py", "dist_sync"),
    "trainer_server": case("gluon_trainer.py", "dist_sync", "server"),
    "trainer_worker": case("gluon_trainer.py", "dist_sync", "worker"),
    "trainer_device": case("gluon_trainer.py", "dist_device_sync", "worker"),
    "trainer_p3": case("gluon_trainer.py", "dist_sync", "worker", **P3),
    "module": case("module_fit.py", "dist_sync"),
}

# Those whose servers have no optimizer: Python is not asked for anything there, on stock either.
PLAIN = {"dist_sync", "dist_device_sync", "dist_sync_device", "p3", "p3_device", "trainer_worker",
         "trainer_device", "trainer_p3"}

# Names the folder in which stock's answers are kept for all processes of one test run
# (conftest.py).
ANSWERS = "PSLITE_TEST_ANSWERS"


def stock_digests(name):
    """The digests of a case on stock alone, run once for all tests."""
    kept = Path(os.environ[ANSWERS], name)
    if not kept.exists():
        digests = run_case(name, harness.STOCK).digests
        # Complete or not there: another test process may look at this moment.
        part = kept.with_name(f"{name}.{os.getpid()}")
        part.write_text(json.dumps(sorted(digests.items())))
        part.rename(kept)
    return dict(json.loads(kept.read_text()))


def run_case(name, library, **options):
    chosen = CASES[name]
    env = {**chosen.env, **options.pop("env", {})}
    if name in PLAIN:
        options = {"light": (harness.STOCK, harness.OURS), **options}
    cluster = harness.Cluster(chosen.script, args=chosen.args, library=library, env=env, **options)
    cluster.run()
    is_p3 = env.get("DMLC_PS_VAN_TYPE") == "p3"
    return cluster.check(excused=left_by_their_scheduler(cluster) if is_p3 else ())


def left_by_their_scheduler(cluster):
    """The stock nodes that wait for ever for the end of a job that is done.

    In p3 mode the word of stock's scheduler to itself to stop may overtake its last answers,
    which are lost then (p3_van.h:12-57; docs/divergences.md). They are excused only if every
    worker has its result and nothing else is wrong.
    """
    stuck = [node for node in cluster.nodes.values() if node.hung or node.returncode != 0]
    scheduler, = cluster.of("scheduler")
    is_so = (scheduler.library == harness.STOCK and scheduler.returncode == 0
             and all(cluster.results)
             and all(node.hung and node.library == harness.STOCK for node in stuck))
    return [node.name for node in stuck] if is_so else []
