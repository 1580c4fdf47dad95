"""The OpenMetrics text of nodes, as others read it: Python's strict parser, promtool, a real
Prometheus that is asked every expression of the dashboard and of the alerts."""

import json
import re
import subprocess
import time
import urllib.request

import pytest

import harness
import openmetrics
from harness import NATIVE, OURS

NODES = ["scheduler", "server0", "server1", "worker0", "worker1"]
DATA = ("push", "pull", "push-pull")
#: Seconds that the example's job runs.
RUNS = 25

needs_parser = pytest.mark.skipif(
    not openmetrics.can_parse(),
    reason="prometheus-client and pyyaml are missing: run scripts/python-env")
needs_prometheus = pytest.mark.skipif(not openmetrics.installed(),
                                      reason="Debian's package prometheus is not installed")
#: The row of the variable: as long as there is none, the library has no endpoint.
HAS_ENDPOINT = "| `PSLITE_HTTP` |" in (harness.ROOT / "docs/env.md").read_text()
needs_endpoint = pytest.mark.skipif(not HAS_ENDPOINT,
                                    reason="the library has no PSLITE_HTTP (docs/env.md)")


@pytest.fixture(scope="module")
def folder():
    """Where examples/openmetrics.rs writes the texts of its nodes while its job runs, and what
    Prometheus said of them then: in `answers`, by expression."""
    harness.build_examples()
    folder = harness.scratch("pslite-openmetrics-")
    job = subprocess.Popen([harness.example("openmetrics"), "job", folder, str(RUNS)],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        limit = harness.patient(60)
        while not all((folder / f"{name}.txt").exists() for name in NODES):
            assert job.poll() is None and time.monotonic() < limit, job.communicate(timeout=5)[0]
            time.sleep(0.1)
        if openmetrics.installed():
            (folder / "answers").write_text(json.dumps(ask(folder)))
        output, _ = job.communicate(timeout=harness.PATIENCE * (RUNS + 30))
        assert job.returncode == 0, output
    finally:
        if job.poll() is None:
            job.kill()
            job.wait()
    return folder


def ask(folder):
    """Lets a Prometheus look at the job for a while. What it answers, by expression."""
    with openmetrics.Files(folder) as files:
        places = {openmetrics.JOB: [(files.address, "/scheduler/metrics")],
                  "nodes": [(files.address, f"/{name}/metrics") for name in NODES[1:]]}
        with openmetrics.Prometheus(places) as prometheus:
            return {"targets": scraped(prometheus, len(NODES)), **answers(prometheus)}


def scraped(prometheus, count):
    """The targets, once each was scraped."""
    prometheus.until(lambda: sum(target["health"] == "up" for target in prometheus.targets())
                     == count, "all are scraped")
    return [(target["scrapePool"], target["lastError"]) for target in prometheus.targets()]


def expressions():
    """What the dashboard and the alerts ask: a title, and the expression."""
    shown = [(f"panel {title}", openmetrics.asked(expression))
             for title, all_of_it in openmetrics.panels() for expression in all_of_it]
    return shown + [(f"alert {name}", openmetrics.compared(expression))
                    for name, expression in openmetrics.alerts()]


def answers(prometheus, timeout=20):
    """How many series each expression gives, once all that must give some do; else at the end."""
    limit = harness.patient(timeout)
    while True:
        found = {expression: len(prometheus.series(expression)) for _, expression in expressions()}
        if not without_series(found) or time.monotonic() > limit:
            return found
        time.sleep(0.5)


def without_series(found):
    return [(title, expression) for title, expression in expressions()
            if not found[expression]
            and not any(name in expression for name in openmetrics.CONDITIONAL)]


def text(folder, name):
    return (folder / f"{name}.txt").read_text()


# ---- the files that come along ------------------------------------------------------------------

@needs_prometheus
@pytest.mark.parametrize("command", ["check rules", "test rules"])
def test_promtool_takes_the_rules(command):
    path = openmetrics.RULES if command == "check rules" else openmetrics.RULES_TEST
    ran = subprocess.run(["promtool", *command.split(), path], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=60)
    assert ran.returncode == 0 and "SUCCESS" in ran.stdout, ran.stdout


@needs_parser
def test_each_alert_has_a_test():
    import yaml
    tests = yaml.safe_load(openmetrics.RULES_TEST.read_text())["tests"]
    fires = {case["alertname"] for test in tests for case in test["alert_rule_test"]
             if case.get("exp_alerts")}
    rests = {case["alertname"] for test in tests for case in test["alert_rule_test"]
             if not case.get("exp_alerts")}
    names = {name for name, _ in openmetrics.alerts()}
    assert fires == names and rests == names


def test_the_dashboard_has_its_rows_and_ids():
    dashboard = json.loads(openmetrics.DASHBOARD.read_text())
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Job", "Rounds against T*", "Servers", "Links", "Waits", "Processes"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24, panel["title"]
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]


