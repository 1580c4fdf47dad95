"""Real jobs whose computing is sleeping: scheduler, servers and workers on hosts of a lab, with
links so slow that an exchange takes seconds. Root.

The exchange's time is measured first: the step of a job that waits for each (`fedavg:steps=1`) and
computes nothing. Then a step takes as long, and this job, a plain one and some that do not wait
train in turn. `pslite status` of the plain one says what an exchange would bring.
"""

import json
import re
import subprocess
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from cluster import TCP, Cluster, Failed
from harness import PROGRAM, PYTHON
from netlab import FREE, Lab, Rates
from netlab.cluster import Place, hosts
from netlab.links import CONGESTION

from .bars import Bar
from .job import JITTER
from .machine import window_for

TRAINING = Path(__file__).resolve().parent / "training.py"
# Seconds after which a job ends itself, whatever happens.
LIMIT = 900
WORKERS, SERVERS = 4, 2
# What each worker's link carries, Mbit/s; servers have enough. 2 MB in 16 tensors, so an exchange
# takes about 2 s.
RATE, TENSORS, SIZE = 16, 16, 32768
# Steps that are not counted, then those of the exchange's time, then those of each turn.
BEFORE, ALONE, STEPS = 2, 6, 24
SECTIONS = 8
WAITS, DEFAULT, PLAIN = "fedavg:steps=1", "nbsync", "without PSLITE_SYNC"
# An exchange and a step take equal time: steps a second by those of who waits; busy.
GAIN, BUSY = 1.8, 0.9
# By that part the gain may be off that a plain job is told. Seconds to ask for it.
OFF, ASKING = 0.15, 30
NATIVE = {"scheduler": [str(PROGRAM), "scheduler"], "server": [str(PROGRAM), "server"]}


@dataclass(frozen=True)
class Turn:
    """Of all workers: the longest time of the steps, the least that one computed of it, the mean of
    what was sent."""

    steps: int
    seconds: float
    computing: float
    sent: float

    @classmethod
    def of(cls, answers):
        seconds = max(one["seconds"] for one in answers)
        return cls(answers[0]["steps"], seconds,
                   min(one["computed"] / one["seconds"] for one in answers),
                   sum(one["sent"] for one in answers) / len(answers))


def measure(times, say):
    """{"exchange": seconds, "bytes": of one, "turns": {PSLITE_SYNC: [Turn]}, "predicted": times
    the steps, of each turn of the plain job}."""
    window = window_for(SECTIONS, 1, 1)
    forms = (WAITS, PLAIN, f"nbsync:window={window}", "nbsync:published", DEFAULT)
    with ExitStack() as stack:
        rates = [Rates.both(RATE)] * WORKERS
        lab = stack.enter_context(Lab(hosts(rates, [FREE] * SERVERS), CONGESTION))
        found = {"turns": {form: [] for form in forms}, "predicted": []}
        jobs = {}
        for form in forms:
            jobs[form] = stack.enter_context(job(lab, form))
            train(jobs[form], 1, 0.0)
        alone = train(jobs[WAITS], ALONE, 0.0)
        found["exchange"], found["bytes"] = alone.seconds / ALONE, alone.sent / ALONE
        say(f"an exchange takes {found['exchange']:.2f} s, {found['bytes'] / 1e6:.2f} MB")
        for _ in range(times):
            for form, one in jobs.items():
                turn = train(one, STEPS, found["exchange"])
                found["turns"][form].append(turn)
                say(f"{form}: {turn.steps / turn.seconds:.2f} steps/s, computing "
                    f"{turn.computing:.0%}, network {network(found, turn):.0%}")
                if form == PLAIN:
                    found["predicted"].append(predicted(lab, one))
                    say(f"told that an exchange would do {found['predicted'][-1]} x the steps")
        for one in jobs.values():
            one.end()
    return found


def job(lab, form):
    command = [PYTHON, "-u", str(TRAINING), str(LIMIT), str(TENSORS), str(SIZE)]
    settings = {} if form == PLAIN else {"PSLITE_SYNC": form}
    return Cluster(command, WORKERS, SERVERS, TCP, NATIVE, Place(lab), settings, form)


def predicted(lab, one):
    """How many times the steps `pslite status` says that an exchange would do; 1: nothing."""
    host = lab.host("scheduler")
    asked = subprocess.run(
        host.command([PROGRAM, "status", "--json", "--scheduler", f"{host.address}:{one.port}"]),
        capture_output=True, text=True, timeout=ASKING, env=one.environment("worker"))
    if asked.returncode != 0:
        raise Failed(f"pslite status: {asked.stdout}{asked.stderr}")
    said = json.loads(asked.stdout)["exchange_advice"]
    times = re.search(r"would do ([0-9.]+) x the steps", said or "")
    return float(times[1]) if times else 1.0


def train(one, steps, seconds):
    return Turn.of(one.ask(f"train {BEFORE} {steps} {seconds} {JITTER}"))


def network(found, turn):
    """What is sent, by what exchanges send that follow each other."""
    return turn.sent / turn.seconds * found["exchange"] / found["bytes"]


def plain(found):
    """The same, for a file."""
    return {**found, "turns": {form: [asdict(turn) for turn in turns]
                               for form, turns in found["turns"].items()}}


def bars(found):
    """[Bar]."""
    def speed(form):
        return median(turn.steps / turn.seconds for turn in found["turns"][form])
    ours = next(form for form in found["turns"] if form.startswith("nbsync:window"))
    gain = speed(ours) / speed(WAITS)
    rows = [Bar(f"real job, an exchange takes a step's time ({found['exchange']:.2f} s): steps a "
                f"second of `{ours}` by those of `{WAITS}`", f"at least {GAIN}", f"{gain:.2f}",
                gain >= GAIN)]
    for form, turns in found["turns"].items():
        parts = [median(network(found, turn) for turn in turns),
                 median(turn.computing for turn in turns)]
        rows.append(Bar(f"the same: network and computing busy, `{form}`",
                        f"over {BUSY:.0%} each" if form == ours else "reported",
                        f"{parts[0]:.1%}, {parts[1]:.1%}",
                        min(parts) > BUSY if form == ours else None))
    told, measured = median(found["predicted"]), speed(DEFAULT) / speed(PLAIN)
    rows.append(Bar(f"the same: times the steps that `pslite status` of the plain job predicts, by "
                    f"those of `{DEFAULT}`", f"within {OFF:.0%}",
                    f"{told:.1f} / {measured:.2f} = {told / measured:.2f}",
                    abs(told / measured - 1) <= OFF))
    return rows
