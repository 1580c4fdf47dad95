"""The tables and bars of lab.py. No process, no clock: numbers in, text out."""

import math
from statistics import mean, median, variance
from typing import NamedTuple

import report
from cluster import STOCK

BEGIN, END = "<!-- lab {0}: written by scripts/bench lab {0} --docs -->", "<!-- end of lab {0} -->"
OURS, FIXED, SINGLE = "ours", "planning off", "ours without copies"
AUTO, WITHOUT = "auto", "without"
AUTO_FIXED, WITHOUT_FIXED = "auto, keys stay", "without, keys stay"
# The bars' eta, and a round by the shortest that the model knows, if that is "within 20 %".
ETA, CLOSE = 0.7, 1.2
# Rounds after a change in which it must be reached.
ROUNDS = 3
# A round while a server joins or is emptied by the usual one.
TWICE = 2
# A round with planning by one without it, and one with PSLITE_TOPOLOGY=auto by one without.
SAME = 0.01
#: Standard errors, of means over starts, by which two jobs may differ because of their layouts.
ERRORS = 2
# A round by the optimum in networks that nobody tuned for: the median one, and the worst.
USUAL, WORST = 1.15, 1.4
# Plans after a change, and the part of the model that they move together.
PLANS, MOVED = 5, 0.3
TITLES = {
    "one": "4 workers at 500, servers at 500/500/500/50",
    "two": "4 workers at 400, servers at 200/200/50/50",
    "redrawn": "4 workers at 400, servers redrawn from 50 to 400 every {period:g} s",
    "equal": "4 workers and 4 servers at 500",
    "huge": "4 workers at 400, servers at 200, a third of the model in one tensor",
    "slowed": "4 workers at 400, servers at 200, one then slower",
    "auto": "4 hosts at 500, a worker and a server at each, 20 MB",
    "members": "4 workers and 2 servers at 400, then 3, 4, 3 and 2 servers",
    "random": "networks drawn by seed {seed}: 2 to 5 servers of 40 to 250, 2 to 4 workers at 500",
}


class Bar(NamedTuple):
    text: str
    wanted: str
    value: float
    holds: bool


def seconds(phase, name):
    """The median round; None: it was not run, or had no round within the phase."""
    found = phase["rounds"].get(name)
    return median(found) if found else None


def eta(phase, name, bound="bounds"):
    """T* by the median round; or the time of another bound."""
    took = seconds(phase, name)
    return phase[bound][name] / took if took else None


def ratio(phase):
    """Stock's time by ours."""
    stock, ours = seconds(phase, STOCK), seconds(phase, OURS)
    return stock / ours if stock and ours else None


def reached(phase, least):
    """Which round of ours since the change was the first with that eta; None: none was."""
    rounds = phase.get("before", {}).get(OURS, []) + phase["rounds"].get(OURS, [])
    good = (number for number, took in enumerate(rounds, 1)
            if phase["bounds"][OURS] / took >= least)
    return next(good, None)


def whole(case):
    """Stock's mean round by ours, over all changes."""
    means = {name: mean(rounds) for name, rounds in case["whole"].items()}
    return means[STOCK] / means[OURS]


def bars(found):
    """The bars of which there are numbers."""
    result = []

    def at_least(text, least, value):
        if value is not None:
            result.append(Bar(text, f"at least {least:.3g}", value, value >= least))
    for case, gain in (("one", 7), ("two", 2.7)):
        for phase in found.get(case, {}).get("phases", ()):
            at_least(f"{TITLES[case]}: stock by ours", gain, ratio(phase))
            at_least(f"{TITLES[case]}: eta", ETA, eta(phase, OURS))
            at_least(f"{TITLES[case]}, without copies: eta", ETA, eta(phase, SINGLE))
    result += _redrawn(found.get("redrawn")) + _equal(found.get("equal"))
    result += _random(found.get("random")) + _auto(found.get("auto"))
    huge, slowed = (found.get(case, {}).get("phases", []) for case in ("huge", "slowed"))
    for phase in huge + slowed:
        if not phase["title"].startswith("nothing"):
            result += _near(phase) + _moved(phase)
    for change in found.get("members", {}).get("changes", ()):
        value = change["longest"] / change["usual"]
        result.append(Bar(f"{change['what']}: the longest round by the usual one",
                          f"at most {TWICE}", value, value <= TWICE))
    return result


