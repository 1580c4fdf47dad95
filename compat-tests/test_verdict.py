"""What `pslite run` says in the end of a job that failed: who was the cause, what that said last,
and the exit code. Everybody else says in a line that it heard of it."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness

#: Seconds; far above what a job needs here.
LIMIT = 120


def environment():
    """Without what belongs to another job."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("DMLC_", "PS_")) and name not in ("LD_PRELOAD", "PORT")}
    return {**kept, "PSLITE_LIBRARY": str(harness.LIBRARY)}


def start(what, folder, *options):
    """The job, and where it says that it trains."""
    command = [harness.PROGRAM, "run", "-n", "2", "-s", "2", *options, "--", harness.PYTHON, "-u",
               harness.PROGRAMS / "verdict.py", what, folder / "going"]
    return subprocess.Popen(command, env=environment(), cwd=folder, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def ended(process):
    """Its exit code and its lines."""
    try:
        out, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    return process.returncode, out.splitlines()


def trains(process, folder):
    """Waits until the job trains."""
    limit = harness.patient(LIMIT)
    while not (folder / "going").exists():
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.05)


def child(process, label):
    """The process that the launcher calls so: its command line and its number among the launcher's
    children do not change."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (folder / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            continue
        role, number = label.split()
        wanted = {f"DMLC_ROLE={role}".encode(), f"PSLITE_RANK={number}".encode()}
        if parent == process.pid and wanted <= set(variables):
            return int(folder.name)
    raise AssertionError(f"no {label}")


def verdict(lines):
    """The last lines of the launcher."""
    first = next(number for number, line in enumerate(lines)
                 if line.startswith("pslite: the job failed because of"))
    return lines[first:]


def test_who_raised_an_exception_is_named_and_everybody_by_its_rank(tmp_path):
    code, lines = ended(start("raises", tmp_path))
    text = "\n".join(lines)
    last = verdict(lines)
    assert code == 1, text
    assert re.fullmatch(r"pslite: the job failed because of worker 1, which ended with exit code 1 "
                        r"after [\d.]+ s", last[0]), text
    assert last[-2:] == ["pslite: worker 1 said last: ValueError: the cause of it all",
                         "pslite: exit code 1"], text
    # The label in front of a line is the rank in it.
    for rank in "01":
        assert f"[worker {rank}] rank {rank} is RANK {rank} of 2" in text, text
    assert re.search(r"\[worker 0\] .*worker 1 \(id 11, .*left without the push", text), text
    for node in ("scheduler", "server 0", "server 1"):
        assert f"[{node}] Traceback" not in text, text


def test_a_lost_server_is_named_once_by_each(tmp_path):
    process = start("trains", tmp_path)
    trains(process, tmp_path)
    os.kill(child(process, "server 1"), signal.SIGKILL)
    code, lines = ended(process)
    text = "\n".join(lines)
    last = verdict(lines)
    assert code == 137 and last[-1] == "pslite: exit code 137", text
    assert last[0].startswith("pslite: the job failed because of server 1, which was ended by "
                              "SIGKILL"), text
    # MXNet raises it again at the end of a worker's process; that is not ours to change.
    for node in ("scheduler", "server 0"):
        own = [line for line in lines if line.startswith(f"[{node}]")]
        assert not any("Traceback" in line or "File " in line for line in own), text
    for node in ("scheduler", "server 0", "worker 0", "worker 1"):
        said = [line for line in lines if line.startswith(f"[{node}]") and "pslite: error:" in line]
        assert 1 <= len(said) <= 3 and len(set(said)) == len(said), (node, said, text)


@pytest.mark.parametrize("options", [(), ("--native-scheduler", "--native-servers")],
                         ids=["mxnet", "native"])
def test_an_interrupted_job_blames_nobody(tmp_path, options):
    process = start("trains", tmp_path, *options)
    trains(process, tmp_path)
    process.send_signal(signal.SIGINT)
    code, lines = ended(process)
    text = "\n".join(lines)
    assert code == 130, text
    assert "pslite: SIGINT: passed on to worker 0, worker 1, then to the others" in lines, text
    assert "because of" not in text and "lost scheduler" not in text, text


def test_a_worker_that_never_came_ends_the_job(tmp_path):
    code, lines = ended(start("absent", tmp_path))
    text = "\n".join(lines)
    assert code == 1, text
    assert any(line.startswith("pslite: the job can never begin: worker 1 ended before it was in "
                               "the job") for line in lines), text
