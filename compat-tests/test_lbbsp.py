"""pslite.lbbsp: workers that share batches, in real jobs, with and without servers."""

import json
import time
from statistics import median

import pytest

import harness
from harness import STOCK, Cluster
from test_python_kv import ENVIRONMENT

WORKERS = 3


def run(case, workers=WORKERS, servers=0, excused=(), program="lbbsp_worker.py", **options):
    """What each worker saw, in the order of ranks."""
    env = {**ENVIRONMENT, **options.pop("env", {})}
    job = Cluster(program, args=[case], library=STOCK, whole=True, workers=workers,
                  servers=servers, timeout=60, env=env, **options).run()
    for name, node in job.nodes.items():
        assert not node.hung and (node.returncode == 0 or name in excused), job.describe()
    found = sorted(json.loads(worker.out.splitlines()[-1]) for worker in job.workers)
    return [seen for _, seen in found]


def test_losses_are_those_of_equal_batches():
    found = run("losses", servers=2)
    for dtype, close in (("float64", 1e-10), ("float32", 1e-5)):
        equal, sizes = found[0][f"{dtype} fixed"]
        assert set(sizes) == {16} and equal[-1] < 0.9 * equal[0]
        for rule in ("cpu", "cpu-last", "gpu"):
            name = f"{dtype} {rule}"
            losses, _ = found[0][name]
            assert len(losses) == len(equal) == 12
            assert max(abs(a - b) for a, b in zip(losses, equal)) < close, (name, losses, equal)
            sizes = [worker[name][1] for worker in found]
            assert all(sum(of) == 48 for of in zip(*sizes)), sizes
            if rule != "gpu":
                # The speeds are 1, 3 and 2.
                assert [of[-1] for of in sizes] == [8, 24, 16], sizes
            else:
                assert len({of[-1] for of in sizes}) > 1, sizes


def test_the_library_measures_what_is_computed():
    found = run("pushes", servers=1)
    sizes = [worker["sizes"] for worker in found]
    assert all(of[:2] == [20, 20] for of in sizes)
    # The speeds are 1, 3 and 2; other tests take processor time too.
    slow, fast, middle = (median(of[-6:]) for of in sizes)
    assert slow < 14 and fast > 25 and slow < middle < fast, sizes
    assert all(sum(of) == 60 for of in zip(*sizes))
    assert all(worker["progress"] == [15, 15] for worker in found), found


def test_loaders_orders_and_epochs():
    found = run("loaders", workers=2)
    for epoch in range(2):
        samples = [sample for worker in found for batch in worker["epochs"][epoch]
                   for sample in batch]
        # The last iteration has ten of the first one's.
        assert len(samples) == 60 and set(samples) == set(range(50))
    assert found[0]["epochs"][0] != found[0]["epochs"][1]
    assert [worker["plain"][1] for worker in found] == [[*range(20, 30)], [*range(30, 40)]]
    assert found[0]["order"][0] == [*range(49, 39, -1)] and len(found[0]["order"]) == 2


WRONG = {
    "rule": ("InvalidArgument", "'fast' is none of"),
    "last": ("InvalidArgument", "'keep' is none of"),
    "total": ("InvalidArgument", "the epoch has 100"),
    "few": ("InvalidArgument", "too few for 2 workers"),
    "negative": ("InvalidArgument", "out of range"),
    "rank": ("InvalidArgument", "rank 9 is not below"),
    "name": ("InvalidArgument", "1 to 128 bytes"),
    "nul": ("InvalidArgument", "has a NUL character"),
    "max": ("InvalidArgument", "max=0 leaves no batch"),
    "epochs": ("InvalidArgument", "epochs=0 leaves no batch"),
    "early": ("InvalidArgument", "no batch was taken"),
    "future": ("InvalidArgument", "has not begun"),
    "after": ("ShapeError", "3 rows"),
}


def test_bad_input():
    found = run("bad_input", workers=2)
    for worker in found:
        for name, (kind, text) in WRONG.items():
            assert worker[name] and worker[name][0] == kind and text in worker[name][1], \
                (name, worker[name])
    assert found[0]["agree"] is None
    assert found[1]["agree"][0] == "RemoteError" and "total=20, rank 1 21" in found[1]["agree"][1]
    assert found[0]["alone"][0] == "Timeout" and "rank 1 to open it" in found[0]["alone"][1]
    assert "open here already" in found[0]["twice"][1]
    assert found[0]["waiting"][0] == found[0]["closed"][0] == "ClosedError"


DIFFER = {
    "shuffle": "rank 0 takes samples in an order shuffled by seed=0, rank 1 as they are stored",
    "order": "rank 0 takes samples in an order of its own (`order`) with the hash ",
    "own": "rank 0 takes samples in an order shuffled by seed=3, rank 1 in an order of its own",
    "begin": "rank 0 begins with iteration 10, rank 1 with 11",
    "prefetch": "rank 0 has prefetch=3, rank 1 4",
    "later": "in epoch 1 rank 0 takes samples in an order of its own",
    "skips": "rank 0 skips the iterations from 0 to 4, and rank 1 has computed iteration 0",
}


def test_workers_that_do_not_agree():
    first, second = run("orders", workers=2)
    for name, text in DIFFER.items():
        kind, said = second[name] or (None, None)
        assert kind == "RemoteError" and text in said, (name, second)
    assert first["first"] == list(range(10))
    kind, said = first["waits"]
    assert kind == "Timeout" and "rank 1 to report iteration 0 (by its script)" in said
    assert "rank 0 has skipped to iteration 5: all workers are to skip alike" in said


