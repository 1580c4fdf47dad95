"""Programs that several tests use: built once in a test run, for all of its processes (pytest -n).

Unlike what kept.py keeps they contain the library that is tested, so they end with the run.
"""

import fcntl
import hashlib
import os
from pathlib import Path

import kept


def once(make, *depends_on):
    """The path of what `make(path)` builds; only the first of those who ask builds it, and the
    others wait for it. depends_on: in what the programs of a run differ from each other."""
    name = hashlib.sha256(repr(depends_on).encode()).hexdigest()[:24]
    folder = Path(os.environ[kept.RUN], "built", name)
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "program"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            # What is left of a build that failed is not taken for the program.
            make(folder / "part")
            (folder / "part").rename(program)
    return program