@needs_parser
def test_dashboard_and_alerts_name_only_what_is_documented():
    page = (harness.ROOT / "docs/metrics.md").read_text()
    known = set(re.findall(r"`((?:pslite|process)_\w+)`", page))
    parts = {f"{name}_{end}" for name in known for end in ("sum", "count", "bucket")}
    asked = openmetrics.panels() + [(name, [expr]) for name, expr in openmetrics.alerts()]
    for title, all_of_it in asked:
        for expression in all_of_it:
            for name in re.findall(r"\b(?:pslite|process)_\w+", expression):
                assert name in known | parts, (title, name)


# ---- a job whose texts are written to files -----------------------------------------------------

@needs_parser
@pytest.mark.parametrize("name", NODES)
def test_the_strict_parser_reads_each_text(folder, name):
    found = openmetrics.families(text(folder, name))
    assert len(found) > 15, sorted(found)
    assert found["process_cpu_seconds"].type == "counter"
    own = {sample.labels["node"] for sample in found["process_max_fds"].samples}
    assert own == {name}
    assert found["pslite_build_info"].samples[0].labels["wire"] == "mxnet"


@needs_parser
def test_the_text_has_the_numbers_of_the_json(folder):
    for name in NODES[1:]:
        line = json.loads((folder / f"{name}.json").read_text())
        here = text(folder, name)
        for old, new in (("messages", "pslite_messages_total"),
                         ("bytes", "pslite_message_bytes_total")):
            for kind in DATA:
                wanted = sum(sample["value"] for sample in line["metrics"]
                             if sample["name"] == old and sample["kind"] == kind)
                assert openmetrics.total(here, new, kind=kind) == wanted, (name, old, kind)
        for old, new in (("request_time", "pslite_request_duration_seconds"),
                         ("store_time", "pslite_store_duration_seconds")):
            times = [sample for sample in line["metrics"] if sample["name"] == old]
            assert openmetrics.total(here, f"{new}_count") == sum(s["count"] for s in times)
            assert openmetrics.total(here, f"{new}_sum") == pytest.approx(
                sum(s["sum"] for s in times) / 1e6)
            assert openmetrics.total(here, f"{new}_bucket", le="+Inf") == sum(
                s["count"] for s in times)


@needs_parser
def test_the_scheduler_has_the_totals_of_all_nodes(folder):
    here = text(folder, "scheduler")
    found = openmetrics.families(here)
    for family in ("pslite_messages", "process_resident_memory_bytes", "pslite_queued_messages"):
        nodes = {sample.labels["node"] for sample in found[family].samples}
        assert nodes == set(NODES), (family, nodes)
    for name in NODES[1:]:
        own = openmetrics.total(text(folder, name), "pslite_message_bytes_total", direction="sent")
        told = openmetrics.total(here, "pslite_message_bytes_total", node=name, direction="sent")
        # As they were when it last told them, at most 5 s ago.
        assert 0 < told <= own, (name, told, own)
    told = [sample for sample in found["pslite_messages"].samples
            if sample.labels["node"] != "scheduler"]
    assert all("peer" not in sample.labels for sample in told)
    phases = {sample.labels["phase"]: sample.value for sample in found["pslite_job_phase"].samples}
    assert phases.pop("running") + phases.pop("changing") == 1 and not any(phases.values())
    assert openmetrics.total(here, "pslite_nodes") == 4
    assert openmetrics.total(here, "pslite_server_bytes") == 4 * 2**18
    assert openmetrics.total(here, "pslite_rounds_total") > 10


