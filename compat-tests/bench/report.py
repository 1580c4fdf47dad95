"""Medians, ratios and tables of a series. No process, no clock: numbers in, text out."""

from statistics import median

BEGIN = "<!-- table: written by scripts/bench -->"
END = "<!-- end of the table -->"
SIZES = {64: "64 B", 4 << 10: "4 KB", 256 << 10: "256 KB", 4 << 20: "4 MB"}


class Series:
    """What was measured: for each point and library, one rate for each round."""

    def __init__(self):
        self.points = {}

    def add(self, point, library, rate):
        self.points.setdefault(point, {}).setdefault(library, []).append(rate)

    def rates(self, point, library):
        return self.points[point].get(library, [])

    def ratio(self, point):
        """Ours by stock, of medians; None if one of them was not run."""
        ours, stock = self.rates(point, "ours"), self.rates(point, "stock")
        return median(ours) / median(stock) if ours and stock else None

    def slower(self, least):
        """The points whose ratio is below `least`."""
        return [p for p in self.points if (r := self.ratio(p)) is not None and r < least]

    def raw(self):
        return [{"point": list(point), "ratio": self.ratio(point), **rates}
                for point, rates in self.points.items()]


def number(rate):
    """Three digits are more than the machine can tell."""
    if rate >= 100:
        return f"{float(f'{rate:.3g}'):.0f}"
    return f"{rate:.3g}"


def cell(series, point):
    ratio = series.ratio(point)
    medians = [number(median(rates)) if rates else "-"
               for rates in (series.rates(point, "stock"), series.rates(point, "ours"))]
    return f"{'-' if ratio is None else f'**{ratio:.2f}**'} ({medians[0]} → {medians[1]})"


def kv_table(series, shape):
    """Rows: mode and operation; columns: sizes."""
    points = [p for p in series.points if p[0] == "kv" and p[1] == shape]
    sizes = sorted({p[4] for p in points})
    rows = list(dict.fromkeys((p[2], p[3]) for p in points))
    lines = ["| | " + " | ".join(SIZES.get(size, f"{size} B") for size in sizes) + " |",
             "|---|" + "---|" * len(sizes)]
    for mode, op in rows:
        cells = [cell(series, ("kv", shape, mode, op, size)) for size in sizes]
        lines.append(f"| {mode} {op} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mx_table(series):
    lines = ["| | steps each second |", "|---|---|"]
    lines += [f"| {p[1]} | {cell(series, p)} |" for p in series.points if p[0] == "mx"]
    return "\n".join(lines)


def text(series, machine, how):
    """Everything between the markers of docs/benchmarks.md."""
    parts = [f"{machine} {how} Each cell: **ours / stock** (stock → ours)."]
    for shape in dict.fromkeys(p[1] for p in series.points if p[0] == "kv"):
        workers, servers = shape
        parts += [f"### {plural(workers, 'worker')}, {plural(servers, 'server')}: requests each second",
                  kv_table(series, shape)]
    if any(p[0] == "mx" for p in series.points):
        parts += ["### `mx.kv`, `dist_sync`, 2 workers, 2 servers", mx_table(series)]
    return "\n\n".join(parts)


def plural(count, word):
    return f"{count} {word}" + ("" if count == 1 else "s")


def insert(page, table):
    """The page with the table between its markers."""
    head, rest = page.split(BEGIN, 1)
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.split(END, 1)[1]}"
