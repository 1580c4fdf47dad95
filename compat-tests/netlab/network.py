"""What all labs have: hosts that are made and removed, and what runs on them.

A host is a network namespace. How hosts are joined is for the kinds of labs: `star` and `mesh`.
Both use this module, which knows neither. Addresses and neighbours are fixed: no broadcast, nothing
to learn, nothing to expire.

A cut of the way from A to B: A's table of neighbours gets for B an address that no device has, and
the frames are dropped without a word, as a broken cable does.

A process of a host has also a host name, a folder /dev/shm and a boot id of its own: two hosts
cannot share memory, and cannot take each other for the same machine. All processes of one host
share these.

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

from . import cpu, names
from .delays import Wire, no_wire
from .names import FOLDERS, HOSTS_MAX, NAMESPACES, RESERVED
from .tools import SIGNALS, LabError, Misuse, Unavailable, batch, require, run

# The hosts have the addresses .1 and up.
ADDRESS = "10.77.0.{}"
#: The address that no device has.
NOWHERE = "02:00:0a:4d:ff:ff"
# Seconds for killed processes to be gone.
GONE = 5
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


class Machine:
    """One host of a lab: where processes run. group: its control group; None: there are none."""

    def __init__(self, lab, name, index, group):
        self.lab = lab
        self.name = name
        self.index = index
        self.address = ADDRESS.format(index)
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

    def _create(self, settings=()):
        """Makes it, without any link. settings: more of what _settings sets."""
        run("ip", "netns", "add", self.namespace)
        _settings(self.namespace, settings)
        folder = self.lab.folder / self.name
        (folder / "shm").mkdir(parents=True)
        (folder / "shm").chmod(0o1777)
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        if self.group:
            self.group.create()

    # ---- its processor

    @property
    def cores(self):
        """What its processes may use at most together; None: everything."""
        return self.group.cores if self.group else None

    @cores.setter
    def cores(self, cores):
        if not self.group:
            raise Unavailable(f"{self.name} has no share of the processor: {self.lab.no_cpu}")
        self.group.limit(cores)


class Network:
    """A set of hosts. Use it with `with`, or call `close`: it must be removed by the one who made
    it.

    A kind of lab says what its hosts are (`Host`), makes what joins them (`_make`), and says who
    may be cut from whom (`joined`, `peers`, `_way`) and what has rates (`shaped`). Raises
    Unavailable if this machine or user cannot have it.
    """

    #: The class of its hosts.
    Host = Machine

    def __init__(self, hosts, *how):
        """hosts: their names, in the order of their addresses. how: what `_make` needs."""
        require()
        bad = [name for name in hosts if not names.HOST.fullmatch(name) or name in RESERVED]
        if bad or not 1 <= len(hosts) <= HOSTS_MAX:
            raise LabError(f"no lab of {len(hosts)} hosts, and none with the names {bad}")
        remove_stale()
        self._start(names.new(), {name: index for index, name in enumerate(hosts, 1)})
        try:
            self._make(*how)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, name):
        """A lab that another process made, to look at or to change. Do not close it."""
        found = names.hosts(name)
        indices = {host: _index(names.of(name, host)) for host in found if host not in RESERVED}
        self = cls.__new__(cls)
        self._start(name, dict(sorted(indices.items(), key=lambda pair: pair[1])))
        return self

    def _start(self, name, indices):
        self.name = name
        self.folder = FOLDERS / name
        self.wire = Wire(name)
        #: Why there are no shares of the processor; None: there are.
        self.no_cpu = None
        controller = None
        try:
            controller = cpu.controller()
        except Unavailable as error:
            self.no_cpu = str(error)
        self.hosts = {
            host: self.Host(self, host, index, controller and controller.group(name, host))
            for host, index in indices.items()}

    def close(self):
        """Ends every process of the hosts and removes everything."""
        with _undisturbed():
            self.wire.closing()
            remove(self.name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # ---- its hosts and ways

    def host(self, name):
        """A host by its name; a colon in it does not count, so that `server:3` is server3."""
        try:
            return self.hosts[name.replace(":", "")]
        except KeyError:
            raise LabError(f"no host {name}; there are {', '.join(self.hosts)}") from None

    def peers(self, name):
        """The names of those to whom a host sends without a third one between."""
        raise NotImplementedError

    def joined(self, source, target):
        """Raises unless the second host is a peer of the first."""
        if target not in self.peers(source):
            raise Misuse(f"no link joins {source} and {target}; {source} has links to "
                         f"{', '.join(self.peers(source))}")

    def shaped(self, name):
        """What has the attribute `rates` by that name."""
        raise NotImplementedError

    def delays(self, number):
        """The delays of that link; None: it has none, and can have none."""
        return self.wire.get(number) if self.wire.exists else None

    def delay(self, name, number, delays):
        if not self.wire.exists:
            raise no_wire(name)
        self.wire.set(number, delays)

    def drawable(self):
        """Raises unless it has links whose rates can be drawn."""
        raise Misuse("only the links of a graph have rates that are drawn (--graph)")

    def redraw(self, seed, scale):
        """Draws the rates of all links anew."""
        self.drawable()

    def cut(self, source, target):
        """From now on nothing that `source` sends arrives at `target`. The other way stays as it
        is."""
        self._way(self.host(source), self.host(target), False)

    def mend(self, source, target):
        self._way(self.host(source), self.host(target), True)


def neighbour(host, mac, device):
    """The line for `ip` that says at which address of Ethernet a host is."""
    return f"neigh replace {host.address} lladdr {mac} dev {device} nud permanent"


def lost(namespace, device):
    """The addresses to which what a device sends does not arrive."""
    table = json.loads(run("ip", "-n", namespace, "-j", "neigh", "show", "dev", device))
    return {entry["dst"] for entry in table if entry.get("lladdr") == NOWHERE}


def probe(namespace, *more):
    """Raises Unavailable if there can be no veth pairs with rates, as seen in a namespace that is
    there; what fails later is a fault. more: further lines for `ip` that must work."""
    try:
        batch("ip", namespace, [*more, "link add port0 type veth peer name probe"])
        batch("tc", namespace, ["qdisc add dev port0 root tbf rate 1mbit burst 66000 limit 66000"])
        batch("ip", namespace, ["link del port0"])
    except LabError as error:
        raise no_networks(error) from None


def no_networks(error):
    return Unavailable(f"this machine has no namespaces, bridges or rates: {error}")


def _settings(namespace, more):
    """What a namespace does not have as the machine has it. more: (file below /proc/sys/net,
    value)."""
    # What TCP learnt on a link of another rate is worth nothing.
    run("nsenter", f"--net={NAMESPACES / namespace}", "sh", "-c",
        "cd /proc/sys/net && echo 1 >ipv4/tcp_no_metrics_save && "
        "{ [ ! -d ipv6 ] || echo 1 >ipv6/conf/all/disable_ipv6; }"
        + "".join(f" && echo {value} >{file}" for file, value in more))


def _index(namespace):
    """The number of a host, by its address."""
    devices = json.loads(run("ip", "-n", namespace, "-j", "-4", "addr", "show", "to",
                             ADDRESS.format("0/24")))
    # Devices without such an address are there too, with nothing in them.
    address, = (info["local"] for device in devices for info in device.get("addr_info", ())
                if info)
    return int(address.rpartition(".")[2])


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
