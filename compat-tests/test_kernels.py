"""The data that the Rust tests of sums and compression hold is what MXNet itself computes.

`data/` was written by the same programs: see below. To write it anew, set PSLITE_WRITE_DATA=1.
"""

import os
import subprocess
from pathlib import Path

import harness
from harness import STOCK

DATA = Path(__file__).resolve().parent / "data"


def same(name, lines):
    if os.environ.get("PSLITE_WRITE_DATA"):
        (DATA / name).write_text("\n".join(lines) + "\n")
    assert (DATA / name).read_text().splitlines() == lines


def sums(fill):
    """The workers' sums; `fill`: what memory from malloc holds in the server.

    MXNet's server never sets `multi_precision_` until it is told that it is true, so what the
    memory held decides whether it sums halves and doubles as floats (glibc's MALLOC_PERTURB_ sets
    it).
    """
    # Without its cache of freed memory, which is handed out as it is.
    env = {"server": {"MALLOC_PERTURB_": fill ^ 0xff,
                      "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}}
    cluster = harness.run("sums.py", "dist_sync", workers=3, servers=1, library=STOCK, node_env=env)
    first, second, third = (result["sums"] for result in cluster.results)
    assert first == second == third, "the workers pulled different sums"
    return first


def test_sums_of_mxnets_server():
    lines = [f"plain {line}" for line in sums(0)] + [f"multi-precision {line}" for line in sums(1)]
    same("sums.txt", lines)


def test_two_bit_compression_of_mxnet():
    done = subprocess.run([harness.PYTHON, harness.PROGRAMS / "two_bit.py"], timeout=60,
                          stdout=subprocess.PIPE, check=True, text=True)
    same("two_bit.txt", done.stdout.splitlines())
