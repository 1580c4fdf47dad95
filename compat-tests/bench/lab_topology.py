"""The case `auto` of lab.py: what `PSLITE_TOPOLOGY=auto` costs where trees are of no use, in a LAN
of equal hosts around a switch, each with a worker and a server. Beside it, in turn, the same job
without that setting. The scheduler is told of the switch and of the cards (PSLITE_LINKS).

In one pair keys stay where MXNet puts them, which is the same in both. In the other pair keys are
placed by what the network carries. Then each job finds its own layout, and rounds of equally good
layouts differ by some per cent. So that pair is started several times, and what a start measured
counts as one number."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from cluster import TCP, Cluster
from harness import PYTHON
from lab_report import AUTO, AUTO_FIXED, WITHOUT, WITHOUT_FIXED
from netlab import Lab, Rates
from netlab.cluster import Sites
from parts import HERE

HOSTS = 4
# Mbit/s of each card.
RATE = 500
# What the scheduler says when rounds begin to go along trees, and when it has chosen the star.
TREES, STAR = "rounds go along trees", "trees by the links: star"
TENSORS = "fifth"
# Starts of the pair whose keys are placed, the rounds of each in which layouts are found, and what
# part of --rounds follows.
STARTS, SETTLE, PART = 6, 25, 5


def links_text(lab):
    """Cards around a switch, as PSLITE_LINKS has them."""
    addresses = [host.address for host in lab.hosts.values()]
    cards = [f"card {host.address} {host.rates.up} {host.rates.down}\n"
             for host in lab.hosts.values()]
    return "".join([*cards, f"switch {' '.join(addresses)}\n"])


def run(options, limit, keep):
    """Rounds of all, in turn. keep: is given each cluster, and its name, at the end."""
    with ExitStack() as stack:
        rate = Rates.both(RATE * options.scale)
        names = [f"host{number}" for number in range(HOSTS)]
        lab = stack.enter_context(Lab(dict.fromkeys(names, rate), options.congestion))
        links = Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="pslite-lab-"))) / "links"
        links.write_text(links_text(lab))
        topology = {"PSLITE_TOPOLOGY": "auto", "PSLITE_LINKS": str(links)}
        said = []

        def pair(settings, settle, rounds, suffix=""):
            clusters = {name: stack.enter_context(Cluster(
                [PYTHON, "-u", str(HERE / "mxkv.py"), str(limit)], HOSTS, HOSTS, TCP,
                place=Sites(lab, names[0], names, names),
                settings={"PS_VERBOSE": "1", **options.set, **more}))
                for name, more in settings.items()}
            found = in_turn(clusters, settle, rounds)
            said.extend(clusters[name].logs()[0].read_text(errors="replace")
                        for name in settings if name in (AUTO, AUTO_FIXED))
            for name, cluster in clusters.items():
                keep(cluster, name + suffix)
                cluster.end()
            return found

        fixed = {"PSLITE_PLANNING": "0"}
        stay = pair({AUTO_FIXED: {**topology, **fixed}, WITHOUT_FIXED: fixed}, 2, options.rounds)
        placed = [pair({AUTO: topology, WITHOUT: {}}, SETTLE, max(options.rounds // PART, 1),
                       f", start {number + 1}")
                  for number in range(STARTS)]
    return {"rounds": stay, "starts": placed, "trees": sum(text.count(TREES) for text in said),
            "star": min(text.count(STAR) for text in said)}


def in_turn(clusters, settle, rounds):
    """Seconds of each round, after some that do not count; each begins in turn."""
    found = {name: [] for name in clusters}
    names = list(clusters)
    for number in range(settle + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            took = max(answer["seconds"] for answer in clusters[name].ask(f"{TENSORS} 1"))
            if number >= settle:
                found[name].append(took)
    return found
