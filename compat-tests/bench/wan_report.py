"""The tables and bars of wan.py. No process, no clock: numbers in, text out."""

from statistics import mean

import report
from cluster import STOCK
from lab_report import Bar

BEGIN = "<!-- wan: written by scripts/bench wan --stock-only --docs -->"
END = "<!-- end of wan -->"
#: Stock's time by the model's: what it may be off by.
NEAR = 0.15
#: Stock's time by that of ours with packed trees, by where stock's servers are: on each seed, and
#: on average.
FASTER = {"site1": (5, 9), "best": (None, 3), "all": (None, 2)}
PACKED = "packed"


def bars(found):
    """Each placement's mean round by the model's time."""
    result = []
    for seed in found:
        for one in seed["placements"]:
            by = mean(one["rounds"][STOCK]) / one["model"]
            result.append(Bar(f"seed {seed['seed']}, servers at {one['placement']}: stock by the "
                              "model", f"within {NEAR:.0%}", by, abs(by - 1) <= NEAR))
    return result + list(_faster(found))


def _faster(found):
    """How much faster packed trees are, where they were measured."""
    for placement, (each, average) in FASTER.items():
        gains = {seed["seed"]: by_ours(one, PACKED) for seed in found
                 for one in seed["placements"]
                 if one["placement"] == placement and PACKED in one["rounds"]}
        what = f"servers at {placement}: stock by {PACKED}"
        if each:
            for seed, gain in gains.items():
                yield Bar(f"seed {seed}, {what}", f"at least {each}", gain, gain >= each)
        if gains:
            gain = mean(gains.values())
            yield Bar(f"{what}, mean of seeds", f"at least {average}", gain, gain >= average)


def by_ours(one, name):
    """Stock's mean round by that of ours."""
    return mean(one["rounds"][STOCK]) / mean(one["rounds"][name])


def wire_row(seed):
    """What plain TCP got, by the rates that are set: least, mean, most; and over which link."""
    parts = {one["link"]: one["mbit"] / one["set"] for one in seed["wire"] if one["set"]}
    if not parts:
        return [str(seed["seed"]), "-", "-", "-", "-", "-"]
    least = min(parts, key=parts.get)
    rates = [one["set"] for one in seed["wire"] if one["set"]]
    return [str(seed["seed"]), f"{min(rates):.1f} to {max(rates):.1f}", f"{parts[least]:.3f}",
            least, f"{mean(parts.values()):.3f}", f"{max(parts.values()):.3f}"]


def rows(found):
    names = [name for name in found[0]["placements"][0]["rounds"]] if _any(found) else [STOCK]
    for seed in found:
        for one in seed["placements"]:
            took = [", ".join(f"{each:.1f}" for each in one["rounds"][name]) for name in names]
            by = mean(one["rounds"][STOCK]) / one["model"]
            least, middle, most = one["unequal"]
            gains = [f"**{by_ours(one, name):.1f}**" for name in names if name != STOCK]
            yield [str(seed["seed"]), where(one), *took, *gains, f"{one['model']:.1f}",
                   f"{by:.2f}" + ("" if abs(by - 1) <= NEAR else ", **does not hold**"),
                   f"{least:.1f} to {most:.1f}, mean {middle:.1f}",
                   f"{mean(one['rounds'][STOCK]) / middle:.2f}",
                   f"{one['overlapped']:.1f}"]


def where(one):
    count = len(one["servers"])
    what = one["servers"][0] if count == 1 else f"{count} servers"
    return what if what == one["placement"] else f"{one['placement']} ({what})"


def _any(found):
    return bool(found) and bool(found[0]["placements"])


def text(found):
    wire = report.table(["seed", "rates set, Mbit/s", "plain TCP by the rate: least", "over",
                         "mean", "most"], [wire_row(seed) for seed in found])
    if not _any(found):
        return wire
    names = list(found[0]["placements"][0]["rounds"])
    gains = [f"stock by {name}" for name in names if name != STOCK]
    rounds = report.table(["seed", "servers at", *(f"{name}: s" for name in names), *gains,
                           "model: s", "stock by the model", "with unequal shares: s",
                           "stock by that mean", "if pulls overlapped pushes: s"],
                          list(rows(found)))
    return f"{wire}\n\n{rounds}"


def written(page, new):
    return report.insert(page, new, BEGIN, END)
