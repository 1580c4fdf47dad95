"""The bars: what the measured ratios have to be. No process, no clock.

A bar compares the medians of two kinds of clusters at one point; of rates, or, where it is about
time, of their inverses.
"""

from statistics import median

from cluster import APART, MOVING, RAW, SHM, STOCK, TCP, ZMQ
from parts import PLAIN, SGD

# A ratio below that is slower, however wide the interval is.
EQUAL = 0.95
RESNET, KEYS = "ResNet-50", "1000 keys of 4 KB"
TRIP, PUSH, PULL = ("native", "push", 4 << 10, 1), ("native", "push", 4 << 20, 16), (
    "native", "pull", 4 << 20, 16)


class Ratio:
    """Rate of one kind by that of another; at least that much."""

    def __init__(self, text, point, kind, by, least):
        self.text = text
        self.point = point
        self.wanted = f"at least {least}"
        self._kinds = (kind, by)
        self._least = least

    def value(self, series):
        """None if it was not measured."""
        return series.ratio(self.point, *self._kinds)

    def holds(self, series):
        return self.value(series) >= self._least


class Time(Ratio):
    """Time of one kind by that of another; at most that much."""

    def __init__(self, text, point, kind, by, most):
        super().__init__(text, point, by, kind, most)
        self.wanted = f"at most {most}"

    def holds(self, series):
        return self.value(series) <= self._least


class Memory:
    """What a server held by what it must hold, on the transport where that is the most."""

    def __init__(self, optimizer, most):
        self.text = f"memory of a server, {optimizer}"
        self.point = ("memory", optimizer)
        self.wanted = f"at most {most}"
        self._most = most

    def value(self, series):
        factors = series.points.get(self.point, {})
        return max(median(values) for values in factors.values()) if factors else None

    def holds(self, series):
        return self.value(series) <= self._most


class NeverSlower:
    """Points of the stock wire at which ours is slower: beyond what chance explains, or by more
    than is called equal whatever explains it. None of them may be."""

    text = "requests on the stock wire: points at which ours is slower"
    wanted = "none"

    @staticmethod
    def slow(series):
        """Those points."""
        points = [p for p in series.of("kv") if series.ratio(p, ZMQ) is not None]
        return [p for p in points
                if series.verdict(p, ZMQ) == "slower" or series.ratio(p, ZMQ) < EQUAL]

    def value(self, series):
        """None if it was not measured."""
        return len(self.slow(series)) if series.of("kv") else None

    def holds(self, series):
        return not self.slow(series)


BARS = (
    NeverSlower(),
    Ratio(f"`mx.kv`, {RESNET}, shm by stock", ("mx", RESNET, PLAIN), SHM, STOCK, 2.5),
    Ratio(f"`mx.kv`, {RESNET}, tcp by stock", ("mx", RESNET, PLAIN), TCP, STOCK, 1.4),
    Ratio(f"`mx.kv`, {RESNET}, SGD, shm by stock", ("mx", RESNET, SGD), SHM, STOCK, 3),
    Ratio(f"`mx.kv`, {KEYS}, shm by stock", ("mx", KEYS, PLAIN), SHM, STOCK, 2.5),
    Ratio(f"`mx.kv`, {KEYS}, SGD, shm by stock", ("mx", KEYS, SGD), SHM, STOCK, 4),
    *(Ratio(f"`mx.kv`, {what}, {kind}, keys that may move by static", ("moves", what, PLAIN),
            MOVING[kind], kind, least)
      for what, least in ((RESNET, 0.98), (KEYS, 0.95)) for kind in MOVING),
    Time("round trip of a 4 KB push, tcp by raw TCP", TRIP, TCP, RAW, 1.6),
    Time("the same by raw TCP with a core for each side", TRIP, TCP, APART, 1.6),
    Time("round trip of a 4 KB push, shm by raw TCP", TRIP, SHM, RAW, 1),
    Time("the same by raw TCP with a core for each side", TRIP, SHM, APART, 1),
    Ratio("4 MB pushes, pipelined, tcp by raw TCP", PUSH, TCP, RAW, 0.9),
    Ratio("4 MB pulls, pipelined, tcp by raw TCP", PULL, TCP, RAW, 0.9),
    Ratio("4 MB pushes, pipelined, shm by stock", PUSH, SHM, STOCK, 2),
    Ratio("4 MB pulls, pipelined, shm by stock", PULL, SHM, STOCK, 2),
    Memory(PLAIN, 1.3),
    Memory(SGD, 1.3),
)


def measured(series):
    """The bars of which there are numbers."""
    return [bar for bar in BARS if bar.value(series) is not None]


def missed(series):
    return [bar for bar in measured(series) if not bar.holds(series)]


def table(series):
    lines = ["| what | bar | measured | |", "|---|---|---|---|"]
    for bar in measured(series):
        verdict = "" if bar.holds(series) else "**does not hold**"
        lines.append(f"| {bar.text} | {bar.wanted} | {bar.value(series):.3g} | {verdict} |")
    return "\n".join(lines)
