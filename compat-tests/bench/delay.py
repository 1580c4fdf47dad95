"""Rounds over links with delay and loss, with one connection to each peer and with several.

    scripts/bench delay                      every case (about 40 minutes)
    scripts/bench delay far lossy --rounds 5
    scripts/bench delay --gate               exit code 1 if a bar does not hold

A round pushes and pulls every tensor of a fifth of ResNet-50, 20 MB (mxkv.py: every sum is
checked); its time is the slowest worker's. The two jobs of a case are on the same hosts and asked
in turn, so whatever else the machine does meets both. Links are so slow that its processors are not
what holds rounds up. Of each job its rounds are reported and, of those after the first quarter, the
median; the ratio of the two medians is what the bar is about. `spiral` is the median of the last
quarter by that of the second. Raw numbers: .cache/bench/delay.json. Needs root.
"""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
from cluster import LIBRARY, TCP, Cluster, Failed  # noqa: E402
from harness import PYTHON  # noqa: E402
from lab_members import Members  # noqa: E402
from netlab import FREE, Lab, LabError, Rates, Unavailable  # noqa: E402
from netlab.cluster import Place, hosts  # noqa: E402
from netlab.delays import NONE  # noqa: E402
from netlab.links import CONGESTION  # noqa: E402
from netlab.tools import Interrupted, raise_on_signals  # noqa: E402
from parts import CACHE  # noqa: E402
from run import machine  # noqa: E402

# Seconds after which a job ends itself, whatever happens.
LIMIT = 3600
#: Several connections by one: no round is longer than that; of a lossy link at most a third.
BAR, LOSSY_BAR = 1.1, 1 / 3
#: The last quarter of the rounds by the second one.
SPIRAL_BAR = 1.1
ELASTIC = {"PSLITE_ELASTIC": "1"}


class Case(NamedTuple):
    """Hosts around a switch. way: milliseconds from one host to another; loss: percent on the
    way."""

    workers: list
    servers: list
    way: float
    loss: float = 0.0
    connections: int = 8
    settings: dict = {}
    bar: float = BAR
    said: str = ""
    #: What of ResNet-50 a round has (mxkv.py).
    tensors: str = "fifth"


def both(rate, count):
    return [Rates.both(rate)] * count


CASES = {
    "far": Case(both(150, 2), [FREE], 40, said="2 workers at 150 Mbit/s, 1 server"),
    "near": Case(both(150, 2), [FREE], 5, said="the same"),
    "farther": Case(both(150, 2), [FREE], 150, said="the same"),
    "hub": Case(both(100, 3), both(100, 3), 25, connections=4,
                said="3 workers, 3 servers, all at 100"),
    "static": Case(both(150, 2), [FREE], 40, settings={"PSLITE_ELASTIC": "0"},
                   said="as far, keys that stay"),
    "unshared": Case(both(150, 2), [FREE], 40, settings={"PSLITE_SHARE_INFLOW": "0"},
                     said="as far, PSLITE_SHARE_INFLOW=0"),
    "copies": Case(both(100, 2), both(100, 3), 40, settings=ELASTIC,
                   said="2 workers, 3 servers with copies, all at 100"),
    "lossy": Case(both(100, 1), [FREE], 40, loss=0.05, bar=LOSSY_BAR,
                  said="1 worker at 100, 1 server"),
    "moves": Case(both(100, 2), [Rates.both(100), Rates.both(50)], 40,
                  said="2 workers, 2 servers, one at half the rate"),
    "lossycopies": Case(both(100, 2), both(100, 2), 150, loss=1, connections=4, settings=ELASTIC,
                       tensors="fiftieth",
                       said="2 workers, 2 servers with copies, all at 100; 2 MB"),
}
#: One job with copies, in which servers come, are emptied and die: milliseconds and percent on the
#: way.
CHANGES = {"changes5": (5, 0.0), "changes40": (40, 0.0), "changes150": (150, 0.0)}
#: The same jobs, of 2 MB, in which a server is cut off from all others without a word.
CUTS = {"cut40": (40, 0.1), "cut150": (150, 1.0)}
#: Rounds before, and after each change.
STEADY = 4
#: Rounds in which a change has to be done.
MOST = 40


def job(stack, lab, case, connections):
    return stack.enter_context(Cluster(
        [PYTHON, "-u", str(HERE / "mxkv.py"), str(LIMIT)], len(case.workers), len(case.servers),
        TCP, place=Place(lab), label=f"{connections} connections",
        settings={"PSLITE_CONNECTIONS": str(connections), "MXNET_KVSTORE_BIGARRAY_BOUND": "200000",
                  **case.settings}))


def measure(case, options):
    """Seconds of the rounds of both jobs, by their number of connections."""
    held = NONE.replaced("delay", (case.way / 2,) * 2).replaced("loss", (case.loss / 2,) * 2)
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(hosts(case.workers, case.servers), options.congestion, held))
        jobs = {number: job(stack, lab, case, number) for number in (1, case.connections)}
        found = {number: [] for number in jobs}
        for _ in range(options.rounds):
            for number, one in jobs.items():
                answers = one.ask(f"{case.tensors} 1")
                found[number].append(max(answer["seconds"] for answer in answers))
        for one in jobs.values():
            one.end()
    return found


def cut_off(lab, name):
    """Nothing passes between a host and any other one."""
    for other in lab.hosts:
        if other != name:
            lab.cut(name, other)
            lab.cut(other, name)


