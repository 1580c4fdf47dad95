"""The methods, and which settings of each are searched.

Each has a grid, and ladders on which the search goes on from the best of the grid: a number is
multiplied, or another of a list is taken.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Callable

from . import exchange, peers, turns

RATES = (0.1, 0.2, 0.4, 0.8, 1.6)
OUTER = tuple({"momentum": momentum, "outer": rate, "nesterov": nesterov}
              for momentum, rate, nesterov in (
                  (0.5, 1.0, False), (0.7, 1.0, False), (0.9, 0.5, False),
                  (0.5, 1.0, True), (0.8, 0.7, True), (0.9, 0.4, True), (0.9, 0.7, True)))
NESTEROV = tuple(rule for rule in OUTER if rule["nesterov"])
NO_MOMENTUM = {"momentum": 0.0, "outer": 1.0, "nesterov": True}
MOMENTA = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
OWN_MOMENTA = (0.0, 0.5, 0.8, 0.9)
# A step of a number on its ladder.
FACTOR = 1.3


@dataclass(frozen=True)
class Method:
    """run: (job, setting) to a generator of (seconds, global model). grid: of a case. ladders: of
    these names of a setting the search tries neighbours."""

    name: str
    run: Callable
    grid: Callable
    ladders: tuple


def product(**lists):
    """Every combination."""
    return [dict(zip(lists, values)) for values in itertools.product(*lists.values())]


def with_outer(settings, rules=OUTER):
    return [{**setting, **rule} for setting in settings for rule in rules]


def steps_in(case, *times):
    """Steps of a stretch: so many times what the slowest does in an exchange; 1 and 2 also."""
    own = case.exchange / max(case.speeds)
    return sorted({max(1, round(own * factor)) for factor in times})


def with_momentum(settings, momenta):
    """Also with momentum of the workers' own optimizer, and rates with which they get as far."""
    return [{**setting, "rate": setting["rate"] * (1 - momentum), "own_momentum": momentum}
            for setting in settings for momentum in momenta]


def local_sgd(case):
    counts = sorted({1, 2, *steps_in(case, 0.5, 1, 2, 4)})
    return with_momentum(product(rate=RATES, steps=counts), OWN_MOMENTA)


def with_mix(case):
    counts = sorted({1, 2, *steps_in(case, 0.5, 1, 2, 4)})
    return with_momentum(product(rate=RATES, steps=counts, mix=(0.3, 0.6, 0.9), fades=[0.5]),
                         (0.0, 0.8))


def outer_sgd(case):
    counts = steps_in(case, 0.5, 1, 2, 4)
    return with_outer(with_momentum(product(rate=RATES[:4], steps=counts), (0.0, 0.5, 0.8)))


def overlapped(case):
    """An exchange is hidden from where a stretch takes as long."""
    return with_momentum(product(rate=(0.05, *RATES[:4]), steps=steps_in(case, 1, 2)), (0.0, 0.5))


def fragments(case):
    """A fragment is sent every steps / fragments steps; the network carries that from steps = G on.
    Its result takes G / fragments, or a step more where fragments wait for each other."""
    found = []
    for count in sorted({2, 4, max(2, round(case.exchange)), 8}):
        wait = math.ceil(case.exchange / count / max(case.speeds))
        steps = {max(count, some) for some in steps_in(case, 1, 2, 4)}
        found += product(rate=RATES[1:4], steps=sorted(steps), fragments=[count],
                         delay=[wait, wait + 1], own=(0.0, 0.5))
    return with_outer(with_momentum(found, (0.0, 0.5)), NESTEROV)


def delayed_nesterov(case):
    found = product(rate=RATES[:4], steps=steps_in(case, 1, 2, 4), momentum=(0.3, 0.5, 0.8),
                    outer=(0.7, 1.5, 3.0))
    return with_momentum(found, (0.0, 0.5))


def ssgd(_):
    return with_momentum(product(rate=(*RATES, 2.2, 3.2), steps=[1]), OWN_MOMENTA)


def one_section(keep):
    found = product(rate=RATES, sections=[1], window=[1], keep=[keep])
    return lambda _: with_momentum(found, OWN_MOMENTA)


