"""Graphs of sites and links: their text, drawn rates, and the ways through them. Pure: no lab.

The text has a link a line (or between commas), and `#` begins a comment:

    site1 site2 40/25       40 Mbit/s from site1 to site2, 25 back
    site2 site3 30          30 each way;  free: as fast as the machine can
    site1 site3             drawn by a seed
    a b 40/25 delay=20/30 jitter=5 loss=0.1     milliseconds and percent of each direction

Rates are drawn as in the models of NetStorm's authors: each direction by itself, evenly between 20
and 155 Mbit/s, times a scale. The order of the text does not count: sites are in the order of their
names (site2 before site10), and links in that of their sites. The first rate drawn is that of the
first link from its earlier site to its later one, the second is that back, and so on.
"""

import random
import re
from typing import NamedTuple, Optional

from . import delays as delays_, names
from .changes import SCALE, rates
from .delays import Delays
from .links import FREE, MBIT_LEAST, Rates
from .tools import LabError, Misuse

#: Mbit/s: between what rates are drawn.
LEAST, MOST = 20.0, 155.0
#: The nine data centres of NetStorm's public scripts, and the links between them.
NETSTORM = """
site1 site2
site1 site3
site2 site3
site2 site5
site3 site4
site4 site5
site4 site6
site5 site7
site6 site7
site6 site8
site6 site9
site7 site8
site8 site9
"""
KNOWN = {"netstorm": NETSTORM}


class Link(NamedTuple):
    """A link; rates and delays: from the first site to the other one, and back. No delays: None."""

    one: str
    other: str
    rates: Rates
    delays: Optional[Delays] = None

    def turned(self):
        return Link(self.other, self.one, Rates(*reversed(self.rates)),
                    self.delays and self.delays.turned())


class Graph:
    """Sites, in the order of their names, and links, each from the earlier site to the later one,
    in the order of their first and then their second sites.

    Raises Misuse unless every site can reach every other one.
    """

    def __init__(self, links):
        links = list(links)
        self.sites = sorted({site for link in links for site in (link.one, link.other)}, key=_name)
        place = {site: number for number, site in enumerate(self.sites)}
        turned = [link if place[link.one] < place[link.other] else link.turned() for link in links]
        self.links = sorted(turned, key=lambda link: (place[link.one], place[link.other]))
        #: Mbit/s of each direction of each link; None: no limit.
        self.rates = {}
        for link in self.links:
            if link.one == link.other or (link.one, link.other) in self.rates:
                raise Misuse(f"a second link between {link.one} and {link.other}"
                             if link.one != link.other else f"a link from {link.one} to itself")
            self.rates[link.one, link.other], self.rates[link.other, link.one] = link.rates
        self._check()

    def _check(self):
        if not 2 <= len(self.sites) <= names.HOSTS_MAX:
            raise Misuse(f"a graph of {len(self.sites)} sites: 2 to {names.HOSTS_MAX} can be")
        for (one, other), rate in self.rates.items():
            if rate is not None and rate < MBIT_LEAST:
                raise Misuse(f"{rate:g} Mbit/s from {one} to {other} is too slow: at least "
                             f"{MBIT_LEAST}")
        pairs = {}
        for pair in self.rates:
            name = "-".join(pair)
            if pairs.setdefault(name, pair) != pair:
                raise Misuse(f"{name} would be the name of two links: name the sites otherwise")
        alone = set(self.sites) - set(_hops(self, self.sites[0]))
        if alone:
            raise Misuse(f"no way from {self.sites[0]} to {', '.join(sorted(alone))}")

    @property
    def delayed(self):
        """Whether links have delays, or can have them later."""
        return any(link.delays is not None for link in self.links)

    def with_delays(self, delays):
        """The same where links that say nothing of delays have these."""
        return Graph(link if link.delays is not None else link._replace(delays=delays)
                     for link in self.links)

    def neighbours(self, site):
        return [other for one, other in self.rates if one == site]


