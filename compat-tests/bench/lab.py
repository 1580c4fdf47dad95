"""Rounds of data-parallel training over links of given rates: stock and ours on the hosts of one
lab.

    scripts/bench lab                          every case (more than an hour)
    scripts/bench lab one two --rounds 3       some of them; --help lists the options
    scripts/bench lab random --networks 3      three of the networks that a seed draws
    scripts/bench lab --gate                   exit code 1 if a bar does not hold

A round pushes and pulls every tensor of ResNet-50 through `mx.kv`, `dist_sync`, without an
optimizer (mxkv.py); its time is the slowest worker's. Clusters of stock and of ours live side by
side on the same hosts. While links stay as they are, they are asked in turn; where links change,
one is asked for the whole time and then the other one, under the same changes. The bound T* is
netlab/model.py's, from the rates that are set, with the copies that servers of ours keep; eta is T*
by the measured time. Raw numbers: .cache/bench/lab.json. Needs root.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import lab_members  # noqa: E402
import lab_report  # noqa: E402
import lab_topology  # noqa: E402
from cluster import LIBRARY, STOCK, TCP, Cluster, Failed  # noqa: E402
from harness import PYTHON  # noqa: E402
from netlab import Lab, LabError, Rates, Unavailable, changes, model  # noqa: E402
from netlab.cluster import Place, hosts  # noqa: E402
from netlab.links import CONGESTION  # noqa: E402
from netlab.tools import Interrupted, raise_on_signals  # noqa: E402
from parts import CACHE  # noqa: E402
from run import PAGE, machine  # noqa: E402
from tensors import FLOAT, fifth, huge as huge_model, resnet50  # noqa: E402

#: Bytes of the tensors of each set (mxkv.py). The server of the large tensor of `huge` has half of
#: the model at first, and gives away a quarter; with a larger one no placement within 20 % of the
#: best moves less than 0.3 of the model.
TENSORS = {name: [FLOAT * size for size in sizes()]
           for name, sizes in (("resnet50", resnet50), ("huge", huge_model), ("fifth", fifth))}
SIZES = {name: sum(sizes) for name, sizes in TENSORS.items()}
MODEL = SIZES["resnet50"]
OURS, FIXED, SINGLE = "ours", "planning off", "ours without copies"
# The scheduler says which plans it carries out.
ELASTIC = {"PSLITE_ELASTIC": "1", "PS_VERBOSE": "1"}
# Below that bound MXNet does not cut tensors.
WHOLE = {"MXNET_KVSTORE_BIGARRAY_BOUND": "1000000000"}
PLANNING_OFF = {"PSLITE_PLANNING": "0"}
REPLICAS = "PSLITE_REPLICAS"
NO_COPIES = {REPLICAS: "0"}
# Seconds after which a cluster ends itself, whatever happens.
LIMIT = 7200
GOODPUT = HERE.parent / "netlab/goodput.py"
# Of the case `slowed`: which servers, and how much processor is left to the second one.
LOWERED, SLOWED, LEFT = 1, 2, 0.3
# Of the case `random`: rounds before those that count.
SOON = 14


class Kind:
    """One of the clusters that a case compares."""

    def __init__(self, name, library, settings=None):
        self.name = name
        self.library = library
        self.settings = settings or {}

    @property
    def copies(self):
        return int(self.settings.get(REPLICAS, 1)) if self.library == TCP else 0


def kinds(options, fixed=False, single=False):
    found = [Kind(STOCK, STOCK)]
    if not options.stock_only:
        found.append(Kind(OURS, TCP, {**ELASTIC, **options.set}))
        if fixed:
            found.append(Kind(FIXED, TCP, {**ELASTIC, **options.set, **PLANNING_OFF}))
        if single:
            found.append(Kind(SINGLE, TCP, {**ELASTIC, **options.set, **NO_COPIES}))
    return found


class Bench:
    """A lab and its clusters, each on every host."""

    def __init__(self, stack, workers, servers, options, chosen, settings=None, spares=()):
        self.workers = workers
        self.servers = list(servers)
        self.kinds = {kind.name: kind for kind in chosen}
        self.lab = stack.enter_context(Lab(hosts(workers, servers, spares), options.congestion))
        command = [PYTHON, "-u", str(HERE / "mxkv.py"), str(LIMIT)]
        self.clusters = {kind.name: stack.enter_context(Cluster(
            command, len(workers), len(servers), kind.library, place=Place(self.lab),
            settings={**(settings or {}), **kind.settings})) for kind in chosen}
        if options.logs:
            for name, cluster in self.clusters.items():
                stack.callback(keep, cluster, options.logs / options.case / name.replace(" ", "-"))

    def set_servers(self, servers):
        self.servers = list(servers)
        for index, rates in enumerate(servers):
            self.lab.host(f"server{index}").rates = rates

    def bounds(self, tensors="resnet50"):
        """What no round of each cluster can beat: servers of ours keep copies. And the same if
        pulls wait for pushes."""
        return limits(tensors, self.workers, dict.fromkeys(self.kinds, self.servers),
                      self.kinds.values())

    def one(self, name, tensors="resnet50"):
        """Seconds of one round."""
        return max(answer["seconds"] for answer in self.clusters[name].ask(f"{tensors} 1"))

    def in_turn(self, options, tensors="resnet50", settle=None):
        """Rounds of every cluster: those in which ours finds its placement, then `--rounds` in
        turn; and what moved."""
        moved = len(self.clusters[OURS].moved()) if OURS in self.clusters else 0
        found = {name: [self.one(name, tensors)] for name in self.clusters}  # connections, buffers
        for name in found.keys() & {OURS, SINGLE}:
            found[name] += [self.one(name, tensors)
                            for _ in range(options.settle if settle is None else settle)]
        rounds, cores = ({name: [] for name in self.clusters} for _ in range(2))
        for _ in range(options.rounds):
            for name in self.clusters:
                before, begin = busy(), time.monotonic()
                rounds[name].append(self.one(name, tensors))
                cores[name].append((busy() - before) / (time.monotonic() - begin))
        moved = self.clusters[OURS].moved()[moved:] if OURS in self.clusters else []
        return {"rounds": rounds, "before": found,
                "cores": {name: mean(used) for name, used in cores.items()},
                "moved": [megabytes * 1e6 / SIZES[tensors] for megabytes in moved]}

    def end(self):
        for cluster in self.clusters.values():
            cluster.end()


def keep(cluster, where):
    """What its processes wrote; 0 is the scheduler."""
    where.mkdir(parents=True, exist_ok=True)
    for written in cluster.logs():
        shutil.copy(written, where)


def limits(tensors, workers, servers, chosen):
    """T*, and the shortest round with pulls that wait, with each cluster's servers."""
    def each(of, what):
        return {kind.name: of(what, workers, servers[kind.name], kind.copies) for kind in chosen}
    return {"bounds": each(model.bound, SIZES[tensors]),
            "pipelined": each(model.pipelined, TENSORS[tensors])}


