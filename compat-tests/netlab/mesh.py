"""The lab of sites: each link joins two sites, and what a site has no link to is some links away.

A site is a host with an address on its loopback interface, and a device `to4` for its link to the
site with the address .4. The two ends of a link are the two ends of a veth pair. What a site sends
over a link is slowed down at its end, so both directions of a link are independent.

Every site forwards for the others, unless the lab is to have no routes but those of links. The
routes are made with the lab, and stay as they are (`graph.next_hops`): changed rates and cuts move
none, and the packets of a way with a cut link are lost. Only `reroute` makes others.

A cut of a link's direction: the site's table of neighbours gets for the other one an address that
no device has (network).
"""

import json
import re

from . import graph as graphs
from .delays import NONE
from .links import CONGESTION, Rates, available, no_algorithm, shape, shaped
from .network import NOWHERE, Machine, Network, lost, neighbour, no_networks, probe
from .tools import LabError, Misuse, batch, run

# Of the device of site `from` for its link to site `to`.
MAC = "02:00:0a:4d:{:02x}:{:02x}"
_DEVICE = re.compile(r"to(\d+)")
# A site forwards or does not; and packets may come on another way than answers go, as with unequal
# ties.
FORWARD = "ipv4/ip_forward"
UNEQUAL = (("ipv4/conf/all/rp_filter", 0), ("ipv4/conf/default/rp_filter", 0))


class Site(Machine):
    """One site, with its links."""

    def device(self, other):
        """Its end of the link to another site."""
        return f"to{other.index}"

    def mac(self, other):
        """The address of its end of that link."""
        return MAC.format(self.index, other.index)

    def ends(self):
        """The indices of the sites to which it has links."""
        devices = json.loads(run("ip", "-n", self.namespace, "-j", "link", "show"))
        found = (_DEVICE.fullmatch(device.get("ifname", "")) for device in devices)
        return sorted(int(one[1]) for one in found if one)

    def unreachable(self):
        """The names of the sites to which what it sends over their link does not arrive."""
        return [name for name in self.lab.peers(self.name)
                if lost(self.namespace, self.device(self.lab.hosts[name]))]

    def create(self, forwards):
        self._create(((FORWARD, int(forwards)), *UNEQUAL))
        batch("ip", self.namespace, ["link set lo up", f"addr add {self.address}/32 dev lo"])


class Link:
    """The link between two sites, seen from the first. number: its place among the links; turned:
    it is seen from the other end there."""

    def __init__(self, one, other, number, turned=False):
        self.one = one
        self.other = other
        self.number = number
        self.turned = turned

    @property
    def name(self):
        return f"{self.one.name}-{self.other.name}"

    @property
    def rates(self):
        """From the first site to the second, and back."""
        return Rates(shaped(self.one.namespace, self.one.device(self.other)),
                     shaped(self.other.namespace, self.other.device(self.one)))

    @rates.setter
    def rates(self, rates):
        longer = self.round_trip
        shape(self.one.namespace, self.one.device(self.other), rates.up, longer)
        shape(self.other.namespace, self.other.device(self.one), rates.down, longer)

    @property
    def delays(self):
        """From the first site to the second, and back; None: it can have none."""
        delays = self.one.lab.delays(self.number)
        return delays.turned() if delays and self.turned else delays

    @delays.setter
    def delays(self, delays):
        self.one.lab.delay(self.name, self.number, delays.turned() if self.turned else delays)

    @property
    def round_trip(self):
        """Seconds, there and back."""
        return sum(one.delay for one in self.delays or NONE) / 1000

    def back(self):
        return Link(self.other, self.one, self.number, not self.turned)

    def ends(self):
        """As delays.Wire makes them."""
        one, other = self.one, self.other
        return ((one.namespace, one.device(other), one.mac(other)),
                (other.namespace, other.device(one), other.mac(one)))

    def join(self):
        """Makes it, without delay."""
        one, other = self.one, self.other
        batch("ip", one.namespace, [
            f"link add {one.device(other)} address {one.mac(other)} type veth peer "
            f"name {other.device(one)} address {other.mac(one)} netns {other.namespace}"])

    def make(self):
        one, other = self.one, self.other
        for here, there in ((one, other), (other, one)):
            batch("ip", here.namespace, [
                f"link set {here.device(there)} up",
                neighbour(there, there.mac(here), here.device(there))])


