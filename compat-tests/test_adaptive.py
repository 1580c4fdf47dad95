"""`PSLITE_ELASTIC=moves`, or not set: keys move, servers join and are emptied, nothing is copied.
Where that cannot be, the job is static, and no node says a word of it."""

import json
import re
import signal
import time

import pytest

from cases import P3
from elastic_job import cluster, end_early, ended_well, pslite, reach, server_of_rank, undisturbed
from harness import NATIVE, OURS, STOCK, Cluster
from test_elastic import has_pieces, join

MOVES = {"PSLITE_ELASTIC": "moves"}
#: The same, asked for and not.
SAID = pytest.mark.parametrize("said", (MOVES, {"PSLITE_ELASTIC": None}), ids=("moves", "unset"))
NATIVES = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}


def status(job):
    asked = pslite(job, "status", "--json")
    assert asked.returncode == 0, (asked, job.describe())
    return json.loads(asked.stdout)


# Most of the time passes in waiting.
@pytest.mark.waits
@pytest.mark.long
@SAID
def test_a_server_joins_and_another_is_emptied_without_copies(said):
    rounds = 500
    with cluster(rounds=rounds, env=said) as job:
        job.start()
        reach(job, 5)
        told = status(job)
        assert told["elastic"] and told["replicas"] == 0, told
        join(job, 2)
        has_pieces(job, 2)
        drained = pslite(job, "drain", "server:0", "--wait", "30")
        assert drained.returncode == 0, (drained, job.describe())
        emptied = server_of_rank(job, 0)
        assert job.wait(20, [emptied.name]) and emptied.returncode == 0, job.describe()
        assert status(job)["replicas"] == 0, job.describe()
        assert f"round {rounds}\n" not in job.nodes["worker0"].output, (
            "all of it was to happen while it trains")
        rounds = end_early(job, rounds, every=200)
        ended_well(job)
    assert job.digests == undisturbed("sgd", rounds=rounds), job.describe()


@pytest.mark.parametrize("scheduler, others, copies", (("1", "moves", 1), ("moves", "1", 0)))
def test_the_schedulers_word_says_whether_copies_are_kept(scheduler, others, copies):
    env = {"PSLITE_ELASTIC": others}
    with cluster(env=env, node_env={"scheduler": {"PSLITE_ELASTIC": scheduler}}) as job:
        job.start()
        reach(job, 5)
        told = status(job)
        assert told["elastic"] and told["replicas"] == copies, told
        job.nodes["server1"].signal(signal.SIGKILL)
        if copies:
            ended_well(job, gone=("server1",))
            assert job.digests == undisturbed("sgd"), job.describe()
            return
        assert job.wait(30), job.describe()
        job._read_all()
    for worker in job.workers:
        assert worker.returncode != 0, job.describe()
        assert "since no copies were kept" in worker.output, job.describe()


LOST = re.compile(r"(server \d) \(id \d+, [0-9.:]+\)[^;\n]*")


def death(elastic):
    """What workers say when a server is killed, without what differs from run to run, and the
    seconds until the last of them has ended."""
    with cluster(rounds=2000, env={"PSLITE_ELASTIC": elastic}) as job:
        job.start()
        reach(job, 5)
        began = time.monotonic()
        job.nodes["server1"].signal(signal.SIGKILL)
        assert job.wait(30), job.describe()
        seconds = time.monotonic() - began
        job._read_all()
    said = set()
    for worker in job.workers:
        assert worker.returncode != 0, job.describe()
        lost = LOST.search(worker.err)
        assert lost, job.describe()
        said.add(re.sub(r"\d+", "N", lost.group(0)))
    if elastic == "moves":
        assert "since no copies were kept" in worker.err, job.describe()
    return said, seconds


def test_the_death_of_a_server_ends_the_job_as_in_a_static_one():
    (static, before), (moves, after) = death("0"), death("moves")
    assert moves == static and len(moves) == 1, (static, moves)
    # A look at the clock of a machine that does other things; a hang would be ten times as long.
    assert after < before + 3, (before, after)


STATIC = {
    "a stock worker": ({"library": {"scheduler": NATIVE, "server": NATIVE,
                                    "worker": [OURS, STOCK]}}, {}),
    "a node that says 0": ({"library": NATIVES,
                            "node_env": {"worker1": {"PSLITE_ELASTIC": "0"}}}, {}),
    "resend": ({"library": NATIVES}, {"PS_RESEND": "1"}),
    "stock's level": ({"library": NATIVES}, {"PSLITE_LEVEL": "stock"}),
}


#: Warnings, but not who is not here yet: imports may take longer than 10 s.
QUIET = {"PSLITE_LOG": "warning", "PSLITE_REPORT_INTERVAL": 0}


def words(job):
    """The lines of ours that the nodes have written."""
    job._read_all()
    return [line for node in job.nodes.values() for line in node.err.splitlines()
            if "pslite" in line or "PSLITE" in line]


@SAID
@pytest.mark.parametrize("case", STATIC)
def test_what_does_not_move_stays_as_it_is_without_a_word(case, said):
    more, env = STATIC[case]
    settings = QUIET
    with Cluster("push_pull.py", ("dist_sync",), env={**said, **settings, **env}, **more) as job:
        job.run().check()
        assert not words(job), job.describe()


#: What keeps the keys where they are if `PSLITE_ELASTIC` is not set.
KEEPS = {"p3": P3, "replaces who is lost": {"PS_HEARTBEAT_TIMEOUT": 60},
         "mxnet's store": {"PSLITE_STORE": "mxnet"}}


@pytest.mark.parametrize("why", KEEPS)
def test_a_node_that_is_told_nothing_of_keys_may_have_reasons_to_keep_them(why):
    with cluster(rounds=2000, env={"PSLITE_ELASTIC": None, **KEEPS[why]}, library=OURS) as job:
        job.start()
        reach(job, 5)
        assert not status(job)["elastic"], job.describe()


@pytest.mark.parametrize("env", ({}, P3), ids=("moves", "p3"))
def test_nothing_is_said_at_a_start(env):
    program = "p3.py" if env else "push_pull.py"
    library = OURS if env else NATIVES
    with Cluster(program, ("dist_sync",), library=library,
                 env={**MOVES, **QUIET, **env}) as job:
        job.run().check()
        assert not words(job), job.describe()


def test_who_asks_for_copies_is_told_that_nothing_moves():
    """So that the tests above can fail."""
    with Cluster("push_pull.py", ("dist_sync",), library=NATIVES,
                 env={"PSLITE_ELASTIC": "1", "PS_RESEND": "1", "PSLITE_LOG": "warning"}) as job:
        job.run().check()
        assert any("has no effect with PS_RESEND" in line for line in words(job)), job.describe()