@needs_parser
@needs_prometheus
def test_a_prometheus_has_a_series_for_every_expression(folder):
    found = json.loads((folder / "answers").read_text())
    assert len(found.pop("targets")) == len(NODES)
    assert not without_series(found), found


# ---- a job whose nodes have an endpoint ---------------------------------------------------------

def endpoints(ports):
    """From the name of a node to the address of its endpoint."""
    found = {}
    for port in ports:
        try:
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as page:
                assert page.headers["Content-Type"] == openmetrics.CONTENT_TYPE
                here = page.read().decode()
        except OSError:
            continue
        own = openmetrics.families(here)["process_max_fds"].samples
        found[own[0].labels["node"]] = (f"127.0.0.1:{port}", here)
    return found


class Watched:
    """The job of programs/watched.py, whose nodes have endpoints, until it was looked at."""

    def __init__(self, rounds, rows, env):
        low = harness.free_port(following=9)
        self.ports = range(low, low + 10)
        self.seen = harness.scratch("pslite-watched-") / "seen"
        self.cluster = harness.Cluster(
            "watched.py", args=[rounds, self.seen, rows],
            env={"PSLITE_HTTP": f"{low}-{low + 9}", **env},
            # Links within a host are not what limits rounds.
            node_env={name: {"DMLC_NODE_HOST": f"127.0.0.{host}"}
                      for host, name in enumerate(NODES[1:], 2)},
            library={"scheduler": OURS, "server": [NATIVE, OURS], "worker": OURS})

    def __enter__(self):
        self.cluster.__enter__()
        self.cluster.start()
        limit = harness.patient(60)
        while len(endpoints(self.ports)) < len(NODES):
            assert time.monotonic() < limit, self.cluster.describe()
            time.sleep(0.5)
        return self

    def __exit__(self, *error):
        self.cluster.__exit__(*error)

    def end(self):
        self.seen.touch()
        self.cluster.wait()
        self.cluster.check()


@needs_endpoint
@needs_parser
@needs_prometheus
@pytest.mark.long
def test_a_prometheus_scrapes_a_real_job():
    """One target. Every expression of the dashboard and of the alerts gives a series."""
    with Watched(200, 60_000, {"PSLITE_ELASTIC": "1", "PSLITE_TRANSPORT": "tcp"}) as job:
        scheduler, _ = endpoints(job.ports)["scheduler"]
        with openmetrics.Prometheus({openmetrics.JOB: [(scheduler, "/metrics")]}) as prometheus:
            scraped(prometheus, 1)
            found = answers(prometheus, 30)
        assert not without_series(found), (found, job.cluster.describe())
        job.end()


@needs_endpoint
@needs_parser
def test_the_endpoints_have_the_numbers_of_a_known_job():
    """The same numbers as test_metrics.py has."""
    rounds = 10
    with Watched(rounds, 50, {"PSLITE_ELASTIC": "0"}) as job:
        for worker in NODES[3:]:
            node = job.cluster.nodes[worker]
            assert node.wait_for("all rounds are over", 60), job.cluster.describe()
        texts = {name: here for name, (_, here) in endpoints(job.ports).items()}
        job.end()
    assert sorted(texts) == NODES
    for worker in NODES[3:]:
        inits = int(worker == "worker0")
        sent = {kind: openmetrics.total(texts[worker], "pslite_messages_total",
                                        direction="sent", kind=kind) for kind in DATA}
        assert sent == {"push": rounds + inits, "pull": rounds, "push-pull": 0}
        for kind in ("push", "pull"):
            timed = openmetrics.total(texts[worker], "pslite_request_duration_seconds_count",
                                      kind=kind)
            assert timed == sent[kind]
    served = sum(openmetrics.total(texts[name], "pslite_store_duration_seconds_count", kind="push")
                 for name in NODES[1:3])
    assert served == 2 * rounds + 1