@contextmanager
def bench(*words, **more):
    with ExitStack() as stack:
        yield Bench(stack, *words, **more)


def both(rates, options):
    return [Rates.both(rate * options.scale) for rate in rates]


# ---- the cases

def wire(options):
    """Not ps-lite: what plain TCP carries where every worker sends to every server and the other
    way round."""
    rates = {"workers": both([500] * 4, options), "servers": both([500, 500, 500, 50], options)}
    with Lab(hosts(**rates), options.congestion) as lab:
        named = {role: [host for name, host in lab.hosts.items() if name.startswith(role)]
                 for role in ("worker", "server")}
        into = {}
        for host in named["worker"] + named["server"]:
            serve = [sys.executable, "-u", GOODPUT, "serve", host.address, 7000, 4, 5]
            into[host] = subprocess.Popen(host.command(serve), stdout=subprocess.PIPE, text=True)
        for process in into.values():
            process.stdout.readline()
        before = busy()
        for source, target in (("worker", "server"), ("server", "worker")):
            for host in named[source]:
                host.popen([sys.executable, GOODPUT, "send", "7000",
                            *(peer.address for peer in named[target])])
        begin = time.monotonic()
        rows = []
        for host, process in into.items():
            got = json.loads(process.communicate(timeout=60)[0])["mbit"]
            rows.append({"host": host.name, "set": host.rates.down, "mbit": mean(got)})
        used = (busy() - before) / (time.monotonic() - begin)
    return {"hosts": rows, "cores": used, "bottleneck": [row["mbit"] / row["set"] for row in rows
                                                         if row["host"].startswith("server")]}


