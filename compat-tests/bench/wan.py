"""Rounds of data-parallel training over sites whose links are few, slow and uneven: stock beside
what a model says, and ours along packed trees beside stock and beside what no round can beat.

    scripts/bench wan --seeds 0 --placements site1 --rounds 5 --spend 30       about 6 minutes
    scripts/bench wan --topologies packed@site1 fapt@all --gate                every bar of trees
    scripts/bench wan --stock-only                       25 MB, three seeds: about 25 minutes
    scripts/bench wan --stock-only --model fiftieth --seeds 0,1 --placements site1
    scripts/bench wan --redraw 60 --switches 5           ours alone: all rates change every minute
    scripts/bench wan --cut                              ours alone: a link is cut within a round
    scripts/bench wan --cut --tunnels                    the same where sites have no IP routes

Nine sites, the graph of NetStorm's scripts, each with a worker; each direction of a link gets a
rate that a seed draws, U(20, 155) Mbit/s, times --scale. All is a quarter of that world: rates,
ResNet-50's tensors, and the bound from which MXNet cuts them over all servers. A round pushes and
pulls every tensor through `mx.kv`, `dist_sync`, without an optimizer (mxkv.py); its time is the
slowest worker's, and all sums are compared with what they must be. The model of stock is
netlab/graph_model.py's, from the rates that are set, the routes, and the servers that MXNet's hash
gives each tensor to. Before, plain TCP says what the links carry, all full at once in both
directions.

Without --stock-only, ours runs on the same links, in turn with stock, over TCP, with the trees of
--topologies and the rates that are set in PSLITE_LINKS. T* is that of these rates, whoever owns
what, and so is the prediction: `pslite sim --graph` says both. eta is T* by the mean round. A job
keeps its owners, so `fapt:9` cannot be run, which chooses them; `fapt@all`, a server at each site,
is what is closest. Between the rounds of two clusters the links rest for 3 s: a job of ours probes
them for 2 s after its round.

With --redraw, consecutive seeds draw all rates anew while rounds go on. With --cut, a link is cut
both ways in the middle of a round: the one that trees use most, of those that are on no route to
the scheduler or a server, and without which all sites still reach each other. Raw numbers:
.cache/bench/wan.json, wan-redraw.json, wan-cut.json. With --gate the exit code is 1 if a bar does
not hold. Needs root.
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
from types import ModuleType
from typing import Callable, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import wan_changes  # noqa: E402
import wan_cut_report  # noqa: E402
import wan_paper  # noqa: E402
import wan_redraw_report  # noqa: E402
import wan_report  # noqa: E402
from cluster import LIBRARY, STOCK, Failed  # noqa: E402
from netlab import LabError, Mesh, Misuse, Unavailable, changes, graph, graph_model  # noqa: E402
from netlab.layout import read_graph, sites  # noqa: E402
from netlab.links import CONGESTION  # noqa: E402
from netlab.model import GOODPUT as PAYLOAD  # noqa: E402
from netlab.tools import Interrupted, raise_on_signals  # noqa: E402
from parts import CACHE  # noqa: E402
from run import PAGE, machine  # noqa: E402
from tensors import FLOAT, part  # noqa: E402
from wan_jobs import (BIGARRAY, DIVISORS, Contender, one_round, ours, owned,  # noqa: E402
                      settle, start)

# By what MXNet multiplies the key of an uncut tensor to choose its server (EncodeDefaultKey).
SPREAD = 9973
GOODPUT = HERE.parent / "netlab/goodput.py"
PORT, WINDOW = 7000, 5
# Of ours, where sites do not forward.
TUNNELS = 7900
# Seconds between the rounds of two clusters. A job of ours probes links for 2 s after a round, and
# would take the next cluster's traffic for what the links cannot carry.
PAUSE = 3
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


class Bench:
    """The clusters of one lab. Those whose servers are always at the same sites stay there for all
    placements of stock's."""

    def __init__(self, stack, mesh, options):
        self.mesh = mesh
        self.options = options
        self.graph = mesh.graph()
        self.standing = {}
        self.before = {}
        for one in options.topologies:
            if one.at:
                self.standing[one.name] = self._ours(stack, one, None)

    def _ours(self, stack, one, placement):
        return ours(stack, self.mesh, self.options, one.topology,
                    one.servers(self.graph, placement))

    def measure(self, placement):
        """A placement of stock's servers: what was measured, and what the models say."""
        servers = sites(placement, self.graph, "--placements", self.graph.sites)
        with ExitStack() as stack:
            clusters = {STOCK: start(stack, self.mesh, self.options, servers, STOCK)}
            for one in self.options.topologies:
                clusters[one.name] = (self.standing.get(one.name)
                                      or self._ours(stack, one, placement))
            workers, before = self._rounds(clusters)
            ranked = by_rank(clusters[STOCK], self.mesh)
            papers = self._papers(placement, clusters)
            for name, cluster in clusters.items():
                if name not in self.standing:
                    cluster.end()
        if sorted(ranked) != sorted(servers):
            raise Failed(f"the scheduler names servers at {ranked}, not at {servers}")
        return {"placement": placement, "servers": ranked, "workers": workers, "before": before,
                "rounds": {name: [max(each) for each in found] for name, found in workers.items()},
                "ours": papers,
                **models(self.graph, ranked, DIVISORS[self.options.model])}

    def _rounds(self, clusters):
        """Seconds of each round of each cluster, by worker; in turn, until the rounds or --spend
        are used up. And those of ours that are not counted, unless they were before."""
        before = {}
        for name, cluster in clusters.items():
            if name != STOCK and name not in self.before:
                before[name] = settle(cluster, self.options)
                if name in self.standing:
                    self.before[name] = before[name]
        found = {name: [] for name in clusters}
        spent = dict.fromkeys(found, 0.0)
        for _ in range(self.options.rounds):
            for name, cluster in clusters.items():
                if found[name] and spent[name] >= self.options.spend:
                    continue
                time.sleep(PAUSE)
                found[name].append(one_round(cluster, self.options))
                spent[name] += max(found[name][-1])
        return found, before

    def _papers(self, placement, clusters):
        """Of each of ours: where its servers are, T*, and the predicted round, whose bytes are on
        the wire with headers. Each server has what MXNet gave it: of nine one has three times as
        much as another."""
        found = {}
        for one in self.options.topologies:
            servers = one.servers(self.graph, placement)
            shares = owned(clusters[one.name], self.mesh, servers[0])
            said = wan_paper.paper(self.graph, one.topology, shares,
                                   wan_paper.model_bytes(DIVISORS[self.options.model]))
            found[one.name] = {"topology": one.topology, "servers": servers, "bound": said.bound,
                               "predicted": said.predicted / PAYLOAD, "trees": len(said.trees)}
        return found

    def end(self):
        for cluster in self.standing.values():
            cluster.end()


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
    parser.add_argument("--topologies", nargs="+", default=["packed"], metavar="NAME[@SITES]",
                        help="of ours, as of PSLITE_TOPOLOGY; its servers are where stock's are, "
                        "or at those sites, whatever the placement; default: packed")
    parser.add_argument("--stock-only", action="store_true", help="without ours")
    parser.add_argument("--redraw", type=float, metavar="SECONDS",
                        help="draw all rates anew that often, ours alone; its servers are at the "
                        "first of --placements")
    parser.add_argument("--switches", type=int, metavar="N", help="of --redraw; default: 5")
    parser.add_argument("--cut", action="store_true",
                        help="cut a link in the middle of a round, ours alone, --rounds before it")
    parser.add_argument("--reroute", action="store_true",
                        help="with --cut: make new routes then, as a network's own routing would; "
                        "any link may be cut that does not hold the graph together")
    parser.add_argument("--tunnels", action="store_true",
                        help="with --redraw or --cut: no site forwards, and ours has tunnels; any "
                        "link may be cut that does not hold the graph together")
    parser.add_argument("--picture", action="store_true", help="for the eye, in place of tables")
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
    _modes(parser, options)
    options.set = dict(pair.split("=", 1) for pair in options.set)
    options.routed = not options.tunnels
    if options.tunnels:
        options.set.setdefault("PSLITE_TUNNELS", str(TUNNELS))
    options.topologies = ([] if options.stock_only
                          else [Contender.read(text) for text in options.topologies])
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    if not options.stock_only and not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    return options


