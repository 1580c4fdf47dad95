"""Medians, ratios and tables of a series. No process, no clock: numbers in, text out."""

import random
from statistics import median

import bars
from cluster import APART, KINDS, RAW, SHM, STOCK, TCP, ZMQ

BEGIN = "<!-- table: written by scripts/bench -->"
END = "<!-- end of the table -->"
SIZES = {64: "64 B", 4 << 10: "4 KB", 256 << 10: "256 KB", 4 << 20: "4 MB"}
TITLES = {STOCK: "stock", ZMQ: "ours, stock wire", TCP: "ours, tcp", SHM: "ours, shm",
          RAW: "raw TCP", APART: "raw TCP, a core each"}


# Draws of the bootstrap, and the part of them outside the interval on either side: over the 48
# points of a table that is one chance in twenty that any of them is called slower, or faster, by
# luck.
DRAWS, OUTSIDE = 4000, 0.0005
# What the seed of the draws is: the same numbers give the same page.
SEED = 1


class Series:
    """What was measured: for each point and kind of cluster, one rate for each round."""

    def __init__(self):
        self.points = {}
        self._starts = {}
        self._start = 0
        self._intervals = {}

    def next_start(self):
        """What comes now is measured with new clusters."""
        self._start += 1

    def add(self, point, kind, rate):
        self.points.setdefault(point, {}).setdefault(kind, []).append(rate)
        starts = self._starts.setdefault(point, {})
        starts.setdefault(self._start, {}).setdefault(kind, []).append(rate)

    def rates(self, point, kind):
        return self.points.get(point, {}).get(kind, [])

    def ratio(self, point, kind, by=STOCK):
        """One kind by another, of medians; None if one of them was not run."""
        ours, other = self.rates(point, kind), self.rates(point, by)
        return median(ours) / median(other) if ours and other else None

    def interval(self, point, kind, by=STOCK):
        """Between what the ratio lies: a bootstrap over starts, since what one start measured is of
        one piece (its connections settled once). None with fewer than two starts."""
        asked = (point, kind, by, len(self.rates(point, kind)))
        if asked not in self._intervals:
            self._intervals[asked] = self._bootstrap(point, kind, by)
        return self._intervals[asked]

    def _bootstrap(self, point, kind, by):
        starts = list(self._starts.get(point, {}).values())
        if len(starts) < 2 or not all(kind in start and by in start for start in starts):
            return None
        draw = random.Random(SEED)

        def ratio():
            drawn = draw.choices(starts, k=len(starts))
            ours = [rate for start in drawn
                    for rate in draw.choices(start[kind], k=len(start[kind]))]
            other = [rate for start in drawn for rate in draw.choices(start[by], k=len(start[by]))]
            return median(ours) / median(other)
        ratios = sorted(ratio() for _ in range(DRAWS))
        edge = int(DRAWS * OUTSIDE)
        return ratios[edge], ratios[-1 - edge]

    def verdict(self, point, kind, by=STOCK):
        """`faster`, `equal` (the interval has 1 in it) or `slower`; None if nobody can say."""
        interval = self.interval(point, kind, by)
        if interval is None:
            return None
        return "slower" if interval[1] < 1 else "faster" if interval[0] > 1 else "equal"

    def of(self, part):
        return [point for point in self.points if point[0] == part]

    def slower(self, least):
        """Where ours is below `least` times stock's speed on stock's own wire."""
        points = self.of("kv") + self.of("mx")
        return [p for p in points if (r := self.ratio(p, ZMQ)) is not None and r < least]

    def raw(self):
        return [{"point": list(point), **rates} for point, rates in self.points.items()]


def number(rate):
    """Three digits are more than the machine can tell."""
    if rate >= 100:
        return f"{float(f'{rate:.3g}'):.0f}"
    return f"{rate:.3g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def change(series, point):
    """A cell with both rates."""
    ratio, interval = series.ratio(point, ZMQ), series.interval(point, ZMQ)
    medians = [number(median(rates)) if rates else "-"
               for rates in (series.rates(point, STOCK), series.rates(point, ZMQ))]
    between = f" {interval[0]:.2f}–{interval[1]:.2f}" if interval else ""
    return f"{'-' if ratio is None else f'**{ratio:.2f}**'}{between} ({medians[0]} → {medians[1]})"