def _near(phase):
    """The usual round by the shortest one in which pulls wait for pushes."""
    part = eta(phase, OURS, "pipelined")
    if part is None:
        return []
    return [Bar(f"{phase['title']}: time by the optimum", f"at most {CLOSE}", 1 / part,
                1 / part <= CLOSE)]


def _moved(phase):
    """Plans, and what they moved, as a part of the model."""
    moved = phase.get("moved")
    if moved is None:
        return []
    return [Bar(f"{phase['title']}: plans", f"at most {PLANS}", len(moved), len(moved) <= PLANS),
            Bar(f"{phase['title']}: moved, of the model", f"below {MOVED}", sum(moved),
                sum(moved) < MOVED)]


def _auto(case):
    if not case:
        return []
    def ratio(one, other):
        return median(case["rounds"][one]) / median(case["rounds"][other])
    fixed = ratio(AUTO_FIXED, WITHOUT_FIXED)
    placed, error = placed_ratio(case["starts"])
    most = 1 + SAME + ERRORS * error
    return [Bar("`auto` by without, keys stay: time", f"at most {1 + SAME}", fixed,
                fixed <= 1 + SAME),
            Bar("`auto` by without, keys are placed, mean of starts: time",
                f"at most {1 + SAME} and {ERRORS} standard errors: {most:.2f}", placed,
                placed <= most),
            Bar("`auto`: how often the star was chosen", "at least 1", case["star"],
                case["star"] > 0),
            Bar("`auto`: how often trees were given out", "0", case["trees"], case["trees"] == 0)]


def placed_ratio(starts):
    """The ratio of the means over starts, each of which counts by its median round; and the
    standard error of that ratio, to which each start gives one sample."""
    ours, other = ([median(start[name]) for start in starts] for name in (AUTO, WITHOUT))
    relative = [variance(of) / len(of) / mean(of) ** 2 if len(of) > 1 else 0
                for of in (ours, other)]
    ratio = mean(ours) / mean(other)
    return ratio, ratio * math.sqrt(sum(relative))


def auto_table(case):
    every = [*case["rounds"].items(),
             *((f"{name}, start {number + 1}", rounds)
               for number, start in enumerate(case["starts"]) for name, rounds in start.items())]
    rows = [[name, str(len(rounds)), f"{median(rounds):.3f}", f"{min(rounds):.3f}",
             f"{max(rounds):.3f}"] for name, rounds in every]
    return report.table(["`PSLITE_TOPOLOGY`", "rounds", "median: s", "shortest: s", "longest: s"],
                        rows)


def members_table(case):
    """The usual round is the median before or after the change, whichever is longer."""
    rows = [[change["what"], str(len(change["during"])), f"{change['usual']:.2f}",
             f"{change['longest']:.2f}", f"{median(change['after']):.2f}"]
            for change in case["changes"]]
    return report.table(["servers", "rounds until it is done", "the usual round: s",
                         "the longest: s", "median after it: s"], rows)


def by_bound(case, bound="bounds"):
    """The median round of each network by T*, or by another bound."""
    return [1 / eta(phase, OURS, bound) for phase in case["phases"]]


def _random(case):
    if not case or not case["phases"]:
        return []
    found = by_bound(case, "pipelined")
    bars = (("median", median(found), USUAL), ("worst", max(found), WORST))
    name = "drawn networks: a round by the optimum, "
    return [
        Bar(name + what, f"at most {most}", value, value <= most) for what, value, most in bars
    ]


def random_table(case):
    rows = [[phase["title"], cell(phase["bounds"][OURS]), cell(phase["pipelined"][OURS]),
             cell(phase["before"][OURS][0]), cell(seconds(phase, OURS)), cell(by), cell(late),
             str(len(phase["moved"])), cell(sum(phase["moved"]))]
            for phase, by, late in zip(case["phases"], by_bound(case),
                                       by_bound(case, "pipelined"))]
    return report.table(["network", "T*", "optimum", "first round: s", "usual: s", "by T*",
                         "by the optimum", "plans", "moved, of the model"], rows)


