"""The ps-lite inside BytePS's source archive on PyPI, as scripts/byteps-tree builds it, and
programs on it: peers for ours.

All of it stays in the folder .cache, which git ignores: the first call downloads 5 MB and compiles
for two minutes, most of it the archive's own libzmq.
"""

import functools
import os
import subprocess
from pathlib import Path

import harness
import kept

#: With it theirs take a rest.
REST = harness.PROGRAMS / "byteps_rest.cc"
WRAPPED = [f"-Wl,--wrap={name}" for name in ("zmq_msg_recv", "pthread_mutex_unlock")]
SCRIPT = harness.ROOT / "scripts/byteps-tree"
#: What the script ends with then.
NO_DOWNLOAD = 3


class Unavailable(Exception):
    """The archive cannot be had."""


def tree(kind):
    """The folder of what the script builds by that name, built: minutes at first."""
    done = _built(kind)
    if done.returncode == NO_DOWNLOAD:
        raise Unavailable(done.stderr.strip()[-300:])
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


# A failure is remembered, too: to find that there is no network takes its time.
@functools.lru_cache(maxsize=None)
def _built(kind):
    return subprocess.run([str(SCRIPT), kind], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "PSLITE_PYTHON": str(harness.PYTHON)})


def ps_lite():
    """The folder of that ps-lite, built. Its strings are of the old ABI, as those of the wheel of
    MXNet."""
    return tree("ps-lite")


def compile_program(source, target, *flags):
    """A program of ours on that ps-lite; kept (kept.py)."""
    there = ps_lite()
    command = ["g++", "-std=c++14", "-O1", "-w", "-D_GLIBCXX_USE_CXX11_ABI=0", *flags,
               f"-I{there / 'include'}", f"-I{there / 'deps/include'}", "-o", str(target),
               str(source), str(REST), *WRAPPED, str(there / "build/libps.a"),
               str(there / "deps/lib/libzmq.a"), "-pthread", "-lrt"]

    def compiled():
        subprocess.run(command, check=True, timeout=240, env={**os.environ, "LC_ALL": "C"})
        return Path(target).read_bytes()

    key = kept.key("a program on ps-lite", texts=kept.texts(source, REST), flags=flags,
                   command=kept.texts(__file__), archives=(there / ".built").read_text(),
                   compiler=compiler())
    Path(target).write_bytes(kept.of_builds().value(key, compiled))
    Path(target).chmod(0o755)


@functools.lru_cache(maxsize=None)
def compiler():
    """What g++ says of itself; the C library is that of its machine."""
    asked = subprocess.run(["g++", "-v"], check=True, capture_output=True, text=True, timeout=20)
    return asked.stderr, os.confstr("CS_GNU_LIBC_VERSION")