def verdicts(series, shape):
    """How many points are faster, equal, slower."""
    points = [p for p in series.of("kv") if p[1] == shape]
    found = [series.verdict(p, ZMQ) for p in points]
    if None in found:
        return ""
    counts = ", ".join(f"{found.count(word)} {word}" for word in ("faster", "equal", "slower"))
    return f" Of {len(points)} points: {counts}."


def kv_table(series, shape):
    """Rows: mode and operation; columns: sizes."""
    points = [p for p in series.of("kv") if p[1] == shape]
    sizes = sorted({p[4] for p in points})
    rows = list(dict.fromkeys((p[2], p[3]) for p in points))
    return table([""] + [SIZES.get(size, f"{size} B") for size in sizes],
                 [[f"{mode} {op}"]
                  + [change(series, ("kv", shape, mode, op, size)) for size in sizes]
                  for mode, op in rows])


def rate(series, point, kind, by):
    """A cell with one rate, and what it is by another one."""
    rates = series.rates(point, kind)
    if not rates:
        return "-"
    ratio = series.ratio(point, kind, by)
    text = number(median(rates))
    return text if kind == by or ratio is None else f"**{ratio:.2f}** ({text})"


def mx_table(series):
    kinds = [kind for kind in KINDS if any(series.rates(p, kind) for p in series.of("mx"))]
    return table([""] + [TITLES[kind] for kind in kinds],
                 [[", ".join(p[1:])] + [rate(series, p, kind, STOCK) for kind in kinds]
                  for p in series.of("mx")])


def native_table(series):
    kinds = (RAW, APART, STOCK, TCP, SHM)
    rows = []
    for point in series.of("native"):
        _, op, size, window = point
        mode = "one at a time" if window == 1 else f"{window} under way"
        rows.append([f"{op} {SIZES[size]}, {mode}"]
                    + [rate(series, point, kind, RAW) for kind in kinds])
    return table([""] + [TITLES[kind] for kind in kinds], rows)


def memory_table(series):
    kinds = [kind for kind in KINDS if any(series.rates(p, kind) for p in series.of("memory"))]
    titles = [TITLES[kind].replace("stock", "stock workers", kind == STOCK) for kind in kinds]
    return table([""] + titles,
                 [[p[1]] + [f"{median(series.rates(p, kind)):.2f}" for kind in kinds]
                  for p in series.of("memory")])


def text(series, machine, how):
    """Everything between the markers of docs/benchmarks.md."""
    parts = [f"{machine} {how}"]
    if bars.measured(series):
        parts += ["### Bars", bars.table(series)]
    for shape in dict.fromkeys(p[1] for p in series.of("kv")):
        workers, servers = shape
        nodes = f"{plural(workers, 'worker')}, {plural(servers, 'server')}"
        parts += [f"### {nodes}: requests each second on the stock wire",
                  "Each cell: **ours / stock**, between what it lies (stock → ours)."
                  + verdicts(series, shape), kv_table(series, shape)]
    if series.of("mx"):
        parts += ["### `mx.kv`, `dist_sync`, 2 workers, 2 servers: steps each second",
                  "Each cell: **by stock** (steps).", mx_table(series)]
    if series.of("native"):
        parts += ["### Beside raw TCP: requests each second",
                  "1 worker, 1 server. Each cell: **by raw TCP** (requests).", native_table(series)]
    if series.of("memory"):
        parts += ["### Memory of a server", "What it held at most, by what it has to hold.",
                  memory_table(series)]
    return "\n\n".join(parts)


def plural(count, word):
    return f"{count} {word}" + ("" if count == 1 else "s")


def insert(page, new, begin=BEGIN, end=END):
    """The page with the tables between its markers."""
    head, rest = page.split(begin, 1)
    return f"{head}{begin}\n\n{new}\n\n{end}{rest.split(end, 1)[1]}"
