"""The Python package: `import pslite.preload` in the place of LD_PRELOAD."""

import os
import re
import shutil
import subprocess

import pytest

from cases import CASES, stock_digests
import harness
from harness import OURS

PACKAGE = harness.ROOT / "ffi/python"
PATH = f"{harness.PROGRAMS}:{PACKAGE}"
BY_PACKAGE = {"LD_PRELOAD": None, "PYTHONPATH": PATH, "PSLITE_LIBRARY": str(harness.LIBRARY)}


@pytest.mark.parametrize("name", ["dist_sync", "server_adam", "row_sparse", "trainer_worker"])
def test_a_job_without_preload(name):
    """harness.check sees to it that every process has mapped our library."""
    chosen = CASES[name]
    cluster = harness.run("by_package.py", chosen.script, *chosen.args, library=OURS, whole=True,
                          env={**chosen.env, **BY_PACKAGE})
    assert cluster.digests == stock_digests(name), cluster.describe()
    for worker in cluster.workers:
        assert f"library: {harness.LIBRARY}" in worker.out, worker.describe()


def test_beside_preloaded_nodes():
    """It does nothing where LD_PRELOAD was there before."""
    name = "dist_sync"
    env = {**CASES[name].env, "PYTHONPATH": PATH,
           # Would fail, if it were looked for.
           "PSLITE_LIBRARY": "/nonexistent"}
    cluster = harness.run("by_package.py", CASES[name].script, *CASES[name].args, library=OURS,
                          whole=True, env=env, node_env={"worker1": BY_PACKAGE})
    assert cluster.digests == stock_digests(name), cluster.describe()


def test_two_kvstores_in_one_process():
    """Two threads, two customers: as with LD_PRELOAD."""
    digests = []
    for script, env in (("by_package.py", BY_PACKAGE), ("two_threads.py", {})):
        args = ["two_threads.py"] if env else []
        with harness.Cluster(script, args=args, library=OURS, env=env, whole=True) as cluster:
            for role, index in (("scheduler", 0), ("server", 0), ("server", 1), ("worker", 0)):
                cluster.spawn(role, index)
            assert cluster.wait(60), cluster.describe()
        cluster.check()
        digests.append(cluster.digests)
    assert digests[0] == digests[1]


# ---- without a cluster ---------------------------------------------------------------------------

def python(code, package=PACKAGE, **env):
    """What an interpreter of its own prints."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(harness.FOREIGN)}
    env = {**base, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run([harness.PYTHON, "-c", code], env=env, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


WHERE = "import pslite.preload; print(pslite.preload.library)"


def place(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    return target


@pytest.fixture
def checkout(tmp_path):
    """A copy of the package in a tree like ours, without any library."""
    package = tmp_path / "checkout/ffi/python"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def test_the_search(checkout):
    """Each place is taken only if those before it have nothing."""
    folder = place(harness.LIBRARY, checkout.parent.parent / "loader" / harness.LIBRARY.name).parent
    loader = {"LD_LIBRARY_PATH": str(folder)}
    assert python(WHERE, checkout, **loader).strip() == str(folder / harness.LIBRARY.name)
    built = place(harness.LIBRARY, checkout.parent.parent / "target/release" / harness.LIBRARY.name)
    assert python(WHERE, checkout, **loader).strip() == str(built)
    beside = place(harness.LIBRARY, checkout / "pslite" / harness.LIBRARY.name)
    assert python(WHERE, checkout, **loader).strip() == str(beside)
    told = python(WHERE, checkout, **loader, PSLITE_LIBRARY=str(built)).strip()
    assert told == str(built)


def test_a_missing_library_names_the_places(checkout):
    text = python(WHERE, checkout)
    assert "ImportError" in text and "cargo build" in text and "PSLITE_LIBRARY" in text, text
    tried = text.partition("Tried:")[2]
    for path in (checkout / "pslite/libpslite_mxnet.so",
                 checkout.parent.parent / "target/release/libpslite_mxnet.so"):
        assert str(path) in tried, text
    assert re.search(r"^  libpslite_mxnet\.so: cannot open", tried, re.M), text


@pytest.mark.parametrize("content,said", [
    (None, "no such file"), (b"no library", "header|too short"),
    ("another", "no functions of ps-lite")])
def test_a_wrong_path_is_named(tmp_path, content, said):
    """PSLITE_LIBRARY alone counts if it is set: no other place is looked at."""
    path = tmp_path / "libpslite_mxnet.so"
    if content == "another":
        import _ctypes
        shutil.copy2(_ctypes.__file__, path)
    elif content:
        path.write_bytes(content)
    text = python(WHERE, PSLITE_LIBRARY=str(path))
    tried = text.partition("Tried:")[2].strip().splitlines()
    assert "ImportError" in text and len(tried) == 1, text
    assert tried[0].startswith(f"{path}: ") and re.search(said, tried[0]), text


def test_too_late():
    text = python("import mxnet\n" + WHERE, PSLITE_LIBRARY=str(harness.LIBRARY))
    assert re.search(r"ImportError: pslite\.preload comes too late: /\S+/libmxnet\.so", text), text
    assert "before mxnet" in text


def test_after_mxnet_with_ld_preload():
    text = python("import mxnet\n" + WHERE, LD_PRELOAD=str(harness.LIBRARY))
    assert text.strip().splitlines()[-1] == str(harness.LIBRARY), text


def test_a_wheel_that_exports_nothing(tmp_path):
    """As those of MXNet 1.7 and before: they would use their own ps-lite without a word."""
    place(harness.ROOT / "Cargo.toml", tmp_path / "mxnet/libmxnet.so")
    (tmp_path / "mxnet/__init__.py").write_text("raise RuntimeError('it was imported')")
    text = python(WHERE, f"{tmp_path}:{PACKAGE}", PSLITE_LIBRARY=str(harness.LIBRARY))
    assert f"ImportError: pslite.preload has no effect on {tmp_path}/mxnet/libmxnet.so" in text, (
        text)


def test_an_environment_without_mxnet(tmp_path):
    """Then there is nothing to look at, and it is not for us to complain."""
    (tmp_path / "mxnet").mkdir()
    (tmp_path / "mxnet/__init__.py").write_text("")
    text = python(WHERE, f"{tmp_path}:{PACKAGE}", PSLITE_LIBRARY=str(harness.LIBRARY))
    assert text.strip() == str(harness.LIBRARY)


def test_loaded_locally_before():
    """A library that somebody loaded for himself is made global, not loaded a second time."""
    code = (f"import ctypes; ctypes.CDLL({str(harness.LIBRARY)!r})\n" + WHERE +
            "; print(hasattr(ctypes.CDLL(None), '_ZN2ps10Postoffice5StartEiPKcb'))")
    assert python(code).split() == [str(harness.LIBRARY), "True"]


def test_its_program_is_that_of_this_repository():
    """`pslite` on the command line is the program inside the wheel (test_wheel.py), and says what
    is missing where there is none."""
    text = (PACKAGE / "pyproject.toml").read_text()
    assert re.findall(r"^(\w+) = \"(\w+\.\w+:\w+)\"$", text, re.M) == [
        ("pslite", "pslite._program:main")]
    assert "install the wheel" in python("from pslite._program import main; main()")
    version = re.search(r'^version = "(.+)"', text, re.M)[1]
    assert f'__version__ = "{version}"' in (PACKAGE / "pslite/__init__.py").read_text()
    assert f'version = "{version}"' in (harness.ROOT / "Cargo.toml").read_text()
