"""Measures ours against stock and raw TCP, in turn, and writes the tables.

    python compat-tests/bench/run.py                        everything, tables on standard output
    python compat-tests/bench/run.py kv --starts 1 --rounds 3
    python compat-tests/bench/run.py native mx --gate       the bars; exit code 1 if one does not
      hold
    python compat-tests/bench/run.py --docs                 and docs/benchmarks.md is written anew

Clusters of all kinds that a part compares live side by side; for each point they are asked in turn,
in changing order, `--rounds` times each; and all of it with `--starts` sets of clusters. Raw
numbers: .cache/bench/result.json. Exit code 1 if a run failed, or if a ratio is below --at-least.
Environment: as compat-tests/harness.py.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import bars  # noqa: E402
import parts  # noqa: E402
import report  # noqa: E402
from cluster import LIBRARY, Failed  # noqa: E402
from harness import ROOT  # noqa: E402

PAGE = ROOT / "docs/benchmarks.md"
# Before a part starts: how long to look at what else the machine does, in seconds, and how many
# busy cores are worth a warning.
LOOK, BUSY = 1, 0.2


def machine():
    """One line about where this was measured."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    return f"{report.plural(cores, 'core')} of {model}, Linux {platform.release().split('-')[0]}."


def busy_cores():
    """How many cores others keep busy now, while nothing is measured."""
    def used():
        user, nice, system, *_ = Path("/proc/stat").read_text().split()[1:]
        return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")
    before = used()
    time.sleep(LOOK)
    return (used() - before) / LOOK


def measure(options):
    series = report.Series()
    failures = 0
    for start in range(options.starts):
        series.next_start()
        for part in options.parts:
            if start and part in parts.ONCE:
                continue
            busy = busy_cores()
            print(f"{time.strftime('%H:%M:%S')} start {start + 1} of {options.starts}: {part}"
                  + (f" (WARNING: others keep {busy:.1f} cores busy)" if busy > BUSY else ""),
                  file=sys.stderr, flush=True)
            try:
                parts.PARTS[part](series, options)
            except Failed as failed:
                print(failed, file=sys.stderr, flush=True)
                failures += 1
    return series, failures


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", choices=[*parts.PARTS, []], help="default: all")
    parser.add_argument("--starts", type=int, default=7, help="sets of clusters, one after another")
    parser.add_argument("--rounds", type=int, default=3, help="slices of each point for each start")
    parser.add_argument("--slice", type=float, default=0.1, help="seconds of a slice, about")
    parser.add_argument("--stock-only", action="store_true",
                        help="no ratio: for work on this itself")
    parser.add_argument("--docs", action="store_true",
                        help="write the tables into docs/benchmarks.md")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--at-least", type=float, metavar="R",
                        help="fail if on the stock wire a ratio to stock is below R")
    options = parser.parse_args()
    options.parts = options.parts or list(parts.PARTS)
    if options.stock_only:
        options.parts = [part for part in options.parts if part not in parts.ONCE]
    elif not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    if options.docs and (options.stock_only or set(options.parts) != set(parts.PARTS)):
        parser.error("--docs writes all tables: give no part")
    return options


def complain(series, options):
    """Says what is not as wanted; True if that is to be a failure."""
    slower = series.slower(options.at_least or 1)
    for point in slower:
        low, high = series.interval(point, "zmq") or (0, float("inf"))
        print(f"below stock on its wire: {' '.join(map(str, point))}: "
              f"{series.ratio(point, 'zmq'):.2f}, between {low:.2f} and {high:.2f}",
              file=sys.stderr)
    missed = bars.missed(series)
    for bar in missed:
        print(f"bar does not hold: {bar.text}: {bar.value(series):.3g}, {bar.wanted}",
              file=sys.stderr)
    return bool((options.at_least and slower) or (options.gate and missed))


def main():
    options = parse()
    series, failures = measure(options)
    if not series.points:
        return 1
    parts.CACHE.mkdir(parents=True, exist_ok=True)
    (parts.CACHE / "result.json").write_text(json.dumps(
        {"machine": machine(), "starts": options.starts, "rounds": options.rounds,
         "slice": options.slice, "points": series.raw()}, indent=1))
    tables = report.text(series, machine(), f"{options.starts} starts of {options.rounds} rounds.")
    print(tables)
    if options.docs and not failures:
        PAGE.write_text(report.insert(PAGE.read_text(), tables))
    return 1 if complain(series, options) or failures else 0


if __name__ == "__main__":
    sys.exit(main())
