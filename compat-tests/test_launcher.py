"""The launcher that ships inside the wheel starts clusters through us, by LD_PRELOAD alone."""

import json
import os
import re
import signal
import subprocess

import pytest

import harness
from cases import SMALL_BOUND, stock_digests
from harness import OURS, STOCK

LIMIT = 90

# The tracker inside the wheel calls Thread.isAlive, which Python 3.9 removed: with a later Python
# people patch it so.
PATCHED = ("import runpy, sys, threading; threading.Thread.isAlive = threading.Thread.is_alive; "
           "del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')")


def launch(library, folder, workers=2, servers=2):
    """Runs mxnet's own tools/launch.py with dmlc_tracker's local launcher."""
    packages = subprocess.run(
        [harness.PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    with harness.Cluster("push_pull.py") as cluster:
        env = cluster.environment("worker", 0)
    for name in [n for n in env if n.startswith("DMLC_")]:
        del env[name]
    env.update(SMALL_BOUND, MXNET_HOME=str(folder), PS_VERBOSE="1", DMLC_NODE_HOST="127.0.0.1")
    if library == OURS:
        env["LD_PRELOAD"] = str(harness.LIBRARY)
    command = [harness.PYTHON, "-c", PATCHED, f"{packages}/mxnet/tools/launch.py", "-n",
               str(workers), "-s", str(servers), "--launcher", "local", harness.PYTHON, "-u",
               str(harness.PROGRAMS / "push_pull.py"), "dist_sync"]
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        process = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err, start_new_session=True)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = "hung"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(10)
    return code, (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.parametrize("library", [STOCK, OURS])
def test_local_launcher(library, tmp_path):
    code, out, err = launch(library, tmp_path)
    results = [json.loads(line) for line in re.findall(r"\{[^{}]*\"digest\"[^{}]*\}", out)]
    assert code == 0 and len(results) == 2, (code, out, err)
    assert {r["rank"]: r["digest"] for r in results} == stock_digests("dist_sync"), (out, err)
    ours = library == OURS
    assert all(r["pslite"] == ours for r in results)
    if ours:
        for role in harness.ROLES:
            assert re.search(rf"pslite.*{role}|{role}.*pslite", err), (role, err)
