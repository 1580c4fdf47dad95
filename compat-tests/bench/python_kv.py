"""push_pulls of one worker: pslite.kv beside a C program (push_pull.c), in turn.

    python compat-tests/bench/python_kv.py                 4 MB, shared memory and TCP
    python compat-tests/bench/python_kv.py --bytes 4096 --count 2000
    python compat-tests/bench/python_kv.py --gate          exit code 1 if Python is slower than 0.95

The scheduler and the server are the C program's in all jobs. Printed is the median of all requests,
and the C program's by Python's.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import harness  # noqa: E402
from harness import PYTHON, ROOT, free_port  # noqa: E402

#: Of the C program's speed.
BAR = 0.95
LIMIT = 120
LIBPS = harness.LIBRARY.with_name("libps.so")


def worker(size, count):
    """The twin of `work` in push_pull.c."""
    import numpy as np

    from pslite.kv import KVWorker
    from pslite.node import Node

    with Node() as node:
        kv = KVWorker(node)
        node.barrier()
        values = np.zeros(size // 4, "float32")
        found = []
        for _ in range(10 + count):
            begin = time.monotonic()
            kv.push_pull([7], values).wait()
            found.append(time.monotonic() - begin)
        print(json.dumps(found[10:]), flush=True)


def build(folder):
    """The C program, linked to the library."""
    program = Path(folder, "push_pull")
    (Path(folder) / "libps.so.1").symlink_to(LIBPS)
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, "-O2", "-std=c99", "-D_POSIX_C_SOURCE=199309L", "-Wall", "-Wextra",
                    f"-I{ROOT / 'include'}", str(HERE / "push_pull.c"), str(LIBPS),
                    f"-Wl,-rpath,{folder}", "-o", str(program)], check=True)
    return program


def job(program, python, transport, options):
    """Seconds of each request of one job."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(harness.FOREIGN)}
    env.update(DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(free_port()),
               DMLC_NUM_WORKER="1", DMLC_NUM_SERVER="1", PSLITE_TRANSPORT=transport,
               PYTHONPATH=str(ROOT / "ffi/python"), PSLITE_LIBPS=str(LIBPS))
    words = [str(options.bytes), str(options.count)]
    own = [PYTHON, str(HERE / "python_kv.py"), "--worker", *words] if python else \
        [str(program), *words]
    processes = []
    try:
        for role, command in (("scheduler", [str(program), *words]),
                              ("server", [str(program), *words]), ("worker", own)):
            processes.append(subprocess.Popen(command, env={**env, "DMLC_ROLE": role},
                                              stdout=subprocess.PIPE, text=True))
        found = json.loads(processes[-1].communicate(timeout=LIMIT)[0])
        if any(process.wait(30) for process in processes):
            raise SystemExit("python_kv: a process failed")
        return found
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(*map(int, sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=4 << 20)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--starts", type=int, default=5, help="of each of the two")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    holds = True
    folder = tempfile.mkdtemp(prefix="pslite-bench-")
    try:
        program = build(folder)
        for transport in ("shm", "tcp"):
            both = [[], []]
            for _ in range(options.starts):
                for python in (False, True):
                    both[python] += job(program, python, transport, options)
            in_c, in_python = map(median, both)
            holds &= in_c / in_python >= BAR
            print(f"{transport}, {options.bytes} bytes: C {1e6 * in_c:.0f} us, Python "
                  f"{1e6 * in_python:.0f} us, C by Python {in_c / in_python:.3f}", flush=True)
    finally:
        shutil.rmtree(folder)
    return int(options.gate and not holds)


if __name__ == "__main__":
    sys.exit(main())
