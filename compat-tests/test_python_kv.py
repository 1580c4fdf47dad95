"""pslite.node and pslite.kv: jobs of Python processes without MXNet, and what they refuse."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import harness
from harness import STOCK, Cluster

PACKAGE = harness.ROOT / "ffi/python"
ENVIRONMENT = {"PYTHONPATH": str(PACKAGE),
               "PSLITE_LIBPS": str(harness.LIBRARY.with_name("libps.so"))}


def run(case, **options):
    """What each worker saw, in the order of ranks."""
    env = {**ENVIRONMENT, **options.pop("env", {})}
    excused = options.pop("excused", ())
    job = Cluster("kv_worker.py", args=case.split(), library=STOCK, whole=True, env=env,
                  **{"timeout": 60, **options}).run()
    for name, node in job.nodes.items():
        assert not node.hung, job.describe()
        assert node.returncode == 0 or name in excused, job.describe()
    return [json.loads(worker.out.splitlines()[-1]) for worker in job.workers], job


@pytest.mark.parametrize("transport", ("shm", "tcp", "zmq"))
def test_sums(transport):
    found, job = run("sums", env={"PSLITE_TRANSPORT": transport})
    for worker in found:
        assert worker["out"] == [10, 12, 14, 16, 18, 20], job.describe()
        assert worker["lens"] in ([0, 1, 2, 3, 4], [0, 2, 4, 6, 8])
        assert worker["long"] in ([1, 1], [2, 2])
    # Of each key, one worker saw its own push alone, and the other one both.
    assert sum(worker["again"] for worker in found) == 2 * 90 + 6 + 12
    assert found[0]["ranges"] == [[0, 2**63 - 1], [2**63 - 1, 2 * (2**63 - 1)]]


WRONG = {
    "dtype": ("DtypeError", "float64"),
    "read-only": ("ReadOnlyError", "read-only"),
    "strided": ("NonContiguousError", "ascontiguousarray"),
    "swapped": ("DtypeError", "order of bytes"),
    "list": ("DtypeError", "buffer protocol"),
    "shape": ("ShapeError", "4 elements for 3 keys"),
    "lens": ("ShapeError", "3 values"),
    "lens count": ("ShapeError", "1 lens for 2 keys"),
    "out": ("ShapeError", "3 elements"),
    "no keys": ("ShapeError", "no keys"),
    "negative": ("InvalidArgument", "not -1"),
    "float keys": ("DtypeError", "float64"),
    "unsorted": ("InvalidArgument", "sorted"),
    "twice": ("InvalidArgument", "customer"),
    "group": ("InvalidArgument", "nobody"),
    "kind": ("DtypeError", "complex64"),
    "remote": ("RemoteError", "no key 1 here"),
    "fits": ("ProtocolError", "do not fit"),
}


def test_bad_input():
    found, job = run("bad_input")
    for worker in found:
        for name, (kind, text) in WRONG.items():
            assert worker[name] is not None, (name, job.describe())
            assert worker[name][0] == kind and text in worker[name][1], (name, worker[name])
        assert worker["small"] == [7, 7, 7]
        assert worker["goes on"] == [0, 0, 0, 0]


def test_a_limit_and_ctrl_c_in_a_wait():
    found, _ = run("timeouts")
    for worker in found:
        assert worker["text"][0] == worker["none"][0] == "Timeout"
        assert 0.3 <= worker["took"] < 1 and not worker["done"]
        assert worker["heard"] < 0.1


def test_ctrl_c_in_a_barrier():
    found, _ = run("interrupted")
    heard, = [worker["heard"] for worker in found if worker]
    assert heard < 0.5


@pytest.mark.parametrize("requests", (20_000, pytest.param(100_000, marks=pytest.mark.full)))
def test_memory_stays_flat(requests):
    # Beside other tests 100,000 took a minute; beside two busy builds as well, more than three.
    found, _ = run(f"memory {requests}", timeout=900)
    for worker in found:
        assert worker["sizes"][-1] - worker["sizes"][0] < 1 << 20, worker
        # Python's objects are counted: one that stays of each 100 requests is seen.
        assert worker["blocks"][-1] - worker["blocks"][0] < requests // 100, worker
        assert worker["open"] <= 2


def test_what_is_kept_for_the_next_requests():
    found, job = run("kept")
    for worker in found:
        assert 100 <= worker["arrays"] <= 1024 and 0 < worker["calls"] <= 64, worker
        assert worker["open"] <= 2, worker
        assert worker["float"][0] == worker["nested"][0] == "DtypeError", worker
        assert worker["lent"] and worker["shrunk"], worker
        assert worker["grown"][0] == "ProtocolError", worker
        # The first key was pushed to once more for each of those at a time.
        assert worker["sums"] == [1 + 3 * 64] + 19 * [1], worker


def test_a_child_of_fork_has_no_node():
    found, _ = run("forked")
    assert [worker["child"] for worker in found] == [0, 0]
    assert found[0]["out"] == found[1]["out"] == [3, 3]


@pytest.mark.waits
def test_a_server_that_dies_in_a_wait():
    found, _ = run("lost", env={"PSLITE_PEER_TIMEOUT": "1"}, excused=("server0", "server1"))
    for worker in found:
        assert worker["text"][0] == "PeerLost" and worker["took"] < 10, worker


@pytest.mark.waits
def test_a_process_that_ends_with_something_under_way():
    run("unclosed", excused=())


def test_a_job_of_this_package_alone():
    """Its scheduler and server need no program; it is seen from outside, and a server drained."""
    port = harness.free_port()
    root = f"127.0.0.1:{port}"
    code = {
        "scheduler": "job.serve_scheduler('{root}', workers=1, servers=2)",
        "server": "job.serve_server('{root}', workers=1, servers=2)",
    }
    worker = """
