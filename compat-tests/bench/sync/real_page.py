"""What came of the real jobs, as bars and as text. No process, no clock."""

import math
from statistics import mean, median

from . import tables
from .bars import Bar, data

# How far the model may be off before the page has to say why.
OFF = 0.15


class Row:
    """A method in a case: its jobs, one for each seed."""

    def __init__(self, jobs):
        self.jobs = jobs

    @property
    def arrives(self):
        return all(math.isfinite(job["real"]) for job in self.jobs)

    def mean(self, what, seeds=None):
        """Of "real" or "model", over these seeds; None: all."""
        return mean(job[what] for job in self.jobs if seeds is None or job["seed"] in seeds)

    def seeds(self):
        return [job["seed"] for job in self.jobs]

    @property
    def off(self):
        """How much longer it took than the model says."""
        return self.mean("real") / self.mean("model")

    def by(self, other):
        """How much longer it took than another one, on the seeds that both have."""
        both = set(self.seeds()) & set(other.seeds())
        return self.mean("real", both) / other.mean("real", both)

    def nearby(self):
        """The least and the most that the model says of each seed, if exchanges take a little less
        or more: what chance does to the order of events."""
        return [(min(job["near"]), max(job["near"])) for job in self.jobs]


def rows_of(found):
    """{(exchange, alpha): {method: Row}}."""
    rows = {}
    for job in found["jobs"]:
        case = rows.setdefault((job["wanted"], job["alpha"]), {})
        case.setdefault(job["method"], Row([])).jobs.append(job)
    return rows


def bars(found):
    """[Bar]: that all arrive; the rest is reported."""
    judged, off = [], []
    for (exchange, alpha), rows in rows_of(found).items():
        ours = rows["default"]
        others = {name: row for name, row in rows.items() if name != "default"}
        best = min(others, key=lambda name: others[name].by(ours))
        missed = [name for name, row in rows.items() if not row.arrives]
        judged.append(Bar(
            f"real jobs, {data(alpha)}, G = {exchange:g}: the best of the others ({best}) by the "
            "default form", "all arrive", f"{others[best].by(ours):.2f}"
            + "".join(f"; {name} does not arrive" for name in missed), not missed))
        off += [row.off for row in rows.values() if row.arrives]
    near = sum(abs(one - 1) <= OFF for one in off)
    judged.append(Bar("the same: seconds of the real job by the model's, all methods and cases",
                      "reported", f"median {median(off):.2f} [{min(off):.2f}..{max(off):.2f}], "
                      f"{near} of {len(off)} within {OFF:.0%}"))
    return judged


def page(found):
    """The tables."""
    text = [f"A second of the model is {found['tau']:g} s. All took {found['seconds'] / 60:.0f} "
            "minutes."]
    for ((exchange, alpha), rows), link in zip(rows_of(found).items(), found["links"]):
        lines = []
        for name, row in rows.items():
            near = ", ".join(f"{least:.0f}..{most:.0f}" for least, most in row.nearby())
            off = f"{row.off:.2f}"
            lines.append([
                f"**{name}**" if name == "default" else name,
                tables.setting(row.jobs[0]["setting"]),
                ", ".join(real_of(job) for job in row.jobs),
                ", ".join(f"{job['model']:.0f}" for job in row.jobs), near,
                (off if abs(row.off - 1) <= OFF else f"**{off}**") if row.arrives else "",
                f"{row.by(rows['default']):.2f}" if row.arrives else ""])
        text.append(f"{data(alpha)}, G = {exchange:g} (links of {link['rate']:.1f} Mbit/s, an "
                    f"exchange takes {link['exchange']:.2f}):")
        text.append(tables.grid(["method", "setting", "real, s", "model, s", "model nearby",
                                 "real by model", "by default, real"], lines))
    return "\n\n".join(text)


def real_of(job):
    return f"{job['real']:.0f}" if math.isfinite(job["real"]) else f"not in {job['limit']:.0f}"
