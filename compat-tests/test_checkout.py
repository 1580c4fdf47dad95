"""The scripts say at once where a checkout cannot work, and do not depend on what it is called."""

import shutil
import subprocess

import pytest

from harness import ROOT


@pytest.mark.parametrize("name", ["with blank", "with:colon"])
@pytest.mark.parametrize("script", ["test", "demo", "bench", "lab", "python-env"])
def test_a_path_that_cannot_be_preloaded_is_refused(tmp_path, name, script):
    place = tmp_path / name
    shutil.copytree(ROOT / "scripts", place / "scripts")
    run = subprocess.run([place / "scripts" / script], capture_output=True, text=True, timeout=30)
    assert run.returncode == 2, run
    assert f"{script}: the path of this checkout, '{place}', has a blank or a colon" in run.stderr
    assert run.stdout == "" and not (place / ".cache").exists()
