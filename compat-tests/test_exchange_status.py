"""What `pslite status` and the metrics say of workers that train while deltas travel, and of a job
that could."""

import json
import time

import pytest

import harness
from elastic_job import pslite
from test_exchange import job
from test_metrics import total
from test_slow_worker import by_rank, status

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits


def until(running, holds):
    """The first status of which that holds."""
    limit = harness.patient(60)
    found = None
    while time.monotonic() < limit:
        found = status(running)
        if found and holds(found):
            return found
        time.sleep(0.5)
    raise AssertionError(f"{found}\n{running.describe()}")


def knows_all(found):
    workers = found["exchanges"][0]["workers"] if found["exchanges"] else []
    return len(workers) == 2 and all(worker["per_exchange"] for worker in workers) and all(
        worker["iterations"] >= 20 for worker in workers)


def test_who_rounds_end_with_and_how_many_steps_the_others_take(tmp_path):
    """Worker 1 pauses twice as long between its steps."""
    file = tmp_path / "metrics"
    env = {"PSLITE_METRICS": f"{file}.%r:1"}
    with job("nbsync", "train", 5000, 0.05, env=env) as running:
        running.start()
        found = until(running, knows_all)
        exchange = found["exchanges"][0]
        ranks = {node["id"]: rank for rank, node in by_rank(found).items()}
        workers = {ranks[worker["id"]]: worker for worker in exchange["workers"]}
        assert workers[1]["is_slowest"] and not workers[0]["is_slowest"], found
        assert workers[0]["steps"] > workers[1]["steps"] > 1, found
        assert 0 < workers[0]["computing"] <= 1.01, found
        # A plain job would wait for worker 1 in each iteration.
        assert exchange["gain"] > 1, found
        assert exchange["rounds"] > 8 and exchange["window"] >= 1, found
        # Nobody waits for a worker. What servers take beside other work is the machine's to say.
        assert found["iteration"] is None and "worker" not in found["limit"], found
        text = pslite(running, "status").stdout
    assert "steps/s" in text and "<- rounds end with it" in text, text
    lines = (tmp_path / "metrics.worker0").read_text().splitlines()
    last = json.loads(lines[-1])
    counted = {what: total(last, f"exchange_{what}")
               for what in ("steps", "rounds", "computed", "held", "busy")}
    assert counted["steps"] > 10 and counted["rounds"] > 8, counted
    assert counted["computed"] > 100_000 and counted["busy"] > 0, counted
    # A server has no local model.
    servers = (tmp_path / "metrics.server0").read_text().splitlines()
    assert "exchange_steps" not in servers[-1], servers[-1]


def test_a_plain_job_is_told_what_an_exchange_would_bring():
    with job(None, "train", 5000, 0.1) as running:
        running.start()
        found = until(running, lambda found: found["exchange_advice"])
    said = found["exchange_advice"]
    assert said.startswith("PSLITE_SYNC=nbsync would do "), found
    assert "speeds differ" in said and "docs/nbsync.md" in said, found
