"""A job whose workers have the machine of machine.py: NBSync in its forms, and what waits.

A round goes over the network when all workers have sent their deltas; rounds follow each other, and
one of P sections takes the P-th part of an exchange.
"""

import heapq
from dataclasses import dataclass, field

import numpy as np

from . import outer
from .job import steps_by_speed
from .machine import Local, Machine, Spec, sends_of, window_for

ARRIVES, STEPS = 0, 1


@dataclass
class Round:
    """deltas: of those who have sent, by worker. result: the section of the global model."""

    deltas: dict = field(default_factory=dict)
    result: np.ndarray = None


@dataclass
class Usage:
    """Seconds, of all workers together where it is about them."""

    network: float = 0.0
    held: float = 0.0


def exchange(job, setting, usage=None):
    """A generator: (seconds, global model) after each round. setting: `sections`, `window` (0: as
    the scheduler says), `keep`, `steps`, `waits`, `by_speed` (ESync), and the outer rule's.
    usage: a Usage, in which is added up."""
    return _Exchange(job, setting, usage or Usage()).run()


def spec_of(setting, case):
    """The machine's parameters in a case."""
    sections = setting.get("sections", 1)
    window = setting.get("window", 0) or window_for(sections, max(case.speeds), case.exchange)
    return Spec(sections, min(window, sections), setting.get("keep", False),
                setting.get("steps", 1), setting.get("waits", False))


class _Exchange:
    def __init__(self, job, setting, usage):
        self.job, self.usage = job, usage
        self.spec = spec_of(setting, job.case)
        steps = [self.spec.steps] * len(job)
        if setting.get("by_speed"):
            steps = steps_by_speed(self.spec.steps, job.speeds)
        self.machines = [Machine(self.spec, count) for count in steps]
        self.locals = [Local(job.start, self.spec) for _ in job.workers]
        self.model, self.rule = job.start.copy(), outer.of(setting, len(job.start))
        self.rounds, self.done, self.free = {}, 0, 0.0
        self.events, self.held = [], {}

    def run(self):
        for number in range(len(self.job)):
            self._compute(number, 0.0)
        while True:
            now, what, number = heapq.heappop(self.events)
            if what == STEPS:
                self._push(number, now)
            else:
                self._arrive(number, now)
                yield now, self.model

    def _compute(self, number, now):
        """The next step. A value changes between two steps only, so what it learns is known."""
        seconds = self.job.workers[number].steps(self.locals[number].value, 1)
        heapq.heappush(self.events, (now + seconds, STEPS, number))

    def _push(self, number, now):
        acts = self.machines[number].push()
        if acts is None:
            self.held.setdefault(number, now)
            return
        self.usage.held += now - self.held.pop(number, now)
        first = self.machines[number].sent - len(acts[1])
        for place, (_, delta) in enumerate(sends_of(self.locals[number], *acts)):
            self._sent(first + place, number, delta, now)
        if not (self.spec.waits and acts[1]):
            self._compute(number, now)

    def _sent(self, number, worker, delta, now):
        of = self.rounds.setdefault(number, Round())
        of.deltas[worker] = delta
        if len(of.deltas) == len(self.job):
            seconds = self.job.exchange / self.spec.sections
            self.free = max(self.free, now) + seconds
            self.usage.network += seconds
            heapq.heappush(self.events, (self.free, ARRIVES, number))

    def _arrive(self, number, now):
        """The mean is applied, and each worker has the result."""
        section = number % self.spec.sections
        part = self.locals[0].parts[section]
        deltas = self.rounds.pop(number).deltas
        mean = sum(deltas[worker] for worker in range(len(self.job))) / np.float32(len(self.job))
        self.rule.update(self.model, mean, part)
        result = self.model[part].copy()
        for worker, (machine, local) in enumerate(zip(self.machines, self.locals)):
            local.coming[section] = result
            if machine.answered(number):
                local.swap(section)
                self._compute(worker, now)
            elif worker in self.held:
                self._push(worker, now)