def busy():
    """Seconds for which this machine's cores have worked."""
    total = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _, _, irq, soft, *_ = map(int, total.split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def still(options, workers, servers):
    with bench(both(workers, options), both(servers, options), options,
               kinds(options, single=True)) as job:
        found = job.in_turn(options)
        job.end()
        return {"phases": [{"title": "", **job.bounds(), **found}]}


def one(options):
    return still(options, [500] * 4, [500, 500, 500, 50])


def two(options):
    return still(options, [400] * 4, [200, 200, 50, 50])


def equal(options):
    """Ours with planning and without; stock, which takes the time of both, only if it is all that
    is asked for."""
    chosen = kinds(options, fixed=True)
    chosen = [kind for kind in chosen if kind.name != STOCK] or chosen
    with bench(both([500] * 4, options), both([500] * 4, options), options, chosen) as job:
        found = job.in_turn(options, settle=0)
        job.end()
        return {"phases": [{"title": "", **job.bounds(), **found}]}


def draw(options):
    """The servers' rates in each phase, and the changes that set them."""
    numbers = random.Random(options.seed)
    drawn = [both([round(numbers.uniform(50, 400)) for _ in range(4)], options)
             for _ in range(options.phases)]
    timed = []
    for phase, servers in enumerate(drawn):
        rates = tuple(changes.Rate(f"server{index}", rate) for index, rate in enumerate(servers))
        timed.append(changes.Timed(options.period * phase, rates, f"phase {phase + 1}"))
    return drawn, timed


def redrawn(options):
    """The servers' rates change every so many seconds, whatever the round under way."""
    drawn, timed = draw(options)
    workers = both([400] * 4, options)
    chosen = kinds(options)
    phases = [{"title": "/".join(str(rates) for rates in servers), "rounds": {},
               **limits("resnet50", workers, {kind.name: servers for kind in chosen}, chosen)}
              for servers in drawn]
    whole = {}
    with bench(workers, drawn[0], options, chosen) as job:
        for name in job.clusters:
            job.set_servers(drawn[0])
            job.one(name)
            whole[name] = _under_changes(job, name, timed, phases, options)
        job.end()
    return {"phases": phases, "whole": whole, "period": options.period}


def _under_changes(job, name, timed, phases, options):
    """Rounds until the last phase is over; each goes to the phase in which it began and ended, if
    it did."""
    every = []
    timeline = changes.Timeline(job.lab, timed, complain).start()
    begin = time.monotonic()
    try:
        while (started := time.monotonic() - begin) < options.period * len(phases):
            every.append(job.one(name))
            first, last = (int(at // options.period) for at in (started, time.monotonic() - begin))
            if first == last < len(phases):
                phases[first]["rounds"].setdefault(name, []).append(every[-1])
    finally:
        timeline.stop()
    return every


def complain(timed, error):
    if error:
        print(f"{timed.text}: {error}", file=sys.stderr, flush=True)


def huge(options):
    """The first of PSLD's causes of a slow server: one tensor is a third of the model, and all on
    one server, as it is below the bound from which MXNet cuts."""
    with bench(both([400] * 4, options), both([200] * 4, options), options, kinds(options),
               settings=WHOLE) as job:
        found = job.in_turn(options, "huge")
        job.end()
        return {"phases": [{"title": "a huge tensor", **job.bounds("huge"), **found}]}


def slowed(options):
    """The other two, one after the other: a link that gets slower, and a processor."""
    workers, servers = both([400] * 4, options), both([200] * 4, options)
    phases = []
    with bench(workers, servers, options, kinds(options)) as job:
        for name in job.clusters:
            job.one(name)  # starting takes more processor than many rounds
        before = processor(job)
        phases.append({"title": "nothing", **job.bounds(), **job.in_turn(options, settle=1)})
        work = per_round(before, processor(job), phases[-1])
        # 30 % of a core may be more than it ever uses.
        used = LEFT * max(work[name] / mean(rounds)
                          for name, rounds in phases[-1]["rounds"].items())
        slow = list(servers)
        slow[LOWERED] = Rates.both(servers[LOWERED].up / 4)
        job.set_servers(slow)
        phases.append({"title": "one link lowered 4x", **job.bounds(), **job.in_turn(options)})
        job.set_servers(servers)
        phases.append({"title": "nothing again", **job.bounds(), **job.in_turn(options)})
        for cores, what in ((LEFT, "a core"), (used, "what it used")):
            job.lab.host(f"server{SLOWED}").cores = cores
            left = {name: with_cores(servers, SLOWED, work[name] / cores) for name in job.kinds}
            found = limits("resnet50", workers, left, job.kinds.values())
            title = f"one server's processor cut to {LEFT:.0%} of {what} ({cores:.3f})"
            phases.append({"title": title, "work": work, **found, **job.in_turn(options)})
        job.lab.host(f"server{SLOWED}").cores = None
        job.end()
    return {"phases": phases}


def network(seed, number):
    """The workers' and servers' rates of one network of `random`, and whether there are copies."""
    numbers = random.Random(f"{seed} {number}")
    servers = [round(numbers.uniform(40, 250)) for _ in range(numbers.randint(2, 5))]
    return [500] * numbers.randint(2, 4), servers, number % 2 == 0


def drawn(options):
    """Networks that nobody tuned for, each with a job of its own of ResNet-50 at a fifth: ours
    alone, every other one with copies. It has `SOON` rounds to find its placement."""
    phases = []
    for number in range(options.networks):
        workers, servers, copies = network(options.seed, number)
        title = (f"{number}: {len(workers)} workers, {'/'.join(map(str, servers))}, "
                 f"{'with' if copies else 'no'} copies")
        print(f"seed {options.seed}, network {title}", file=sys.stderr, flush=True)
        settings = {**ELASTIC, **options.set, **({} if copies else NO_COPIES)}
        kind = Kind(OURS, TCP, settings)
        with bench(both(workers, options), both(servers, options), options, [kind]) as job:
            found = job.in_turn(options, "fifth", settle=SOON)
            job.end()
            phases.append({"title": title, **job.bounds("fifth"), **found})
    return {"phases": phases, "seed": options.seed}


def members(options):
    """Servers join and are emptied; ours alone, as stock cannot."""
    kind = Kind(OURS, TCP, {**ELASTIC, **options.set})
    with bench(both([400] * 4, options), both([400] * 2, options), options, [kind],
               spares=both([400] * 2, options)) as job:
        found = lab_members.run(job, OURS, kind.settings)
        job.end()
    return {"changes": found}


def auto(options):
    """A LAN in which trees are of no use; ours alone."""
    def kept(cluster, name):
        if options.logs:
            keep(cluster, options.logs / options.case / name)
    return lab_topology.run(options, LIMIT, kept)


def processor(job):
    """Seconds of processor time that the servers of each cluster have used."""
    tick = os.sysconf("SC_CLK_TCK")

    def used(pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / tick
    return {name: [used(pid) for pid in cluster.pids()["server"]]
            for name, cluster in job.clusters.items()}


def per_round(before, after, phase):
    """Processor seconds of a server for one round, with an equal share of the model."""
    return {name: mean(b - a for a, b in zip(before[name], after[name]))
            / (len(phase["rounds"][name]) + len(phase["before"][name])) for name in after}


def with_cores(servers, index, seconds):
    """The servers' rates if one has so little processor that it may be its bound: the work of an
    equal share takes that long there."""
    share = 4 * MODEL / len(servers)
    mbit = share * 8 / seconds / 1e6 / model.GOODPUT
    found = list(servers)
    found[index] = Rates.both(min(mbit, *servers[index]))
    return found


CASES = {"wire": wire, "one": one, "two": two, "redrawn": redrawn, "equal": equal, "huge": huge,
         "slowed": slowed, "members": members, "auto": auto, "random": drawn}
# Rounds of the cases that have more than the others.
ROUNDS = {"equal": 200, "auto": 200}


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench lab", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--rounds", type=int, help="default: 5; of equal and auto 200")
    parser.add_argument("--settle", type=int, default=8,
                        help="rounds of ours before those that count: 8")
    parser.add_argument("--scale", type=float, default=1, help="all rates, by that factor")
    parser.add_argument("--phases", type=int, default=5, help="of redrawn")
    parser.add_argument("--period", type=float, default=60, help="of redrawn, in seconds")
    parser.add_argument("--seed", type=int, default=1, help="of redrawn and random")
    parser.add_argument("--networks", type=int, default=20, help="of random; default: 20")
    parser.add_argument("--congestion", default=CONGESTION,
                        help="TCP's algorithm; default: %(default)s")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="environment of ours")
    parser.add_argument("--logs", type=Path, metavar="FOLDER",
                        help="keep what the processes wrote, in CASE/CLUSTER; 0 is the scheduler")
    parser.add_argument("--stock-only", action="store_true",
                        help="no ratio: for work on this itself")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true",
                        help="write the tables of these cases into docs/benchmarks.md")
    options = parser.parse_args()
    given = {name: getattr(options, name)
             for name in ("rounds", "settle", "phases", "period", "seed", "networks")}
    options.words = " ".join(f"--{name} {value}" for name, value in given.items()
                             if value != parser.get_default(name))
    options.cases = options.cases or list(CASES)
    options.set = dict(pair.split("=", 1) for pair in options.set)
    if not options.stock_only and not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    if options.docs and (options.stock_only or options.scale != 1 or options.set):
        parser.error("--docs is for the cases as they are")
    return options


def measure(options):
    found, failures = {}, 0
    rounds = options.rounds
    for case in options.cases:
        options.case = case
        options.rounds = rounds or ROUNDS.get(case, 5)
        print(f"{time.strftime('%H:%M:%S')} {case}", file=sys.stderr, flush=True)
        try:
            found[case] = CASES[case](options)
        except (Failed, LabError) as error:
            if isinstance(error, Unavailable):
                raise
            print(error, file=sys.stderr, flush=True)
            failures += 1
    return found, failures


def main():
    options = parse()
    raise_on_signals()
    try:
        found, failures = measure(options)
    except Unavailable as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except Interrupted as interrupted:
        return interrupted.code
    CACHE.mkdir(parents=True, exist_ok=True)
    how = {name: value for name, value in vars(options).items()
           if name not in ("cases", "case", "logs", "docs", "gate")}
    (CACHE / "lab.json").write_text(json.dumps({"options": how, "cases": found}, indent=1))
    tables = "\n\n".join([machine(), lab_report.text(found, options.scale)])
    print(tables)
    if options.docs:
        how = f"{machine()} TCP: {options.congestion}. Options: {options.words or 'none'}."
        PAGE.write_text(lab_report.written(PAGE.read_text(), found, how))
    missed = [bar for bar in lab_report.bars(found) if not bar.holds]
    return 1 if failures or (options.gate and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
