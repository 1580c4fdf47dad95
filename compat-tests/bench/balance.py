"""LB-BSP: what batches bring that follow what each worker can do, beside equal ones, in turn.

    scripts/bench balance                 all parts (6 minutes on two idle cores), as root
    scripts/bench balance model emulated  some parts; the others are mxnet and torch
    scripts/bench balance --times 1       a quick look
    scripts/bench balance --gate          not 0 if a bar does not hold
    scripts/bench balance --docs          and the table of docs/benchmarks.md is written anew

model: the rules on the workers of a model, beside an oracle, and what the coordinator costs
(examples/balance_model.rs). emulated: eight workers in a real job, whose computing is sleeping; the
fastest is four times as fast as the slowest, and their speeds drift. mxnet: three workers of the
stock wheel, preloaded, with one server, each in a control group with a quota of processor time;
quotas go round at each third. torch: the same as DistributedDataParallel over gloo, without
servers. Environment: as compat-tests/harness.py.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import harness  # noqa: E402
import report  # noqa: E402
from netlab import cpu  # noqa: E402
from run import PAGE, machine  # noqa: E402

from harness import NATIVE, OURS, STOCK, Cluster  # noqa: E402

PARTS = ("model", "emulated", "mxnet", "torch")
BEGIN, END = "<!-- balance: begin -->", "<!-- balance: end -->"
# Of a core, for each worker; they go round.
QUOTAS = (0.15, 0.6, 0.3)
WORKERS, ITERATIONS, LIMIT = 8, 120, 400
# Bars: the spread of times after ten iterations, speed by the oracle's, speed by equal batches,
# how far losses may be apart.
SPREAD, ORACLE, SPEED, CLOSE = 0.05, 0.9, 1.4, 1e-5
PACKAGE = harness.ROOT / "ffi/python"
PROGRAM = harness.PROGRAMS / "balance_worker.py"
ENVIRONMENT = {"PYTHONPATH": str(PACKAGE),
               "PSLITE_LIBPS": str(harness.LIBRARY.with_name("libps.so"))}


class Bars:
    """Rows of the last table, and what does not hold."""

    def __init__(self):
        self.rows, self.failed = [], []

    def add(self, what, bar, measured, holds):
        mark = "" if holds else "**does not hold**"
        self.rows.append(f"| {what} | {bar} | {measured} | {mark} |")
        if not holds:
            self.failed.append(f"{what}: {measured}, {bar}")


def model(bars):
    done = subprocess.run(["cargo", "run", "--release", "--quiet", "--example", "balance_model",
                           "--", "--gate"], cwd=harness.ROOT, capture_output=True, text=True)
    print(done.stderr, file=sys.stderr)
    if not done.stdout:
        sys.exit("the model did not run")
    bars.add("model: all of its bars", "hold", "see above" if done.returncode == 0 else "do not",
             done.returncode == 0)
    return done.stdout.rstrip()


def emulated(bars, times):
    """Speeds that drift, with noise that nobody can know, and without."""
    rows = ["| emulated | noise | spread at first | after 10 iterations, median | worst "
            "| speed by equal batches | by the oracle |", "|---|---|---|---|---|---|---|"]
    for noise in (0.0, 0.05):
        found = {rule: [] for rule in ("fixed", "cpu-last", "cpu")}
        for _ in range(times):
            for rule, all_ in found.items():
                all_.append(emulate(rule, noise))
        for rule, all_ in found.items():
            by_equal = median(one["seconds"] for one in found["fixed"]) / median(
                one["seconds"] for one in all_)
            by_oracle = median(one["by_oracle"] for one in all_)
            spread, worst = (median(one[what] for one in all_) for what in ("spread", "worst"))
            first = median(one["first"] for one in all_)
            rows.append(f"| {rule} | {noise:.0%} | {first:.0%} | {spread:.1%} | {worst:.1%} "
                        f"| {by_equal:.2f} | {by_oracle:.2f} |")
            if rule == "cpu":
                bars.add(f"8 emulated workers, noise {noise:.0%}: speed by the oracle's",
                         f"at least {ORACLE}", f"{by_oracle:.2f}", by_oracle >= ORACLE)
                if noise == 0:
                    bars.add("8 emulated workers, no noise: spread after 10 iterations",
                             f"below {SPREAD:.0%}", f"{spread:.1%}", spread < SPREAD)
    return "\n".join(rows)


def emulate(rule, noise):
    job = Cluster(PROGRAM, args=["emulated", rule, noise], library=STOCK, whole=True,
                  workers=WORKERS, servers=0, timeout=LIMIT,
                  env={**ENVIRONMENT, "ITERATIONS": ITERATIONS}).run()
    workers = results(job)
    by_iteration = list(zip(*workers))
    spreads = []
    for all_ in by_iteration:
        seconds = [seconds for _, seconds, _ in all_]
        spreads.append((max(seconds) - min(seconds)) / min(seconds))
    slowest = sum(max(seconds for _, seconds, _ in all_) for all_ in by_iteration)
    oracle = sum(sum(size for size, _, _ in all_) / sum(speed for _, _, speed in all_)
                 for all_ in by_iteration)
    return {"first": spreads[0], "spread": median(spreads[10:]), "worst": max(spreads[10:]),
            "seconds": slowest, "by_oracle": oracle / slowest}


def results(job):
    for node in job.nodes.values():
        if node.hung or node.returncode != 0:
            sys.exit(job.describe())
    return [json.loads(worker.out.splitlines()[-1]) for worker in job.workers]


def real(bars, case, times):
    """Real computing under quotas."""
    found = {rule: [] for rule in ("fixed", "cpu")}
    for number in range(times):
        for rule, all_ in found.items():
            one = under_quotas(case, rule)
            all_.append(one)
            print(f"{case} {rule} {number}: {one['seconds']:.1f} s", file=sys.stderr, flush=True)
    seconds = {rule: median(one["seconds"] for one in all_) for rule, all_ in found.items()}
    gain = seconds["fixed"] / seconds["cpu"]
    losses = [all_[0]["losses"] for all_ in found.values()]
    apart = max(abs(a - b) for a, b in zip(*losses))
    bars.add(f"{case}, 3 workers under quotas: speed by equal batches", f"at least {SPEED}",
             f"{gain:.2f}", gain >= SPEED)
    bars.add(f"{case}: losses apart from those of equal batches", f"below {CLOSE:g}",
             f"{apart:.1e}", apart < CLOSE)
    possible = (1 / len(QUOTAS) / min(QUOTAS)) * sum(QUOTAS)
    sizes = found["cpu"][0]["sizes"]
    return (f"| {case} | {seconds['fixed']:.1f} s | {seconds['cpu']:.1f} s | {gain:.2f} "
            f"| {possible:.2f} | {losses[0][-1]:.4f} | {'/'.join(map(str, sizes))} |")


def under_quotas(case, rule):
    """One job of three workers whose quotas go round at each third of the iterations."""
    controller = cpu.controller()
    names = [f"balance-{os.getpid()}-{rank}" for rank in range(3)]
    groups = [controller.group("bench", name) for name in names]
    for group in groups:
        group.create()
    try:
        for group, quota in zip(groups, QUOTAS):
            group.limit(quota)
        return run_in(groups, case, rule)
    finally:
        for group in groups:
            group.remove()


def run_in(groups, case, rule):
    script = ('if [ -n "$GROUP" ]; then echo $$ > "$GROUP" || exit 1; fi; exec "$0" "$@"')
    node_env = {f"worker{rank}": {"GROUP": str(group.members), "RANK": rank}
                for rank, group in enumerate(groups)}
    python, library, servers = harness.PYTHON, OURS, 1
    env = {"PYTHONPATH": str(PACKAGE)}
    if case == "torch":
        python, library, servers = with_torch(), STOCK, 0
        env = {**ENVIRONMENT, "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": harness.free_port(), "GLOO_SOCKET_IFNAME": "lo"}
    else:
        library = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}
    env["ITERATIONS"] = {"mxnet": 90, "torch": 36}[case]
    command = ["sh", "-c", script, python, str(PROGRAM), case, rule]
    job = Cluster(PROGRAM, command=command, library=library, workers=3, servers=servers,
                  timeout=LIMIT, env=env, node_env=node_env)
    with job:
        job.start()
        for turn in (1, 2):
            first = job.nodes["worker0"]
            while not any(worker.output.count("third") >= turn for worker in job.workers):
                if first.poll():
                    sys.exit(job.describe())
                first.wait_for("a line that never comes", 0.05)
            for rank, group in enumerate(groups):
                group.limit(QUOTAS[(rank + turn) % len(QUOTAS)])
        job.wait()
        found = results(job)
    total = sum(one["sizes"][-1] for one in found)
    losses = [sum(of) / total for of in zip(*(one["losses"] for one in found))]
    return {"seconds": max(one["seconds"] for one in found), "losses": losses,
            "sizes": [one["sizes"][-1] for one in found]}


def with_torch():
    for python in (harness.PYTHON, "/usr/bin/python3"):
        if shutil.which(python) and subprocess.run(
                [python, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
            return python
    sys.exit("no Python with torch (Debian: apt-get install python3-torch)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--times", type=int, default=2, help="jobs of each kind, in turn")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true",
                        help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]}")
    bars, text = Bars(), [machine()]
    if "model" in parts:
        text.append(model(bars))
    if "emulated" in parts:
        text.append(emulated(bars, options.times))
    rows = [real(bars, case, options.times) for case in ("mxnet", "torch") if case in parts]
    if rows:
        text.append("\n".join([
            f"| quotas {QUOTAS} of a core, which go round | equal batches | LB-BSP | speed "
            "| possible | last loss | last sizes |", "|---|---|---|---|---|---|---|", *rows]))
    text.append("\n".join(["| what | bar | measured |  |", "|---|---|---|---|", *bars.rows]))
    page = "\n\n".join(text)
    print(page)
    if options.docs:
        PAGE.write_text(report.insert(PAGE.read_text(), page, BEGIN, END))
    for failed in bars.failed:
        print(f"bar does not hold: {failed}", file=sys.stderr)
    return 1 if options.gate and bars.failed else 0


if __name__ == "__main__":
    sys.exit(main())
