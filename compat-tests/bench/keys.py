"""Jobs with very many small keys: what those whose keys may move, without copies and with them,
take beside a static one, in turn.

    scripts/bench keys                    100,000 keys of 10 floats, 2 workers, 2 and 8 servers
    scripts/bench keys --keys 5000 --stock    fewer, with stock beside
    scripts/bench keys --servers 2 --times 1  a quick look
    scripts/bench keys --gate             not 0 if a bar does not hold
    scripts/bench keys --docs             and the table of docs/benchmarks.md is written anew

The workers are MXNet's, the servers `pslite server`, the scheduler `pslite scheduler`. Each job
makes all keys with one `kv.init`, trains three rounds, rests for some seconds, and ends. Measured:
seconds of `init` and of the last round; seconds of the end, from the word that the workers may end
until the last process is gone; the part of a core that the scheduler needs while the job rests; and
for each key the private memory above that of a job with 100 keys, after the worker has told its
allocator to give back what is free (a server at rest does so itself). Raw numbers:
.cache/bench/keys.json. Environment: as compat-tests/harness.py.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import report  # noqa: E402
from parts import CACHE  # noqa: E402
from run import PAGE, machine  # noqa: E402

from harness import NATIVE, OURS, STOCK, Cluster  # noqa: E402

FLOATS, ROUNDS, WORKERS = 10, 3, 2
# Keys of the job whose memory is taken for that of a job without keys.
FEW = 100
# Seconds that a job rests before it is looked at, and for which its scheduler is looked at; and how
# long a job may take.
SETTLE, REST, LIMIT = 2, 5, 900
BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"
NATIVES = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}
MODES = {
    "stock": {"library": STOCK},
    "static": {"library": NATIVES, "env": {"PSLITE_ELASTIC": "0"}},
    "moves": {"library": NATIVES, "env": {"PSLITE_ELASTIC": "moves"}},
    "elastic": {"library": NATIVES, "env": {"PSLITE_ELASTIC": "1"}},
}
# At most: times the static job's seconds, the part of a core, bytes a key beside the values.
TIMES, CORE, BYTES = 1.5, 0.05, 1024


def cpu(pid):
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    """Bytes of memory that are a process's own."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no Private_Dirty of process {pid}")


def one(mode, keys, servers):
    """What one job took."""
    job = Cluster("many_keys.py", args=(keys, FLOATS, ROUNDS), workers=WORKERS, servers=servers,
                  timeout=LIMIT, **MODES[mode])
    with job:
        job.start()
        for worker in job.workers:
            if not worker.wait_for('"rested"', LIMIT):
                sys.exit(job.describe())
        time.sleep(SETTLE)
        memory = {role: max(resident(node.pid) for node in job.of(role))
                  for role in ("scheduler", "server", "worker")}
        scheduler = job.nodes["scheduler"]
        before = cpu(scheduler.pid), time.monotonic()
        time.sleep(REST)
        rest = (cpu(scheduler.pid) - before[0]) / (time.monotonic() - before[1])
        begin = time.monotonic()
        (job.folder / "go").touch()
        job.wait()
        end = time.monotonic() - begin
        job.check()
        results = job.results
        if not all(result["right"] for result in results):
            sys.exit(job.describe())
    return {"init": max(result["init"] for result in results), "end": end, "rest": rest,
            "memory": memory, "round": max(result["rounds"][-1] for result in results)}


def measure(options):
    """By servers and mode: a list of what jobs took, each beside the memory of one with few
    keys."""
    taken = {}
    for servers in options.servers:
        modes = [mode for mode in MODES if mode != "stock" or options.stock]
        few = {mode: one(mode, FEW, servers)["memory"] for mode in modes}
        for time_ in range(options.times):
            for mode in modes[time_ % len(modes):] + modes[:time_ % len(modes)]:
                found = one(mode, options.keys, servers)
                found["by_key"] = {role: (bytes_ - few[mode][role]) / options.keys
                                   for role, bytes_ in found["memory"].items()}
                taken.setdefault((servers, mode), []).append(found)
                print(f"{time.strftime('%H:%M:%S')} {WORKERS}x{servers} {mode}: init "
                      f"{found['init']:.2f} s, round {found['round']:.2f} s, end "
                      f"{found['end']:.2f} s, scheduler at rest {found['rest']:.1%} of a core, "
                      f"bytes a key {({role: round(n) for role, n in found['by_key'].items()})}",
                      file=sys.stderr, flush=True)
    return taken


