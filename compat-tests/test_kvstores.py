"""Several kvstores of one process: each trains as if it were alone, or the second one is refused
with a text (docs/mxnet.md, "Several kvstores"). The programs know what each must have."""

import json
import signal

import pytest

import test_python_kv
from cases import SMALL_BOUND
from elastic_job import ended_well
from harness import NATIVE, OURS, STOCK, Cluster

ALL_OURS = {"scheduler": OURS, "server": [NATIVE, OURS], "worker": OURS}


def job(mode, steps=4, library=None, env=None, **more):
    return Cluster("several_kvstores.py", (mode, steps), library=library or ALL_OURS,
                   env={**SMALL_BOUND, **(env or {})}, **more)


def right(mode, **more):
    found = job(mode, **more).run().check()
    assert len(set(found.digests.values())) == 1, found.describe()
    return found


@pytest.mark.parametrize("mode", ("sync", "async", "closed", "trainers", "module"))
def test_each_trains_as_if_it_were_alone(mode):
    right(mode)


@pytest.mark.parametrize("transport", ("tcp", "zmq"))
def test_over_every_wire(transport):
    right("sync", env={"PSLITE_TRANSPORT": transport})


def test_keys_that_stay():
    """Without pieces that move, and summed by ranks."""
    right("async", env={"PSLITE_ELASTIC": 0, "PSLITE_DETERMINISTIC": 1})


def test_resent_messages():
    right("sync", env={"PS_RESEND": 1})


def test_along_trees():
    right("sync", workers=4, env={"PSLITE_TOPOLOGY": "balanced:2"})


@pytest.mark.parametrize("mode", ("sync", "async"))
@pytest.mark.parametrize("victim", ("server0", "server1"))
def test_a_server_that_is_killed_is_not_missed(mode, victim):
    with job(mode, 60, env={"PSLITE_ELASTIC": 1}, servers=2) as running:
        running.start()
        assert running.nodes["worker0"].wait_for("step 10\n", 60), running.describe()
        running.nodes[victim].signal(signal.SIGKILL)
        ended_well(running, gone=(victim,))
    assert len(set(running.digests.values())) == 1, running.describe()


@pytest.mark.waits
def test_a_server_joins_and_hears_what_each_has_set():
    """Rounds of the second kvstore, and of keys that move to the new server, have its optimizer."""
    with job("sync", 120, env={"PSLITE_ELASTIC": 1}, servers=1) as running:
        running.start()
        assert running.nodes["worker0"].wait_for("step 5\n", 60), running.describe()
        running.spawn("server", 1, more={"PSLITE_JOIN": 1})
        ended_well(running)
    assert len(set(running.digests.values())) == 1, running.describe()


REFUSED = {
    "a stock server": ({"scheduler": OURS, "server": [STOCK, OURS], "worker": OURS}, {}),
    "a stock scheduler": ({"scheduler": STOCK, "server": OURS, "worker": OURS}, {}),
    "MXNet's own server": (OURS, {"PSLITE_STORE": "mxnet"}),
    "another wire": (OURS, {"PSLITE_WIRE": "byteps-0.2.5"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_second_one_is_refused_where_keys_are_not_kept_apart(case):
    library, env = REFUSED[case]
    with job("sync", library=library, env=env) as running:
        running.start()
        workers = [node.name for node in running.workers]
        running.wait(names=workers)
        for node in running.workers:
            assert node.returncode != 0 and not node.hung, running.describe()
            assert "cannot have keys of its own" in node.output, running.describe()
    named = {"a stock scheduler": "the scheduler is stock's", "another wire": "(PSLITE_WIRE)"}
    named = named.get(case, "server ")
    assert all(named in node.output for node in running.workers), running.describe()


def test_a_stock_worker_that_makes_a_second_one_ends_the_job():
    """On stock it waits for ever; its keys would be those of the first."""
    library = {"scheduler": OURS, "server": NATIVE, "worker": STOCK}
    with job("sync", library=library) as running:
        running.start()
        running.wait(names=["scheduler", "server0", "server1"])
        assert "made a second kvstore" in running.nodes["scheduler"].output, running.describe()
        assert not running.nodes["server0"].hung, running.describe()


def test_an_optimizer_that_only_mxnet_has_is_refused_beside_a_second_one():
    library = {"scheduler": OURS, "server": OURS, "worker": OURS}
    with Cluster("second_own_optimizer.py", library=library, whole=True) as running:
        running.start()
        running.wait(names=[node.name for node in running.workers])
        for node in running.workers:
            assert node.returncode != 0 and not node.hung, running.describe()
            assert "knows one kvstore only" in node.output, running.describe()


@pytest.mark.parametrize("kind", ("dist_sync", "dist_async", "p3"))
@pytest.mark.parametrize("mode", ("init", "trainers"))
def test_a_key_that_is_initialised_twice_is_an_error(mode, kind):
    """On stock all workers but the first wait in a barrier, and that one for their gradients."""
    env = {"DMLC_PS_VAN_TYPE": "p3"} if kind == "p3" else {}
    if kind == "p3":
        kind = "dist_sync"
    with Cluster("shared_kvstore.py", (mode, kind), library=ALL_OURS, env=env,
                 timeout=60) as running:
        running.start()
        running.wait(names=[node.name for node in running.workers])
        for node in running.workers:
            assert node.returncode != 0 and not node.hung, running.describe()
            assert "MXNetError: pslite: key 0 of this kvstore is initialised already" in \
                node.output, running.describe()


@pytest.mark.parametrize("mode", ("init", "trainers"))
def test_a_single_worker_is_warned_of_it(mode):
    """Without an optimizer on the servers its value takes the place of the former one."""
    running = Cluster("shared_kvstore.py", (mode, "dist_sync"), library=ALL_OURS, workers=1).run()
    running.check()
    assert running.nodes["worker0"].err.count("is initialised already") == 1, running.describe()


def test_a_kvstore_at_the_address_of_a_former_one_has_no_keys():
    Cluster("shared_kvstore.py", ("reborn", "dist_sync"), library=ALL_OURS).run().check()


def test_unequal_bounds_for_big_arrays_are_named():
    """One worker cuts the array for both servers, the other one sends all of it to one."""
    with Cluster("unequal_bounds.py", library=ALL_OURS, node_env={
            "worker0": {"MXNET_KVSTORE_BIGARRAY_BOUND": 1000}}) as running:
        running.start()
        running.wait(names=[node.name for node in running.workers])
    text = "".join(node.output for node in running.workers)
    assert "MXNET_KVSTORE_BIGARRAY_BOUND" in text, running.describe()


def test_workers_of_a_process_share_keys_or_have_their_own():
    """`pslite.kv.KVWorker(customer=1)`: as it says, at a store."""
    library = {"scheduler": NATIVE, "server": NATIVE, "worker": STOCK}
    running = Cluster("kv_worker.py", ("customers",), library=library, whole=True,
                      env=test_python_kv.ENVIRONMENT, timeout=60).run()
    for worker in running.workers:
        assert worker.returncode == 0, running.describe()
        found = json.loads(worker.out.splitlines()[-1])
        assert found["first"] == found["shared"] == [5.0] * 4, running.describe()
        assert found["own"] == [7.0] * 2, running.describe()
        assert "2^40" in found["large"][1] and "2^40" in found["beyond"][1], running.describe()
