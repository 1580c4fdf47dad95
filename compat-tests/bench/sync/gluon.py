"""A gluon script that knows of nothing, at its own rate, where an exchange takes as long as a step
and four times as long: plain rounds on stock, and the default form of an exchange. Root.

The script is examples/train_digits.py, a small convolutional network. What a step takes is measured
without limits; from that follow the rates of the links.
"""

from itertools import product
from statistics import median

from netlab import FREE, Lab, Rates
from netlab.cluster import OURS, STOCK, Place, hosts
from netlab.links import CONGESTION

from .bars import Bar
from .curves import GOALS, LIMIT, Wanted, note, script, times_to, train

WORKERS, SERVERS = 4, 1
# What the network's parameters have, in bytes; each is pushed and pulled.
BYTES = 4 * (16 * 9 + 16 + 32 * 16 * 9 + 32 + 512 * 128 + 128 + 128 * 10 + 10)
# Steps of an epoch: 1500 images, of which each worker has its part, 50 at a time.
STEPS = 1500 // WORKERS // 50
# Of an exchange's time by a step's.
EXCHANGES = (1, 4)
# Options of the script.
OPTIMIZERS = {"SGD, momentum 0.9, rate 0.1": (), "Adam, rate 0.001": ("--optimizer", "adam",
                                                                    "--lr", "0.001")}
FORMS = (Wanted("plain rounds, stock", STOCK, {}),
         Wanted("nbsync", OURS, {"PSLITE_SYNC": "nbsync"}))
# Epochs of the training without limits.
LOOK = 12


def measure(times, say):
    """{"step": seconds, "trainings": {what: {name: [points]}}}."""
    step = step_of(run(FORMS[0], FREE, 0, (), LOOK))
    say(f"a step takes {step:.3f} s")
    found = {"step": step, "trainings": {}}
    for exchange, (optimizer, words) in product(EXCHANGES, OPTIMIZERS.items()):
        what = f"G = {exchange}, {optimizer}"
        curves = found["trainings"][what] = {}
        for seed in range(times):
            for form in FORMS:
                note(curves, form.name, run(form, rate(exchange * step), seed, words),
                     lambda said, what=what: say(f"{what}: {said}"))
    return found


def rate(seconds):
    """Of a link over which an exchange takes so long: its push, then its pull."""
    return Rates.both(max(1.0, round(2 * BYTES * 8 / seconds / 1e6, 1)))


def run(form, limits, seed, words, points=None):
    with Lab(hosts([limits] * WORKERS, [FREE] * SERVERS), CONGESTION) as lab:
        return train(Place(lab), form, script(seed, *words), WORKERS, SERVERS, points=points)


def step_of(curve):
    times = [seconds for seconds, _ in curve.points]
    if len(times) < LOOK:
        raise SystemExit("bench sync gluon: the script was too slow to be measured")
    return median(after - before for before, after in zip(times, times[1:])) / STEPS


def bars(found):
    """[Bar]: none is asked for, but that all arrive."""
    rows = []
    for what, curves in found["trainings"].items():
        plain, ours = (curves[form.name] for form in FORMS)
        for goal in GOALS:
            base, time = (median(times_to(one, goal)) for one in (plain, ours))
            missed = sum(taken == LIMIT for taken in times_to(ours, goal))
            rows.append(Bar(
                f"gluon, {what}, accuracy {goal:.2f}: nbsync ({time:.1f} s) by plain rounds "
                f"({base:.1f} s)", "all arrive",
                f"{base / time:.1f}" + (f"; {missed} did not arrive" if missed else ""),
                not missed))
    return rows
