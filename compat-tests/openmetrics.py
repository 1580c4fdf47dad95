"""What tests of the OpenMetrics text share: a real Prometheus, the expressions that people ask it
by the dashboard and the alerts, and a server of files that stands for nodes. Nothing here imports
mxnet."""

import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import harness

DEPLOY = harness.ROOT / "deploy"
DASHBOARD = DEPLOY / "grafana/pslite.json"
RULES = DEPLOY / "prometheus/rules.yml"
RULES_TEST = DEPLOY / "prometheus/rules_test.yml"
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
JOB = "pslite"
#: What only some jobs have: links of trees (docs/trees.md), and workers that share batches.
CONDITIONAL = ("pslite_link_bytes_per_second", "pslite_batch_samples")


def installed():
    return shutil.which("prometheus") and shutil.which("promtool")


def can_parse():
    return all(importlib.util.find_spec(name) for name in ("prometheus_client", "yaml"))


def families(text):
    """The families of a text by name, as Python's strict parser reads them."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} comes twice"
        found[family.name] = family
    return found


def total(text, name, **labels):
    """The sum of the samples of that name with those labels; a label may be a tuple of values."""
    def fits(sample):
        return sample.name == name and all(
            sample.labels.get(label) in (value if isinstance(value, tuple) else (value,))
            for label, value in labels.items())
    return sum(sample.value for family in families(text).values()
               for sample in family.samples if fits(sample))


def panels():
    """Title and expressions of each panel of the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    return [(panel["title"], [target["expr"] for target in panel["targets"]])
            for panel in dashboard["panels"] if panel["type"] != "row"]


def alerts():
    """Name and expression of each alert."""
    import yaml
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]


def asked(expression):
    """An expression of the dashboard as Grafana asks it, with an interval for short jobs."""
    for variable, value in (("$job", JOB), ("$instance", ".*"), ("$__rate_interval", "5s")):
        expression = expression.replace(variable, value)
    assert "$" not in expression, expression
    return expression


def compared(expression):
    """An alert as the numbers that it is about: 0 or 1, in place of nothing while all is well."""
    found, count = re.subn(r"(==|[<>]=?)(?=\s)", r"\1 bool", expression, count=1)
    assert count == 1, expression
    return found.replace("[5m]", "[5s]")


class Files:
    """Serves FOLDER/NAME.txt as /NAME/metrics."""

    def __init__(self, folder):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = folder / (self.path.strip("/").split("/")[0] + ".txt")
                if not path.is_file():
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.end_headers()
                self.wfile.write(path.read_bytes())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Prometheus:
    """Debian's, in a folder of its own, which scrapes each second.

    targets: from the name of a job to a list of (address, path).
    """

    def __init__(self, targets):
        self.folder = harness.scratch("pslite-prometheus-")
        self.port = harness.free_port()
        jobs = []
        for name, places in targets.items():
            for number, (address, path) in enumerate(places):
                jobs.append({"job_name": name if not number else f"{name}-{number}",
                             "scrape_interval": "1s", "scrape_timeout": "1s",
                             "metrics_path": path,
                             "static_configs": [{"targets": [address]}]})
        config = {"global": {"evaluation_interval": "1s"}, "rule_files": [str(RULES)],
                  "scrape_configs": jobs}
        # JSON is YAML, too.
        (self.folder / "prometheus.yml").write_text(json.dumps(config))

    def __enter__(self):
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml",
             f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self.until(self._is_ready, "it is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def _is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as page:
                return page.status == 200
        except OSError:
            return False

    def until(self, holds, what, timeout=30):
        limit = harness.patient(timeout)
        while not holds():
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < limit, f"not in time: {what}"
            time.sleep(0.2)

    def api(self, path, **arguments):
        query = urllib.parse.urlencode(arguments)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=30) as page:
                answer = json.load(page)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {arguments}: {error.read().decode()}") from error
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, expression):
        return self.api("query", query=expression)["result"]

    def targets(self):
        return self.api("targets", state="active")["activeTargets"]
