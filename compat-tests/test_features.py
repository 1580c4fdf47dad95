"""Every feature of a distributed kvstore: the same program on stock and on ours, equal results."""

import json

import pytest

import harness
from cases import CASES, run_case, stock_digests, stock_run
from harness import OURS, STOCK


@pytest.mark.parametrize("name", CASES)
def test_same_result_as_stock(name):
    expected = stock_digests(name)
    cluster = run_case(name, OURS, whole=True)
    assert cluster.digests == expected, cluster.describe()
    # Synchronous training: all workers hold the same.
    assert len(set(expected.values())) == 1, expected


@pytest.mark.parametrize("workers,servers", [(1, 1), (1, 3), (3, 1), (4, 3)])
def test_other_counts(workers, servers):
    """Sums of three and more depend on the order of arrival, so the data is exact in binary."""
    sizes = {"workers": workers, "servers": servers}
    stock = stock_digests("dist_async", **sizes)
    ours = run_case("dist_async", OURS, **sizes)
    assert ours.digests == stock and len(ours.digests) == workers, ours.describe()


def test_arrays_above_the_default_bound():
    """2 million elements: cut over the servers with MXNet's own default bound."""
    ours = harness.run("big_array.py", "dist_sync", library=OURS)
    assert ours.digests == stock_run("big_array.py", "dist_sync"), ours.describe()


@pytest.mark.parametrize("library", [STOCK, OURS])
def test_barrier_dead_nodes_commands(library):
    cluster = harness.run("control.py", library=library)
    for result in cluster.results:
        assert result["dead"] == {str(group): 0 for group in range(1, 8)}, result
        assert result["type"] == "dist_sync"
    late = {r["rank"]: r["waited"] for r in cluster.results}
    assert late == {0: True, 1: True}, "the barrier did not hold the early worker"
    assert all(r["commanded"] for r in cluster.results), "the optimizer did not reach the servers"


@pytest.mark.parametrize("library", [STOCK, OURS])
def test_server_profiler(library):
    with harness.Cluster("profiler.py", library=library) as cluster:
        cluster.start()
        cluster.wait()
        profiles = {}
        for path in cluster.folder.glob("rank*_profile_servers.json"):
            profiles[path.name] = json.loads(path.read_text())
    cluster.check()
    assert sorted(profiles) == ["rank0_profile_servers.json", "rank1_profile_servers.json"], (
        cluster.describe())
    names = {e.get("name", "") for p in profiles.values() for e in p["traceEvents"]}
    # MXNet records its own operators; our store what it serves.
    expected = {"CopyCPU2CPU"} if library == STOCK else {"push", "pull"}
    assert expected <= names, sorted(names)[:50]


def two_kvstores(library, limit):
    """Two workers in one process: each thread has its kvstore, the job counts two workers."""
    cluster = harness.Cluster("two_threads.py", library=library, workers=2)
    with cluster:
        for role, count in (("scheduler", 1), ("server", 2), ("worker", 1)):
            for index in range(count):
                cluster.spawn(role, index)
        cluster.wait(limit)
    return cluster


def test_several_kvstores_in_two_threads():
    """The program itself compares what each thread pulls with the sums that it must be."""
    two_kvstores(OURS, 60).check()


@pytest.mark.full
def test_stock_gives_the_same_to_two_threads():
    """One in forty of these jobs of stock hangs: the next one is asked then."""
    stock = harness.until_none_hangs(lambda: two_kvstores(STOCK, 25))
    ours = two_kvstores(OURS, 60)
    assert stock.check().results[0]["digest"] == ours.check().results[0]["digest"]


def test_our_library_says_that_it_serves():
    """PS_VERBOSE=1: every process names pslite in its log; without preload none does."""
    stock = run_case("dist_sync", STOCK, env={"PS_VERBOSE": "1"})
    ours = run_case("dist_sync", OURS, env={"PS_VERBOSE": "1"})
    for node in stock.nodes.values():
        assert "] pslite: " not in node.err, node.describe()
    for node in ours.nodes.values():
        assert "] pslite: " in node.err, node.describe()


def test_a_program_without_mxnet_notices_nothing():
    """Preloaded into something else the library does nothing and says nothing."""
    import subprocess
    script = "import sys; print(sorted(m for m in sys.modules if 'mxnet' in m), 'done')"
    plain = subprocess.run([harness.PYTHON, "-c", script], capture_output=True, timeout=60)
    loaded = subprocess.run([harness.PYTHON, "-c", script], capture_output=True, timeout=60,
                            env={"LD_PRELOAD": str(harness.LIBRARY)})
    assert (loaded.returncode, loaded.stdout, loaded.stderr) == (0, plain.stdout, b"")