import numpy, time
from pslite import errors, job
from pslite.kv import KVWorker
from pslite.node import Node
node = Node('worker', root='{root}', workers=1, servers=2).start()
found = job.status('{root}')
assert (found.phase, found.workers, found.servers) == ('running', 1, 2), found
assert sorted(n.role for n in found.nodes) == ['server', 'server', 'worker'], found
events = job.events('{root}', 0.1)
first = [next(events) for _ in range(4)]
assert first[0].kind == 'phase' and 'running' in first[0].text, first
for wrong in (7, 1):
    try:
        print(job.drain('{root}', wrong, wait=20))
    except errors.RemoteError as error:
        print('refused:', error)
seen = []
while True:
    event = next(events)
    print(event)
    seen.append(event)
    if event.number and 'left: server 1' in event.text:
        break
released = [event for event in seen if 'server 1' in event.text and 'released' in event.text]
assert [(event.kind, event.node, event.number) for event in released] == [('node', 10, None)], seen
# Beside what differs between two looks: what the scheduler tells, each event once.
told = [event for event in first + seen if event.number is not None]
assert [event.number for event in told] == list(range(1, len(told) + 1)), told
policy = next(event for event in told if event.kind == 'policy')
assert policy.text.startswith('policy 2: 2 servers') and policy.level == 'info', policy
assert (policy.numbers['epoch'], policy.numbers['servers']) == (2, 2), policy
emptied = [event for event in told if event.text.endswith('is to be emptied')]
assert [(event.kind, event.node) for event in emptied] == [('node', 10)], told
assert found.waiting == [], found
node.stop()
node.close(barrier=False)
"""
    processes = []
    try:
        for role in ("scheduler", "server", "server"):
            text = "from pslite import job\n" + code[role].replace("{root}", root)
            processes.append(subprocess.Popen([sys.executable, "-c", text],
                                                      env=ENVIRONMENT))
        done = subprocess.run(
            [harness.PYTHON, "-c", worker.replace("{root}", root)], env=ENVIRONMENT, timeout=60,
            capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "refused:" in done.stdout, done.stdout
    finally:
        for process in processes:
            process.kill()
            process.wait(30)


def test_the_import_does_nothing():
    code = ("import sys, threading, pslite, pslite.kv, pslite.node, pslite.errors\n"
            "assert threading.active_count() == 1\n"
            "assert not any('libps' in line for line in open('/proc/self/maps'))\n"
            "assert 'numpy' not in sys.modules and 'mxnet' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30,
                           env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"})


def test_a_library_that_is_not_there():
    code = "from pslite.node import Node\nNode('worker')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                  timeout=30, env={**ENVIRONMENT, "PSLITE_LIBPS": "/nowhere.so"})
    assert done.returncode == 1 and "LibraryNotFound" in done.stderr
    assert "/nowhere.so: no such file" in done.stderr


# ---- the examples -------------------------------------------------------------------------------

def example(python, name, *words):
    """What an example prints, run as its first lines say."""
    text = (harness.ROOT / "examples" / name).read_text()
    assert f"    pslite run -n 2 -s 1 -- python examples/{name}\n" in text
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [harness.PROGRAM, "run", "-n", "2", "-s", "1", "--", python, f"examples/{name}", *words],
        cwd=harness.ROOT, capture_output=True, text=True, timeout=120, env={**ENVIRONMENT, **path})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_the_guide():
    guide = (harness.ROOT / "docs/python.md").read_text()
    source = (harness.ROOT / "examples/python_sums.py").read_text().partition('"""\n\n')[2]
    assert f"```python\n{source}```" in guide
    text = example(harness.PYTHON, "python_sums.py")
    assert text.count("gets [2. 2. 2. 2.]") == 2, text


