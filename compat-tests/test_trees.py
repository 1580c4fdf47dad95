"""Rounds that go along trees on the wheel (docs/trees.md): every sum is exact, the bytes take the
tree's edges, and who dies is not missed."""

import json
import re
import signal
import time
from collections import Counter

import pytest

import elastic_job
import test_elastic_workers
from elastic_job import ended_well, reach, undisturbed
from harness import NATIVE, OURS, STOCK, Cluster, patient

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

ROUNDS = 12
#: Bytes of all values that a worker pushes in a round.
MODEL = 4 * (1 + 40 + 300 * 100 + 900 * 600)


def trees(topology, workers, servers, **env):
    library = {"scheduler": OURS, "server": NATIVE, "worker": OURS}
    env = {"PSLITE_TOPOLOGY": topology, "PSLITE_METRICS": "metrics.jsonl", **env}
    return Cluster("trees.py", (ROUNDS,), workers=workers, servers=servers, library=library,
                   env=env)


def models(job):
    """Between which nodes how many models of values went: the last numbers of each node."""
    last = {}
    for line in (job.folder / "metrics.jsonl").read_text().splitlines():
        told = json.loads(line)
        last[told["role"], told["rank"]] = told["metrics"]
    sent = Counter()
    for (role, rank), metrics in last.items():
        for metric in metrics:
            is_data = metric["name"] == "bytes" and metric.get("kind") in ("push", "response")
            if is_data and metric["direction"] == "sent":
                sent[f"{role}{rank}", metric["peer"]] += metric["value"] / MODEL
    return sent


@pytest.mark.parametrize("servers", (1, 2))
def test_a_chain_carries_each_sum_once(servers):
    """Every worker sends its sum to the one before it, and values back, from the first round on:
    the trees are there before it, and who has no ticket asks. Long pieces are cut before. What
    reaches servers without a tree are little values, once."""
    with trees("balanced:1", 4, servers) as job:
        job.start()
        ended_well(job)
        sent = models(job)
    assert len(set(job.digests.values())) == 1, job.describe()
    for rank in range(1, 4):
        up, down = f"worker{rank}", f"worker{rank - 1}"
        assert sent[up, down] == pytest.approx(ROUNDS, rel=0.02), (sent, job.describe())
        assert sent[down, up] == pytest.approx(ROUNDS, rel=0.02), (sent, job.describe())
        to_servers = sum(sent[up, f"server{server}"] for server in range(servers))
        assert to_servers < 0.02, (sent, job.describe())
    # The first worker makes the keys, too.
    first = sum(sent["worker0", f"server{server}"] for server in range(servers))
    assert first == pytest.approx(ROUNDS + 1, rel=0.02), (sent, job.describe())
    assert sent["worker0", "worker2"] == sent["worker3", "worker0"] == 0


def test_packed_trees_take_the_links_that_are_given(tmp_path):
    """Four hosts in a row, the server at the first one: whatever goes from host to host goes from
    worker to worker, once over each link in each direction."""
    links = tmp_path / "links"
    links.write_text("link 127.0.0.2 127.0.0.3 40 30\nlink 127.0.0.3 127.0.0.4 50\n"
                     "link 127.0.0.4 127.0.0.5 30 60\n")
    with trees("packed", 4, 1, PSLITE_LINKS=links) as job:
        hosts = {f"worker{index}": {"DMLC_NODE_HOST": f"127.0.0.{2 + index}"} for index in range(4)}
        job.node_env = {**hosts, "server": {"DMLC_NODE_HOST": "127.0.0.2"}}
        job.start()
        ended_well(job)
        sent = models(job)
    assert len(set(job.digests.values())) == 1, job.describe()
    between = sum(models for (one, other), models in sent.items()
                  if one.startswith("worker") and other.startswith("worker"))
    assert between == pytest.approx(6 * ROUNDS, rel=0.05), (sent, job.describe())
    # What makes the keys, and the sums, from the worker beside the server.
    to_server = sum(sent[f"worker{rank}", "server0"] for rank in range(4))
    assert to_server == pytest.approx(ROUNDS + 1, rel=0.02), (sent, job.describe())


