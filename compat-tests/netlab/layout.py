"""What the options of `scripts/lab run` and `hold` ask for: a lab, and who runs where."""

from typing import Callable, NamedTuple

from . import changes, delays, graph_model
from . import graph as graphs
from .cluster import Place, Sites, hosts
from .mesh import Mesh
from .star import Lab
from .tools import Misuse

# Of each kind of lab, the options that the other one does not have, and their defaults.
STAR = {"workers": "2x500", "servers": "2x500", "spare": None, "scheduler": "free"}
GRAPH = {"seed": 1, "scale": changes.SCALE, "scheduler_at": None, "servers_at": None,
         "workers_at": "all", "no_routes": False}


class Layout(NamedTuple):
    """make: makes the lab. place: who runs where in it. what: its hosts, in a word; about: what
    else the user may want to know."""

    make: Callable
    place: Callable
    workers: int
    servers: int
    what: str
    about: str = ""


def layout(options):
    """The layout that the options describe; raises before anything is made."""
    wanted, other, missing = ((GRAPH, STAR, "without") if options.graph is not None
                              else (STAR, GRAPH, "with"))
    strays = [name for name in other if getattr(options, name) is not None]
    if strays:
        raise Misuse(f"--{strays[0].replace('_', '-')} is for a lab {missing} --graph")
    for name, default in wanted.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    return _graph(options) if options.graph is not None else _star(options)


def _star(options):
    workers, servers = changes.rate_list(options.workers), changes.rate_list(options.servers)
    spares = changes.rate_list(options.spare) if options.spare else []
    named = hosts(workers, servers, spares, changes.rates(options.scheduler))
    held = wanted_delays(options)
    return Layout(lambda: Lab(named, options.congestion, held), Place, len(workers), len(servers),
                  "hosts")


def wanted_delays(options):
    """What --delay, --jitter and --loss say of each link; None: nothing."""
    found = None
    for what in delays.Delay._fields:
        text = getattr(options, what)
        if text is not None:
            found = (found or delays.NONE).replaced(what, delays.value(text, what))
    return found


def read_graph(text, seed, scale):
    """A graph by its name, from a file, or as text, which has a blank in it."""
    if text in graphs.KNOWN:
        return graphs.named(text, seed, scale)
    if not text.split() or len(text.split()) > 1:
        return graphs.parse(text, seed, scale)
    try:
        with open(text, encoding="utf-8") as file:
            return graphs.parse(file.read(), seed, scale)
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"--graph {text}: neither {', '.join(graphs.KNOWN)}, nor a text as "
                     f"'a b 40/25', nor a file: {error}") from None


def _graph(options):
    graph = read_graph(options.graph, options.seed, changes.scale(options.scale))
    held = wanted_delays(options)
    graph = graph if held is None else graph.with_delays(held)
    workers = sites(options.workers_at, graph, "--workers-at")
    servers = sites(options.servers_at or graph.sites[0], graph, "--servers-at", workers)
    scheduler = sites(options.scheduler_at or servers[0], graph, "--scheduler-at", workers)
    if len(scheduler) != 1:
        raise Misuse("--scheduler-at takes one site")
    about = (f"scheduler at {scheduler[0]}; servers at {', '.join(servers)}; workers at "
             f"{', '.join(workers)}")
    return Layout(lambda: Mesh(graph, options.congestion, not options.no_routes),
                  lambda lab: Sites(lab, scheduler[0], servers, workers), len(workers),
                  len(servers), "sites", about)


def sites(text, graph, option, workers=None):
    """`site1,site5`; `all`; and, for workers that are given, `best`: where one server serves them
    fastest. A site that is named twice has two."""
    if text == "all":
        return list(graph.sites)
    if text == "best" and workers:
        return [graph_model.best_site(graph, graphs.next_hops(graph), workers)]
    found = text.split(",")
    for site in found:
        if site not in graph.sites:
            raise Misuse(f"{option}: no site {site!r}; there are {', '.join(graph.sites)}")
    return found
