"""The tables and bars of wan.py. No process, no clock: numbers in, text out."""

from statistics import mean

import report
from cluster import STOCK
from lab_report import Bar, bar_rows

BEGIN = "<!-- wan: written by scripts/bench wan --stock-only --docs -->"
END = "<!-- end of wan -->"
TREES = ("<!-- wan trees: written by scripts/bench wan --docs -->", "<!-- end of wan trees -->")
#: Stock's time by the model's, and that of packed trees by what is predicted: what each may be off
#: by.
NEAR = 0.15
#: Stock's time by that of ours with packed trees, by where stock's servers are: on each seed, and
#: on average.
FASTER = {"site1": (5, 9), "best": (None, 3), "all": (None, 2)}
PACKED, FAPT = "packed", "fapt"
#: The same for NetStorm's trees with a server at each site.
BY_FAPT = (1.15, 1.5)
#: T* by the mean round of packed trees.
ETA = 0.75


def bars(found):
    """Each placement's mean round by the model's time; and what trees must bring, where they were
    measured."""
    result = []
    for seed in found:
        for one in seed["placements"]:
            by = mean(one["rounds"][STOCK]) / one["model"]
            result.append(Bar(f"{_row(seed, one)}: stock by the model", f"within {NEAR:.0%}", by,
                              abs(by - 1) <= NEAR))
    return result + list(_faster(found)) + list(_by_fapt(found)) + list(_on_paper(found))


def _row(seed, one):
    return f"seed {seed['seed']}, servers at {one['placement']}"


def _named(one, topology):
    """Those of ours that have these trees, in a placement of stock's servers."""
    return [name for name, ours in one["ours"].items() if ours["topology"] == topology]


def _gain(what, gains, each, average):
    """Bars for what was gained on each seed, by the seed, and on average."""
    if each:
        for seed, gain in gains.items():
            yield Bar(f"seed {seed}, {what}", f"at least {each}", gain, gain >= each)
    if gains:
        gain = mean(gains.values())
        yield Bar(f"{what}, mean of seeds", f"at least {average}", gain, gain >= average)


def _faster(found):
    """How much faster packed trees are than stock."""
    for placement, (each, average) in FASTER.items():
        gains = {seed["seed"]: by_ours(one, name) for seed in found for one in seed["placements"]
                 if one["placement"] == placement for name in _named(one, PACKED)}
        yield from _gain(f"servers at {placement}: stock by {PACKED}", gains, each, average)


def _by_fapt(found):
    """How much faster they are than NetStorm's trees with a server at each site: in each placement
    of stock's servers in which both were measured."""
    gains = {}
    for seed in found:
        each = [mean(one["rounds"][fapt]) / mean(one["rounds"][packed])
                for one in seed["placements"] for packed in _named(one, PACKED)
                for fapt in _named(one, FAPT) if _everywhere(one["ours"][fapt], seed)]
        if each:
            gains[seed["seed"]] = mean(each)
    yield from _gain(f"{FAPT} with a server at each site by {PACKED}", gains, *BY_FAPT)


def _everywhere(ours, seed):
    """A server at each site of the graph."""
    ends = {site for link in seed["links"] for site in link[0]}
    return set(ours["servers"]) == ends


def _on_paper(found):
    """Packed trees beside T* and beside what is predicted."""
    for seed in found:
        for one in seed["placements"]:
            for name in _named(one, PACKED):
                what = f"{_row(seed, one)}: {name}"
                by, part = by_predicted(one, name), eta(one, name)
                yield Bar(f"{what}, eta", f"at least {ETA}", part, part >= ETA)
                yield Bar(f"{what} by what is predicted", f"within {NEAR:.0%}", by,
                          abs(by - 1) <= NEAR)


def by_ours(one, name):
    """Stock's mean round by that of ours."""
    return mean(one["rounds"][STOCK]) / mean(one["rounds"][name])


def by_predicted(one, name):
    return mean(one["rounds"][name]) / one["ours"][name]["predicted"]


def eta(one, name, rounds=None):
    """T* of the rates that are set, whoever owns what, by the mean round."""
    return one["ours"][name]["bound"] / mean(one["rounds"][rounds or name])


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
    for seed in found:
        for one in seed["placements"]:
            by = mean(one["rounds"][STOCK]) / one["model"]
            least, middle, most = one["unequal"]
            yield [str(seed["seed"]), where(one), listed(one["rounds"][STOCK]),
                   f"{one['model']:.1f}", f"{by:.2f}" + mark(abs(by - 1) <= NEAR),
                   f"{least:.1f} to {most:.1f}, mean {middle:.1f}",
                   f"{mean(one['rounds'][STOCK]) / middle:.2f}",
                   f"{one['overlapped']:.1f}"]