def test_compressed_pushes_go_up_as_they_are():
    """Over each hop go 2 bits of each element for each worker behind it, and values once. The sums
    are those of rounds that go straight."""
    digests, sent = {}, {}
    for topology in ("star", "balanced:1"):
        with trees(topology, 4, 1, TREES_COMPRESSED=1) as job:
            job.start()
            ended_well(job)
            sent[topology] = models(job)
        digests[topology] = set(job.digests.values())
        assert len(digests[topology]) == 1, job.describe()
    assert digests["star"] == digests["balanced:1"]
    sent = sent["balanced:1"]
    for rank in range(1, 4):
        up, down = f"worker{rank}", f"worker{rank - 1}"
        compressed = (4 - rank) * ROUNDS / 16
        assert sent[up, down] == pytest.approx(compressed, rel=0.1), (sent, job.describe())
        assert sent[down, up] == pytest.approx(ROUNDS, rel=0.02), (sent, job.describe())
        assert sent[up, "server0"] < 0.02, (sent, job.describe())
    assert sent["server0", "worker0"] == pytest.approx(ROUNDS, rel=0.02), (sent, job.describe())


@pytest.mark.parametrize("topology", ("packed", "auto"))
def test_a_drain_leaves_what_it_finds(topology, tmp_path):
    """Trees stay in force, or keys are placed by load, while a server is emptied and after that."""
    links = tmp_path / "links"
    row = "link 127.0.0.2 127.0.0.3 40\nlink 127.0.0.3 127.0.0.4 40\n"
    lan = "card 127.0.0.2 500\ncard 127.0.0.3 500\ncard 127.0.0.4 500\n"
    switch = "switch 127.0.0.2 127.0.0.3 127.0.0.4\n"
    links.write_text(row if topology == "packed" else lan + switch)
    env = {"PSLITE_TOPOLOGY": topology, "PSLITE_LINKS": links}
    with elastic_job.cluster(rounds=400, workers=3, servers=3, env=env) as job:
        for index in range(3):
            host = {"DMLC_NODE_HOST": f"127.0.0.{2 + index}"}
            job.node_env |= {f"worker{index}": host, f"server{index}": host}
        job.start()
        reach(job, 40)
        scheduler = job.nodes["scheduler"]
        drained = elastic_job.pslite(job, "drain", "server:1", "--wait", "30")
        assert drained.returncode == 0, (drained, job.describe())
        # Both come of what is measured after that, and take their time.
        comes = "rounds go along trees" if topology == "packed" else "planner (Mbit/s"
        assert scheduler.wait_for(comes, 60, after="left: server 1"), job.describe()
        elastic_job.end_early(job, 400, 40)
        assert job.wait(), job.describe()
        said = scheduler.output
    assert "no trees" not in said, job.describe()
    assert "left: server 1" in said, job.describe()
    if topology == "packed":
        assert said.rfind("rounds go along trees") > said.rfind("rounds go straight"), (
            job.describe())
    else:
        assert said.rfind("rounds go along trees") <= said.rfind("rounds go straight"), (
            job.describe())
        # It looks whether moves pay, as without trees.
        after = said[said.index("left: server 1"):]
        assert "planner (Mbit/s" in after and "switched_off" not in after, job.describe()


def test_hosts_without_links_are_said(tmp_path):
    """The job goes on, straight to the servers."""
    links = tmp_path / "links"
    links.write_text("link 127.0.0.8 127.0.0.9 40\n")
    with trees("packed", 2, 1, PSLITE_LINKS=links) as job:
        job.start()
        ended_well(job)
        assert "PSLITE_LINKS names no host 127.0.0.1" in job.nodes["scheduler"].output
    assert len(set(job.digests.values())) == 1, job.describe()


def test_a_star_has_no_ways_between_workers():
    with trees("star", 3, 1) as job:
        job.start()
        ended_well(job)
        sent = models(job)
    assert not any(a.startswith("worker") and b.startswith("worker") for a, b in sent), sent


