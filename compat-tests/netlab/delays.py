"""Delay, jitter and loss of links, without netem, which not every kernel has: a program (delay.c)
takes the frames in at one end of a link and hands them on at the other one, later.

Such a lab has one namespace more, the wire. Each link leads through it: the devices of its two ends
have their peers there, and the program passes frames between the two. It is compiled when it is
first needed, and kept in .cache. What it is to do is in a file of the lab's folder, which it maps:
so a change counts at once, and another process can read and change it.
"""

import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from . import names
from .names import FOLDERS, NAMESPACES, WIRE
from .tools import LIMIT, LabError, Misuse, Unavailable, batch, run

SOURCE = Path(__file__).resolve().with_name("delay.c")
CACHE = SOURCE.parents[2] / ".cache/lab"
#: Milliseconds, and percent: more is no link.
MOST, LOSS_MOST = 10_000.0, 50.0
# Of one direction: delay and jitter in milliseconds, loss from 0 to 1 (delay.c).
_ENTRY = struct.Struct("=ddd")


class Delay(NamedTuple):
    """What happens to the frames of one direction. delay: milliseconds for each. jitter: up to so
    many more, evenly drawn; none overtakes another one. loss: percent."""

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0


class Delays(NamedTuple):
    """Of both directions of a link: as of `links.Rates`."""

    up: Delay = Delay()
    down: Delay = Delay()

    def __bool__(self):
        return any(value for one in self for value in one)

    def turned(self):
        return Delays(self.down, self.up)

    def replaced(self, what, values):
        """The same with another `delay`, `jitter` or `loss`, there and back."""
        return Delays(*(one._replace(**{what: value}) for one, value in zip(self, values)))


NONE = Delays()


def value(text, what):
    """`40` or, there and back, `40/20`: of delay, jitter or loss."""
    up, slash, down = text.partition("/")
    return tuple(_number(part, what) for part in ((up, down) if slash else (up, up)))


def _number(text, what):
    most, unit = (LOSS_MOST, "percent") if what == "loss" else (MOST, "milliseconds")
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise Misuse(f"{what}={text} is not from 0 to {most:g} {unit}")
    return number


def program():
    """The program, compiled if it is not yet."""
    text = SOURCE.read_bytes()
    path = CACHE / f"delay-{hashlib.sha256(text).hexdigest()[:16]}"
    if path.is_file():
        return path
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler.split()[0]):
        raise Unavailable(f"links with delay, jitter or loss need a C compiler, and there is no "
                          f"{compiler} (Debian: apt-get install gcc)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        made = Path(folder) / "delay"
        run(*compiler.split(), "-O2", "-o", made, SOURCE)
        made.replace(path)
    return path


class Wire:
    """The wire of a lab. links: of each link, in the order that all processes know, the pairs
    (namespace, device, address of Ethernet or None) of its two ends."""

    def __init__(self, lab):
        self.namespace = names.of(lab, WIRE)
        self.file = FOLDERS / lab / WIRE
        self._process = None
        self._closed = False

    @property
    def exists(self):
        return self.file.is_file()

    def make(self, links, delays):
        """Makes the devices of all links, and starts the program. delays: of each link."""
        run("ip", "netns", "add", self.namespace)
        run("nsenter", f"--net={NAMESPACES / self.namespace}", "sh", "-c",
            "[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
        devices = []
        for number, ends in enumerate(links):
            for side, (namespace, device, mac) in zip("ab", ends):
                peer = f"link{number}{side}"
                address = f"address {mac} " if mac else ""
                batch("ip", self.namespace, [
                    f"link add {peer} type veth peer name {device} {address}netns {namespace}",
                    f"link set {peer} up"])
                devices.append(peer)
        self.file.write_bytes(b"".join(_encode(one) for one in delays))
        self._start(devices)

    def _start(self, devices):
        self._process = subprocess.Popen(
            ["nsenter", f"--net={NAMESPACES / self.namespace}", program(), self.file, *devices],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        if not self._process.stdout.readline():
            said = " ".join(self._process.communicate(timeout=LIMIT)[1].split())
            raise LabError(f"no delays: {said or 'delay.c has ended'}")
        threading.Thread(target=self._watch, name="lab-delays", daemon=True).start()

    def _watch(self):
        """Says that the program has ended: from then on nothing passes."""
        said = " ".join(self._process.stderr.read().split())
        code = self._process.wait()
        if not self._closed:
            print(f"lab: the program that delays links has ended (exit code {code}: {said}): "
                  "nothing passes any more", file=sys.stderr, flush=True)

    def closing(self):
        """Its end will be wanted."""
        self._closed = True

    def get(self, number):
        with open(self.file, "rb") as file:
            file.seek(number * 2 * _ENTRY.size)
            values = struct.iter_unpack(_ENTRY.format, file.read(2 * _ENTRY.size))
        return Delays(*(Delay(delay, jitter, 100 * loss) for delay, jitter, loss in values))

    def set(self, number, delays):
        with open(self.file, "r+b") as file:
            file.seek(number * 2 * _ENTRY.size)
            file.write(_encode(delays))


def _encode(delays):
    return b"".join(_ENTRY.pack(one.delay, one.jitter, one.loss / 100) for one in delays)


def no_wire(name):
    return Misuse(f"{name} cannot be delayed: the lab was made without delays. One made with "
                  "--delay 0 has links that can")
