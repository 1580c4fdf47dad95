"""Trainings that are followed until an accuracy is there: what rank 0 says, as (seconds, accuracy).
"""

import json
import re
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster import LIBRARY
from harness import PYTHON, ROOT
from netlab.cluster import OURS, Job, Options

SCRIPT = ROOT / "examples/train_digits.py"
EPOCH = re.compile(r"epoch (\d+): accuracy ([0-9.]+) after ([0-9.]+) s")
#: The accuracies to which times are compared.
GOALS = (0.90, 0.95)
# Seconds for one training, and until it says something for the first time.
LIMIT, START = 150, 300
# Seconds between two looks at the processes.
LOOK = 0.1
# One thread for each process: there are more of them than cores.
THREADS = {"OMP_NUM_THREADS": "1", "MXNET_CPU_WORKER_NTHREADS": "1"}


class Wanted(NamedTuple):
    """One training. library: ours or stock. at: where its servers are, if there is a choice."""

    name: str
    library: str
    settings: dict
    at: str = "best"


@dataclass
class Curve:
    points: list = field(default_factory=list)

    def reached(self, goal):
        """Seconds; None: it never was."""
        return next((seconds for seconds, accuracy in self.points if accuracy >= goal), None)

    def ends(self, points):
        if points is not None:
            return len(self.points) >= points
        return self.reached(GOALS[-1]) is not None


def script(seed, *more):
    """The command of gluon's script, which ends when it is ended."""
    return [PYTHON, "-u", str(SCRIPT), "--epochs", "100000", "--seed", str(seed), *more]


def train(place, wanted, command, workers, servers, settings=None, points=None, limit=LIMIT):
    """Until it has reached the highest goal (points: until there are so many), or the time is over.
    servers: 0 for a program that needs neither them nor a scheduler."""
    curve, said = Curve(), []

    def hear(line):
        said.append(line)
        if (point := _read(line)) is not None:
            curve.points.append(point)

    ours = wanted.library == OURS
    job = Job(place, Options(command, workers, servers, wanted.library,
                             {**THREADS, **wanted.settings, **(settings or {})},
                             ("scheduler", "server") if ours else (), ours=LIBRARY), hear)
    end, begun = time.monotonic() + START, False
    try:
        if servers:
            job.start()
        else:
            for index in range(workers):
                job.spawn("worker", index)
        while time.monotonic() < end and not curve.ends(points):
            if any(process.code is not None for process in job.processes):
                raise SystemExit("bench sync: a training ended:\n" + "\n".join(said[-30:]))
            if curve.points and not begun:
                end, begun = time.monotonic() + limit, True
            time.sleep(LOOK)
    finally:
        job.end("it has been followed long enough")
    return curve


def _read(line):
    if (found := EPOCH.search(line)) is not None:
        return float(found[3]), float(found[2])
    begin = line.find('{"seconds"')
    if begin < 0:
        return None
    told = json.loads(line[begin:])
    return told["seconds"], told["accuracy"]


def times_to(curves, goal):
    """Of each curve; the limit where it was not reached."""
    return [Curve([tuple(point) for point in points]).reached(goal) or LIMIT for points in curves]


def note(found, name, curve, say):
    """Keeps and says what came of a training."""
    found.setdefault(name, []).append(curve.points)
    times = (curve.reached(goal) for goal in GOALS)
    said = ", ".join(f"{goal:.2f} in {'-' if time is None else f'{time:.1f} s'}"
                     for goal, time in zip(GOALS, times))
    say(f"{name}: {said}")
