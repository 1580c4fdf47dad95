"""The programs and the arguments and settings with which they run, and stock's answers to them."""

import json
from collections import namedtuple

import harness
import kept

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


def stock_digests(name, **sizes):
    """The digests of a case on stock alone: run once, and kept (kept.py). sizes: as Cluster's."""
    chosen = CASES[name]
    return kept_digests(chosen.script, chosen.args, chosen.env, sizes,
                        lambda: case_cluster(name, harness.STOCK, **sizes))


def stock_run(script, *args, env=None, **sizes):
    """The digests of any program on stock alone, likewise."""
    return kept_digests(script, args, env or {}, sizes, lambda: harness.Cluster(
        script, args=args, env=env, **sizes).run())


def kept_digests(script, args, env, sizes, job):
    """Of a job of stock that does nothing but what these say."""
    # The scheduler, and a server, may run server.py.
    texts = kept.texts(harness.PROGRAMS / script, harness.PROGRAMS / "server.py")
    harness_texts = kept.texts(harness.__file__, __file__)
    key = kept.key("stock's digests", texts=texts, harness=harness_texts, args=args, env=env,
                   sizes=sizes, machine=kept.machine())

    def digests():
        found = harness.until_none_hangs(job, excused).check(excused=excused)
        return json.dumps(sorted(found.digests.items())).encode()
    return dict(json.loads(kept.of_stock().value(key, digests)))


def run_case(name, library, **options):
    """A case, checked."""
    def job():
        return case_cluster(name, library, **options)
    found = harness.until_none_hangs(job, excused) if library == harness.STOCK else job()
    return found.check(excused=excused)


def case_cluster(name, library, **options):
    """A case's cluster at its end, whatever came of it."""
    chosen = CASES[name]
    env = {**chosen.env, **options.pop("env", {})}
    if name in PLAIN:
        options = {"light": (harness.STOCK, harness.OURS), **options}
    return harness.Cluster(chosen.script, args=chosen.args, library=library, env=env,
                           **options).run()


def excused(cluster):
    """The names of nodes that may hang in such a case."""
    return left_by_their_scheduler(cluster) if cluster.env.get("DMLC_PS_VAN_TYPE") == "p3" else ()


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
