"""The lab and its hosts: made, changed while things run, removed.

A host is a network namespace with one interface, `eth0`, whose other end is a port of a bridge in a
namespace of its own. What a host sends is slowed down at its end, what it receives at the bridge's,
both by a token bucket (tbf, tc-tbf(8)), so up and down are independent and a change hits the
traffic under way. Addresses, neighbours and the bridge's table are fixed: no broadcast, nothing to
learn, nothing to expire.

A cut of the way from A to B: A's table of neighbours gets for B an address that no port has, and
the bridge drops the frames without a word, as a broken cable does.

A process of a host has also a host name, a folder /dev/shm and a boot id of its own: two hosts
cannot share memory, and cannot take each other for the same machine.

Nothing of this is kept in memory or in files: it is read from the kernel, so that several processes
may look at a lab and change it.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Optional

from . import cpu, names
from .names import FOLDERS, NAMESPACES, SWITCH
from .tools import SIGNALS, LabError, Unavailable, batch, require, run

# The hosts have the addresses .1 and up; the table of neighbours grows with the square of their
# number.
ADDRESS, MAC, HOSTS_MAX = "10.77.0.{}", "02:00:0a:4d:00:{:02x}", 200
#: The address that no port has.
NOWHERE = "02:00:0a:4d:ff:ff"
# The bucket: what may be sent at once, in seconds of the rate and in bytes. The largest segment
# that TCP makes, 64 KB as 45 packets of 1514 bytes, must fit. Else the kernel has to cut it, which
# costs the processor several times as much; and one that waited in a faster link's queue, when that
# became slow, would never be sent, nor what is behind it.
BURST_SECONDS, BURST_LEAST = 0.002, 72_000
# What may wait for the bucket, in seconds of the rate and in bytes; what is more gets lost, as in a
# switch.
QUEUE_SECONDS, QUEUE_LEAST = 0.05, 256 * 1024
# Slower than that, a queue of QUEUE_LEAST is seconds long, which TCP takes for a dead host.
MBIT_LEAST = 0.5
# Seconds for killed processes to be gone.
GONE = 5
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
#: What hosts have by default, the first that the kernel has. CUBIC is what nearly all hosts have;
#: every kernel has Reno. Both fill a link while the other direction is full too. (BBR took 40 of
#: 60 Mbit/s there: it counts the time that its confirmations wait for the length of the way.)
PREFERRED = ("cubic", "reno")
BOOT_ID = "/proc/sys/kernel/random/boot_id"

# Run in a host's network namespace, with mounts and a host name of its own. $1: the file of the
# control group, or nothing; $2: the host's folder; $3: its name; $4: the program mount; then the
# command. (A process of a test may have no PATH.)
ENTER = f"""
[ -z "$1" ] || echo $$ >"$1" || exit 126
echo "$3" >/proc/sys/kernel/hostname &&
"$4" --bind "$2/boot_id" {BOOT_ID} &&
"$4" --bind "$2/shm" /dev/shm || exit 126
shift 4
exec "$@"
"""


class Rates(NamedTuple):
    """What a host may send and receive, in Mbit/s on the wire; None: as fast as the machine can."""

    up: Optional[float]
    down: Optional[float]

    @classmethod
    def both(cls, rate):
        return cls(rate, rate)

    def __str__(self):
        up, down = ("free" if rate is None else f"{rate:g}" for rate in self)
        return up if up == down else f"{up}/{down}"


FREE = Rates(None, None)


def _available():
    """TCP's algorithms that this kernel has loaded."""
    try:
        return AVAILABLE.read_text().split()
    except OSError:
        return []


def preferred():
    available = _available()
    return next((name for name in PREFERRED if name in available), PREFERRED[-1])


#: TCP's algorithm where none is named.
CONGESTION = preferred()


