"""Rounds of data-parallel training over sites whose links are few, slow and uneven: stock beside
what a model says, and ours along packed trees beside stock.

    scripts/bench wan --seeds 0 --placements site1 --rounds 5 --spend 30       about 6 minutes
    scripts/bench wan --stock-only                       25 MB, three seeds: about 25 minutes
    scripts/bench wan --stock-only --model fiftieth --seeds 0,1 --placements site1
    scripts/bench wan --stock-only --gate                exit code 1 if a bar does not hold

Nine sites, the graph of NetStorm's scripts, each with a worker; each direction of a link gets a
rate that a seed draws, U(20, 155) Mbit/s, times --scale. All is a quarter of that world: rates,
ResNet-50's tensors, and the bound from which MXNet cuts them over all servers. A round pushes and
pulls every tensor through `mx.kv`, `dist_sync`, without an optimizer (mxkv.py); its time is the
slowest worker's. The model is netlab/graph_model.py's, from the rates that are set, the routes, and
the servers that MXNet's hash gives each tensor to. Before, plain TCP says what the links carry, all
full at once in both directions. Without --stock-only, ours runs on the same links, in turn with
stock, over TCP, with the trees of --topologies and the rates that are set in PSLITE_LINKS. Raw
numbers: .cache/bench/wan.json. Needs root.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import wan_report  # noqa: E402
from cluster import LIBRARY, STOCK, TCP, Cluster, Failed  # noqa: E402
from harness import PYTHON  # noqa: E402
from netlab import LabError, Mesh, Misuse, Unavailable, changes, graph, graph_model  # noqa: E402
from netlab.cluster import Sites  # noqa: E402
from netlab.layout import read_graph, sites  # noqa: E402
from netlab.links import CONGESTION  # noqa: E402
from netlab.tools import Interrupted, raise_on_signals  # noqa: E402
from parts import CACHE  # noqa: E402
from run import PAGE, machine  # noqa: E402
from tensors import FLOAT, part  # noqa: E402

#: By what the tensors of each model (mxkv.py) are smaller than ResNet-50's.
DIVISORS = {"quarter": 4, "fifth": 5, "fiftieth": 50}
# Elements: tensors as large are cut, a part to each server (kvstore_dist.h, bigarray_bound_).
BIGARRAY = 1_000_000
# By what MXNet multiplies the key of an uncut tensor to choose its server (EncodeDefaultKey).
SPREAD = 9973
# Seconds after which a cluster ends itself, whatever happens.
LIMIT = 3600
GOODPUT = HERE.parent / "netlab/goodput.py"
PORT, WINDOW = 7000, 5
# Rounds of ours before those that count.
SETTLE = 2
# What stock's scheduler says of each server if PS_VERBOSE is 1; ranks are (id - 8) / 2.
ASSIGNED = re.compile(r"assign rank=(\d+) to node role=server, ip=([0-9.]+)")


def wire(mesh):
    """What plain TCP carries over each direction of each link, all at once, by the rate set."""
    into, rates = [], mesh.graph().rates
    for port, ((one, other), rate) in enumerate(rates.items(), PORT):
        receiver = mesh.host(other)
        serve = [sys.executable, "-u", GOODPUT, "serve", receiver.address, port, 1, WINDOW]
        process = subprocess.Popen(receiver.command(serve), stdout=subprocess.PIPE, text=True)
        into.append((f"{one} to {other}", rate, process))
    for _, _, process in into:
        process.stdout.readline()
    for port, (one, other) in enumerate(rates, PORT):
        mesh.host(one).popen([sys.executable, GOODPUT, "send", port, mesh.host(other).address])
    return [{"link": name, "set": rate,
             "mbit": mean(json.loads(process.communicate(timeout=60)[0])["mbit"])}
            for name, rate, process in into]


def by_rank(cluster, mesh):
    """The sites of stock's servers, in the order of their ranks."""
    site = {host.address: name for name, host in mesh.hosts.items()}
    said = cluster.logs()[0].read_text(errors="replace")
    return [site[address] for _, address in sorted(
        {(int(number), address) for number, address in ASSIGNED.findall(said)})]


def placed(divisor, servers):
    """The tensors as MXNet places them: of each, its parts as (site, bytes). servers: the sites, by
    rank. The keys are 0 and up."""
    count, found = len(servers), []
    for key, size in enumerate(part(divisor)):
        if size < BIGARRAY // divisor:
            found.append([(servers[key * SPREAD % count], size * FLOAT)])
        else:
            cuts = [round(size / count * number) for number in range(count + 1)]
            found.append([(site, (end - begin) * FLOAT)
                          for site, begin, end in zip(servers, cuts, cuts[1:])])
    return found


def links_of(mesh):
    """The links for PSLITE_LINKS, by the addresses of the sites."""
    rates, address = mesh.graph().rates, {name: host.address for name, host in mesh.hosts.items()}
    return "".join(f"link {address[link.one.name]} {address[link.other.name]} "
                   f"{rates[link.one.name, link.other.name]} "
                   f"{rates[link.other.name, link.one.name]}\n" for link in mesh.links)