def tree_rows(found):
    for seed in found:
        for one in seed["placements"]:
            for name, ours in one["ours"].items():
                packed = ours["topology"] == PACKED
                by, part = by_predicted(one, name), eta(one, name)
                yield [str(seed["seed"]), where(one), f"{ours['topology']}, {at(ours['servers'])}",
                       f"{ours['bound']:.2f}", f"{ours['predicted']:.2f}",
                       listed(one["rounds"][name], 2),
                       f"{by:.2f}" + mark(not packed or abs(by - 1) <= NEAR),
                       f"{part:.2f}" + mark(not packed or part >= ETA),
                       listed(one["rounds"][STOCK]), f"{eta(one, name, STOCK):.2f}",
                       f"**{by_ours(one, name):.1f}**"]


def mark(holds):
    return "" if holds else ", **does not hold**"


def listed(seconds, digits=1):
    return ", ".join(f"{each:.{digits}f}" for each in seconds)


def where(one):
    what = at(one["servers"])
    return what if what == one["placement"] else f"{one['placement']} ({what})"


def at(servers):
    return servers[0] if len(servers) == 1 else f"{len(servers)} servers"


def _any(found):
    return any(seed["placements"] for seed in found)


def with_trees(found):
    return any(one["ours"] for seed in found for one in seed["placements"])


def text(found):
    return "\n\n".join([stock_text(found), *([trees_text(found)] if with_trees(found) else [])])


def stock_text(found):
    wire = report.table(["seed", "rates set, Mbit/s", "plain TCP by the rate: least", "over",
                         "mean", "most"], [wire_row(seed) for seed in found])
    if not _any(found):
        return wire
    rounds = report.table(["seed", "servers at", "stock: s", "model: s", "stock by the model",
                           "with unequal shares: s", "stock by that mean",
                           "if pulls overlapped pushes: s"], list(rows(found)))
    return f"{wire}\n\n{rounds}"


def trees_text(found):
    rounds = report.table(["seed", "stock's servers at", "ours", "T*: s", "predicted: s",
                           "ours: s", "by predicted", "eta", "stock: s", "eta of stock",
                           "stock by ours"], list(tree_rows(found)))
    return f"{rounds}\n\n{bar_rows(bars(found))}"


def written(page, said, found):
    """The page with what was measured: stock alone, or trees beside it."""
    if with_trees(found):
        return report.insert(page, f"{said}\n\n{trees_text(found)}", *TREES)
    return report.insert(page, f"{said}\n\n{stock_text(found)}", BEGIN, END)


# ---- for the eye

def picture(found):
    """Each lab's links, and the rounds on it as bars of one scale."""
    return "\n\n".join(_links(seed) + "".join(map(_rounds, seed["placements"]))
                       for seed in found)


def _links(seed):
    lines = [f"seed {seed['seed']}: the links, in Mbit/s there and back"]
    for (one, other), there, back in seed["links"]:
        lines.append(f"  {one} - {other}  {_mbit(there)}  {_mbit(back)}")
    return "\n".join(lines)


def _mbit(rate):
    return f"{'free' if rate is None else f'{rate:.1f}':>6}"


#: Letters of the longest bar.
WIDTH = 60


def _rounds(one):
    longest = max(max(found) for found in one["rounds"].values())
    lines = ["", "", f"rounds, stock's servers at {where(one)}: seconds"]
    for name, found in one["rounds"].items():
        for took in found:
            bar = "#" * max(1, round(WIDTH * took / longest))
            lines.append(f"  {name:<12} {took:8.2f}  {bar}")
    for name, ours in one["ours"].items():
        lines += [f"stock's mean round by that of {name}, {at(ours['servers'])}: "
                  f"{by_ours(one, name):.1f}",
                  f"no round can be shorter than T* = {ours['bound']:.2f} s: {name} has "
                  f"eta {eta(one, name):.2f}, stock {eta(one, name, STOCK):.2f}; predicted for "
                  f"{name}: {ours['predicted']:.2f} s"]
    return "\n".join(lines)