def _modes(parser, options):
    """What does not go together is refused."""
    changing = options.redraw is not None or options.cut
    if options.redraw is not None and options.cut:
        parser.error("--redraw and --cut: one of them")
    if changing and (options.stock_only or options.docs or options.picture):
        parser.error("--redraw and --cut are for ours alone, and have neither --docs nor --picture")
    if changing and len(options.topologies) != 1:
        parser.error("--redraw and --cut take one of --topologies")
    if options.picture and (options.stock_only or options.docs):
        parser.error("--picture shows stock and ours, and writes no page")
    if options.redraw is None and options.switches is not None:
        parser.error("--switches is for --redraw")
    if options.reroute and (not options.cut or options.tunnels):
        parser.error("--reroute is for --cut without --tunnels")
    if options.tunnels and not changing:
        parser.error("--tunnels is for --redraw and --cut: stock needs routes")
    options.switches = 5 if options.switches is None else options.switches
    if options.switches < 1 or (options.redraw is not None and options.redraw <= 0):
        parser.error("--redraw takes seconds, --switches a number from 1")


def graphs(options):
    """The graph of each seed; raises, before anything is made, if something asked for cannot be."""
    found = {seed: read_graph(options.graph, seed, changes.scale(options.scale))
             for seed in options.seeds}
    for placement in options.placements:
        sites(placement, found[options.seeds[0]], "--placements", ["site1"])
    for one in options.topologies:
        one.servers(found[options.seeds[0]], options.placements[0])
    return found


