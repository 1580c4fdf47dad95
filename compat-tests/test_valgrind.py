"""Preloaded runs under valgrind: no access to what is not there, nothing uninitialised, no leak.

The first test runs the C++ program of the benchmarks, which makes MXNet's calls on MXNet's own
`libmxnet.so`, in all roles and without a single suppression. What the C library's dynamic loader
does while it loads that file does not count: it compares short strings in words of eight bytes,
which is a finding or none depending on how long the path of the wheel is. The second test runs a
Python worker with MXNet's engine; CPython and the wheel have findings of their own there, so what
counts is whether pslite's library is anywhere in a finding's stack.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "bench"))
import harness  # noqa: E402
from cases import SMALL_BOUND  # noqa: E402
from harness import LIBRARY, OURS, ROLES  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
VALGRIND = ["valgrind", "--num-callers=40"]
LIMIT = 400


@pytest.mark.long
def test_all_roles_are_clean(tmp_path, monkeypatch):
    import cluster
    import parts as bench
    command = [str(bench.build()), str(bench.wheel()), str(LIMIT)]
    spawn = cluster.Cluster._spawn

    def under_valgrind(self, words, role, env):
        options = ["--leak-check=full", "--show-leak-kinds=definite",
                   "--errors-for-leak-kinds=definite", f"--log-file={tmp_path}/{role}"]
        return spawn(self, VALGRIND + options + words, role, env)

    monkeypatch.setattr(cluster.Cluster, "_spawn", under_valgrind)
    # Process starts take many times as long here as elsewhere.
    monkeypatch.setattr(cluster, "ENDING", 120)
    try:
        with cluster.Cluster(command, 1, 1, cluster.ZMQ) as job:
            for request in ("push 4096 1 40", "pull 4096 1 40", "pushpull 262144 4 20"):
                job.ask(request)
            job.end()
    finally:
        reports = {role: (tmp_path / role).read_text() for role in ROLES}
    for role, report in reports.items():
        assert "ERROR SUMMARY" in report, (role, report[-2000:])
        assert "suppressed: 0 from 0" in report, (role, report[-500:])
        bad = [text for text in findings(report) if " dl_open_worker " not in text]
        assert not bad, (role, "\n\n".join(bad[:5]))


def findings(report):
    """The texts of valgrind's findings, each with its stacks."""
    lines = re.sub(r"(?m)^==\d+== ?", "", report)
    return [text for text in re.split(r"\n\s*\n", lines) if re.search(r"^ +(at|by) 0x", text, re.M)]


@pytest.mark.long
def test_a_python_worker_has_no_finding_of_ours(tmp_path):
    log = tmp_path / "worker.log"

    def prefix(role):
        return VALGRIND + [f"--log-file={log}"] if role == "worker" else []
    cluster = harness.run("push_pull.py", "dist_sync", library=OURS, workers=1, servers=1,
                          prefix=prefix, env={**SMALL_BOUND, "PYTHONMALLOC": "malloc"},
                          timeout=LIMIT)
    assert cluster.results[0]["pslite"]
    report = log.read_text()
    assert "ERROR SUMMARY" in report, report[-2000:]
    ours = [text for text in findings(report) if is_ours(text)]
    assert not ours, "\n\n".join(ours[:5])


def is_ours(finding):
    """True if a frame of the finding is in pslite: by its function, or by the name of its library.

    Folders do not count: the wheel's own frames lie below the checkout, which may have any name."""
    for function, place in re.findall(r"^ +(?:at|by) 0x[0-9A-F]+: (.*?)(?: \((?:in )?([^()]*)\))?$",
                                      finding, re.M):
        if "pslite" in function or Path(place).name == LIBRARY.name:
            return True
    return False


def test_whose_a_finding_is():
    """The name of the checkout does not make a frame ours."""
    wheel = """Invalid read of size 8
   at 0x4A2: ??? (in /home/me/pslite/.cache/venv/lib/python3.11/site-packages/mxnet/libmxnet.so)
   by 0x4B7: mxnet::kvstore::Push(int (*)(void*), std::string) (kvstore.cc:12)
   by 0x4C9: PyObject_Call (in /home/me/pslite/.cache/venv/bin/python3.11)"""
    assert not is_ours(wheel)
    assert is_ours(wheel + f"\n   by 0x4D0: ??? (in /opt/{LIBRARY.name})")
    assert is_ours(wheel + "\n   by 0x4D0: pslite::kv::tracker::Tracker::begin (tracker.rs:77)")
    assert is_ours(wheel + "\n   by 0x4D0: _ZN6pslite4node5start17h0E (lib.rs:3)")
