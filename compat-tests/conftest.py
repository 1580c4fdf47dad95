"""Checks before the first test that there is something to test; a folder for all test processes.

PSLITE_TEST_REQUIRE=all: a test that is skipped has failed, since what it needs is required here.
"""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import harness  # noqa: E402
import kept  # noqa: E402

# What is collected stays: to look through it again and again takes a fifth of the collection.
gc.set_threshold(50_000)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also what is marked `full` (pytest.ini)")


def pytest_collection_modifyitems(config, items):
    left_out = ([] if config.getoption("--full")
                else [item for item in items if item.get_closest_marker("full")])
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    # What is begun last is what a run waits for in its end.
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and os.environ.get("PSLITE_TEST_REQUIRE") == "all":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{why} (PSLITE_TEST_REQUIRE=all: nothing may be skipped)"


def pytest_configure(config):
    if not Path(harness.PYTHON).exists():
        pytest.exit(f"{harness.PYTHON} is missing: run scripts/python-env", returncode=2)
    if not (harness.available()):
        pytest.exit(f"{harness.LIBRARY} is missing: run cargo build --release", returncode=2)
    # The processes of `pytest -n` are children of this one and find it in their environment.
    if not hasattr(config, "workerinput"):
        os.environ[kept.RUN] = tempfile.mkdtemp(prefix="pslite-run-")
        if config.getoption("--full"):
            os.environ[kept.STOCK_ANEW] = "1"


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(kept.RUN, ""), ignore_errors=True)


def pytest_report_header():
    return f"pslite: {harness.LIBRARY}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """A failure is named when it happens: a run that is ended before its summary has not hidden
    it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        print(f"\nFAILED {report.nodeid} ({report.when}): "
              f"{crash.message[:500] if crash else report.longrepr}", flush=True)