def _redrawn(case):
    if not case or OURS not in case["whole"]:
        return []
    # The first phase is no change.
    slowest = [reached(phase, ETA) for phase in case["phases"][1:]]
    late = sum(number is None or number > ROUNDS for number in slowest)
    gain = whole(case)
    return [Bar("redrawn rates: stock by ours, whole run", "at least 1.5", gain, gain >= 1.5),
            Bar(f"redrawn rates: changes without eta {ETA} within {ROUNDS} rounds", "0", late,
                late == 0)]


def _equal(case):
    if not case:
        return []
    phase, = case["phases"]
    on, off = seconds(phase, OURS), seconds(phase, FIXED)
    if not (on and off):
        return []
    plans = len(phase.get("moved", ()))
    return [Bar("equal rates: with planning by without, time", f"at most {1 + SAME}", on / off,
                on / off <= 1 + SAME),
            Bar("equal rates: plans", "0", plans, plans == 0)]


def cell(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def case_table(case):
    names = [name for name in (STOCK, OURS, SINGLE, FIXED)
             if any(name in phase["rounds"] for phase in case["phases"])]
    head = (["", "T*", "optimum"] + [f"{name}: s, eta" for name in names]
            + ["stock by ours", f"eta {ETA} in round", "cores busy: " + ", ".join(names)])
    rows = []
    for phase in case["phases"]:
        cores = phase.get("cores", {})
        best = [", ".join(dict.fromkeys(cell(phase[kind][name]) for name in names))
                for kind in ("bounds", "pipelined")]
        rows.append([phase["title"], *best]
                    + [f"{cell(seconds(phase, name))}, {cell(eta(phase, name))}" for name in names]
                    + [cell(ratio(phase)), cell(reached(phase, ETA), "{}"),
                       ", ".join(cell(cores.get(name), "{:.1f}") for name in names)])
    if len(case.get("whole", ())) > 1:
        rows.append(["whole run", "", "", *(f"{mean(case['whole'][name]):.2f}" for name in names),
                     f"{whole(case):.2f}", "", ""])
    return report.table(head, rows)


def wire_text(case):
    least, most = min(case["bottleneck"]), max(case["bottleneck"])
    slow = min(case["hosts"], key=lambda row: row["set"])
    return ("Plain TCP, all workers to all servers and back at once: the servers receive "
            f"{least:.3f} to {most:.3f} of the rates set (at best 0.956; the slowest, "
            f"{slow['set']:g} Mbit/s: {slow['mbit']:.1f}), with {case['cores']:.2f} cores busy.")


def bar_rows(of_them):
    return report.table(["what", "bar", "measured", ""], [
        [bar.text, bar.wanted, f"{bar.value:.2f}", "" if bar.holds else "**does not hold**"]
        for bar in of_them])


def bar_table(found):
    return bar_rows(bars(found))


def case_text(name, case):
    """One case: what was measured, and its bars."""
    if name == "wire":
        return wire_text(case)
    tables = {"members": members_table, "random": random_table, "auto": auto_table}
    parts = [tables.get(name, case_table)(case)]
    return "\n\n".join(parts + ([bar_table({name: case})] if bars({name: case}) else []))


def title(name, case):
    return f"### {TITLES[name].format(**case)}\n\n" if name in TITLES else ""


def text(found, scale):
    parts = [] if scale == 1 else [f"All rates times {scale:g}."]
    return "\n\n".join(parts + [title(name, case) + case_text(name, case)
                                for name, case in found.items()])


def written(page, found, machine):
    """The page with what was measured; the cases that were not stay as they are."""
    for name, case in found.items():
        new = f"{title(name, case)}{machine}\n\n{case_text(name, case)}"
        page = report.insert(page, new, BEGIN.format(name), END.format(name))
    return page