def sections(_):
    """The default form with everything tuned: for each case another one."""
    found = product(rate=RATES[1:4], sections=[2, 4, 8], window=[0], keep=[True])
    return with_outer(with_momentum(found, (0.0, 0.5, 0.8)), (*NESTEROV, NO_MOMENTUM))


OF_OUTER = ("rate", "own_momentum", "momentum", "outer", "nesterov")
ALL = (
    Method("SSGD", turns.turns, ssgd, ("rate", "own_momentum")),
    Method("FedAvg", turns.turns, local_sgd, ("rate", "own_momentum", "steps")),
    Method("FedAsync", peers.fedasync, with_mix,
           ("rate", "own_momentum", "steps", "mix", "fades")),
    Method("ESync", turns.esync, local_sgd, ("rate", "own_momentum", "steps")),
    Method("DiLoCo", turns.turns, outer_sgd, (*OF_OUTER, "steps")),
    Method("ESync + outer", turns.esync, outer_sgd, (*OF_OUTER, "steps")),
    Method("Streaming", peers.streaming, fragments,
           (*OF_OUTER, "steps", "fragments", "delay", "own")),
    Method("CO2", peers.co2, lambda case: with_outer(overlapped(case), OUTER[:4]),
           (*OF_OUTER, "steps")),
    Method("eager", peers.eager, lambda case: with_outer(overlapped(case)), (*OF_OUTER, "steps")),
    Method("asynchronous", peers.asynchronous, delayed_nesterov,
           ("rate", "own_momentum", "momentum", "outer", "steps")),
    Method("published", exchange.exchange, one_section(False), ("rate", "own_momentum")),
    Method("corrected", exchange.exchange, one_section(True), ("rate", "own_momentum")),
    Method("sections", exchange.exchange, sections, (*OF_OUTER, "sections", "window")),
)
NAMED = {method.name: method for method in ALL}
# The four that NBSync's authors compare with.
PAPER = ("SSGD", "FedAvg", "FedAsync", "ESync")

# The default form (docs/nbsync.md), whatever the case; its rate is the script's.
DEFAULT = {"sections": 8, "window": 0, "keep": True, "momentum": 0.5, "outer": 1.0,
           "nesterov": True}

LISTS = {"momentum": MOMENTA, "own": (0.0, 0.25, 0.5, 0.75), "fades": (0.0, 0.25, 0.5, 1.0),
         "fragments": (1, 2, 3, 4, 6, 8, 12, 16), "sections": (1, 2, 3, 4, 6, 8, 12, 16),
         "nesterov": (False, True)}


def neighbours(method, setting):
    """Settings that differ in one respect."""
    found = []
    for name in method.ladders:
        if name == "own_momentum":
            found += other_momenta(setting)
        else:
            found += [{**setting, name: value} for value in others(name, setting.get(name, 0))]
    return [one for one in found if is_possible(one)]


def others(name, value):
    if name in LISTS:
        ladder = LISTS[name]
        at = min(range(len(ladder)), key=lambda place: abs(ladder[place] - value))
        return [ladder[place] for place in (at - 1, at + 1) if 0 <= place < len(ladder)]
    if name == "window":
        return [1, 2, 3, 5] if value == 0 else [value - 1, value + 1, 0]
    if name in ("steps", "delay"):
        return sorted({value - 1, value + 1, round(value / 1.5), round(value * 1.5)} - {value})
    return [value / FACTOR, value * FACTOR]


def other_momenta(setting):
    """Momentum of the worker's own optimizer: many steps in one direction get as far as before."""
    now = setting.get("own_momentum", 0.0)
    return [{**setting, "own_momentum": other, "rate": setting["rate"] * (1 - other) / (1 - now)}
            for other in OWN_MOMENTA if other != now]


def is_possible(setting):
    steps, delay, window = (setting.get(name, 1) for name in ("steps", "delay", "window"))
    some = setting.get("fragments", 1)
    return (steps >= 1 and delay >= 1 and window >= 0 and steps >= some
            and window <= setting.get("sections", 1) and setting.get("mix", 0.5) <= 1)