def compare(options):
    """Stock and ours on the graph of each seed."""
    found, failures = [], 0
    for seed, one in graphs(options).items():
        with Mesh(one, options.congestion) as mesh, ExitStack() as stack:
            found.append({"seed": seed, "placements": [], "wire": wire(mesh),
                          "links": [((link.one, link.other), *link.rates) for link in one.links]})
            failures += of_seed(stack, mesh, found[-1], options)
    return found, failures


def of_seed(stack, mesh, found, options):
    """All placements on one lab; how many failed."""
    job, failures = Bench(stack, mesh, options), 0
    for placement in options.placements:
        print(f"{time.strftime('%H:%M:%S')} seed {found['seed']}, servers at {placement}",
              file=sys.stderr, flush=True)
        try:
            found["placements"].append(job.measure(placement))
        except Failed as error:
            print(error, file=sys.stderr, flush=True)
            failures += 1
    try:
        job.end()
    except Failed as error:
        print(error, file=sys.stderr, flush=True)
        failures += 1
    return failures


def change(options):
    """Ours alone on the graph of each seed, while links change."""
    measure, found, failures = (wan_changes.cut if options.cut else wan_changes.redraw), [], 0
    for seed, one in graphs(options).items():
        print(f"{time.strftime('%H:%M:%S')} seed {seed}", file=sys.stderr, flush=True)
        try:
            found.append(measure(seed, one, options))
        except Failed as error:
            print(error, file=sys.stderr, flush=True)
            failures += 1
    return found, failures


class Mode(NamedTuple):
    """measure: gives what was found, and how many failed; report: its tables and bars."""

    name: str
    measure: Callable
    report: ModuleType


def mode(options):
    if options.cut:
        return Mode("wan-cut", change, wan_cut_report)
    if options.redraw is not None:
        return Mode("wan-redraw", change, wan_redraw_report)
    return Mode("wan", compare, wan_report)


def main():
    options = parse()
    chosen = mode(options)
    raise_on_signals()
    try:
        found, failures = chosen.measure(options)
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
    (CACHE / f"{chosen.name}.json").write_text(
        json.dumps({"options": how, "seeds": found}, indent=1))
    said = f"{machine()} TCP: {options.congestion}. Model: {options.model} of ResNet-50."
    show = wan_report.picture if options.picture else chosen.report.text
    print(said, show(found), sep="\n\n")
    if options.docs:
        PAGE.write_text(wan_report.written(PAGE.read_text(), said, found))
    missed = [bar for bar in chosen.report.bars(found) if not bar.holds]
    return 1 if failures or (options.gate and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
