"""When one worker sends, swaps and waits, and what it keeps: the rules of
src/core/training/exchange (machine.rs, pace.rs) and src/core/store/local.rs, for a model whose keys
are one for each section and are all pushed at one moment, the end of a step.

compat-tests/test_bench_sync.py has written-out sequences of it.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median_high

import numpy as np

from .peers import cut

# pace.rs.
REMEMBERED, TIMES, AT_LEAST = 9, 4, 8


@dataclass(frozen=True)
class Spec:
    """ExchangeSpec, without the outer rule. window: rounds in flight at most."""

    sections: int = 8
    window: int = 2
    keep: bool = True
    steps: int = 1
    waits: bool = False


def window_for(sections, step_of_slowest, exchange):
    """pace.rs: so many rounds in flight keep the network busy for one step of the slowest."""
    if exchange <= 0:
        return sections
    return max(1, min(sections, math.ceil(sections * step_of_slowest / exchange) + 1))


@dataclass
class Flight:
    """A round in flight. number: rounds before it."""

    number: int
    section: int
    here: bool = False


class Machine:
    """machine.rs."""

    def __init__(self, spec, steps=None):
        self.spec = spec
        self.window = max(1, min(spec.window, spec.sections))
        self.steps = spec.steps if steps is None else steps
        self.flights, self.last = deque(), deque(maxlen=REMEMBERED)
        self.iteration = self.since = self.sent = 0

    def push(self):
        """All keys are pushed: an iteration begins. Which sections are swapped and which are sent,
        in this order; None if the worker is held: it asks again when something was answered."""
        # Sections are cut when the first iteration is over.
        is_cut = self.spec.sections == 1 or self.iteration > 0
        if self._held():
            return None
        self.iteration += 1
        self.since += 1
        may_send = self.since >= self.steps and is_cut
        swaps = []
        if may_send or self.spec.sections > 1 or self.spec.waits:
            swaps = self._apply()
        return swaps, self._send() if may_send else []

    def answered(self, number):
        """The global value of a round is here. True if it is swapped at once: the mode waits."""
        self.flights[number - self.flights[0].number].here = True
        return self.spec.waits

    def _held(self):
        done = 0
        while done < len(self.flights) and self.flights[done].here:
            done += 1
        stay = len(self.flights) - done
        if self.spec.waits:
            return stay > 0
        limit = max(TIMES * median_high(self.last) if self.last else 0, AT_LEAST, self.steps)
        return stay >= self.window and self.since >= limit

    def _apply(self):
        swaps = []
        while self.flights and self.flights[0].here:
            section = self.flights.popleft().section
            # Who waits has swapped it as it came.
            if not self.spec.waits:
                swaps.append(section)
        return swaps

    def _send(self):
        sends = []
        while len(self.flights) < self.window:
            section = self.sent % self.spec.sections
            self.flights.append(Flight(self.sent, section))
            self.sent += 1
            sends.append(section)
        if sends:
            self.last.append(self.since)
            self.since = 0
        return sends


class Local:
    """local.rs: the value that a worker trains, where its stretch began, what was sent of it."""

    def __init__(self, value, spec):
        self.spec, self.parts = spec, cut(len(value), spec.sections)
        self.value, self.start, self.sent = value.copy(), value.copy(), value.copy()
        self.coming = [None] * spec.sections

    def exchange(self, section, swap, send):
        """Takes the global value of a section, or sends what was changed of it, or both. The delta,
        or None."""
        if self.spec.sections == 1 and not self.spec.waits and swap and send:
            return self._swap_and_send(section)
        if swap:
            self.swap(section)
        return self._send(section) if send else None

    def swap(self, section):
        """Takes the global value that came."""
        part, new = self.parts[section], self.coming[section]
        if self.spec.waits or not self.spec.keep:
            self.value[part] = new
        else:
            since = self.sent if self.spec.sections > 1 else self.start
            self.value[part] = new + (self.value[part] - since[part])
        self.start[part] = new

    def _send(self, section):
        part = self.parts[section]
        delta = self.value[part] - self.start[part]
        self.sent[part] = self.value[part]
        if self.spec.sections == 1:
            self.start[part] = self.value[part]
        return delta

    def _swap_and_send(self, section):
        part, new = self.parts[section], self.coming[section]
        delta = self.value[part] - self.start[part]
        self.value[part] = new + delta if self.spec.keep else new
        self.start[part] = self.value[part]
        return delta


def sends_of(local, swaps, sends):
    """Does what the machine says: [(section, delta)] in the order in which they are sent."""
    for section in swaps:
        if section not in sends:
            local.exchange(section, True, False)
    return [(section, np.array(local.exchange(section, section in swaps, True)))
            for section in sends]