@functools.lru_cache(maxsize=None)
def python_with_torch():
    """An interpreter that has torch: Debian's package python3-torch is for the system's."""
    finds = "from importlib.util import find_spec as f; assert f('torch') and f('numpy')"
    for python in (harness.PYTHON, "/usr/bin/python3"):
        if shutil.which(python) and subprocess.run(
                [python, "-c", finds], capture_output=True).returncode == 0:
            return python
    pytest.skip("no Python with torch (Debian: apt-get install python3-torch)")


def test_the_example_with_torch():
    """The loss falls, and both workers end with the same parameters."""
    text = example(python_with_torch(), "torch_server.py", "--steps", "40")
    found = re.findall(r"loss ([\d.]+), then ([\d.]+); parameters sum up to (\S+)", text)
    assert len(found) == 2 and found[0][2] == found[1][2], text
    assert all(float(last) < 0.7 * float(first) for first, last, _ in found), text


ARRAYS = """
import array, numpy, torch
from pslite import _arrays, errors
tensor = torch.arange(6, dtype=torch.float32)
view = _arrays.view(tensor, "x", True)
assert (view.address, view.nbytes, view.dtype) == (tensor.data_ptr(), 24, "float32")
assert _arrays.view(torch.zeros(3, dtype=torch.bfloat16), "x").dtype == "bfloat16"
for wrong, kind in ((tensor.reshape(2, 3).t(), errors.NonContiguousError),
                    (tensor.to_sparse(), errors.NonContiguousError),
                    (torch.zeros(2, requires_grad=True) * 2, errors.ReadOnlyError),
                    (torch.zeros(2, dtype=torch.complex64), errors.DtypeError)):
    try:
        _arrays.view(wrong, "x", True)
    except kind as error:
        assert str(error).startswith("x is"), error
    else:
        raise AssertionError(kind)
kept = bytearray(8)
view = _arrays.view(kept, "x", True)
try:
    kept.append(1)
except BufferError:
    view.release()
    kept.append(1)
else:
    raise AssertionError("its memory may move")
"""


def test_arrays_of_torch():
    done = subprocess.run([python_with_torch(), "-c", ARRAYS], capture_output=True, text=True,
                          timeout=60, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


def test_arrays_of_mxnet():
    code = """
import mxnet as mx
from pslite import _arrays, errors
array = mx.nd.arange(6)
view = _arrays.view(array, "x", True)
import ctypes
assert list((ctypes.c_float * 6).from_address(view.address)) == [0, 1, 2, 3, 4, 5]
assert (view.dtype, view.nbytes) == ("float32", 24)
try:
    _arrays.view(array.tostype("row_sparse"), "x")
except errors.NonContiguousError as error:
    assert "row_sparse" in str(error)
else:
    raise AssertionError
"""
    done = subprocess.run([harness.PYTHON, "-c", code], capture_output=True, text=True, timeout=60,
                          env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
