"""The table and the bar of kills.py. No process, no clock: numbers in, text out."""

from statistics import median

import report

# Between what the tables stand: of jobs whose rounds go straight, and along trees.
STRAIGHT = ("<!-- kills table: written by scripts/bench kills -->",
            "<!-- end of the kills table -->")
TREES = ("<!-- kills-trees table: written by scripts/bench kills --topology -->",
         "<!-- end of the kills-trees table -->")
# Seconds until all goes on, once it is known that somebody died.
RECOVERY = 1
OPTIMIZERS = {"sgd": "SGD with momentum", "adam": "Adam"}
TITLES = {"server": "a server", "scheduler": "the scheduler", "relay": "a relay"}


def numbers(trials, field):
    return [one[field] for one in trials if one[field] is not None]


def seconds(values):
    """Median and longest."""
    return f"{median(values):.2f} s, {max(values):.2f} s" if values else "-"


def holds(trials):
    return not any(one["wrong"] for one in trials) and all(
        took < RECOVERY for took in numbers(trials, "recovered"))


def groups(trials):
    """The trials by who was killed and under which optimizer."""
    found = {}
    for one in trials:
        found.setdefault((one["kind"], one["optimizer"]), []).append(one)
    return found


def hold(trials):
    """True if the bar holds for all of them."""
    return all(holds(group) for group in groups(trials).values())


def line(one):
    """One trial, for who waits."""
    def text(value):
        return "-" if value is None else f"{value:.3f} s"
    return (f"{one['kind']} {one['number']}, {one['optimizer']}: {one['wrong'] or 'equal'}; "
            f"known after {text(one['found'])}, goes on after {text(one['recovered'])}")


def table(trials, topology=None):
    killed = f"killed, along `{topology}`" if topology else "killed"
    # Relays' jobs have no weights to compare: who was counted shows in their values.
    equal_values = "values as they must be" if topology else "weights equal, to the bit"
    rows = []
    for (kind, optimizer), group in groups(trials).items():
        equal = sum(not one["wrong"] for one in group)
        rows.append([f"{TITLES[kind]}, {OPTIMIZERS[optimizer]}", f"{equal} of {len(group)}",
                     seconds(numbers(group, "found")), seconds(numbers(group, "recovered")),
                     "" if holds(group) else "**does not hold**"])
    return report.table([killed, equal_values, "known after (median, longest)",
                         f"then goes on after (bar: below {RECOVERY} s)", ""], rows)
