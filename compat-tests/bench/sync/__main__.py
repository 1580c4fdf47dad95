"""NBSync beside what others publish: time to a loss, and how busy network and workers are.

    scripts/bench sync                    all parts
    scripts/bench sync model              searched and measured anew (half an hour of processor
                                          time); needs no library
    scripts/bench sync model --quick      a look: a coarse search, two exchanges, three seeds
    scripts/bench sync emulated           real jobs (10 minutes), as root
    scripts/bench sync gluon              a script at its own rate, by plain rounds (10 minutes),
                                          as root
    scripts/bench sync wide               real trainings at nine sites, of gluon and of torch beside
                                          DiLoCo over gloo (20 minutes), as root
    scripts/bench sync peers              the methods as real jobs over links, beside the model (20
                                          minutes), as root
    scripts/bench sync --gate             not 0 if a bar does not hold
    scripts/bench sync --docs             and the tables of docs/benchmarks.md and
                                          docs/algorithms.md are written anew

model: SSGD, FedAvg, FedAsync, ESync, DiLoCo, Streaming DiLoCo, CO2, eager updates and asynchronous
Local SGD, each at its best setting, beside the published form of NBSync and the default one, on an
emulated timeline with real gradients. A run that was broken off goes on where it was. emulated:
jobs of the stock wheel, unmodified but for PSLITE_SYNC at the scheduler, whose workers sleep where
others compute, over slow links; and how long a local model takes to answer. Raw numbers:
.cache/bench/sync.json, sync-emulated.json, sync-gluon.json,
sync-wide.json and sync-peers.json.
"""

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
sys.dont_write_bytecode = True
import report  # noqa: E402
from harness import ROOT  # noqa: E402
from run import PAGE, machine  # noqa: E402

from sync import answer, bars, cells, emulated, gluon, real  # noqa: E402
from sync import real_page, tables, wide  # noqa: E402
from sync.digits import CACHE  # noqa: E402

METHODS_PAGE = ROOT / "docs/algorithms.md"
BEGIN, END = "<!-- sync: begin -->", "<!-- sync: end -->"
REAL_BEGIN, REAL_END = "<!-- sync emulated: begin -->", "<!-- sync emulated: end -->"
GLUON_BEGIN, GLUON_END = "<!-- sync gluon: begin -->", "<!-- sync gluon: end -->"
WIDE_BEGIN, WIDE_END = "<!-- sync wide: begin -->", "<!-- sync wide: end -->"
PEERS_BEGIN, PEERS_END = "<!-- sync peers: begin -->", "<!-- sync peers: end -->"


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench sync",
                                     description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a coarse look: no bars")
    parser.add_argument("--times", type=int, default=3,
                        help="of emulated: turns of each job; of gluon and "
                        "wide: trainings, each of its own seed")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true", help="write the tables into the docs")
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]}")
    if options.quick and (options.gate or options.docs or options.parts != ["model"]):
        parser.error("--quick is a look at the model: it decides no bar and writes no page")
    return options


def model(options):
    """Measures, prints the tables; the bars."""
    begin = time.monotonic()
    found = cells.measure(cells.QUICK if options.quick else cells.WHOLE, cells.progress(begin))
    keep("sync.json", found)
    judged = bars.all_of(found)
    took = f"{machine()} {found['seconds'] / 60:.0f} minutes of processor time."
    methods, page = tables.methods(found), tables.page(found, judged, took)
    print(f"{methods}\n\n{page}")
    if options.docs:
        write(PAGE, page, BEGIN, END)
        write(METHODS_PAGE, methods, BEGIN, END)
    return judged


def sleeping(options):
    """Real jobs whose computing is sleeping."""
    say = cells.progress(time.monotonic())
    found, answered = emulated.measure(options.times, say), answer.measure(options.times, say)
    keep("sync-emulated.json", {"jobs": emulated.plain(found), "answers": answered})
    judged = [*emulated.bars(found), *answer.bars(answered)]
    page = f"{machine()}\n\n{tables.judged(judged)}"
    show(options, page, REAL_BEGIN, REAL_END)
    return judged


def scripts(options):
    """A script of gluon's, by plain rounds."""
    found = gluon.measure(options.times, cells.progress(time.monotonic()))
    keep("sync-gluon.json", found)
    judged = gluon.bars(found)
    page = f"{machine()} A step takes {found['step']:.3f} s.\n\n{tables.judged(judged)}"
    show(options, page, GLUON_BEGIN, GLUON_END)
    return judged


def wide_area(options):
    """Trainings over slow links of a wide area."""
    found = wide.measure(options.times, cells.progress(time.monotonic()))
    keep("sync-wide.json", found)
    judged = wide.bars(found)
    page = f"{machine()}\n\n{wide.settings(found)}\n\n{tables.judged(judged)}"
    show(options, page, WIDE_BEGIN, WIDE_END)
    return judged


def peers(options):
    """The methods as real jobs, beside the model."""
    found = real.measure(cells.progress(time.monotonic()))
    keep("sync-peers.json", found)
    judged = real_page.bars(found)
    page = f"{machine()} {real_page.page(found)}\n\n{tables.judged(judged)}"
    show(options, page, PEERS_BEGIN, PEERS_END)
    return judged


PARTS = {"model": model, "emulated": sleeping, "gluon": scripts, "wide": wide_area, "peers": peers}


def show(options, page, begin, end):
    """Prints what a part found, and writes it into the docs if that was asked for."""
    print(page)
    if options.docs:
        write(PAGE, page, begin, end)


def keep(name, found):
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / name).write_text(json.dumps(found))


def write(path, text, begin, end):
    path.write_text(report.insert(path.read_text(), text, begin, end))


def main():
    options = parse()
    judged = [bar for part in options.parts for bar in PARTS[part](options)]
    failed = [bar for bar in judged if bar.holds is False]
    for bar in failed:
        print(f"bar does not hold: {bar.text}: {bar.measured}, {bar.wanted}", file=sys.stderr)
    return 1 if options.gate and failed else 0


if __name__ == "__main__":
    sys.exit(main())
