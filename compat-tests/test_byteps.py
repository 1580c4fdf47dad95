"""BytePS of PyPI, built from its sources over this repository, and over its own ps-lite; and jobs
with nodes of both.

The original's threads never sleep: what runs it, runs alone. To build both takes minutes: all is
for `--full`.
"""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import byteps_stock
import guide
from byteps_jobs import Job
from harness import OURS, PYTHON, ROOT, STOCK
from test_elastic import has_pieces, pieces
from test_movable import drain, reach


pytestmark = pytest.mark.full


def missing():
    """What keeps BytePS from being built or run here, or None."""
    for program in ("make", "g++", "unshare"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if not Path("/usr/include/numa.h").exists():
        return "libnuma-dev is not installed"
    flags = "-m" if os.getuid() == 0 else "-mr"
    try:
        subprocess.run(["unshare", flags, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True,
                       timeout=20, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return "no mount namespace can be made: workers need a /dev/shm each"
    return None


@functools.lru_cache(maxsize=None)
def reason():
    return missing()


@pytest.fixture(scope="module", autouse=True)
def needs():
    if reason():
        pytest.skip(reason())


def build(kind):
    try:
        byteps_stock.tree(kind)
    except byteps_stock.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def ours():
    build(OURS)


@pytest.fixture
def stock():
    build(STOCK)


def assert_all_right(job, checked):
    job.check()
    for result in job.results:
        assert result["checked"] == checked and result["wrong"] == [], job.describe()


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("workers, servers", [(1, 1), (2, 2)])
def test_sums(ours, workers, servers):
    """f32, f64, i32; 1 to 3,000,001 elements; three rounds each."""
    assert_all_right(Job("sums", 3, workers=workers, servers=servers).run(), 3 * 18)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("elements", [1024, 262_144])
def test_rounds_without_a_pause(ours, elements):
    """The rounds in which BytePS's own ps-lite mixes a round's answer with the next one's
    pushes."""
    assert_all_right(Job("rounds", 300, elements).run(), 300)


@pytest.mark.timeout(1000)
def test_one_job_by_hand(ours):
    """The guide's command."""
    command = guide.block("BytePS", "byteps_jobs.py ours")
    said = guide.run(command.replace(".cache/venv/bin/python", str(PYTHON)), ROOT, timeout=120)
    assert all(f"worker {rank}: 0 of 300 wrong" in said for rank in (0, 1)), said


@pytest.mark.timeout(1000)
def test_servers_join_and_are_emptied_while_it_runs(ours, tmp_path):
    """Keys move between BytePS's servers, which know nothing of it: the pushes that made them are
    said again."""
    most, keys, end = 10_000, 7, tmp_path / "end"
    text = guide.block("BytePS", "PSLITE_JOIN")
    assert ("\nPSLITE_JOIN=1 python -c 'import byteps.server' " in text
            and "\npslite drain server:0\n" in text)
    env = {**guide.exports("BytePS", "PSLITE_JOIN"), "PS_VERBOSE": 1}
    with Job("keys", most, keys, 100, end, workers=2, servers=2, env=env) as job:
        job.start()
        reach(job, 5)
        for number in (2, 3):
            job.spawn("server", number, more={"PSLITE_JOIN": 1})
            new, scheduler = job.nodes[f"server{number}"], job.nodes["scheduler"]
            assert new.wait_for(f"this is server {number} ", 30), job.describe()
            assert scheduler.wait_for(f"server {number} (id {8 + 2 * number}", 30), job.describe()
            has_pieces(job, number)
        for number in (0, 1, 3):
            drain(job, number)
        # Tensors of more than 4,096,000 bytes have a key for each part; and one key says when all
        # is over.
        assert pieces(job, 2) == keys + 2, job.describe()
        now = int(re.findall(r"^round (\d+)$", job.nodes["worker0"].output, re.MULTILINE)[-1])
        reach(job, now + 5)
        end.touch()
        assert job.wait(120), job.describe()
        job.check()
        checked = {result["checked"] for result in job.results}
        assert len(checked) == 1 and checked.pop() >= (now + 5) * keys, job.describe()
        assert all(result["wrong"] == [] for result in job.results), job.describe()


@pytest.mark.alone
@pytest.mark.timeout(1000)
def test_sums_over_the_original(stock):
    """That what is compared with works here at all: one round of each tensor, as it may mix more of
    them."""
    assert_all_right(Job("sums", 1, library=STOCK, workers=1, servers=1, timeout=150).run(), 18)


def rounds_of(node):
    """How many rounds a worker was through, and in how many of them the sum was wrong, as far as it
    came."""
    if node.result:
        return node.result["checked"], len(node.result["wrong"])
    told = re.findall(r"after round (\d+): (\d+) wrong", node.err)
    return tuple(map(int, told[-1])) if told else (0, 0)


@pytest.mark.alone
@pytest.mark.timeout(1000)
def test_what_the_original_makes_of_rounds_without_a_pause(ours, stock, capsys):
    """For the record: over the original some of 300 rounds are wrong, or it stops. How many, or
    when, is chance, but it is the very job whose rounds are all right over ours."""
    theirs = Job("rounds", 300, 1024, library=STOCK, timeout=40).run()
    here = Job("rounds", 300, 1024).run()
    with capsys.disabled():
        for name, job in (("BytePS's own ps-lite", theirs), ("pslite", here)):
            seen = [f"{wrong} of {count} rounds wrong at a worker"
                    for count, wrong in map(rounds_of, job.workers)]
            print(f"\nover {name}: {', '.join(seen)}, in {job.seconds:.0f} s", end="")
        print()
    assert any(rounds_of(worker)[0] > 0 for worker in theirs.workers), theirs.describe()
    assert_all_right(here, 300)


# A node that is "ours" loads BytePS out of the tree over this repository, one that is "stock" out
# of the other.
MIXED = [
    {"scheduler": STOCK, "server": OURS, "worker": OURS},
    {"scheduler": OURS, "server": STOCK, "worker": OURS},
    {"scheduler": OURS, "server": OURS, "worker": STOCK},
    {"scheduler": OURS, "server": [OURS, STOCK], "worker": [STOCK, OURS]},
]


@pytest.mark.alone
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("library", MIXED,
                         ids=["stock scheduler", "stock servers", "stock workers", "one of each"])
def test_a_job_with_nodes_of_both(ours, stock, library):
    """On the wire of the original. One round of each tensor: servers of the original may mix more
    of them."""
    job = Job("sums", 1, library=library, env=guide.exports("BytePS", "PSLITE_WIRE"),
              timeout=150).run()
    assert_all_right(job, 18)