def middle(found, *names):
    """The median of a number over jobs."""
    def get(job):
        for name in names:
            job = job[name]
        return job
    return median(map(get, found))


def beside_values(found, role, servers):
    """Bytes a key of the whole job that a role holds at one node, without the values and their
    copy."""
    values = FLOATS * 4
    mine = {"scheduler": 0, "server": values, "worker": 0}[role]
    return middle(found, "by_key", role) - mine / servers


def missed(taken, servers):
    """Bars that do not hold for a number of servers."""
    static, elastic = taken[servers, "static"], taken[servers, "elastic"]
    for what in ("init", "end"):
        ratio = middle(elastic, what) / middle(static, what)
        if ratio > TIMES:
            yield (f"{WORKERS}x{servers}: {what} takes {ratio:.2f} times the static job's, "
                   f"at most {TIMES}")
    if middle(elastic, "rest") > CORE:
        part = middle(elastic, "rest")
        yield f"{WORKERS}x{servers}: the scheduler at rest takes {part:.1%} of a core"
    for role in ("scheduler", "server", "worker"):
        more = beside_values(elastic, role, servers)
        if role == "worker":  # MXNet's arrays are there in a static job too, and in stock's.
            more -= min(middle(static, "by_key", role), more)
        if more > BYTES:
            yield f"{WORKERS}x{servers}: a key takes {more:.0f} bytes at a {role}, at most {BYTES}"


def table(taken, options):
    """For the page."""
    jobs = f"{options.times} job{'s' * (options.times > 1)} of each kind in turn"
    rows = [f"{options.keys:,} keys of {FLOATS} floats, {jobs}, medians. {machine()}", "",
            "| job | | init | round | end | scheduler at rest "
            "| bytes a key: scheduler | server | worker |",
            "|---|---|---|---|---|---|---|---|---|"]
    for (servers, mode), found in taken.items():
        numbers = [f"{middle(found, what):.2f} s" for what in ("init", "round", "end")]
        numbers.append(f"{middle(found, 'rest'):.1%} of a core")
        numbers += [f"{middle(found, 'by_key', role):.0f}"
                    for role in ("scheduler", "server", "worker")]
        rows.append(f"| {WORKERS}x{servers} | {mode} | " + " | ".join(numbers) + " |")
    for servers in options.servers:
        static = taken[servers, "static"]
        for mode in ("moves", "elastic"):
            ratios = [f"{middle(taken[servers, mode], what) / middle(static, what):.2f}"
                      for what in ("init", "round", "end")]
            rows.append(f"| {WORKERS}x{servers} | {mode} / static | " + " | ".join(ratios)
                        + " | | | | |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--servers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--times", type=int, default=3, help="jobs of each kind")
    parser.add_argument("--stock", action="store_true",
                        help="stock's jobs too (slow: a key takes it a millisecond)")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true",
                        help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    taken = measure(options)
    CACHE.mkdir(parents=True, exist_ok=True)
    raw = [{"servers": servers, "mode": mode, "jobs": found}
           for (servers, mode), found in taken.items()]
    record = {"machine": machine(), "keys": options.keys, "jobs": raw}
    (CACHE / "keys.json").write_text(json.dumps(record, indent=1))
    text = table(taken, options)
    print(text)
    if options.docs:
        PAGE.write_text(report.insert(PAGE.read_text(), text, BEGIN, END))
    failed = [text for servers in options.servers for text in missed(taken, servers)]
    for text in failed:
        print(f"bar does not hold: {text}", file=sys.stderr)
    return 1 if options.gate and failed else 0


if __name__ == "__main__":
    sys.exit(main())
