"""The table and bar of `wan.py --redraw`. No process, no clock: numbers in, text out."""

import report
from lab_report import Bar, bar_rows

#: T* of the new rates by a round, and the rounds after a switch in which that must be reached.
ETA, ROUNDS = 0.65, 2


def reached(phase):
    """Which round after the switch was the first with that eta; None: none was."""
    good = (number for number, took in enumerate(phase["rounds"], 1)
            if phase["bound"] / took >= ETA)
    return next(good, None)


def bars(found):
    """Whether every switch was followed in time. The first rates are no switch."""
    result = []
    for seed in found:
        numbers = [reached(phase) for phase in seed["phases"][1:]]
        late = sum(number is None or number > ROUNDS for number in numbers)
        result.append(Bar(f"seeds from {seed['seed']}: switches without eta {ETA} within {ROUNDS} "
                          "rounds", "0", late, late == 0))
    return result


def rows(seed):
    for number, phase in enumerate(seed["phases"]):
        first = reached(phase)
        yield [str(phase["seed"]), f"{phase['bound']:.2f}", listed(phase["across"]),
               listed(phase["rounds"]), listed(phase["bound"] / took for took in phase["rounds"]),
               "-" if first is None else str(first), "" if number else "not a switch"]


def listed(numbers):
    return ", ".join(f"{number:.2f}" for number in numbers) or "-"


def of_seed(seed):
    said = (f"{seed['topology']}, servers at {', '.join(seed['servers'])}; before, straight for "
            f"the most part: {listed(seed['before'])} s.")
    table = report.table(["rates of seed", "T*: s", "round under way: s", "rounds after it: s",
                          "eta", f"eta {ETA} in round", ""], list(rows(seed)))
    return f"{said}\n\n{table}"


def text(found):
    return "\n\n".join([*map(of_seed, found), bar_rows(bars(found))])
