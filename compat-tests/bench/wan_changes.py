"""`scripts/bench wan --redraw` and `--cut`: rounds of ours while links change rates, and while one
is cut. Every round's sums are compared with what the arithmetic says (mxkv.py)."""

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import wan_paper
from cluster import Failed
from netlab import Mesh, Misuse, changes
from netlab import graph as graphs
from wan_jobs import DIVISORS, one_round, ours, settle

# Of --cut: rounds after it, beside --rounds. Seconds for a round, until the job counts as hung: one
# that goes straight may take more than three minutes.
MORE, HUNG = 2, 300
# Seconds between two looks at what the links carry, and below what part of the slowest link's rate
# all of them together stand still.
LOOK, STILL = 0.1, 0.5


def bound(graph, options, topology, servers):
    """What is said of a graph on paper, for this job."""
    return wan_paper.paper(graph, topology, servers,
                           wan_paper.model_bytes(DIVISORS[options.model]))


def contender(options, graph):
    """The only topology, and the sites of its servers."""
    one, = options.topologies
    return one.topology, one.servers(graph, options.placements[0])


# ---- rates that are drawn anew

class Round(NamedTuple):
    """begin, end: by this machine's clock; seconds: the slowest worker's."""

    begin: float
    end: float
    seconds: float


def redraw(seed, graph, options):
    """Rounds under `--switches` switches of all rates."""
    topology, servers = contender(options, graph)
    seeds = [seed + number for number in range(options.switches + 1)]
    drawn = [graph, *(again(graph, one, options) for one in seeds[1:])]
    with Mesh(graph, options.congestion, options.routed) as mesh, ExitStack() as stack:
        job = ours(stack, mesh, options, topology, servers)
        before = settle(job, options)
        switched, rounds = switches(mesh, job, seeds, options)
        job.end()
    return {"seed": seed, "topology": topology, "servers": servers, "before": before,
            "phases": [{"seed": one, **phase, "bound": bound(rates, options, topology,
                                                             servers).bound}
                       for one, rates, phase in zip(seeds, drawn, phases(switched, rounds))]}


def again(graph, seed, options):
    """The graph with the rates that a lab of it has after `redraw SEED`."""
    drawn = graphs.draw(len(graph.links), seed, changes.scale(options.scale))
    return graphs.Graph(link._replace(rates=rates) for link, rates in zip(graph.links, drawn))


def switches(mesh, job, seeds, options):
    """Rounds until the last rates have had their time. When each seed's rates were there, and the
    rounds."""
    scale, switched, rounds, wrong = changes.scale(options.scale), [time.monotonic()], [], []
    timed = [changes.Timed(number * options.redraw, (changes.Redraw(one, scale),), f"redraw {one}")
             for number, one in enumerate(seeds[1:], 1)]

    def told(_timed, error):
        switched.append(time.monotonic())
        if error:
            wrong.append(error)
    timeline = changes.Timeline(mesh, timed, told).start()
    try:
        last = time.monotonic() + options.redraw * len(seeds)
        while (begin := time.monotonic()) < last and not wrong:
            answers, failed = within(HUNG, lambda: one_round(job, options))
            if failed:
                raise Failed(f"after {len(rounds)} rounds: {failed}")
            rounds.append(Round(begin, time.monotonic(), max(answers)))
    finally:
        timeline.stop()
    if wrong or len(switched) < len(seeds):
        raise Failed(f"{len(switched) - 1} of {len(seeds) - 1} switches were made: {wrong}")
    return switched, rounds


def phases(switched, rounds):
    """For the rates of each seed: seconds of the round that was under way when they came, and of
    those that began after that and ended before the next ones came."""
    ends = [*switched[1:], float("inf")]
    return [{"across": [one.seconds for one in rounds if one.begin < begin < one.end],
             "rounds": [one.seconds for one in rounds if begin <= one.begin and one.end < end]}
            for begin, end in zip(switched, ends)]


# ---- a link that is cut

def without(graph, link):
    """The graph without a link; None: it would fall apart."""
    try:
        left = graphs.Graph(one for one in graph.links if one is not link)
    except Misuse:
        return None
    return left if left.sites == graph.sites else None


