"""What a test run keeps for the next ones: results that take long to come by and depend on nothing
that pslite does, such as what stock computes for a case.

The key of a result is a hash of all that it depends on; whoever keeps one names that. Results lie
in .cache/tests, which git ignores: each in a file of its own, with a hash of its bytes. Several
processes may use the folder at once: a file is complete or not there, and of those that lack a
result one makes it. What is damaged is as if it were not there. What was not used for AGE_MAX goes,
and what was not used for longest if there are more than BYTES_MAX.

PSLITE_TEST_CACHE=0: nothing is kept beyond the run. `--full`: what stock computes is not either.
"""

import ast
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import subprocess
import time
from pathlib import Path

import harness

FOLDER = harness.ROOT / ".cache/tests"
BYTES_MAX = 256 * 2**20
DAY = 24 * 3600
AGE_MAX = 30 * DAY

#: The folder of this test run, for all of its processes (conftest.py).
RUN = "PSLITE_TEST_RUN"
#: Set if what stock computes is kept for this run only (conftest.py).
STOCK_ANEW = "PSLITE_TEST_STOCK_ANEW"

#: Of the caller's environment, what the harness lets through and may change a sum.
NUMERIC = ("OPENBLAS_", "MKL_", "KMP_", "GOMP_", "LD_", "GLIBC_")


class Kept:
    """The results in a folder. Each is bytes."""

    def __init__(self, folder, bytes_max=BYTES_MAX, age_max=AGE_MAX):
        self.folder = Path(folder)
        self.bytes_max = bytes_max
        self.age_max = age_max

    def value(self, key, make):
        """The result of that key: what `make()` gives, if it is not there. `make` asks for no other
        result of the same key."""
        found = self.get(key)
        if found is not None:
            return found
        with self._alone(key):
            # Another process may have made it meanwhile.
            found = self.get(key)
            if found is None:
                found = make()
                self._put(key, found)
            return found

    def get(self, key):
        """The result, or None; it counts as used now."""
        path = self._path(key)
        try:
            digest, _, value = path.read_bytes().partition(b"\n")
        except OSError:
            return None
        if digest.decode("ascii", "replace") != hashlib.sha256(value).hexdigest():
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value

    def _path(self, key):
        return self.folder / f"{key}.kept"

    @contextlib.contextmanager
    def _alone(self, key):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{key}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _put(self, key, value):
        part = self.folder / f"{key}.{os.getpid()}.part"
        part.write_bytes(hashlib.sha256(value).hexdigest().encode() + b"\n" + value)
        part.rename(self._path(key))
        self._prune(self._path(key))

    def _prune(self, new):
        """Other processes may do the same: a file that is gone is as good."""
        files = []
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        now, total = time.time(), 0
        for used, size, path in sorted(files, reverse=True):
            if path.suffix == ".kept":
                total += size
                goes = path != new and (now - used > self.age_max or total > self.bytes_max)
            else:
                # Left by a process that was killed. Nobody holds a lock for a day.
                goes = now - used > DAY
            if goes:
                path.unlink(missing_ok=True)


def on():
    return os.environ.get("PSLITE_TEST_CACHE") != "0"


def of_builds():
    """For what is compiled."""
    return Kept(FOLDER if on() else os.environ[RUN])


def of_stock():
    """For what stock computes."""
    return Kept(FOLDER if on() and STOCK_ANEW not in os.environ else os.environ[RUN])


def key(kind, **depends_on):
    """The hash of what a result is and of all that it depends on."""
    text = json.dumps([kind, depends_on], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def texts(*paths):
    """The text of these programs and of what they use out of their own folders, by name."""
    found, waiting = {}, list(map(Path, paths))
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = path.read_text()
            used = _imports if path.suffix == ".py" else _includes
            waiting += [path.with_name(name) for name in used(found[path])
                        if path.with_name(name).is_file()]
    return {path.name: text for path, text in found.items()}


def _imports(text):
    for node in ast.walk(ast.parse(text)):
        names = ([alias.name for alias in node.names] if isinstance(node, ast.Import)
                 else [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        yield from (f"{name.split('.')[0]}.py" for name in names)


def _includes(text):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)


# What is installed beside the interpreter: versions, and of MXNet and numpy, which compute, the
# list of files with a hash of each (or what there is: a package may be installed without).
_ASK = """
import json, platform, sys
from importlib import metadata
found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
files = {name: metadata.distribution(name).read_text("RECORD") for name in ("mxnet", "numpy")}
library = next(f for f in metadata.files("mxnet") if f.name == "libmxnet.so")
size = library.locate().stat().st_size
print(json.dumps([sys.version, platform.libc_ver(), found, files, str(library), size]))
"""


@functools.lru_cache(maxsize=None)
def machine():
    """All of this machine that a sum may depend on."""
    asked = subprocess.run([harness.PYTHON, "-c", _ASK], check=True, timeout=60,
                           capture_output=True, text=True).stdout
    processor = re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$",
                           Path("/proc/cpuinfo").read_text(), re.M)
    numeric = {name: value for name, value in os.environ.items() if name.startswith(NUMERIC)}
    return {"python": json.loads(asked), "processor": sorted(set(processor)),
            "processors": os.cpu_count(), "environment": numeric}
