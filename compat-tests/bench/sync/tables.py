"""What was measured, as text: numbers in, Markdown out."""

import math
import textwrap
from statistics import mean

from . import bars, search
from .methods import ALL

# Of a setting, what its names are called.
WORDS = {"rate": "rate", "own_momentum": "own momentum", "steps": "steps", "momentum": "momentum",
         "outer": "outer rate", "nesterov": "Nesterov", "mix": "weight", "fades": "exponent",
         "fragments": "fragments", "delay": "delay", "own": "own part", "sections": "sections",
         "window": "window"}


def grid(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def seconds(times):
    """Mean and spread of arrivals."""
    arrived = [time for time in times if math.isfinite(time)]
    if not arrived:
        return "never"
    lost = len(times) - len(arrived)
    spread = f" [{min(arrived):.0f}..{max(arrived):.0f}]"
    return f"{mean(arrived):.0f}{spread}" + (f", {lost} never" if lost else "")


def setting(one):
    """A method's setting, as words."""
    if one is None:
        return "none arrives"
    said = []
    for name, word in WORDS.items():
        value = one.get(name)
        if value is None or (name == "own_momentum" and value == 0):
            continue
        if name == "nesterov":
            if one.get("momentum"):
                said.append("Nesterov" if value else "heavy ball")
        elif name == "window" and value == 0:
            said.append("window fits")
        else:
            said.append(f"{word} {value:.3g}")
    return ", ".join(said)


def head(found):
    return [f"{bars.data(case[1])} {case[0]:g}" for case, _ in bars.fixed(found)]


def methods(found):
    """Seconds to the loss: the tables of all methods."""
    return "\n\n".join(f"Seconds, {said}:\n\n{_methods(bars.inside(found, inner))}"
                       for inner, said in bars.INNER.items())


def _methods(found):
    cases = [case for case, _ in bars.fixed(found)]
    rows = [[method.name, *(seconds(bars.times(found, method.name, case)) for case in cases)]
            for method in ALL if bars.times(found, method.name, cases[0])]
    rows.append(["**default**", *(f"**{seconds(times)}**" for _, times in bars.fixed(found))])
    return grid(["method", *head(found)], rows)


def winners(found):
    """The settings that the search found."""
    rows = []
    for record in found["tuned"] + found["tuned plain"]:
        exchange, alpha, even = record["case"]
        name = f"{bars.data(alpha)} {exchange:g}" + (", equal speeds" if even else "")
        rows.append([record["method"], name, setting(record["setting"]),
                     f"{record['of_grid']:.0f}", f"{record['seconds']:.0f}", str(record["tried"])])
    order = {method.name: place for place, method in enumerate(ALL)}
    rows.sort(key=lambda row: order[row[0]])
    return grid(["method", "data, G", "best setting", "of the grid, s", "in the end, s", "tried"],
                rows)


def default_rates(found):
    rows = [[f"{one['rate']:.3g}", f"{one['momentum']:g}",
             "never at some" if math.isinf(one["mean"]) else f"{one['mean']:.1f}"]
            for one in found["default"]]
    return grid(["rate", "own momentum", "s, geometric mean of all cases"], rows)


def common(found):
    """The best of the four at one rate, and which it is."""
    rows = []
    for record in found["common"]:
        name = min(record["others"], key=lambda one: mean(record["others"][one]))
        exchange, alpha, _ = record["case"]
        ratio = bars.Ratios(record["others"][name], record["published"])
        rows.append([f"{record['rate']:g}", bars.data(alpha), f"{exchange:g}", name,
                     seconds(record["others"][name]), seconds(record["published"]), str(ratio)])
    return grid(["rate", "data", "G", "best of the four", "its s", "published, s", "ratio"], rows)


def busy(found):
    rows = []
    for record in found["busy"]:
        cells = [f"{record['case'][0]:g}"]
        for name in ("default", "published"):
            cells += [f"{mean(record[name][what]):.1%}" for what in ("network", "computing")]
        rows.append(cells)
    return grid(["G", "default: network", "computing", "published: network", "computing"], rows)


def accuracies(found):
    rows = []
    for record in found["accuracy"]:
        rows.append([bars.data(record["alpha"]), *(
            f"{mean(record[name]):.4f} [{min(record[name]):.4f}..{max(record[name]):.4f}]"
            for name in ("default", "published", "ssgd_short", "ssgd"))])
    return grid(["data", "default, 600 s", "published, 600 s", "SSGD, 600 s", "SSGD, 3000 s"],
                rows)


def judged(all_bars):
    marks = {True: "", False: "**does not hold**", None: ""}
    return grid(["what", "bar", "measured", ""],
                [[bar.text, bar.wanted, bar.measured, marks[bar.holds]] for bar in all_bars])


def page(found, all_bars, took):
    """All of it but the table of all methods."""
    count = len(bars.fixed(found)[0][1])
    return "\n\n".join([
        prose(f"{count} seeds that nothing was chosen by; in brackets the least and the most of "
              "them, of ratios seed by seed."), judged(all_bars),
        prose("The published form and the best of the four of its paper at one rate, with k = 1 "
              "and with k = G:"), common(found), "How busy all are:", busy(found),
        "Accuracy at G = 4:", accuracies(found),
        prose(f"The default form's one setting ({setting(found['setting'])}; with plain SGD inside "
              f"rate {found['plain setting']['rate']:g}) is the best of these on the seeds of the "
              "search:"), default_rates(found),
        prose(f"What the search found ({', '.join(map(str, search.SEARCH_SEEDS))} are its seeds; "
              "the last columns are seconds on them, and how many settings were tried):"),
        winners(found), took])


def prose(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
