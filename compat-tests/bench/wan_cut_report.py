"""The table and bars of `wan.py --cut`. No process, no clock: numbers in, text out."""

import re
from statistics import mean

import report
from lab_report import Bar, bar_rows
from wan_redraw_report import ETA, ROUNDS, listed

#: Seconds in which the job must go on.
GOES_ON = 5
# What a node of ours says when its job has failed.
REASON = re.compile(r"pslite: (?:error: )?(.+)")


def eta_after(one):
    """T* of what is left by the mean round, without the first ones after the cut; 0: the job did
    not go on."""
    rounds = one["after"][ROUNDS:]
    return one["left"] / mean(rounds) if rounds and not one["wrong"] else 0.0


def bars(found):
    result = []
    for one in found:
        seconds = float("inf") if one["goes_on"] is None else one["goes_on"]
        eta = eta_after(one)
        result += [Bar(f"seed {one['seed']}: seconds until it goes on", f"at most {GOES_ON}",
                       seconds, seconds <= GOES_ON),
                   Bar(f"seed {one['seed']}: eta of what is left, from round {ROUNDS + 1} on",
                       f"at least {ETA}", eta, eta >= ETA)]
    return result


def why(wrong):
    """In a few words."""
    said = REASON.search(wrong)
    return f"the job failed: {said[1]}" if said else wrong.split("\n")[0]


def row(one):
    across = "-" if one["across"] is None else f"{one['across']:.2f}"
    return [str(one["seed"]), one["link"], f"{one['bound']:.2f}", listed(one["rounds"]), across,
            "-" if one["goes_on"] is None else f"{one['goes_on']:.1f}", f"{one['left']:.2f}",
            listed(one["after"]), listed(one["left"] / took for took in one["after"]),
            f"**{why(one['wrong'])}**" if one["wrong"] else ""]


def routes(one):
    if one["tunnels"]:
        return "no site forwards, and there are tunnels."
    if one["rerouted"]:
        return "routes are made anew with the cut."
    return "routes stay, and none to a server had the link."


def text(found):
    said = "\n".join(
        f"Seed {one['seed']}: {one['topology']}, servers at {', '.join(one['servers'])}; "
        + routes(one) for one in found)
    table = report.table(["seed", "link cut", "T*: s", "rounds before: s", "round of the cut: s",
                          "goes on after: s", "T* of what is left: s", "rounds after: s", "eta",
                          ""], [row(one) for one in found])
    return "\n\n".join([said, table, bar_rows(bars(found))])
