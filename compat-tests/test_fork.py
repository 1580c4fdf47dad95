"""Children of a worker: a process that was forked is not the node.

One run of a job serves all kinds of children; its result says what each of them found.

The child of a bare `os.fork` that calls `sys.exit` is tried when no pool of `multiprocessing`
lives. CPython itself, without MXNet and us (3.11.7, six of six runs), breaks the pool of the parent
there: the child's exit handler (`multiprocessing.util._exit_function`) takes the parent's workers
for its own children, sends them SIGTERM, and then says `can only join a child process`; a worker
that was waiting for work dies with the lock of the queue, and the parent's next `pool.map` never
returns. Such a child has to end with `os._exit`, as those of `multiprocessing` do.
"""

import os
import re
import signal
import time

import pytest

import harness
import test_relink
from harness import OURS, Cluster

#: A child that lives must not hide the death: more than `PSLITE_PEER_TIMEOUT` (3 s) and less than
#: any other way to find it (`PSLITE_SILENCE_LIMIT`, 60 s).
NOTICED = 10


@pytest.fixture(scope="module", params=["auto", "zmq"])
def job(request):
    return harness.run("fork.py", "all", servers=1, library=OURS,
                       env={"PSLITE_TRANSPORT": request.param})


def found(job):
    return [(result, result["found"]) for result in job.results]


@pytest.mark.parametrize("use", ["pull", "push", "barrier", "another", "nested"])
def test_a_child_that_uses_the_kvstore_is_refused(job, use):
    for result, seen in found(job):
        text, code = seen[use]
        expected = (f"this process was forked from worker {result['rank']} (pid {result['pid']}) "
                    "after its kvstore was made; make a kvstore of its own before "
                    "or after, not with it")
        assert expected in text and code == 0, job.describe()


def test_a_child_has_none_of_our_descriptors(job):
    for _, seen in found(job):
        assert seen["parent's descriptors"] > 0, job.describe()
        assert seen["descriptors"] == ["[]", 0], job.describe()
        assert seen["subprocess"] == "[]", job.describe()


def test_a_child_that_ends_does_nothing_to_the_job(job):
    for _, seen in found(job):
        assert seen["sys.exit"] == seen["os._exit"] == 0, job.describe()
        assert seen["forget"] == ["forgotten", 0], job.describe()
    assert len(set(job.digests.values())) == 1, job.describe()


def test_processes_of_multiprocessing_and_gluon_work(job):
    for _, seen in found(job):
        for method in ("fork", "spawn", "forkserver"):
            assert seen[method] == [0, 1, 4, 9], job.describe()
        assert seen["dataloader before"] == seen["dataloader after"] == 120, job.describe()


@pytest.mark.parametrize("transport", ["auto", "zmq"])
def test_a_child_that_outlives_its_parent_hides_no_death(transport):
    with Cluster("fork.py", ("outlive",), servers=1, library=OURS,
                 env={"PSLITE_TRANSPORT": transport}) as cluster:
        cluster.start()
        nodes = cluster.workers
        limit = harness.patient(30)
        child = None
        while child is None and time.monotonic() < limit:
            for node in nodes:
                match = re.search(r"^child (\d+)$", node.out, re.M)
                if match:
                    child, parent = int(match[1]), node
            time.sleep(0.05)
        assert child, cluster.describe()
        try:
            os.kill(parent.pid, signal.SIGKILL)
            others = [node.name for node in cluster.nodes.values() if node is not parent]
            assert cluster.wait(NOTICED, others), cluster.describe()
            os.kill(child, 0)  # It lived until here.
        finally:
            os.kill(child, signal.SIGKILL)
    for node in cluster.workers:
        if node.name != parent.name:
            assert node.returncode > 0 and "worker" in node.err, cluster.describe()


def test_children_of_programs_over_the_headers_and_the_c_abi():
    program = test_relink.build("gcc-c++11", "relink_fork.cc")
    test_relink.run(program, workers=1, servers=1)
