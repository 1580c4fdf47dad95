"""What has to hold of what was measured (`cells.measure`). No process, no clock."""

import math
from dataclasses import dataclass, replace
from statistics import mean, median

from .methods import PAPER

# The published form by the best of its paper's four, all at one rate; of these rates.
PUBLISHED, AT_RATES = 1.43, (0.1, 0.2)
# The default form by the best tuned of these four, at each G; and of each seed.
BEST, EACH_SEED = 1.8, 1.43
# By others: at G = 1, and above; None: reported.
BY = {"DiLoCo": (1.25, 1.7), "Streaming": (1.4, 1.4), "ESync + outer": (None, 1.35)}
PEERS = ("CO2", "eager", "asynchronous")
# Equal speeds: sections with outer momentum by others.
EVEN_BY = {"DiLoCo": 1.4, "Streaming": None}
# An unmodified script, by plain rounds, at these G.
SCRIPT = {1.0: 2.0, 4.0: 4.0}
BUSY = 0.9
# Accuracy: at most so far below SSGD's best.
CLOSE = 0.01


@dataclass(frozen=True)
class Bar:
    """holds: None where it is only reported."""

    text: str
    wanted: str
    measured: str
    holds: bool = None


class Ratios:
    """How much longer another takes, at one case."""

    def __init__(self, others, ours):
        self.whole = mean(others) / mean(ours)
        self.by_seed = [_ratio(other, own) for other, own in zip(others, ours)]

    def __str__(self):
        return f"{self.whole:.2f} [{min(self.by_seed):.2f}..{max(self.by_seed):.2f}]"


def _ratio(other, own):
    return 0.0 if math.isinf(own) else other / own


def data(alpha):
    return "iid" if alpha is None else "non-iid"


# The worker's own optimizer, of which bars and tables are.
INNER = {"": "own momentum tuned too", " plain": "own optimizer plain SGD"}


def inside(found, inner):
    """Of what was measured, that with one kind of own optimizer (a key of INNER)."""
    names = ("tuned", "fixed")
    return {**found, **{name: found[name + inner] for name in names},
            "setting": found[(inner + " setting").strip()]}


def times(found, name, case):
    """Of a tuned method; none if it was not searched there."""
    for record in found["tuned"]:
        if (record["method"], record["case"]) == (name, case):
            return record["times"]
    return None


def best_of(found, case, names=PAPER):
    """(name, times) of the tuned method that takes least, of those that are reported."""
    return min(((name, times(found, name, case)) for name in names),
               key=lambda one: mean(one[1]))


def fixed(found):
    """[(case, times)] of the default form; speeds as in the papers."""
    return [(record["case"], record["times"]) for record in found["fixed"]
            if not record["case"][2]]


def groups(found):
    """[(alpha, [(case, times of the default form)])]."""
    alphas = list(dict.fromkeys(case[1] for case, _ in fixed(found)))
    return [(alpha, [one for one in fixed(found) if one[0][1] == alpha]) for alpha in alphas]


def row(ratios):
    """ratios: [(G, Ratios)]."""
    return "; ".join(f"G {exchange:g}: {ratio}" for exchange, ratio in ratios)


# ---- the bars -----------------------------------------------------------------------------------

def all_of(found):
    """[Bar], in the order of what they are about."""
    judged = [*busy(found), *at_common_rates(found)]
    for inner, said in INNER.items():
        of = inside(found, inner)
        judged += [replace(bar, text=f"{bar.text} ({said})")
                   for bar in (*published(of), *default(of), *even(of))]
    return [*judged, *script(found), *accuracy(found)]


def busy(found):
    for name, wanted in (("default", BUSY), ("published", None)):
        record = next(one for one in found["busy"] if one["case"][0] == 1.0)[name]
        parts = [mean(record[what]) for what in ("network", "computing")]
        yield Bar(f"{name} form where a step and an exchange take equal time: network and "
                  "computing busy",
                  f"over {wanted:.0%} each" if wanted else "reported",
                  f"{parts[0]:.1%}, {parts[1]:.1%}", min(parts) > wanted if wanted else None)


def at_common_rates(found):
    """The papers' way of comparing."""
    rates = list(dict.fromkeys(one["rate"] for one in found["common"]))
    for rate in rates:
        for alpha, cases in groups(found):
            ratios = [(case[0], at_common(found, rate, case)) for case, _ in cases]
            bar = rate in AT_RATES
            yield Bar(f"published form, {data(alpha)}, all at rate {rate}: by the best of "
                      f"{', '.join(PAPER)}", f"at least {PUBLISHED}" if bar else "reported",
                      row(ratios),
                      all(ratio.whole >= PUBLISHED for _, ratio in ratios) if bar else None)