def choose(graph, topology, servers, options):
    """The link to cut: of those without which every site still reaches every other one, the one
    that trees use most. Unless routes are made anew, or there are tunnels in their place, those too
    are left out that lie on a route between a site and the scheduler or a server: nothing would get
    there any more."""
    hops = graphs.next_hops(graph)
    routes = {frozenset(pair) for site in graph.sites for server in servers
              for pair in graphs.way(hops, site, server) + graphs.way(hops, server, site)}
    carried = bound(graph, options, topology, servers).carried()
    free = [link for link in graph.links if without(graph, link)
            and (options.reroute or not options.routed
                 or frozenset((link.one, link.other)) not in routes)]
    if not free:
        raise Misuse("every link is on a route to a server or holds the graph together: with "
                     "--tunnels or --reroute there is another way")
    return max(free, key=lambda link: carried[link.one, link.other] + carried[link.other, link.one])


def cut(seed, graph, options):
    """Rounds before a link is cut in the middle of one, that one, and those after it."""
    topology, servers = contender(options, graph)
    link = choose(graph, topology, servers, options)
    left = without(graph, link)
    with Mesh(graph, options.congestion, options.routed) as mesh, ExitStack() as stack:
        job = ours(stack, mesh, options, topology, servers)
        found = {"seed": seed, "topology": topology, "servers": servers,
                 "link": f"{link.one}-{link.other}", "rerouted": options.reroute,
                 "tunnels": not options.routed,
                 "before": settle(job, options)}
        found["rounds"] = [max(one_round(job, options)) for _ in range(options.rounds)]
        found |= cut_round(mesh, job, link, left, mean(found["rounds"]) / 2, options)
        after(job, found, options)
        if not found["wrong"]:
            job.end()
    return {**found, "bound": bound(graph, options, topology, servers).bound,
            "left": bound(left, options, topology, servers).bound}


def cut_round(mesh, job, link, left, when, options):
    """A round in which a link is cut, so many seconds after its begin: seconds of it, and until
    links never stood still again before its end; or what went wrong."""
    watch = Watch(job.pids()["worker"], STILL * min(graph_rates(left)) * 1e6 / 8)
    times = []

    def cutting():
        mesh.cut(link.one, link.other)
        mesh.cut(link.other, link.one)
        if options.reroute:
            mesh.reroute(graphs.next_hops(left), options.congestion)
        times.append(time.monotonic())
    timer = threading.Timer(when, cutting)
    watch.start()
    timer.start()
    try:
        answers, wrong = within(HUNG, lambda: job.ask(f"{options.model} 1"))
    finally:
        timer.join()
        watch.stop()
    if not times:
        raise Failed(f"the link {link.one}-{link.other} could not be cut")
    found = {"across": None, "goes_on": None, "after": [], "wrong": wrong}
    if not wrong:
        found["across"] = max(answer["seconds"] for answer in answers)
        found["goes_on"] = goes_on(watch.looks, times[0],
                                   max(answer["ended"] for answer in answers), watch.still)
    return found


def after(job, found, options):
    """The rounds after that one, unless something goes wrong."""
    while not found["wrong"] and len(found["after"]) < options.rounds + MORE:
        answers, found["wrong"] = within(HUNG, lambda: one_round(job, options))
        if not found["wrong"]:
            found["after"].append(max(answers))


def graph_rates(graph):
    return [rate for rate in graph.rates.values() if rate is not None] or [wan_paper.FREE]


def goes_on(looks, begin, end, still):
    """Seconds from a moment until links never again stood still before the end. looks: (when, bytes
    so far); still: bytes per second."""
    last = begin
    for (before, had), (now, has) in zip(looks, looks[1:]):
        if begin <= before and now <= end and (has - had) < still * (now - before):
            last = now
    return last - begin


class Watch(threading.Thread):
    """Looks at what all links together have carried, until it is stopped."""

    def __init__(self, pids, still):
        super().__init__(daemon=True)
        self._pids = pids
        self._over = threading.Event()
        self.looks = []
        self.still = still

    def run(self):
        while not self._over.wait(LOOK):
            carried = sum(sum(received(pid).values()) for pid in self._pids)
            self.looks.append((time.monotonic(), carried))

    def stop(self):
        self._over.set()
        self.join()


def received(pid):
    """Bytes that came to the site of that process, by the device of the link. The kernel counts
    (proc_pid_net(5)); nothing: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return {}
    counts = (line.split(":") for line in lines if line.strip().startswith("to"))
    return {device.strip(): int(numbers.split()[0]) for device, numbers in counts}


def within(seconds, ask):
    """What `ask` gives, and what went wrong, if something did. It ends with the processes that it
    asks."""
    found = []

    def asking():
        try:
            found.append((ask(), None))
        except (Failed, OSError, ValueError) as error:
            found.append((None, str(error)))
    thread = threading.Thread(target=asking, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else (None, f"no end after {seconds} s")
