"""The wheel that scripts/wheel builds: what is in it, and jobs in clean environments of the oldest
and the newest Python that are here."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import built
import harness
from harness import ROOT

#: Environments with the wheel's companions; they do not depend on pslite.
KEPT = ROOT / ".cache/wheels"
#: The package index does not answer at once.
LIMIT = 300
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith((*harness.FOREIGN, "PYTHON"))}

#: A job of one script without numpy: a server that gives back what it gets.
ECHO = """
import array
from pslite.kv import KVServer, KVWorker
from pslite.node import Node
with Node() as node:
    if node.role == "server":
        KVServer(node, lambda request: bytes(request.values))
    node.barrier()
    if node.role == "worker":
        out = array.array("B", [0] * 8)
        KVWorker(node, "uint8").push_pull([5], array.array("B", range(8)), out).wait()
        print("echo", out.tolist())
"""

#: A job of the stock wheel, preloaded.
SUMS = """
import pslite.preload
import mxnet as mx
kv = mx.kv.create("dist_sync")
kv.init(3, mx.nd.ones((4, 4)))
kv.push(3, mx.nd.ones((4, 4)) * (kv.rank + 1))
out = mx.nd.zeros((4, 4))
kv.pull(3, out=out)
print("sum", out.asnumpy().ravel()[0], "by", pslite.preload.library)
"""


def pythons():
    """Interpreters by version: those of pyenv and uv, and the one of the tests."""
    found = {sys.version_info[:2]: sys.executable}
    home = Path.home()
    for path in [*home.glob(".pyenv/versions/3.*/bin/python3"),
                 *home.glob(".local/share/uv/python/cpython-3.*/bin/python3")]:
        version = re.search(r"3\.(\d+)\.\d+", str(path))
        if version and int(version[1]) >= 8:
            found.setdefault((3, int(version[1])), str(path))
    return found


@pytest.fixture(scope="module")
def wheel():
    """Its path."""
    def make(folder):
        done = subprocess.run([ROOT / "scripts/wheel", folder], capture_output=True, text=True,
                              timeout=LIMIT, env={**os.environ, "PYTHON": sys.executable})
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()).parent == folder
    path, = built.once(make, "wheel").iterdir()
    return path


def environment(python, name, *packages):
    """A clean environment with these packages; kept for later runs."""
    folder = KEPT / name
    if not (folder / "ready").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True, timeout=LIMIT, env=CLEAN)
        if packages:
            subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", *packages],
                           check=True, timeout=LIMIT, env=CLEAN)
        (folder / "ready").touch()
    return folder


def installed(folder, wheel):
    """The environment's interpreter, with this wheel."""
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                    "--force-reinstall", wheel], check=True, timeout=LIMIT, env=CLEAN)
    return python


def run(folder, python, text, tmp_path):
    """What that script prints, as a job of two workers and a server; by the wheel's own program."""
    script = tmp_path / "job.py"
    script.write_text(text)
    done = subprocess.run(
        [folder / "bin/pslite", "run", "-n", "2", "-s", "1", "--", python, script],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, env=CLEAN)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_is_in_it(wheel):
    assert re.fullmatch(r"pslite-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    package = harness.ROOT / "ffi/python"
    sources = {str(path.relative_to(package)) for path in package.glob("pslite/**/*.py")}
    assert {"pslite/preload.py", "pslite/lbbsp/torch.py"} <= sources <= set(names)
    for name in ("py.typed", "libps.so.1", "libpslite_mxnet.so", "pslite"):
        assert f"pslite/{name}" in names
    assert not [name for name in names if name.endswith(".pyc")]


def newest(binary, prefix):
    """The newest version of these symbols that it needs: 34 for GLIBC_2.34."""
    said = subprocess.run(["objdump", "-T", binary], capture_output=True, text=True, check=True,
                          timeout=60).stdout
    return max(map(int, re.findall(rf"\b{re.escape(prefix)}\.(\d+)\b", said)))


def test_its_name_promises_no_more_than_it_holds(wheel, tmp_path):
    """glibc and libstdc++ both: of the latter RHEL 9, which is 2_34, has GLIBCXX_3.4.29."""
    promised = int(re.search(r"manylinux_2_(\d+)_", wheel.name)[1])
    zipfile.ZipFile(wheel).extractall(tmp_path)
    for name in ("libps.so.1", "libpslite_mxnet.so", "pslite"):
        binary = tmp_path / "pslite" / name
        assert newest(binary, "GLIBC_2") <= promised, name
        assert newest(binary, "GLIBCXX_3.4") <= 29 or promised >= 35, name


def test_the_newest_python_without_mxnet(wheel, tmp_path):
    """And the wheel's program. One test, since it is one environment."""
    version, python = max(pythons().items())
    folder = environment(python, f"bare-3.{version[1]}")
    text = run(folder, installed(folder, wheel), ECHO, tmp_path)
    assert text.count("echo [0, 1, 2, 3, 4, 5, 6, 7]") == 2, text
    done = subprocess.run([folder / "bin/pslite", "--version"], capture_output=True, text=True,
                          timeout=30, env=CLEAN)
    assert done.returncode == 0 and done.stdout.startswith("pslite "), done


def test_the_oldest_python_under_the_stock_wheel(wheel, tmp_path):
    version, python = min(pythons().items())
    folder = environment(python, f"mxnet-3.{version[1]}", "mxnet==1.9.1", "numpy<1.24")
    text = run(folder, installed(folder, wheel), SUMS, tmp_path)
    assert len(re.findall(r"sum 3\.0 by \S*/site-packages/pslite/libpslite_mxnet\.so", text)) == 2