class Mesh(Network):
    """Sites joined by the links of a graph (graph.Graph). congestion: TCP's algorithm in all of
    them. routed: whether sites without a link reach each other.
    """

    Host = Site

    def __init__(self, graph, congestion=CONGESTION, routed=True):
        super().__init__(graph.sites, graph, congestion, routed)

    def _start(self, name, indices):
        super()._start(name, indices)
        self._links = None

    @property
    def links(self):
        """Its links, in the order of a graph's."""
        if self._links is None:
            sites = {site.index: site for site in self.hosts.values()}
            pairs = [(site, sites[end]) for site in self.hosts.values()
                     for end in site.ends() if site.index < end]
            self._links = [Link(*pair, number) for number, pair in enumerate(pairs)]
        return self._links

    def _make(self, graph, congestion, routed):
        for number, site in enumerate(self.hosts.values()):
            try:
                site.create(routed)
            except LabError as error:
                if number:
                    raise
                raise no_networks(error) from None
            if not number:
                probe(site.namespace)
        links = [Link(self.hosts[link.one], self.hosts[link.other], number)
                 for number, link in enumerate(graph.links)]
        if graph.delayed:
            self.wire.make([link.ends() for link in links],
                           [link.delays or NONE for link in graph.links])
        else:
            for link in links:
                link.join()
        for link, wanted in zip(links, graph.links):
            link.make()
            link.rates = wanted.rates
        hops = graphs.next_hops(graph)
        if not routed:
            hops = {name: {target: hop for target, hop in by_target.items() if hop == target}
                    for name, by_target in hops.items()}
        self._make_routes(hops, congestion)

    def _make_routes(self, hops, congestion):
        """Each carries TCP's algorithm (as of a star's hosts, star.Host._congestion)."""
        for name, by_target in hops.items():
            site = self.hosts[name]
            lines = []
            for target, hop in by_target.items():
                via = "scope link" if hop == target else f"via {self.hosts[hop].address} onlink"
                lines.append(
                    f"route replace {self.hosts[target].address}/32 {via} "
                    f"dev {site.device(self.hosts[hop])} src {site.address} congctl {congestion}")
            try:
                batch("ip", site.namespace, lines)
            except LabError:
                if congestion in available():
                    raise
                raise no_algorithm(congestion) from None

    def reroute(self, hops, congestion=CONGESTION):
        """Other routes, as graph.next_hops gives them for what is left of a graph: what a network's
        own routing does after a cut."""
        self._make_routes(hops, congestion)

    def graph(self):
        """The graph with the rates that are set now."""
        return graphs.Graph(graphs.Link(link.one.name, link.other.name, link.rates, link.delays)
                            for link in self.links)

    def peers(self, name):
        site = self.host(name)
        return [(link.other if link.one is site else link.one).name for link in self.links
                if site in (link.one, link.other)]

    def shaped(self, name):
        """A link by the names of its sites, `site1-site4`, or the other way round."""
        for link in self.links:
            for one in (link, link.back()):
                if one.name == name.replace(":", ""):
                    return one
        raise Misuse(f"no link {name}; there are {', '.join(link.name for link in self.links)}")

    def drawable(self):
        pass

    def redraw(self, seed, scale):
        for link, rates in zip(self.links, graphs.draw(len(self.links), seed, scale)):
            link.rates = rates

    def _way(self, source, target, passes):
        self.joined(source.name, target.name)
        mac = target.mac(source) if passes else NOWHERE
        batch("ip", source.namespace, [neighbour(target, mac, source.device(target))])
