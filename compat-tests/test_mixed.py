"""Mixed clusters: some processes on stock, some on ours, one job; results as on stock alone."""

import itertools
from types import SimpleNamespace

import pytest

from cases import SMALL_BOUND, left_by_their_scheduler, run_case, stock_digests
import harness
from harness import OURS, ROLES, STOCK
import pairwise

#: The library of each role.
BY_ROLE = list(itertools.product((STOCK, OURS), repeat=3))
ALL_STOCK = (STOCK,) * 3
BY_ROLE_NAMES = ["dist_sync", "row_sparse", "server_adam", "dist_async", "p3"]
WITHIN_A_ROLE = [
    {"scheduler": STOCK, "server": [STOCK, OURS], "worker": STOCK},
    {"scheduler": OURS, "server": [OURS, STOCK], "worker": OURS},
    {"scheduler": STOCK, "server": STOCK, "worker": [STOCK, OURS]},
    {"scheduler": OURS, "server": OURS, "worker": [OURS, STOCK]},
    {"scheduler": STOCK, "server": [OURS, STOCK], "worker": [OURS, STOCK]},
    {"scheduler": OURS, "server": [STOCK, OURS], "worker": [STOCK, OURS]},
]


def label(choice):
    def short(role):
        libraries = choice[role]
        return libraries if isinstance(libraries, str) else "+".join(libraries)
    return "-".join(short(role) for role in ROLES)


#: Seconds for a job of p3 in which a stock node may wait for ever (cases.py). Otherwise they take
#: 4 to 8.
P3_LIMIT = 40


def assert_as_on_stock(choice, name):
    cluster = run_case(name, choice, **({"timeout": P3_LIMIT} if name == "p3" else {}))
    assert cluster.digests == stock_digests(name), cluster.describe()


@pytest.mark.parametrize("scheduler, server, worker, name", pairwise.params(
    ((*choice, name) for choice in BY_ROLE if choice != ALL_STOCK for name in BY_ROLE_NAMES),
    label="-".join))
def test_by_role(scheduler, server, worker, name):
    assert_as_on_stock({"scheduler": scheduler, "server": server, "worker": worker}, name)


@pytest.mark.full
@pytest.mark.parametrize("name", BY_ROLE_NAMES)
def test_stock_alone_repeats(name):
    assert_as_on_stock(STOCK, name)


def test_only_stock_nodes_of_a_job_that_is_done_are_excused():
    def stuck(library, hung=True, scheduler=(STOCK, 0), results=({}, {})):
        nodes = [SimpleNamespace(name="scheduler", library=scheduler[0], hung=False,
                                 returncode=scheduler[1]),
                 SimpleNamespace(name="worker0", library=OURS, hung=False, returncode=0),
                 SimpleNamespace(name="server0", library=library, hung=hung, returncode=-9)]
        job = SimpleNamespace(nodes={node.name: node for node in nodes}, of=lambda role: nodes[:1],
                              results=[{"rank": rank} if result is not None else None
                                       for rank, result in enumerate(results)])
        return left_by_their_scheduler(job)

    assert stuck(STOCK) == ["server0"]
    assert stuck(OURS) == [] and stuck(STOCK, hung=False) == []
    assert stuck(STOCK, scheduler=(OURS, 0)) == [] and stuck(STOCK, scheduler=(STOCK, 1)) == []
    assert stuck(STOCK, results=({}, None)) == []


def test_only_a_hang_of_stock_alone_is_asked_again():
    def jobs(*hung, library=STOCK):
        left = list(hung)

        def job():
            node = SimpleNamespace(name="server0", library=library, hung=left.pop(0))
            return SimpleNamespace(nodes={"server0": node}, describe=lambda: "a job")
        return job, left

    def asked(*hung, **options):
        job, left = jobs(*hung)
        found = harness.until_none_hangs(job, **options)
        return found.nodes["server0"].hung, len(hung) - len(left)

    assert asked(False, False) == (False, 1)
    assert asked(True, False, False) == (False, 2)
    assert asked(True, True, True, False) == (True, 3)
    assert asked(True, False, excused=lambda job: ["server0"]) == (True, 1)
    with pytest.raises(AssertionError, match="only stock's"):
        harness.until_none_hangs(jobs(True, library=OURS)[0])


@pytest.mark.parametrize("name", ["dist_sync", "compression"])
@pytest.mark.parametrize("choice", WITHIN_A_ROLE, ids=label)
def test_within_a_role(choice, name):
    assert_as_on_stock(choice, name)


@pytest.mark.parametrize("choice", BY_ROLE[1:-1], ids="-".join)
def test_barriers_and_commands(choice):
    cluster = harness.run("control.py", library=dict(zip(ROLES, choice)), env=SMALL_BOUND)
    for result in cluster.results:
        assert result["waited"] and result["commanded"], cluster.describe()
        assert set(result["dead"].values()) == {0}, cluster.describe()
