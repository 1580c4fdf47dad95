"""scripts/lab as a program: it starts each role on its host, ends everything, says what is wrong,
and leaves nothing."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import LIBRARY
from netlab import FREE, Lab, names
from test_lab import REASON, SCRIPT, lab, left, needs_lab

# As in test_lab.py.
pytestmark = pytest.mark.alone

SAY = ('echo "$DMLC_ROLE $DMLC_NODE_HOST of $DMLC_PS_ROOT_URI: '
       '$DMLC_NUM_WORKER/$DMLC_NUM_SERVER $X"; ')


@needs_lab
def test_run_starts_each_role_on_its_host():
    done = lab("run", "--workers", "2x100", "--servers", "50/20", "--library", "stock", "--set",
               "X=y", "--change", "at=0.2 server:0=10 cut", "--", "sh", "-c", SAY)
    assert done.returncode == 1 and "is not HOST=RATE" in done.stderr, done
    done = lab("run", "--workers", "2x100", "--servers", "50/20", "--library", "stock", "--set",
               "X=y", "--change", "at=0.2 server:0=10", "--", "sh", "-c", SAY + "sleep 0.6")
    assert done.returncode == 0, done
    assert sorted(done.stdout.splitlines()) == [
        "[scheduler] scheduler 10.77.0.1 of 10.77.0.1: 2/1 y",
        "[server0] server 10.77.0.2 of 10.77.0.1: 2/1 y",
        "[worker0] worker 10.77.0.3 of 10.77.0.1: 2/1 y",
        "[worker1] worker 10.77.0.4 of 10.77.0.1: 2/1 y"]
    assert "lab: at 0.2 s: server:0=10\n" in done.stderr
    name = re.search(r"lab: (\S+): 4 hosts", done.stderr)[1]
    assert not left(name)


@needs_lab
@pytest.mark.parametrize("options, command, code, said", [
    ([], 'test $DMLC_ROLE != worker || exit 7; sleep 900', 7, "worker0 ended with exit code 7"),
    ([], 'test $DMLC_ROLE = worker || sleep 900', 143, "did not end by itself: scheduler, server0"),
    (["--timeout", "0.3"], 'sleep 900', 124, "the time of --timeout has passed"),
])
def test_run_ends_everything(options, command, code, said):
    begin = time.monotonic()
    done = lab("run", "--workers", "100", "--servers", "100", "--library", "stock", "--grace",
               "0.3", *options, "--", "sh", "-c", command)
    assert (done.returncode, said in done.stderr) == (code, True), done
    # Not because their sleep was over.
    assert time.monotonic() - begin < 600


def start(*words):
    """scripts/lab in the background; the process and the lab's name."""
    process = subprocess.Popen([SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    line = process.stderr.readline()
    found = re.search(r"lab: (\S+): \d+ (hosts|sites)", line)
    assert found, line + process.stderr.read()
    return process, found[1]


RUN = ("run", "--workers", "100", "--servers", "100", "--library", "stock", "--")


def alive(pids):
    """Those that run; what has ended may wait for its parent."""
    return [pid for pid in pids
            if names.started(pid) and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()]


def sleepers(name):
    return [pid for host in Lab.open(name).hosts.values() for pid in host.pids()]


def all_sleep(name):
    """The processes of a job of three, when all are there."""
    limit = time.monotonic() + 20
    while len(pids := sleepers(name)) < 3:
        assert time.monotonic() < limit, pids
        time.sleep(0.05)
    return pids


@needs_lab
def test_ctrl_c_removes_everything():
    process, name = start(*RUN, "sleep", "100")
    pids = all_sleep(name)
    listed = lab("list").stdout
    assert name in listed and re.search(r"server0 +10\.77\.0\.2 +100 +100", listed), listed
    there = lab("exec", "--lab", str(process.pid), "server0", "--", "cat",
                "/proc/sys/kernel/hostname")
    assert (there.returncode, there.stdout) == (0, "server0\n"), there
    assert lab("change", "--lab", name, "server0=20/30", "cut", "server0").returncode == 1
    assert lab("change", "--lab", name, "server0=20/30").returncode == 0
    assert Lab.open(name).host("server0").rates == (20, 30)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert not left(name) and not alive(pids)


@pytest.mark.full
@needs_lab
def test_what_a_killed_lab_leaves_is_removed_by_the_next():
    process, name = start(*RUN, "sleep", "100")
    pids = all_sleep(name)
    process.kill()
    process.wait(10)
    # One more may be seen between its fork and its exec.
    assert left(name) and len(sleepers(name)) >= 3
    with Lab({"one": FREE}) as other:
        assert not left(name) and left(other.name)
    assert not alive(pids)


def test_without_root_it_says_so():
    done = subprocess.run(["unshare", "--user", SCRIPT, "list"], capture_output=True, text=True,
                          timeout=20, check=False) if os.geteuid() == 0 else lab("list")
    if "unshare" in done.stderr:
        pytest.skip(f"no user namespaces: {done.stderr.strip()}")
    said = "lab: needs root: only root can make network namespaces\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_ours_needs_a_library():
    if REASON:
        pytest.skip(REASON)
    done = lab("run", "--", "true",
               env={**os.environ, "PSLITE_LIBRARY": str(LIBRARY.with_name("none.so"))})
    assert done.returncode == 1 and "no library" in done.stderr, done
