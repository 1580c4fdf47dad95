"""The ps-lite inside BytePS's source archive on PyPI, built as it is, and programs on it: peers for ours.

All of it stays in the folder .cache, which git ignores: the first call downloads 5 MB and compiles for three minutes,
most of it the archive's own libzmq.
"""

import fcntl
import functools
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import harness

VERSION = "0.2.5.post15"
FOLDER = harness.ROOT / ".cache" / "byteps"
TREE = FOLDER / f"byteps-{VERSION}"
PS_LITE = TREE / "3rdparty" / "ps-lite"
LIBRARIES = (PS_LITE / "build" / "libps.a", PS_LITE / "deps" / "lib" / "libzmq.a")
BUILT = FOLDER / f"ps-lite-{VERSION}-is-built"


class Unavailable(Exception):
    """The archive cannot be had."""


@functools.lru_cache(maxsize=None)
def ps_lite():
    """The folder of that ps-lite, built."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Test processes share it.
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not BUILT.exists():
            _unpack(_download())
            _make()
            BUILT.touch()
    return PS_LITE


def _download():
    archive = FOLDER / f"byteps-{VERSION}.tar.gz"
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                   "--dest", str(FOLDER), f"byteps=={VERSION}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip got no byteps {VERSION} within 120 s") from None
        if not archive.exists():
            raise Unavailable(f"pip cannot download byteps {VERSION}: {done.stderr.strip()[-300:]}")
    return archive


def _unpack(archive):
    with tarfile.open(archive) as tar:
        tar.extractall(FOLDER, filter="data")


def _make():
    """As the archive's documents say, but without a network."""
    zeromq = next(TREE.glob("zeromq-*.tar.gz"))
    command = ["make", f"ZMQ_URL=file://{zeromq}", "WGET=curl -s -O", "ps"]
    with open(FOLDER / "build.log", "w") as log:
        done = subprocess.run(command, cwd=PS_LITE, stdout=log, stderr=subprocess.STDOUT, timeout=590)
    assert done.returncode == 0, f"see {FOLDER / 'build.log'}"


def compile_program(source, target):
    """A program of ours on that ps-lite."""
    tree = ps_lite()
    command = ["g++", "-std=c++14", "-O1", "-w", "-DSTOCK", f"-I{tree / 'include'}", "-o", str(target), str(source),
               *map(str, LIBRARIES), "-pthread", "-lrt"]
    subprocess.run(command, check=True, timeout=240, env={**os.environ, "LC_ALL": "C"})