class Host:
    """One host of a lab."""

    def __init__(self, lab, name, index, group):
        self.lab = lab
        self.name = name
        self.index = index
        self.address = ADDRESS.format(index)
        self.mac = MAC.format(index)
        self.namespace = names.of(lab.name, name)
        self.group = group

    # ---- what runs there

    def command(self, words):
        """The command that runs `words` there; its pid is that of `words`."""
        members = self.group.members if self.group else ""
        nsenter, unshare, shell, mount = map(shutil.which, ("nsenter", "unshare", "sh", "mount"))
        return [nsenter, f"--net={NAMESPACES / self.namespace}", unshare, "--mount", "--uts", shell,
                "-c", ENTER, "lab", str(members), str(self.lab.folder / self.name), self.name,
                mount, *map(str, words)]

    def popen(self, words, **options):
        return subprocess.Popen(self.command(words), **options)

    def pids(self):
        """The processes that are there."""
        return [int(pid) for pid in run("ip", "netns", "pids", self.namespace).split()]

    # ---- its links and its processor

    @property
    def rates(self):
        return Rates(_rate(self.namespace, "eth0"), _rate(self.lab.switch, self._port))

    @rates.setter
    def rates(self, rates):
        _shape(self.namespace, "eth0", rates.up)
        _shape(self.lab.switch, self._port, rates.down)

    @property
    def _port(self):
        return f"port{self.index}"

    @property
    def cores(self):
        """What its processes may use at most together; None: everything."""
        return self.group.cores if self.group else None

    @cores.setter
    def cores(self, cores):
        if not self.group:
            raise Unavailable(f"{self.name} has no share of the processor: {self.lab.no_cpu}")
        self.group.limit(cores)

    def unreachable(self):
        """The names of the hosts to which what it sends does not arrive."""
        table = json.loads(run("ip", "-n", self.namespace, "-j", "neigh", "show", "dev", "eth0"))
        lost = {entry["dst"] for entry in table if entry.get("lladdr") == NOWHERE}
        return [host.name for host in self.lab.hosts.values() if host.address in lost]


class Lab:
    """A set of hosts. Use it with `with`, or call `close`: it must be removed by the one who made
    it.

    hosts: a dictionary from name to Rates. congestion: TCP's algorithm in all of them.
    Raises Unavailable if this machine or user cannot have it.
    """

    def __init__(self, hosts, congestion=CONGESTION):
        require()
        bad = [name for name in hosts if not names.HOST.fullmatch(name) or name == SWITCH]
        if bad or not 1 <= len(hosts) <= HOSTS_MAX:
            raise LabError(f"no lab of {len(hosts)} hosts, and none with the names {bad}")
        remove_stale()
        self._start(names.new(), {name: index for index, name in enumerate(hosts, 1)})
        try:
            self._make(congestion)
            for name, rates in hosts.items():
                self.hosts[name].rates = rates
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, name):
        """A lab that another process made, to look at or to change. Do not close it."""
        found = names.hosts(name)
        indices = {host: _index(names.of(name, host)) for host in found if host != SWITCH}
        self = cls.__new__(cls)
        self._start(name, dict(sorted(indices.items(), key=lambda pair: pair[1])))
        return self

    def _start(self, name, indices):
        self.name = name
        self.switch = names.of(name, SWITCH)
        self.folder = FOLDERS / name
        #: Why there are no shares of the processor; None: there are.
        self.no_cpu = None
        controller = None
        try:
            controller = cpu.controller()
        except Unavailable as error:
            self.no_cpu = str(error)
        self.hosts = {host: Host(self, host, index, controller and controller.group(name, host))
                      for host, index in indices.items()}

    # ---- made and removed

    def _make(self, congestion):
        self._make_switch()
        for host in self.hosts.values():
            self._make_host(host, congestion)
        # The bridge's table: who is where. With it, nothing is sent to those whom it does not
        # concern.
        batch("bridge", self.switch, [line for host in self.hosts.values() for line in (
            f"link set dev port{host.index} learning off flood off mcast_flood off bcast_flood off",
            f"fdb replace {host.mac} dev port{host.index} master static")])

    def _make_switch(self):
        # A machine that lacks one of these cannot have a lab; what fails later is a fault.
        try:
            run("ip", "netns", "add", self.switch)
            batch("ip", self.switch, ["link add name bridge type bridge", "link set bridge up",
                                      "link add port0 type veth peer name probe"])
            batch("tc", self.switch,
                  ["qdisc add dev port0 root tbf rate 1mbit burst 66000 limit 66000"])
            batch("ip", self.switch, ["link del port0"])
        except LabError as error:
            raise Unavailable(
                f"this machine has no namespaces, bridges or rates: {error}") from None

    def _make_host(self, host, congestion):
        run("ip", "netns", "add", host.namespace)
        _settings(host.namespace)
        port = f"port{host.index}"
        batch("ip", self.switch, [
            f"link add {port} type veth peer name eth0 address {host.mac} netns {host.namespace}",
            f"link set {port} master bridge up"])
        peers = [peer for peer in self.hosts.values() if peer is not host]
        batch("ip", host.namespace, [
            "link set lo up", f"addr add {host.address}/24 dev eth0", "link set eth0 up",
            *(_neighbour(peer, peer.mac) for peer in peers)])
        _congestion(host, congestion)
        folder = self.folder / host.name
        (folder / "shm").mkdir(parents=True)
        (folder / "shm").chmod(0o1777)
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        if host.group:
            host.group.create()

    def close(self):
        """Ends every process of the hosts and removes everything."""
        with _undisturbed():
            remove(self.name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # ---- its ways

    def host(self, name):
        """A host by its name; a colon in it does not count, so that `server:3` is server3."""
        try:
            return self.hosts[name.replace(":", "")]
        except KeyError:
            raise LabError(f"no host {name}; there are {', '.join(self.hosts)}") from None

    def cut(self, source, target):
        """From now on nothing that `source` sends arrives at `target`. The other way stays as it
        is."""
        self._way(source, target, NOWHERE)

    def mend(self, source, target):
        self._way(source, target, self.host(target).mac)

    def _way(self, source, target, mac):
        batch("ip", self.host(source).namespace, [_neighbour(self.host(target), mac)])


def _neighbour(host, mac):
    return f"neigh replace {host.address} lladdr {mac} dev eth0 nud permanent"


def _settings(namespace):
    """What a namespace does not have as the machine has it."""
    # What TCP learnt on a link of another rate is worth nothing.
    run("nsenter", f"--net={NAMESPACES / namespace}", "sh", "-c",
        "cd /proc/sys/net && echo 1 >ipv4/tcp_no_metrics_save && "
        "{ [ ! -d ipv6 ] || echo 1 >ipv6/conf/all/disable_ipv6; }")


def _congestion(host, name):
    """Every connection over the host's interface has that algorithm of TCP, whichever end began it.

    It is set on the route: a namespace's own default may only be one that the machine allows to
    everybody (`net.ipv4.tcp_allowed_congestion_control`), and a lab leaves the machine as it is.
    """
    try:
        run("ip", "-n", host.namespace, "route", "replace", ADDRESS.format("0/24"), "dev", "eth0",
            "proto", "kernel", "scope", "link", "src", host.address, "congctl", name)
    except LabError:
        raise Unavailable(f"this kernel has no TCP algorithm {name}; loaded are "
                          f"{', '.join(_available())} ({AVAILABLE})") from None


def _shape(namespace, device, mbit):
    """Sets what a device may send; also while it sends."""
    if mbit is None:
        # It has no bucket if it never had a rate, and then there is nothing to remove.
        run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
        return
    if not mbit >= MBIT_LEAST:
        raise LabError(f"{mbit:g} Mbit/s is too slow for {device}: at least {MBIT_LEAST}")
    bytes_per_second = mbit * 1e6 / 8
    burst = max(BURST_LEAST, round(bytes_per_second * BURST_SECONDS))
    queue = max(QUEUE_LEAST, round(bytes_per_second * QUEUE_SECONDS))
    run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
        "rate", f"{round(mbit * 1e6)}bit", "burst", burst, "limit", burst + queue)