def change(way, loss, options, cuts):
    """Seconds of rounds while nothing happens, while a server joins, another one is emptied, and
    the one that joined is killed, and after each; or, with `cuts`, while one is cut off: the name
    of what happened, those during it, those after it."""
    held = NONE.replaced("delay", (way / 2,) * 2).replaced("loss", (loss / 2,) * 2)
    with ExitStack() as stack:
        rates = both(100, 3)
        lab = stack.enter_context(Lab(hosts(rates[:2], rates, rates[:1]), options.congestion, held))
        case = Case(rates[:2], rates, way, loss, settings=ELASTIC)
        one = job(stack, lab, case, 1)
        tensors = "fiftieth" if cuts else "fifth"
        members = Members(lab, one, case.settings)

        def rounds(number):
            return [max(answer["seconds"] for answer in one.ask(f"{tensors} 1"))
                    for _ in range(number)]

        def kill():
            one.kill_server(-1)
            return lambda: True

        def cut():
            def holders():
                return sum(bool(pieces) for pieces in members.pieces().values())

            before = holders()
            cut_off(lab, "server2")
            return lambda: holders() < before

        found = [("before", rounds(2), rounds(STEADY))]
        changes = (("joins", lambda: members.join(0)), ("drained", lambda: members.drain(0)),
                   ("killed", kill))
        for what, begin in (("cut", cut),) if cuts else changes:
            done = begin()
            during = rounds(1)
            while not done():
                if len(during) >= MOST:
                    raise Failed(f"{what}: not done after {MOST} rounds")
                during += rounds(1)
            found.append((what, during, rounds(STEADY)))
        if cuts:
            # It hears of no end.
            one.kill_server(2)
        one.end()
    return found


def judge_change(found):
    """The row of such a job, and whether its bar holds: rounds after each change are not longer
    than with the fewest servers that there ever are, half as many again."""
    usual = {what: median(after) for what, _, after in found}
    fine = all(value <= usual["before"] * 1.5 * BAR for value in usual.values())
    cells = [f"{usual[what]:.2f} ({max(during):.2f})" for what, during, _ in found]
    return " | ".join(cells), fine


def spiral(rounds):
    """The median of the last quarter by that of the second one; None: too few rounds to say."""
    quarter = len(rounds) // 4
    if quarter < 2:
        return None
    return median(rounds[-quarter:]) / median(rounds[quarter:2 * quarter])


def judge(case, found):
    """The row of a case, and whether its bars hold."""
    settled = {number: median(rounds[len(rounds) // 4:]) for number, rounds in found.items()}
    one, several = settled[1], settled[case.connections]
    spirals = [spiral(rounds) for rounds in found.values()]
    fine = several / one <= case.bar and all(
        value is None or value <= SPIRAL_BAR for value in spirals)
    said = ["-" if value is None else f"{value:.2f}" for value in spirals]
    longest = {number: max(rounds[len(rounds) // 4:]) for number, rounds in found.items()}
    return (f"{case.said} | {case.way:g} ms | {case.loss:g} % | {one:.2f} ({longest[1]:.2f}) | "
            f"{case.connections}: {several:.2f} ({longest[case.connections]:.2f}) | "
            f"{several / one:.2f} | {case.bar:.2f} | {said[0]}, {said[1]}"), fine


CHANGE_HEAD = ["| case | one way | loss | before, s (longest while it began) | a server joined "
               "(longest meanwhile) | another was drained | the one that joined was killed |",
               "|---|---|---|---|---|---|---|"]
CUT_HEAD = ["| case | one way | loss | before, s (longest while it began) | a server was cut off "
            "(longest meanwhile) |", "|---|---|---|---|---|"]
HEAD = ["| case | hosts | one way | loss | one connection, s (longest) | several (longest) | ratio "
        "| bar | spiral |", "|---|---|---|---|---|---|---|---|---|"]


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench delay", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*CASES, *CHANGES, *CUTS]
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=12, help="of each job; default: 12")
    parser.add_argument("--congestion", default=CONGESTION,
                        help="TCP's algorithm; default: %(default)s")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in known]
    # Cases of one kind are one table.
    names = [name for name in known if name in options.cases] or known
    heads = {next((name for name in names if name in of), None): head
             for of, head in ((CASES, HEAD), (CHANGES, CHANGE_HEAD), (CUTS, CUT_HEAD))}
    if unknown or options.rounds < 1:
        parser.error(f"no case {unknown[0]}: there are {', '.join(known)}" if unknown
                     else "--rounds must be at least 1")
    if not LIBRARY.is_file():
        parser.error(f"no library {LIBRARY}: run cargo build --release")
    raise_on_signals()
    found, held = {}, True
    print(f"{machine()} TCP: {options.congestion}.", flush=True)
    try:
        for name in names:
            if name in heads:
                print("", *heads[name], sep="\n", flush=True)
            if name not in CASES:
                way, loss = {**CHANGES, **CUTS}[name]
                found[name] = change(way, loss, options, name in CUTS)
                row, fine = judge_change(found[name])
                row = f"{way:g} ms | {loss:g} % | {row}"
            else:
                found[name] = measure(CASES[name], options)
                row, fine = judge(CASES[name], found[name])
            held &= fine
            print(f"| {name} | {row} |", flush=True)
    except Unavailable as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except (LabError, Failed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        return interrupted.code
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "delay.json").write_text(json.dumps({"options": vars(options), "rounds": found}))
    return 1 if options.gate and not held else 0


if __name__ == "__main__":
    sys.exit(main())
