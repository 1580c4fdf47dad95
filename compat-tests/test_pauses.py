"""Jobs that stand still: as a whole, as by `docker pause`, a suspended allocation or a laptop's
lid, which nobody may take for the others' death; and one process alone, which is as good as
dead."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import elastic_job
import harness
import test_elastic_workers
from elastic_job import SMALL, ended_well, reach, undisturbed
from harness import OURS, STOCK, Cluster
from test_python_kv import ENVIRONMENT

#: Most of the time passes in waiting (pytest.ini).
pytestmark = [pytest.mark.waits, pytest.mark.long]

#: Seconds of silence after which a node is dead; with room for a machine that is busy.
LIMIT = 8
#: That, and 20 s more: longer than any other limit between two nodes but the one of a channel whose
#: peer's host answers and it does not (30 s), which is not waited for here.
PAUSE = LIMIT + 20
#: Between two processes that are stopped, or go on. All together stay within the limit.
APART = 0.3
SILENCE = {"PSLITE_SILENCE_LIMIT": LIMIT, "PSLITE_HEARTBEAT": 1}
ROUNDS = 60

#: What makes other limits count.
KINDS = {
    "shm": {},
    "tcp": {"PSLITE_TRANSPORT": "tcp"},
    "zmq": {"PSLITE_TRANSPORT": "zmq"},
    "resent": {"PS_RESEND": 1, "PS_RESEND_TIMEOUT": 300},
    "keys-stay": {"PSLITE_ELASTIC": 0, "PSLITE_TRANSPORT": "tcp"},
    "replacements": {"PS_HEARTBEAT_INTERVAL": 1, "PS_HEARTBEAT_TIMEOUT": LIMIT},
}


def signal_all(pids, number, apart):
    for pid in pids:
        os.kill(pid, number)
        time.sleep(apart)


def stand_still(job, seconds=PAUSE, apart=APART):
    """Stops all processes of the job, and lets them go on; the last one that was stopped is the
    first that goes on."""
    pids = [node.pid for node in job.nodes.values() if not node.poll()]
    assert len(pids) == len(job.nodes), job.describe()
    try:
        signal_all(pids, signal.SIGSTOP, apart)
        time.sleep(seconds)
    finally:
        signal_all(reversed(pids), signal.SIGCONT, apart)


def nothing_was_missed(job):
    """Each says that it stood still, and nobody that another one did."""
    for node in job.nodes.values():
        if node.library != STOCK or "pslite: " in node.err:
            assert "this process stood still for" in node.err, job.describe()
        # The scheduler waits in the exit barrier all the time, and says so with PS_VERBOSE.
        waits = [f"a {what} (request" for what in ("push", "pull", "push-pull")]
        for text in ("lost ", "no sign of life", "takes the stock wire", *waits):
            assert text not in node.err, (text, job.describe())


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_goes_on(kind):
    with Cluster("elastic.py", ("dist_sync", "sgd", ROUNDS, 0.05, *SMALL), library=OURS,
                 env={**SILENCE, **KINDS[kind]}) as job:
        job.start()
        reach(job, 10)
        stand_still(job)
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=ROUNDS, model=SMALL), job.describe()
    nothing_was_missed(job)


def test_a_job_with_copies_and_a_journal_goes_on():
    with elastic_job.with_journal(rounds=ROUNDS, env=SILENCE, model=SMALL) as job:
        job.start()
        reach(job, 10)
        stand_still(job)
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=ROUNDS, model=SMALL), job.describe()
    nothing_was_missed(job)
    assert all("policy 2:" not in node.err for node in job.nodes.values()), job.describe()


def test_a_job_that_goes_on_without_its_dead_has_none():
    with test_elastic_workers.cluster(rounds=ROUNDS, env=SILENCE) as job:
        job.start()
        reach(job, 10)
        stand_still(job)
        ended_well(job)
    nothing_was_missed(job)
    for worker in job.workers:
        for place in range(3):
            history = test_elastic_workers.history(worker, place)
            assert history == [(test_elastic_workers.ALL, ROUNDS)], job.describe()


def test_workers_that_share_batches_go_on():
    epochs, length = 4, 480
    with Cluster("session_rounds.py", (epochs, length, 48, 0.1), workers=3, servers=0,
                 library=STOCK, whole=True, env={**ENVIRONMENT, **SILENCE}) as job:
        job.start()
        reach(job, 5)
        stand_still(job)
        ended_well(job)
    nothing_was_missed(job)
    for epoch in range(epochs):
        samples = [sample for worker in job.workers for sample in worker.result["epochs"][epoch]]
        assert sorted(samples) == [*range(length)], job.describe()


def test_the_time_to_start_does_not_count_it():
    """Nobody has a kvstore yet: the servers wait for workers."""
    with Cluster("elastic.py", ("dist_sync", "sgd", ROUNDS, 0, *SMALL), library=OURS,
                 env={**SILENCE, "PSLITE_START_TIMEOUT": 30, "PSLITE_REPORT_INTERVAL": 1}) as job:
        for role, count in job.counts.items():
            for index in range(count):
                job.spawn(role, index, held=role == "worker")
        for worker in job.workers:
            assert worker.wait_for("held", 60), job.describe()
        for server in job.of("server"):
            assert server.wait_for("the job is not complete", 30), job.describe()
        stand_still(job, PAUSE + 10)
        for worker in job.workers:
            worker.let_go()
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=ROUNDS, model=SMALL), job.describe()


def descendants(pid):
    """Of a process, itself first."""
    found, parents = [pid], {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(folder.name))
    for parent in found:
        found.extend(parents.get(parent, ()))
    return found


def test_a_launcher_and_all_that_it_runs_go_on(tmp_path):
    with Cluster("elastic.py", library=OURS) as cluster:
        env = cluster.environment("worker", 0, SILENCE)
    for name in [n for n in env if n.startswith("DMLC_") or n == "LD_PRELOAD"]:
        del env[name]
    command = [str(harness.PROGRAM), "run", "-n", "2", "-s", "1", "--library", str(harness.LIBRARY),
               "--", harness.PYTHON, "-u", str(harness.PROGRAMS / "elastic.py"), "dist_sync", "sgd",
               str(ROUNDS), "0.05", *SMALL]
    out = tmp_path / "out"
    with open(out, "wb") as file:
        launcher = subprocess.Popen(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL,
                                    stdout=file, stderr=file, start_new_session=True)
        pids = []
        try:
            limit = harness.patient(60)
            while "round 10\n" not in out.read_text() and time.monotonic() < limit:
                time.sleep(0.05)
            pids = descendants(launcher.pid)
            assert len(pids) >= 5, (pids, out.read_text())
            signal_all(pids, signal.SIGSTOP, APART)
            time.sleep(PAUSE)
            signal_all(reversed(pids), signal.SIGCONT, APART)
            code = launcher.wait(180)
        finally:
            for pid in pids or [launcher.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            launcher.wait(60)
    text = out.read_text()
    assert code == 0 and "lost " not in text, text
    assert text.count(f"round {ROUNDS}\n") == 2, text


@pytest.mark.parametrize("victim", ("worker1", "server0"))
def test_one_process_alone_is_as_good_as_dead(victim):
    """As it was: the others end with its name, and it ends when it goes on."""
    with Cluster("slow.py", args=[4000, 0.05], library=OURS, env=SILENCE) as job:
        job.start()
        assert job.nodes["worker0"].wait_for("round 3", 40), job.describe()
        job.nodes[victim].signal(signal.SIGSTOP)
        try:
            assert job.wait(60, [name for name in job.nodes if name != victim]), job.describe()
        finally:
            job.nodes[victim].signal(signal.SIGCONT)
        assert job.wait(30, [victim]), job.describe()
    rank = victim[-1]
    role = victim.rstrip("01")
    for node in job.nodes.values():
        assert node.returncode != 0, job.describe()
        if node.name != victim:
            assert f"lost {role} " in node.err and "no sign of life" in node.err, job.describe()
    assert rank and "lost " in job.nodes[victim].err, job.describe()


@pytest.mark.full
def test_a_job_stands_still_for_75_seconds():
    """With the limits that users have."""
    with Cluster("elastic.py", ("dist_sync", "sgd", ROUNDS, 0.05, *SMALL), library=OURS) as job:
        job.start()
        reach(job, 10)
        stand_still(job, 75)
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=ROUNDS, model=SMALL), job.describe()
    nothing_was_missed(job)