def _rate(namespace, device):
    """What _shape set, in Mbit/s."""
    for entry in json.loads(run("tc", "-n", namespace, "-j", "qdisc", "show", "dev", device)):
        if entry["kind"] == "tbf":
            return entry["options"]["rate"] * 8 / 1e6
    return None


def _index(namespace):
    """The number of a host, by its address."""
    entry, = json.loads(run("ip", "-n", namespace, "-j", "-4", "addr", "show", "dev", "eth0"))
    return int(entry["addr_info"][0]["local"].rpartition(".")[2])


# ---- removing, by name alone: the one who made it may be gone

@contextmanager
def _undisturbed():
    """An impatient second Ctrl-C must not leave half of it behind. (Only the main thread has
    signals.)"""
    former = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            former[number] = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def remove_stale():
    """Removes what is left of labs whose owners are gone; their names."""
    stale = [lab for lab in all_labs() if names.owner(lab) is None]
    for lab in stale:
        remove(lab)
    return stale


def all_labs():
    try:
        return names.labs(cpu.controller().root)
    except Unavailable:
        return names.labs()


def remove(lab):
    """Ends every process in a lab's hosts, and removes the hosts. What is gone already is no
    error."""
    hosts = names.hosts(lab)
    _end([names.of(lab, host) for host in hosts])
    for host in hosts:
        run("ip", "netns", "del", names.of(lab, host), check=False)
    try:
        root = cpu.controller()
    except Unavailable:
        root = None
    # A host whose namespace is gone may still have a group.
    for name in os.listdir(root.root) if root else ():
        if (names.parse(name) or ("",))[0] == lab:
            root.group(lab, names.parse(name)[1]).remove()
    shutil.rmtree(FOLDERS / lab, ignore_errors=True)


def _end(namespaces):
    limit = time.monotonic() + GONE
    while time.monotonic() < limit:
        pids = [int(pid) for name in namespaces
                for pid in run("ip", "netns", "pids", name, check=False).split()]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