@pytest.mark.parametrize("carriers", ("tcp", "zmq"))
def test_sums_are_exact_over_every_wire(carriers):
    with trees("balanced:2", 5, 1, PSLITE_TRANSPORT=carriers) as job:
        job.start()
        ended_well(job)
    assert len(set(job.digests.values())) == 1, job.describe()


def test_a_topology_that_needs_links_is_refused():
    """By the scheduler; others need not know of links."""
    with trees("packed", 1, 1) as job:
        job.start()
        assert job.wait(names=["scheduler"]), job.describe()
        assert "PSLITE_TOPOLOGY=packed needs PSLITE_LINKS" in job.nodes["scheduler"].output, (
            job.describe())
        assert "PSLITE_TOPOLOGY" not in job.nodes["worker0"].output, job.describe()


def test_it_is_said_who_knows_no_trees():
    """A stock worker knows none, so rounds go straight for all."""
    library = {"scheduler": OURS, "server": NATIVE, "worker": [OURS, STOCK]}
    with Cluster("trees.py", (ROUNDS,), workers=2, servers=1, library=library,
                 env={"PSLITE_TOPOLOGY": "balanced:1"}) as job:
        job.start()
        ended_well(job)
    assert re.search(r"no trees: worker \d \(.*\) is stock, or does not let keys move",
                     job.nodes["scheduler"].output), job.describe()


def test_auto_without_links_is_the_star():
    with trees("auto", 3, 1) as job:
        job.start()
        ended_well(job)
        sent = models(job)
        assert "rounds go along trees" not in job.nodes["scheduler"].output, job.describe()
    assert sent["worker2", "server0"] == pytest.approx(ROUNDS, rel=0.02), (sent, job.describe())


def test_sums_along_trees_repeat_bit_for_bit():
    """With PSLITE_DETERMINISTIC=tree; whoever comes first."""
    digests = set()
    for _ in range(2):
        with trees("balanced:2", 6, 1, PSLITE_DETERMINISTIC="tree", TREES_FRACTIONS="1") as job:
            job.start()
            ended_well(job)
            sent = models(job)
        assert sent["worker2", "worker0"] == pytest.approx(ROUNDS, rel=0.02), (sent, job.describe())
        digests.update(job.digests.values())
    assert len(digests) == 1, digests


@pytest.mark.parametrize("topology", ("balanced:1", "balanced:2"))
@pytest.mark.parametrize("rank", (1, 3))
def test_a_worker_with_fewer_rounds_is_not_waited_for(topology, rank):
    """It has a ticket for the next round, and so have the others, whose sums would wait for its
    name. They push alone, and rounds end without it."""
    with trees(topology, 4, 1, TREES_LEAVES=str(rank), PSLITE_ELASTIC_WORKERS="1",
               PSLITE_LOG="info") as job:
        job.start()
        ended_well(job)
        assert "rounds go along trees" in job.nodes["scheduler"].output, job.describe()


def test_it_is_said_who_left_without_its_push():
    """As without trees: the others end, and say whom they waited for."""
    with trees("balanced:1", 3, 1, TREES_LEAVES="2", PSLITE_LOG="info") as job:
        job.start()
        assert job.wait(60), job.describe()
    assert "rounds go along trees" in job.nodes["scheduler"].output, job.describe()
    failed = [node for node in job.workers if node.returncode > 0]
    assert len(failed) == 2, job.describe()
    for node in failed:
        assert re.search(r"MXNetError.*worker 2 .*left without the push", node.err), job.describe()


@pytest.mark.parametrize("rank", (0, 1, 3))
def test_it_is_said_whom_a_round_waits_for(rank):
    """Its sum waits at a relay, and the server knows nothing of the round."""
    with trees("balanced:1", 4, 1, TREES_SLEEPS=str(rank), TREES_GO="go",
               PSLITE_STALL_REPORT="2") as job:
        job.start()
        # Beside other work it may wait for somebody else as well, until all others have pushed.
        waits = re.compile(rf"round {ROUNDS // 2 + 1} of key 0 along a tree has waited \d+ s for "
                           rf"worker {rank} \([^()]*\)$", re.M)
        limit = patient(60)
        while not waits.search(job.nodes["scheduler"].output):
            assert time.monotonic() < limit and not job.nodes["scheduler"].poll(), job.describe()
            time.sleep(0.1)
        (job.folder / "go").touch()
        ended_well(job)


