"""The words for what to change in a lab, now or at a time. Parsing touches no lab.

    server3=200            200 Mbit/s up and down;  server3=200/50: up/down;  server3=free: no limit
    server3.delay=20       its link holds frames for 20 ms, each way;  20/30: up/down
    server3.jitter=5 server3.loss=0.1      up to 5 ms more; 0.1 percent are lost
    server3.cpu=0.3        its processes have 30 % of one core together;  server3.cpu=free
    cut server3            nothing from it or to it arrives
    cut worker0 to server3     only that way
    cut worker0 and server3    both ways
    mend ...               as cut;  mend all

In a lab of sites a rate is that of a link, and cuts are of links:

    site1-site4=20/35      20 Mbit/s from site1 to site4, 35 back;  site1-site4.delay=20/30
    cut site1              all its links
    redraw 7               all rates drawn anew by that seed;  redraw 7 1.0: not a quarter of them

Several of those before the cuts may stand side by side. `at=60 server3=200` is for 60 seconds
after the start.
"""

import threading
import time
from typing import NamedTuple, Optional

from . import delays
from .links import FREE, Rates
from .tools import LabError, Misuse

#: What drawn rates are multiplied by: what all links of a lab carry together must not be more than
#: one machine's kernel can move.
SCALE = 0.25


def rate(text):
    """Mbit/s, or None for `free`."""
    if text == "free":
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise LabError(f"{text!r} is no rate: a number of Mbit/s, or free")
    return value


def rates(text):
    """`200`, `200/50` (up/down), `free`."""
    up, slash, down = text.partition("/")
    return Rates(rate(up), rate(down)) if slash else Rates.both(rate(up))


def rate_list(text):
    """`3x500,50/100`: a list of Rates."""
    result = []
    for part in text.split(","):
        count, times, one = part.rpartition("x")
        if times and not (count.isdigit() and 0 < int(count) < 1000):
            raise LabError(f"{part!r} is not COUNTxRATE")
        result += [rates(one)] * (int(count) if times else 1)
    return result


class Rate(NamedTuple):
    """host: in a lab of sites, a link."""

    host: str
    rates: Rates

    def apply(self, lab):
        lab.shaped(self.host).rates = self.rates

    def check(self, lab):
        lab.shaped(self.host)


class Held(NamedTuple):
    """What a link does to frames. what: a field of delays.Delay; values: there and back."""

    host: str
    what: str
    values: tuple

    def apply(self, lab):
        shaped = lab.shaped(self.host)
        shaped.delays = (shaped.delays or delays.NONE).replaced(self.what, self.values)

    def check(self, lab):
        if lab.shaped(self.host).delays is None:
            raise delays.no_wire(self.host)


class Cores(NamedTuple):
    host: str
    cores: Optional[float]

    def apply(self, lab):
        lab.host(self.host).cores = self.cores

    def check(self, lab):
        if not lab.host(self.host).group:
            raise LabError(f"{self.host} has no share of the processor: {lab.no_cpu}")


class Redraw(NamedTuple):
    """Rates of all links, drawn anew."""

    seed: int
    scale: float

    def apply(self, lab):
        lab.redraw(self.seed, self.scale)

    def check(self, lab):
        lab.drawable()


class Ways(NamedTuple):
    """Cuts or mends. one: None is every host; other: None is every other host that it has a link
    to."""

    is_cut: bool
    one: Optional[str]
    other: Optional[str]
    one_way: bool

    def apply(self, lab):
        change = lab.cut if self.is_cut else lab.mend
        for source, target in self.pairs(lab):
            change(source, target)

    def pairs(self, lab):
        ones = [self.one] if self.one else list(lab.hosts)
        found = [(lab.host(one).name, lab.host(other).name)
                 for one in ones for other in ([self.other] if self.other else lab.peers(one))]
        found = [pair for pair in found if pair[0] != pair[1]]
        return found if self.one_way else found + [(b, a) for a, b in found]

    def check(self, lab):
        for source, target in self.pairs(lab):
            lab.joined(source, target)


def parse(text):
    """The changes of one line, in their order."""
    words = text.split()
    if not words:
        raise LabError("nothing to change")
    if words[0] in ("cut", "mend"):
        return [_ways(words)]
    if words[0] == "redraw":
        return [_redraw(words)]
    return [_assignment(word) for word in words]


def _redraw(words):
    if not (2 <= len(words) <= 3 and words[1].isdigit()):
        raise Misuse(f"{' '.join(words)!r} is not: redraw SEED, redraw SEED SCALE")
    return Redraw(int(words[1]), scale(words[2]) if words[2:] else SCALE)


def scale(text):
    """What drawn rates are multiplied by."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e3:
        raise Misuse(f"{text!r} is no scale: a number above 0, as 0.25")
    return value


def _ways(words):
    is_cut = words[0] == "cut"
    if words == ["mend", "all"]:
        return Ways(False, None, None, False)
    if len(words) == 2:
        return Ways(is_cut, words[1], None, False)
    if len(words) == 4 and words[2] in ("to", "and") and words[1] != words[3]:
        return Ways(is_cut, words[1], words[3], words[2] == "to")
    raise LabError(f"{' '.join(words)!r} is not: {words[0]} A, {words[0]} A to B, "
                   f"{words[0]} A and B")


def _assignment(word):
    host, equals, value = word.partition("=")
    if not (host and equals and value):
        raise LabError(f"{word!r} is not HOST=RATE, HOST.cpu=CORES, HOST.delay=MS, cut or mend")
    for what in delays.Delay._fields:
        if host.endswith(f".{what}"):
            return Held(host[:-len(what) - 1], what, delays.value(value, what))
    if host.endswith(".cpu"):
        return Cores(host[:-len(".cpu")], rate(value))
    return Rate(host, rates(value))


class Timed(NamedTuple):
    """Changes at a time, in seconds after the start."""

    at: float
    changes: tuple
    text: str


def parse_timed(text):
    """`at=SECONDS CHANGE...`"""
    first, _, rest = text.strip().partition(" ")
    word, _, number = first.partition("=")
    try:
        at = float(number)
    except ValueError:
        at = -1.0
    if word != "at" or not 0 <= at < 1e9:
        raise LabError(f"{text!r} does not begin with at=SECONDS")
    return Timed(at, tuple(parse(rest)), rest.strip())


class Timeline:
    """Applies changes at their times, in a thread of its own, from `start` to `stop`.

    told: called with (Timed, error or None) after each.
    """

    def __init__(self, lab, timed, told=lambda timed, error: None):
        self._lab = lab
        self._timed = sorted(timed, key=lambda one: one.at)
        self._told = told
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-timeline", daemon=True)
        self._start = None
        for one in self._timed:
            for change in one.changes:
                change.check(lab)

    def start(self):
        self._start = time.monotonic()
        self._thread.start()
        return self

    def stop(self):
        self._stop.set()
        if self._start is not None:
            self._thread.join()

    def _run(self):
        for one in self._timed:
            if self._stop.wait(max(0.0, self._start + one.at - time.monotonic())):
                return
            try:
                for change in one.changes:
                    change.apply(self._lab)
            except LabError as error:
                self._told(one, error)
            else:
                self._told(one, None)


__all__ = ["FREE", "Timed", "Timeline", "parse", "parse_timed", "rate_list", "rates"]
