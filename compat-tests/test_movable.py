"""Applications whose servers have handlers of their own: their keys move between servers that come
and go."""

import functools
import os
import signal
import subprocess
import time

import pytest

import built
import harness
from elastic_job import end_early
from harness import NATIVE, ROOT, STOCK, Cluster
from test_elastic import has_pieces, pieces, pslite

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

KEYS = 8
#: "unaware": the servers do not tell the library that they keep nothing between rounds; the
#: environment does.
MODES = ("sums", "rounds", "unaware")


@functools.lru_cache(maxsize=None)
def program():
    """programs/movable.cc, built."""
    library = harness.LIBRARY.with_name("libps.so")

    def make(target):
        command = ["g++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                   f"-I{ROOT / 'include'}", "-o", str(target),
                   str(harness.PROGRAMS / "movable.cc"), str(library), "-Wl,-rpath,$ORIGIN",
                   "-pthread"]
        subprocess.run(command, check=True, timeout=120)
        # By that name it is looked for.
        target.with_name("libps.so.1").symlink_to(library)
    return built.once(make, "movable")


def cluster(mode, rounds, env=None, pace=20, **more):
    """`pace`: milliseconds that a worker sleeps after each round."""
    command = [str(program()), "sums" if mode == "sums" else "rounds", str(rounds), str(pace),
               str(KEYS)]
    env = {"PSLITE_ELASTIC": 1, "PS_VERBOSE": 1, **(env or {})}
    if mode == "unaware":
        env["PSLITE_SERVER_STATELESS"] = 1
    library = {"scheduler": NATIVE, "server": STOCK, "worker": STOCK}
    return Cluster(program(), command=command, library=library, env=env, **more)


def reach(job, number):
    for worker in job.workers:
        assert worker.wait_for(f"round {number}\n", 60), job.describe()


def join(job, index):
    """A server more, that serves when this returns."""
    job.spawn("server", index, more={"PSLITE_JOIN": 1})
    assert job.nodes[f"server{index}"].wait_for("serve\n", 30), job.describe()


def drain(job, number):
    drained = pslite(job, "drain", f"server:{number}", "--wait", "30")
    assert drained.returncode == 0, (drained, job.describe())
    node = next(node for node in job.of("server") if f"this is server {number} " in node.output)
    assert job.wait(20, [node.name]) and node.returncode == 0, job.describe()


def ended_well(job, timeout=None):
    assert job.wait(timeout), job.describe()
    job._read_all()
    for node in job.nodes.values():
        assert node.returncode == 0 and not node.hung, job.describe()
    for worker in job.workers:
        assert "all sums are right" in worker.out, job.describe()


@pytest.mark.parametrize("standard",
                         (["gcc", "-std=c99", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"]))
def test_the_header_is_clean(standard):
    command = [*standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}",
               "-fsyntax-only", "-"]
    subprocess.run(command, input="#include <pslite.h>\n", text=True, check=True, timeout=60)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("elastic", (0, 1))
def test_nothing_happens(mode, elastic):
    with cluster(mode, 20, env={"PSLITE_ELASTIC": elastic}) as job:
        job.start()
        ended_well(job)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_servers_join_and_are_emptied_while_it_runs(mode):
    rounds = 500
    with cluster(mode, rounds, pace=50) as job:
        job.start()
        reach(job, 5)
        assert pieces(job, 0) + pieces(job, 1) == KEYS, job.describe()
        join(job, 2)
        has_pieces(job, 2)
        for number in (0, 1):
            drain(job, number)
        assert pieces(job, 2) == KEYS, job.describe()
        join(job, 3)
        has_pieces(job, 3)
        drain(job, 2)
        assert f"round {rounds}\n" not in job.nodes["worker0"].output, (
            "all of it was to happen while it runs")
        end_early(job, rounds, every=1)
        ended_well(job, 120)


@pytest.mark.parametrize("mode", MODES)
def test_the_death_of_a_server_ends_the_job_and_says_why(mode):
    with cluster(mode, 2000) as job:
        job.start()
        reach(job, 5)
        job.nodes["server1"].signal(signal.SIGKILL)
        assert job.wait(30), job.describe()
        job._read_all()
    for worker in job.workers:
        assert worker.returncode != 0, job.describe()
        said = "nobody has copies of the keys that an application's own handler keeps there"
        assert said in worker.err, job.describe()


def test_a_server_with_a_store_gets_none_of_these_keys():
    with cluster("sums", 300) as job:
        job.start()
        reach(job, 5)
        command = [str(harness.PROGRAM), "server", "--join", f"127.0.0.1:{job.port}"]
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(harness.FOREIGN)}
        env.update(DMLC_NODE_HOST="127.0.0.1", PS_VERBOSE="1")
        job.nodes["server2"] = harness.Node("server2", "server", NATIVE, command, env, job.folder)
        said = "cannot move: one server has a store of ours"
        assert job.nodes["scheduler"].wait_for(said, 30), job.describe()
        time.sleep(0.5)
        assert pieces(job, 2) == 0, job.describe()
        ended_well(job)
