"""Where the time of a round goes: what every card of a lab carries, moment by moment, in rounds of
ours.

    python compat-tests/bench/lab_watch.py one                 rounds of that case of `scripts/bench
      lab`
    python compat-tests/bench/lab_watch.py two --rounds 12 --set PSLITE_REPLICAS=0
    python compat-tests/bench/lab_watch.py huge --every --logs watched
    python compat-tests/bench/lab_watch.py redrawn --every        rates that change, as there;
      --phases, --period, --seed

Prints each round's time, and for the last one (--every: for each) a table: a line for each fifth of
a second, in it what each host received and sent, in percent of its rate (s: servers, w: workers; d:
down, u: up). A column that is at 95 all the time is what limits the round; where all are low at
once somebody waits for an answer. The kernel counts (proc_pid_net(5)), so watching costs next to
nothing. Needs root.
"""

import argparse
import itertools
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import lab  # noqa: E402
from netlab import Unavailable  # noqa: E402
from netlab.links import CONGESTION  # noqa: E402
from netlab.tools import Interrupted, raise_on_signals  # noqa: E402

#: Rates of workers and servers, as in lab.py; of `slowed` as it begins.
CASES = {"one": ([500] * 4, [500, 500, 500, 50]), "two": ([400] * 4, [200, 200, 50, 50]),
         "equal": ([500] * 4, [500] * 4), "huge": ([400] * 4, [200] * 4),
         "slowed": ([400] * 4, [200] * 4)}
REDRAWN = "redrawn"
#: Seconds between two looks at the counters.
INTERVAL = 0.2


def carried(pid):
    """Bytes that the only card of that process's host has received and sent."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "eth0":
            fields = counts.split()
            return int(fields[0]), int(fields[8])
    raise lab.Failed(f"process {pid} has no card")


class Watch(threading.Thread):
    """Looks at the counters until it is stopped."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self._pids = pids
        self._over = threading.Event()
        self.looks = []

    def _look(self):
        self.looks.append((time.monotonic(),
                           {name: carried(pid) for name, pid in self._pids.items()}))

    def run(self):
        while not self._over.wait(INTERVAL):
            self._look()

    def stop(self):
        self._over.set()
        self.join()
        self._look()


def table(looks, rates):
    """One line for each time between two looks."""
    begin = looks[0][0]
    lines = ["      " + " ".join(f"{name + way:>4}" for name in rates for way in "du")]
    for (before, old), (now, new) in zip(looks, looks[1:]):
        def part(name, way):
            rate = (rates[name].down, rates[name].up)[way]
            return 100 * (new[name][way] - old[name][way]) * 8e-6 / (now - before) / rate
        cells = (f"{part(name, way):4.0f}" for name in rates for way in (0, 1))
        lines.append(f"{now - begin:5.1f} " + " ".join(cells))
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(prog="lab_watch.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=[*CASES, REDRAWN])
    parser.add_argument("--rounds", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--rest", type=float, default=0, metavar="SECONDS",
                        help="between two rounds, as if workers computed: links are idle")
    parser.add_argument("--every", action="store_true", help="a table for each round")
    parser.add_argument("--phases", type=int, default=5,
                        help="of redrawn, which has as many rounds as they take")
    parser.add_argument("--period", type=float, default=60, help="of redrawn, in seconds")
    parser.add_argument("--seed", type=int, default=1, help="of redrawn")
    parser.add_argument("--logs", type=Path, metavar="FOLDER",
                        help="for what the processes wrote, in CASE/ours; 0 is the scheduler")
    parser.add_argument("--scale", type=float, default=1, help="all rates, by that factor")
    parser.add_argument("--congestion", default=CONGESTION,
                        help="TCP's algorithm; default: %(default)s")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="environment of ours")
    options = parser.parse_args()
    options.set = dict(pair.split("=", 1) for pair in options.set)
    return options


def numbers(options, stack, job):
    """The rounds' numbers. Of `redrawn` until all its phases are over; rates change from the second
    one on, and the model's servers with them as soon as a round begins."""
    if options.case != REDRAWN:
        yield from range(1, options.rounds + 1)
        return
    yield 1
    drawn, timed = lab.draw(options)
    timeline = lab.changes.Timeline(job.lab, timed, lab.complain).start()
    stack.callback(timeline.stop)
    begin = time.monotonic()
    for number in itertools.count(2):
        phase = int((time.monotonic() - begin) // options.period)
        if phase >= options.phases:
            return
        job.servers = drawn[phase]
        yield number


def watch(options):
    drawn = options.case == REDRAWN
    workers, servers = (lab.both([400] * 4, options), lab.draw(options)[0][0]) if drawn else (
        lab.both(rates, options) for rates in CASES[options.case])
    kind = lab.Kind(lab.OURS, lab.TCP, {**lab.ELASTIC, **options.set})
    with ExitStack() as stack:
        tensors, settings = ("huge", lab.WHOLE) if options.case == "huge" else ("resnet50", None)
        job = lab.Bench(stack, workers, servers, options, [kind], settings)
        pids = job.clusters[lab.OURS].pids()
        named = {f"{role[0]}{index}": pid
                 for role in ("server", "worker") for index, pid in enumerate(pids[role])}
        for number in numbers(options, stack, job):
            time.sleep(options.rest)
            rates = dict(zip(named, job.servers + workers))
            bound = job.bounds(tensors)["bounds"][lab.OURS]
            looking = Watch(named)
            looking.start()
            used, begin = lab.busy(), time.monotonic()
            seconds = job.one(lab.OURS, tensors)
            cores = (lab.busy() - used) / (time.monotonic() - begin)
            looking.stop()
            print(f"{time.strftime('%X')} round {number}: {seconds:.2f} s, eta "
                  f"{bound / seconds:.2f}, {cores:.2f} cores", flush=True)
            if options.every or number == options.rounds and not drawn:
                print(table(looking.looks, rates), flush=True)
        job.end()


def main():
    options = parse()
    raise_on_signals()
    try:
        watch(options)
    except Unavailable as error:
        print(f"lab_watch: {error}", file=sys.stderr)
        return 2
    except lab.Failed as error:
        print(error, file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        return interrupted.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