def test_what_finds_no_room_is_sent_later():
    """What its child sends to a relay that stands still is more than a connection of the stock wire
    takes, beside what kernels take."""
    library = {"scheduler": OURS, "server": NATIVE, "worker": OURS}
    env = {"PSLITE_TOPOLOGY": "balanced:1", "PSLITE_TRANSPORT": "zmq", "DMLC_PS_WATER_MARK": "10",
           "PSLITE_LOG": "info"}
    with Cluster("stands_still.py", (8000, 1024, 4), workers=2, servers=1, library=library,
                 env=env) as job:
        job.start()
        # Ranks follow ports.
        still = None
        limit = patient(60)
        while still is None and time.monotonic() < limit:
            still = next((node for node in job.workers if "stands still" in node.output), None)
            time.sleep(0.05)
        assert still, job.describe()
        time.sleep(3)
        still.signal(signal.SIGCONT)
        ended_well(job)
        assert "rounds go along trees" in job.nodes["scheduler"].output, job.describe()


@pytest.mark.parametrize("victim", ("server0", "server1"))
def test_a_server_that_dies_is_not_missed(victim):
    """Two workers: their sum has the same bits whoever adds."""
    with elastic_job.cluster(env={"PSLITE_TOPOLOGY": "balanced:1"}) as job:
        job.start()
        reach(job, 10)
        job.nodes[victim].signal(signal.SIGKILL)
        ended_well(job, gone=(victim,))
        assert "rounds go along trees" in job.nodes["scheduler"].output, job.describe()
    assert job.digests == undisturbed("sgd"), job.describe()


@pytest.mark.parametrize("rank", (0, 2))
def test_a_relay_that_dies_is_not_missed(rank):
    """Each gradient counts once or not at all, and the others go on along other trees."""
    with test_elastic_workers.cluster(rounds=80, env={"PSLITE_TOPOLOGY": "balanced:1"}) as job:
        job.start()
        victim, others = test_elastic_workers.kill(job, rank, 10)
        ended_well(job, gone=("lost worker",))
        one, other = others
        assert one.result["digest"] == other.result["digest"], job.describe()
        for place in range(3):
            before, after = test_elastic_workers.history(one, place)
            assert before[0] == test_elastic_workers.ALL and before[1] >= 10, job.describe()
            assert after[0] == test_elastic_workers.ALL - 2 ** rank, job.describe()


def test_a_site_whose_only_worker_dies_is_left_out(tmp_path):
    """The others go on along trees without it. The servers are at the first site."""
    links = tmp_path / "links"
    links.write_text("link 127.0.0.2 127.0.0.3 40\nlink 127.0.0.3 127.0.0.4 40\n")
    env = {"PSLITE_TOPOLOGY": "packed", "PSLITE_LINKS": links}
    with test_elastic_workers.cluster(rounds=80, env=env) as job:
        hosts = {f"worker{index}": {"DMLC_NODE_HOST": f"127.0.0.{2 + index}"} for index in range(3)}
        job.node_env = {**hosts, "server": {"DMLC_NODE_HOST": "127.0.0.2"}}
        job.start()
        last = job.nodes["worker2"]
        assert last.wait_for("round 10\n", 60), job.describe()
        last.signal(signal.SIGKILL)
        ended_well(job, gone=("worker2",))
        one, other = job.nodes["worker0"], job.nodes["worker1"]
        assert one.result["digest"] == other.result["digest"], job.describe()
        said = job.nodes["scheduler"].output
    assert "no worker of this job is at these hosts of PSLITE_LINKS: 127.0.0.4" in said, said
    assert said.rfind("rounds go along trees") > said.find("lost worker"), said
    assert "no trees" not in said, said
