"""The case `auto` of lab.py: what `PSLITE_TOPOLOGY=auto` costs where trees are of no use, in a LAN
of equal hosts around a switch, each with a worker and a server. Beside it, in turn, the same job
without that setting. The scheduler is told of the switch and of the cards (PSLITE_LINKS). In both
keys are placed by what the network carries."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from cluster import TCP, Cluster
from harness import PYTHON
from lab_report import AUTO, WITHOUT
from netlab import Lab, Rates
from netlab.cluster import Sites
from parts import HERE

HOSTS = 4
# Mbit/s of each card.
RATE = 500
# What the scheduler says when rounds begin to go along trees, and when it has chosen the star.
TREES, STAR = "rounds go along trees", "trees by the links: star"
TENSORS = "fifth"


def links_text(lab):
    """Cards around a switch, as PSLITE_LINKS has them."""
    addresses = [host.address for host in lab.hosts.values()]
    cards = [f"card {host.address} {host.rates.up} {host.rates.down}\n"
             for host in lab.hosts.values()]
    return "".join([*cards, f"switch {' '.join(addresses)}\n"])


def run(options, limit, keep):
    """Rounds of both, in turn. keep: is given each cluster, and its name, at the end."""
    with ExitStack() as stack:
        rate = Rates.both(RATE * options.scale)
        names = [f"host{number}" for number in range(HOSTS)]
        lab = stack.enter_context(Lab(dict.fromkeys(names, rate), options.congestion))
        links = Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="pslite-lab-"))) / "links"
        links.write_text(links_text(lab))
        settings = {AUTO: {"PSLITE_TOPOLOGY": "auto", "PSLITE_LINKS": str(links)}, WITHOUT: {}}
        clusters = {name: stack.enter_context(Cluster(
            [PYTHON, "-u", str(HERE / "mxkv.py"), str(limit)], HOSTS, HOSTS, TCP,
            place=Sites(lab, names[0], names, names),
            settings={"PS_VERBOSE": "1", **options.set, **more}))
            for name, more in settings.items()}
        rounds = in_turn(clusters, options.rounds)
        said = clusters[AUTO].logs()[0].read_text(errors="replace")
        for name, cluster in clusters.items():
            keep(cluster, name)
            cluster.end()
    return {"rounds": rounds, "trees": said.count(TREES), "star": said.count(STAR)}


def in_turn(clusters, rounds):
    """Seconds of each round; those who begin take turns. The first two do not count."""
    found = {name: [] for name in clusters}
    for number in range(rounds + 2):
        for name in sorted(clusters, reverse=number % 2 == 1):
            took = max(answer["seconds"] for answer in clusters[name].ask(f"{TENSORS} 1"))
            if number >= 2:
                found[name].append(took)
    return found
