"""Which symbols of ps-lite are ours: by the files, and by what the loader does in a real job.

The reader and the reasons are those of scripts/symbol-table, which writes docs/symbols.md.
"""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys

import pytest

import harness
from harness import OURS

SCRIPT = harness.ROOT / "scripts/symbol-table"


def load_script():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("symbol_table", str(SCRIPT))
    spec = importlib.util.spec_from_loader("symbol_table", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


table = load_script()


@pytest.fixture(scope="module")
def wheel():
    site = subprocess.run([harness.PYTHON, "-c",
                           "import sysconfig; print(sysconfig.get_path('platlib'))"],
                          check=True, text=True, stdout=subprocess.PIPE, timeout=30).stdout.strip()
    return table.Elf(f"{site}/mxnet/libmxnet.so")


@pytest.fixture(scope="module")
def uses(wheel):
    return table.Uses(wheel, table.exports())


def test_the_library_exports_the_map_and_the_c_abi_and_nothing_else():
    exports, functions = table.exports(), table.c_functions()
    assert len(exports) == 22 and len(functions) > 60
    assert table.Elf(harness.LIBRARY).exported() == exports | functions


def test_no_function_of_the_c_abi_takes_the_place_of_something(wheel):
    assert not {name for name in wheel.exported() if name.startswith("pslite_")}


def test_every_export_takes_the_place_of_something(wheel):
    """A name that the wheel lacks, after a change of a signature, would replace nothing:
    silently."""
    assert table.exports() - wheel.exported() == set()


def test_whatever_mxnet_reaches_is_ours_or_has_a_reason(uses):
    reached = uses.reached(table.exports()) & set(uses.symbols)
    # What the wheel's own analysis must find, or it has found nothing.
    for name in ("_ZN2ps10Postoffice5StartEiPKcb", "_ZN2ps11Environment4findEPKc",
                 "_ZTVN2ps8KVWorkerIcEE", "_ZNK2ps3Van7my_nodeEv"):
        assert name in reached and uses.by_mxnet(name), name
    unknown = {name for name in reached - table.exports() if table.reason(name) is None}
    assert not unknown


def test_an_export_that_is_forgotten_is_noticed(uses):
    """The check above can fail: without one of the exports, what hangs on it has no reason."""
    for name in table.exports():
        if name in uses.kinds and table.PS.match(name):
            reached = uses.reached(table.exports() - {name})
            assert name in reached and table.reason(name) is None, name


def test_the_page_is_up_to_date(wheel):
    done = subprocess.run([sys.executable, str(SCRIPT), "--check", "--wheel", str(wheel.path),
                           "--library", str(harness.LIBRARY)],
                          text=True, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr


BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `(\w+)'")


def test_the_loader_binds_our_symbols_to_our_library(uses):
    """LD_DEBUG in the worker of a real job. What counts is what is bound until libmxnet is
    initialised: later lookups are dlsym's, by which our library finds what it forwards to."""
    debug = {"LD_DEBUG": "bindings,files", "LD_DEBUG_OUTPUT": "loader"}
    with harness.Cluster("nothing.py", workers=1, servers=1, library=OURS, whole=True,
                         node_env={"worker": debug}) as cluster:
        cluster.start()
        assert cluster.wait(), cluster.describe()
        worker = cluster.nodes["worker0"]
        text = (cluster.folder / f"loader.{worker.pid}").read_text(errors="replace")
    cluster.check()
    marker = re.search(r"calling init: \S+/libmxnet\.so", text)
    assert marker, "the loader did not say when it initialised libmxnet"
    bound = {}
    for file, target, name in BINDING.findall(text[:marker.start()]):
        if file.endswith("/libmxnet.so"):
            bound.setdefault(name, set()).add(target.rsplit("/", 1)[1])
    exports = table.exports()
    # The second names of constructors and destructors are used by nothing in the wheel.
    unused = {name for name in exports if name not in uses.kinds}
    assert all(re.search(r"[CD]2E", name) for name in unused), unused
    assert {name for name in exports if name in bound} == exports - unused
    for name in exports - unused:
        assert bound[name] == {harness.LIBRARY.name}, (name, bound[name])
    # And whatever else it has of ps-lite is its own: ours takes no place that the page does not
    # name.
    others = {name for name in uses.symbols if name not in exports and name in bound}
    assert len(others) > 100
    for name in others:
        assert bound[name] == {"libmxnet.so"}, (name, bound[name])