def test_dealt_batches_that_nobody_reports():
    found = run("unreported", workers=2)
    for worker in found:
        kind, text = worker["refused"]
        assert kind == "InvalidArgument" and "Call session.report() after each batch" in text
    # What the first one had when it gave up was dealt to the other one.
    assert sum(sum(worker["sizes"]) for worker in found) >= 100


def test_ctrl_c_is_heard_in_a_wait():
    for worker in run("interrupted", workers=2):
        assert worker["late"] < 0.1 and worker["next"] == 2


def test_ctrl_c_is_heard_while_a_session_opens():
    first, second = run("interrupted_opening", workers=2)
    assert first["late"] < 0.1 and second["others"] == 1
    assert first["next"] == second["next"] == 0


def test_the_end_of_what_is_dealt():
    found, = run("ended", workers=1)
    assert found["sizes"] == [8, 8, 4, 8, 8, 4] and found["over"] and found["left"] == 0
    assert found["again"][0] == "NoMoreBatches"


def test_who_reports_is_not_measured_besides():
    """One push in each iteration: the library knows of its end with the next one. The worker
    reports the iterations 4 and 9."""
    found, = run("own_reports", workers=1, servers=1)
    assert found == [0, 1, 2, 3, 5, 5, 5, 5, 5, 10]


def test_validation_between_epochs_is_no_computing():
    for sizes in run("epochs", workers=2, servers=1):
        # Other tests take processor time too. With that second and a half it would be 4 to 56.
        assert len(sizes) == 20 and min(sizes) > 12, sizes


ELASTIC = {"PSLITE_ELASTIC": "1", "PSLITE_ELASTIC_WORKERS": "1", "PSLITE_PEER_TIMEOUT": "2"}


def with_a_new_process(case, ready, new_case):
    """What each worker saw, the last one that of the process in the place of one that died."""
    with Cluster("lbbsp_worker.py", args=[case], library=STOCK, whole=True, workers=WORKERS,
                 servers=0, timeout=60, env={**ENVIRONMENT, **ELASTIC}) as job:
        job.start()
        scheduler = job.nodes["scheduler"]
        assert scheduler.wait_for("goes on without worker", 30), job.describe()
        if ready:
            assert waits_for_any(job.workers, ready), job.describe()
        job.command = [*job.command[:-1], new_case]
        job.spawn("worker", name="new")
        job.nodes["new"].wait_for("[2, ", 40)
        (job.folder / "done").touch()
        assert job.wait(), job.describe()
        job._read_all()
        new = job.nodes["new"]
        lost = [worker for worker in job.workers if worker.returncode == -9]
        assert len(lost) == 1, job.describe()
        ended = [worker for worker in job.workers if worker not in (*lost, new)]
        assert all(worker.returncode == 0 for worker in (*ended, new)), job.describe()
        return [json.loads(worker.out.splitlines()[-1])[1] for worker in (*ended, new)]


def waits_for_any(nodes, text):
    deadline = harness.patient(30)
    while time.monotonic() < deadline:
        if any(node.wait_for(text, 0.1) for node in nodes):
            return True
    return False


@pytest.mark.waits
def test_a_process_in_the_place_of_a_dead_one_shares_epochs():
    *others, new = with_a_new_process("one_dies", None, "takes_its_place")
    for seen in others:
        counts = [workers for _, _, workers, _ in seen]
        changes = [at for at in range(1, len(counts)) if counts[at] != counts[at - 1]]
        assert [counts[0], *(counts[at] for at in changes)] == [3, 2, 3], counts
        for iteration, size, workers, scale in seen:
            assert scale == pytest.approx(workers * size / 20), (iteration, size, workers, scale)
            # 20 samples: of two workers each has 10.
            assert workers == 3 or size == 10 and scale == pytest.approx(1.0)
    for epoch in new:
        assert epoch[-1] % 5 == 4 and epoch == [*range(epoch[0], epoch[-1] + 1)], new
    assert all(len(epoch) == 5 for epoch in new[1:]) and len(new[0]) <= 5, new


@pytest.mark.waits
def test_nobody_joins_a_session_that_a_worker_has_closed():
    *_, new = with_a_new_process("one_closes", "closed", "comes_too_late")
    kind, text = new["refused"]
    assert kind == "RemoteError" and "Open a session of another name" in text, new
    assert new["seconds"] < 5 and new["size"] == 20


def test_what_a_dead_worker_had_is_dealt_again():
    found = run("dealt", workers=2, excused=("worker0", "worker1"),
                env={"PSLITE_ELASTIC": "1", "PSLITE_ELASTIC_WORKERS": "1",
                     "PSLITE_PEER_TIMEOUT": "1"})
    long, short = found
    assert len(short) == 3
    for epoch in range(2):
        samples = [sample for batch in long + short if batch[0] == epoch for sample in batch[1:]]
        assert sorted(samples) == list(range(100)), (epoch, sorted(samples))


def test_status_shows_sessions():
    for found in run("status"):
        assert (found["rule"], found["members"], found["present"]) == ("cpu-last", 3, 3)
        assert (found["smallest"], found["largest"]) == (8, 24)
        assert found["spread"] < 0.01 and found["gain"] == pytest.approx(2.0)


def test_a_stock_scheduler_has_no_batches():
    env = {**ENVIRONMENT, "PYTHONPATH": f"{harness.PROGRAMS}:{ENVIRONMENT['PYTHONPATH']}"}
    job = Cluster("lbbsp_stock.py", workers=1, servers=1, timeout=60, library=STOCK, env=env).run()
    assert not any(node.hung for node in job.nodes.values()), job.describe()
    assert "ConfigError" in job.workers[0].out and "not pslite's" in job.workers[0].out