class Bench:
    """Clusters of each kind on one lab, with servers at some of its sites."""

    def __init__(self, stack, mesh, servers, options):
        workers = list(mesh.hosts)
        place = Sites(mesh, servers[0], servers, workers)
        command = [PYTHON, "-u", str(HERE / "mxkv.py"), str(LIMIT)]
        settings = {"PS_VERBOSE": "1",
                    "MXNET_KVSTORE_BIGARRAY_BOUND": str(BIGARRAY // DIVISORS[options.model])}
        kinds = {STOCK: (STOCK, {})}
        if not options.stock_only:
            links = CACHE / "wan.links"
            links.parent.mkdir(parents=True, exist_ok=True)
            links.write_text(links_of(mesh))
            for topology in options.topologies:
                kinds[topology] = (TCP, {"PSLITE_TOPOLOGY": topology, "PSLITE_LINKS": str(links),
                                         **options.set})
        self.clusters = {name: stack.enter_context(Cluster(
            command, len(workers), len(servers), kind, place=place,
            settings={**settings, **more})) for name, (kind, more) in kinds.items()}

    def rounds(self, options):
        """Seconds of each round of each cluster, by worker; in turn, until the rounds or --spend
        are used up. And those of ours that are not counted: the first goes straight to the
        servers, whose pieces are cut with its end, and the second too, for most of it."""
        found = {name: [] for name in self.clusters}
        spent = dict.fromkeys(found, 0.0)
        before = {name: [max(answer["seconds"] for answer in cluster.ask(f"{options.model} 1"))
                         for _ in range(SETTLE)]
                  for name, cluster in self.clusters.items() if name != STOCK}
        for _ in range(options.rounds):
            for name, cluster in self.clusters.items():
                if found[name] and spent[name] >= options.spend:
                    continue
                answers = [answer["seconds"] for answer in cluster.ask(f"{options.model} 1")]
                found[name].append(answers)
                spent[name] += max(answers)
        return found, before

    def end(self):
        for cluster in self.clusters.values():
            cluster.end()


def measure(mesh, placement, options):
    """A placement: what was measured, and what the model says."""
    one = mesh.graph()
    servers = sites(placement, one, "--placements", one.sites)
    with ExitStack() as stack:
        job = Bench(stack, mesh, servers, options)
        rounds, before = job.rounds(options)
        ranked = by_rank(job.clusters[STOCK], mesh)
        job.end()
    if sorted(ranked) != sorted(servers):
        raise Failed(f"the scheduler names servers at {ranked}, not at {servers}")
    return {"placement": placement, "servers": ranked, "workers": rounds,
            "rounds": {name: [max(each) for each in found] for name, found in rounds.items()},
            "before": before,
            **models(one, ranked, DIVISORS[options.model])}


def models(one, servers, divisor):
    """Seconds of a round by the model: as it is, if pulls overlapped pushes, and if connections
    do not share as equals. servers: their sites, by rank."""
    how = (one, graph.next_hops(one), placed(divisor, servers), one.sites)
    return {"model": graph_model.round_seconds(*how),
            "overlapped": graph_model.round_seconds(*how, in_order=False),
            "unequal": graph_model.unequal(*how)}


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench wan", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="that draw the rates; default: 0,1,2")
    parser.add_argument("--placements", nargs="+", default=["site1", "best", "all"],
                        metavar="SITES", help="where stock's servers are: site1 (one there), "
                        "site1,site5, best, all; default: site1 best all")
    parser.add_argument("--model", choices=DIVISORS, default="quarter",
                        help="ResNet-50 at that part of its size; default: quarter, 25 MB")
    parser.add_argument("--rounds", type=int, default=3, help="at most, of each cluster: 3")
    parser.add_argument("--spend", type=float, default=60, metavar="S",
                        help="no further round after so many seconds of rounds; default: 60")
    parser.add_argument("--graph", default="netstorm",
                        help="as of scripts/lab; default: netstorm")
    parser.add_argument("--scale", default=str(changes.SCALE), help="of the rates that are drawn")
    parser.add_argument("--congestion", default=CONGESTION,
                        help="TCP's algorithm; default: %(default)s")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="environment of ours")
    parser.add_argument("--topologies", nargs="+", default=["packed"], metavar="NAME",
                        help="of ours, as of PSLITE_TOPOLOGY; default: packed")
    parser.add_argument("--stock-only", action="store_true", help="without ours")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true",
                        help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    if not re.fullmatch(r"\d+(,\d+)*", options.seeds):
        parser.error(f"--seeds {options.seeds}: numbers with commas between")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if any("=" not in pair for pair in options.set):
        parser.error("--set takes NAME=VALUE")
    options.set = dict(pair.split("=", 1) for pair in options.set)
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    if not options.stock_only and not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    return options


def graphs(options):
    """The graph of each seed; raises, before anything is made, if something asked for cannot be."""
    found = {seed: read_graph(options.graph, seed, changes.scale(options.scale))
             for seed in options.seeds}
    for placement in options.placements:
        sites(placement, found[options.seeds[0]], "--placements", ["site1"])
    return found


def run(options):
    found, failures = [], 0
    for seed, one in graphs(options).items():
        with Mesh(one, options.congestion) as mesh:
            found.append({"seed": seed, "wire": wire(mesh), "placements": []})
            for placement in options.placements:
                print(f"{time.strftime('%H:%M:%S')} seed {seed}, servers at {placement}",
                      file=sys.stderr, flush=True)
                try:
                    found[-1]["placements"].append(measure(mesh, placement, options))
                except Failed as error:
                    print(error, file=sys.stderr, flush=True)
                    failures += 1
    return found, failures


def main():
    options = parse()
    raise_on_signals()
    try:
        found, failures = run(options)
    except (Misuse, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        return interrupted.code
    CACHE.mkdir(parents=True, exist_ok=True)
    how = {name: value for name, value in vars(options).items() if name not in ("docs", "gate")}
    (CACHE / "wan.json").write_text(json.dumps({"options": how, "seeds": found}, indent=1))
    said = f"{machine()} TCP: {options.congestion}. Model: {options.model} of ResNet-50."
    print(said, wan_report.text(found), sep="\n\n")
    if options.docs:
        PAGE.write_text(wan_report.written(PAGE.read_text(), f"{said}\n\n{wan_report.text(found)}"))
    missed = [bar for bar in wan_report.bars(found) if not bar.holds]
    return 1 if failures or (options.gate and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
