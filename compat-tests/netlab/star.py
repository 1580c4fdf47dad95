"""The lab of hosts around a switch: each host has one link, which leads to all others.

The interface of a host is `eth0`; its other end is a port of a bridge in a namespace of its own.
What a host sends is slowed down at its end, what it receives at the bridge's, so up and down are
independent. The bridge's table is fixed; a frame for an address that no port has is dropped.
"""

from . import names
from .delays import NONE
from .links import CONGESTION, Rates, no_algorithm, shape, shaped
from .names import SWITCH
from .network import ADDRESS, NOWHERE, Machine, Network, lost, neighbour, no_networks, probe
from .tools import LabError, batch, run

MAC = "02:00:0a:4d:00:{:02x}"


class Host(Machine):
    """One host of a lab, with one link."""

    @property
    def mac(self):
        return MAC.format(self.index)

    @property
    def port(self):
        """Its link's other end, a device of the switch."""
        return f"port{self.index}"

    @property
    def rates(self):
        return Rates(shaped(self.namespace, "eth0"), shaped(self.lab.switch, self.port))

    @rates.setter
    def rates(self, rates):
        longer = self.round_trip
        shape(self.namespace, "eth0", rates.up, longer)
        shape(self.lab.switch, self.port, rates.down, longer)

    @property
    def delays(self):
        """Of its link; None: it can have none."""
        return self.lab.delays(self.index - 1)

    @delays.setter
    def delays(self, delays):
        self.lab.delay(self.name, self.index - 1, delays)

    @property
    def round_trip(self):
        """Seconds, over its link and back."""
        return sum(one.delay for one in self.delays or NONE) / 1000

    def unreachable(self):
        """The names of the hosts to which what it sends does not arrive."""
        addresses = lost(self.namespace, "eth0")
        return [host.name for host in self.lab.hosts.values() if host.address in addresses]

    def make(self, congestion):
        batch("ip", self.lab.switch, [f"link set {self.port} master bridge up"])
        peers = [peer for peer in self.lab.hosts.values() if peer is not self]
        batch("ip", self.namespace, [
            "link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up",
            *(neighbour(peer, peer.mac, "eth0") for peer in peers)])
        self._congestion(congestion)

    def join(self):
        """Makes its link, without delay."""
        batch("ip", self.lab.switch, [
            f"link add {self.port} type veth peer name eth0 address {self.mac} "
            f"netns {self.namespace}"])

    def create(self):
        self._create()

    def _congestion(self, name):
        """Every connection over the interface has that algorithm of TCP, whichever end began it.

        It is set on the route: a namespace's own default may only be one that the machine allows to
        everybody (`net.ipv4.tcp_allowed_congestion_control`), and a lab leaves the machine as it
        is.
        """
        try:
            run("ip", "-n", self.namespace, "route", "replace", ADDRESS.format("0/24"), "dev",
                "eth0", "proto", "kernel", "scope", "link", "src", self.address, "congctl", name)
        except LabError:
            raise no_algorithm(name) from None


class Lab(Network):
    """Hosts around a switch.

    hosts: a dictionary from name to Rates. congestion: TCP's algorithm in all of them. delays: a
    Delays of each host's link (a dictionary from name, or one for all); None: there are none, and
    can be none later.
    """

    Host = Host

    def __init__(self, hosts, congestion=CONGESTION, delays=None):
        super().__init__(list(hosts), hosts, congestion, delays)

    @property
    def switch(self):
        return names.of(self.name, SWITCH)

    def _make(self, rates, congestion, delays):
        self._make_switch()
        for host in self.hosts.values():
            host.create()
        if delays is None:
            for host in self.hosts.values():
                host.join()
        else:
            of = delays if isinstance(delays, dict) else dict.fromkeys(self.hosts, delays)
            self.wire.make([((host.namespace, "eth0", host.mac), (self.switch, host.port, None))
                            for host in self.hosts.values()],
                           [of.get(name, NONE) for name in self.hosts])
        for host in self.hosts.values():
            host.make(congestion)
        # The bridge's table: who is where. With it, nothing is sent to those whom it does not
        # concern.
        batch("bridge", self.switch, [line for host in self.hosts.values() for line in (
            f"link set dev {host.port} learning off flood off mcast_flood off bcast_flood off",
            f"fdb replace {host.mac} dev {host.port} master static")])
        for name, one in rates.items():
            self.hosts[name].rates = one

    def _make_switch(self):
        # A machine that lacks one of these cannot have a lab.
        try:
            run("ip", "netns", "add", self.switch)
        except LabError as error:
            raise no_networks(error) from None
        probe(self.switch, "link add name bridge type bridge", "link set bridge up")

    def peers(self, name):
        return [peer for peer in self.hosts if peer != self.host(name).name]

    def shaped(self, name):
        return self.host(name)

    def _way(self, source, target, passes):
        mac = target.mac if passes else NOWHERE
        batch("ip", source.namespace, [neighbour(target, mac, "eth0")])
