"""Checks before the first test that there is something to test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import harness  # noqa: E402


def pytest_configure(config):
    if not Path(harness.PYTHON).exists():
        pytest.exit(f"{harness.PYTHON} is missing: run scripts/python-env", returncode=2)
    if not (harness.available()):
        pytest.exit(f"{harness.LIBRARY} is missing: run cargo build --release", returncode=2)


def pytest_report_header():
    return f"pslite: {harness.LIBRARY}"