def published(found):
    for alpha, cases in groups(found):
        ratios = [(case[0], Ratios(best_of(found, case)[1], times(found, "published", case)))
                  for case, _ in cases]
        yield Bar(f"published form, {data(alpha)}, all tuned: by the best of the four", "reported",
                  row(ratios))


def at_common(found, rate, case):
    """The published form by the best of the four, at one rate."""
    record = next(one for one in found["common"] if (one["rate"], one["case"]) == (rate, case))
    return Ratios(min(record["others"].values(), key=mean), record["published"])


def default(found):
    for alpha, cases in groups(found):
        ratios = [(case[0], Ratios(best_of(found, case)[1], ours)) for case, ours in cases]
        yield Bar(f"default form, {data(alpha)}, one setting: by the best tuned of the four",
                  f"at least {BEST}, no seed below {EACH_SEED}", row(ratios),
                  all(ratio.whole >= BEST and min(ratio.by_seed) >= EACH_SEED
                      for _, ratio in ratios))
        for name, wanted in BY.items():
            ratios = [(case[0], Ratios(times(found, name, case), ours)) for case, ours in cases]
            yield Bar(f"default form, {data(alpha)}: by {name}, tuned", _wanted(*wanted),
                      row(ratios), _holds(ratios, *wanted))
        if times(found, PEERS[0], cases[0][0]):
            yield from other_peers(found, alpha, cases)


def other_peers(found, alpha, cases):
    """What the issue has no bar for."""
    for name in PEERS:
        ratios = [(case[0], Ratios(times(found, name, case), ours)) for case, ours in cases]
        yield Bar(f"default form, {data(alpha)}: by {name}, tuned", "reported", row(ratios))


def _wanted(at_one, above):
    if at_one == above:
        return f"at least {above}"
    return f"{'reported' if at_one is None else f'at least {at_one}'} at G 1, {above} above"


def _holds(ratios, at_one, above):
    wanted = [(ratio.whole, at_one if exchange == 1 else above) for exchange, ratio in ratios]
    return all(whole >= least for whole, least in wanted if least is not None)


def even(found):
    """Equal speeds: only overlap and momentum are left."""
    for record in (one for one in found["tuned"] if one["case"][2]):
        if record["method"] == "sections":
            case, ours = record["case"], record["times"]
            for name, least in EVEN_BY.items():
                ratio = Ratios(times(found, name, case), ours)
                yield Bar(f"equal speeds, G {case[0]:g}: sections with outer momentum by {name}, "
                          "all tuned", f"at least {least}" if least else "reported", str(ratio),
                          ratio.whole >= least if least else None)


def script(found):
    for record in found["script"]:
        cells = [(one["case"][0], one) for one in record["cells"]]
        ratios = [(exchange, Ratios(one["plain"], one["default"])) for exchange, one in cells]
        never = sum(math.isinf(time) for _, one in cells for time in one["default"])
        own = f"momentum {record['momentum']:g} of its own" if record["momentum"] else \
            "no momentum of its own"
        holds = never == 0 and all(ratio.whole >= SCRIPT[exchange]
                                   for exchange, ratio in ratios if exchange in SCRIPT)
        yield Bar(f"unmodified script, {data(record['alpha'])}, {own}, at the rate that is best "
                  f"for plain rounds ({record['rate']:g}): default by plain rounds",
                  "at least 2 at G 1, 4 at G 4, every seed arrives",
                  f"{row(ratios)}; {never or 'none'} never arrived", holds)
        lost = sum(math.isinf(time) for _, one in cells for time in one["published"])
        runs = sum(len(one["published"]) for _, one in cells)
        arrived = [median(one["plain"]) / median(one["published"]) for _, one in cells]
        yield Bar(f"the same of the published form ({data(record['alpha'])}, {own})", "reported",
                  "; ".join(f"G {exchange:g}: {ratio:.2f}"
                            for (exchange, _), ratio in zip(cells, arrived))
                  + f" (medians); {lost} of {runs} never arrived")


def accuracy(found):
    for record in found["accuracy"]:
        ours, theirs = mean(record["default"]), mean(record["ssgd"])
        yield Bar(f"accuracy at G 4, {data(record['alpha'])}, after 600 s: SSGD's best after "
                  f"3000 s (rate {record['ssgd_rate']}) less the default form's",
                  f"at most {CLOSE}", f"{theirs:.4f} - {ours:.4f} = {theirs - ours:.4f}",
                  theirs - ours <= CLOSE)