def _name(site):
    """What sites are ordered by: a number in a name counts as a number."""
    return [(part.isdigit() and int(part), part) for part in re.findall(r"\d+|\D+", site)]


def draw(count, seed, scale=SCALE):
    """Rates for so many links."""
    numbers = random.Random(seed)
    return [Rates(*(numbers.uniform(LEAST, MOST) * scale for _ in range(2)))
            for _ in range(count)]


def named(name, seed, scale=SCALE):
    """A known graph with drawn rates."""
    return parse(KNOWN[name], seed, scale)


def parse(text, seed=1, scale=SCALE):
    """The graph of a text. Raises Misuse, with the line that is at fault.

    Each link has its place among the drawn ones, drawn or not: one that gets a rate of its own
    changes no other one.
    """
    lines = [line.split("#")[0].strip() for part in text.splitlines() for line in part.split(",")]
    found = [_line(line) for line in lines if line]
    blank = Graph(link._replace(rates=link.rates or FREE) for link in found)
    drawn = {(link.one, link.other): rates
             for link, rates in zip(blank.links, draw(len(found), seed, scale))}

    def rated(link):
        if link.rates:
            return link
        ahead = drawn.get((link.one, link.other))
        return link._replace(rates=ahead or Rates(*reversed(drawn[link.other, link.one])))
    return Graph(map(rated, found))


def _line(line):
    """A link; its rates are None if they are to be drawn."""
    words = line.split()
    about = [word for word in words if "=" in word]
    if len(words) - len(about) not in (2, 3) or about != words[len(words) - len(about):]:
        raise Misuse(f"{line!r} is not SITE SITE [RATE] [delay=MS] [jitter=MS] [loss=PERCENT], as "
                     "in: a b 40/25 delay=20")
    words = words[:len(words) - len(about)]
    for site in words[:2]:
        if not names.HOST.fullmatch(site) or site in names.RESERVED:
            raise Misuse(f"{line!r}: {site!r} cannot be the name of a site: small letters, digits "
                         "and -, a letter first, 31 at most")
    try:
        return Link(*words[:2], rates(words[2]) if words[2:] else None, _delays(about))
    except LabError as error:
        raise Misuse(f"{line!r}: {error}") from None


def _delays(words):
    """Delays of words like `delay=20`; None without any."""
    found = None
    for word in words:
        what, _, text = word.partition("=")
        if what not in delays_.Delay._fields:
            raise LabError(f"{what} is none of {', '.join(delays_.Delay._fields)}")
        found = (found or delays_.NONE).replaced(what, delays_.value(text, what))
    return found


# ---- ways

def _hops(graph, target):
    """How many links each site is away from the target."""
    found, edge = {target: 0}, [target]
    neighbours = {site: graph.neighbours(site) for site in graph.sites}
    for site in edge:
        for other in neighbours[site]:
            if other not in found:
                found[other] = found[site] + 1
                edge.append(other)
    return found


def next_hops(graph):
    """From each site to each other one: to which neighbour it sends.

    It is the way with the fewest links. Of several such, it is the one over which a bit takes the
    least time, added up over its links (1 / rate); then that over the earlier neighbour.
    """
    result = {site: {} for site in graph.sites}
    order = {site: number for number, site in enumerate(graph.sites)}
    neighbours = {site: graph.neighbours(site) for site in graph.sites}
    for target in graph.sites:
        hops = _hops(graph, target)
        took = {target: 0.0}
        for site in sorted(hops, key=hops.get):
            if site == target:
                continue
            took[site], _, result[site][target] = min(
                (took[other] + _bit(graph, site, other), order[other], other)
                for other in neighbours[site] if hops[other] < hops[site])
    return result


def _bit(graph, one, other):
    rate = graph.rates[one, other]
    return 0.0 if rate is None else 1 / rate


def way(hops, source, target):
    """The links, as pairs of sites, over which packets go."""
    found = []
    while source != target:
        found.append((source, hops[source][target]))
        source = found[-1][1]
    return found
