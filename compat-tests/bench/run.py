"""Measures ours against stock, in turn, and writes the tables.

    python compat-tests/bench/run.py                        everything, tables on standard output
    python compat-tests/bench/run.py kv --starts 1 --rounds 3
    python compat-tests/bench/run.py mx --stock-only
    python compat-tests/bench/run.py --docs                 and docs/benchmarks.md is written anew

Two clusters live at a time, one on stock, one on ours; for each point they are asked in turn: stock,
ours, ours, stock, and so on, `--rounds` times each; and all of it with `--starts` pairs of clusters.
Raw numbers: .cache/bench/result.json. Exit code 1 if a run failed, or if a ratio is below --at-least.
Environment: as compat-tests/harness.py.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import cluster  # noqa: E402
import report  # noqa: E402
from cluster import LIBRARY, OURS, STOCK  # noqa: E402
from harness import PYTHON, ROOT  # noqa: E402

CACHE = ROOT / ".cache/bench"
PAGE = ROOT / "docs/benchmarks.md"
SHAPES = ((1, 1), (2, 2))  # workers, servers
SIZES = (64, 4 << 10, 256 << 10, 4 << 20)
MODES = {"sequential": 1, "pipelined": 16}  # requests under way
OPS = ("push", "pull", "pushpull")
# Requests with which a point's speed is first looked at, and the most that a slice may have.
FIRST, MOST = 32, 50_000
# Seconds after which a cluster ends itself, whatever happens.
KV_LIMIT, MX_LIMIT = 1200, 1800


def build():
    """The benchmark's program, if it is older than its sources."""
    program = CACHE / "kv_bench"
    sources = [HERE / "kv_bench.cc", HERE / "abi.h"]
    if program.exists() and all(s.stat().st_mtime < program.stat().st_mtime for s in sources):
        return program
    CACHE.mkdir(parents=True, exist_ok=True)
    # The wheel's string ABI. Nothing of the wheel is linked: it is opened at run time.
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++11", "-O2", "-Wall", "-Wextra", "-Werror",
                    "-D_GLIBCXX_USE_CXX11_ABI=0", str(sources[0]), "-o", str(program), "-ldl",
                    "-pthread"], check=True, timeout=120)
    return program


def wheel():
    """The stock library, without importing it."""
    # Not resolved: a virtual environment's interpreter is a link out of it.
    venv = Path(PYTHON).absolute().parent.parent
    found = sorted(venv.glob("lib/python3*/site-packages/mxnet/libmxnet.so"))
    if not found:
        sys.exit(f"no libmxnet.so beside {PYTHON}: run scripts/python-env")
    return found[0]


def in_turn(series, point, command, clusters, rounds, combine):
    """Asks every cluster for a slice, `rounds` times, each time in the other order."""
    for round_ in range(rounds):
        for one in clusters[::-1] if round_ % 2 else clusters:
            rates = [answer["ops_per_s"] for answer in one.ask(command)]
            series.add(point, one.library, combine(rates))


def started(stack, command, workers, servers, libraries):
    return [stack.enter_context(cluster.Cluster(command, workers, servers, library))
            for library in libraries]


def kv(series, options, libraries):
    command = [str(build()), str(wheel()), str(KV_LIMIT)]
    for workers, servers in SHAPES:
        with ExitStack() as stack:
            clusters = started(stack, command, workers, servers, libraries)
            for size in SIZES:
                for mode, window in MODES.items():
                    for op in OPS:
                        kv_point(series, (workers, servers), (mode, window, op, size), clusters, options)
            for one in clusters:
                one.end()


def kv_point(series, shape, what, clusters, options):
    mode, window, op, size = what
    # As many requests as fill a slice on the faster library, the same number on both.
    first = [one.ask(f"{op} {size} {window} {FIRST}") for one in clusters]
    fastest = max(answer["ops_per_s"] for answers in first for answer in answers)
    count = int(min(MOST, max(FIRST, fastest * options.slice)))
    in_turn(series, ("kv", shape, mode, op, size), f"{op} {size} {window} {count}", clusters,
            options.rounds, sum)  # every worker makes requests of its own


def mx(series, options, libraries):
    with ExitStack() as stack:
        command = [PYTHON, "-u", str(HERE / "mxkv.py"), str(MX_LIMIT)]
        clusters = started(stack, command, 2, 2, libraries)
        for name, title, steps in (("resnet50", "ResNet-50", 1), ("keys", "1000 keys of 4 KB", 3)):
            for one in clusters:
                one.ask(f"{name} 1")
            in_turn(series, ("mx", title), f"{name} {steps}", clusters, options.rounds,
                    mean)  # every worker makes the same steps
        for one in clusters:
            one.end()


def machine():
    """One line about where this was measured."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    return f"{report.plural(cores, 'core')} of {model}, Linux {platform.release().split('-')[0]}."


def measure(options):
    series = report.Series()
    libraries = [STOCK] if options.stock_only else [STOCK, OURS]
    failures = 0
    for start in range(options.starts):
        for part in options.parts:
            load = os.getloadavg()[0]
            print(f"start {start + 1} of {options.starts}: {part} (load {load:.1f})",
                  file=sys.stderr, flush=True)
            try:
                {"kv": kv, "mx": mx}[part](series, options, libraries)
            except cluster.Failed as failed:
                print(failed, file=sys.stderr, flush=True)
                failures += 1
    return series, failures


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", choices=["kv", "mx", []], help="default: both")
    parser.add_argument("--starts", type=int, default=7, help="pairs of clusters, one after another")
    parser.add_argument("--rounds", type=int, default=3, help="slices of each point for each start")
    parser.add_argument("--slice", type=float, default=0.1, help="seconds of a slice, about")
    parser.add_argument("--stock-only", action="store_true", help="no ratio: for work on this itself")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--at-least", type=float, metavar="R", help="fail if a ratio is below R")
    options = parser.parse_args()
    options.parts = options.parts or ["kv", "mx"]
    if not options.stock_only and not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    return options


def main():
    options = parse()
    series, failures = measure(options)
    if not series.points:
        return 1
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "result.json").write_text(json.dumps(
        {"machine": machine(), "starts": options.starts, "rounds": options.rounds,
         "slice": options.slice, "points": series.raw()}, indent=1))
    table = report.text(series, machine(), f"{options.starts} starts of {options.rounds} rounds.")
    print(table)
    if options.docs and not options.stock_only and not failures:
        PAGE.write_text(report.insert(PAGE.read_text(), table))
    slower = series.slower(options.at_least or 1)
    for point in slower:
        print(f"slower than stock: {' '.join(map(str, point))}: {series.ratio(point):.2f}",
              file=sys.stderr)
    return 1 if failures or (options.at_least and slower) else 0


if __name__ == "__main__":
    sys.exit(main())
