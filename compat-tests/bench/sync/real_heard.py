"""What the workers of a real job say, and when the loss is there. No process, no clock."""

import base64
import json
from collections import defaultdict, deque

import numpy as np

from . import search
from .digits import digits


class Heard:
    """What the workers say: when each began, and their models. Lines may come from other
    threads."""

    def __init__(self, workers):
        self._workers, self._begins, self._lines = workers, [], deque()
        self.said, self.steps, self.flights, self.late = [], {}, [], {}

    def hear(self, line):
        self.said.append(line)
        start = line.find('{"')
        if start < 0:
            return
        told = json.loads(line[start:])
        if "begin" in told:
            self._begins.append(told["begin"])
        elif "at" in told:
            self._lines.append(told)
            self.late[told["worker"]] = told["late"]
            if "steps" in told:
                self.steps.setdefault(told["worker"], []).append(told["steps"])
                self.flights.append(told["flights"])

    @property
    def begun(self):
        return len(self._begins) == self._workers

    def models(self):
        """[(seconds since the begin, round, model)] that came since the last call."""
        if not self.begun:
            return []
        found, begin = [], min(self._begins)
        while self._lines:
            line = self._lines.popleft()
            found.append((line["at"] - begin, line["round"],
                          np.frombuffer(base64.b64decode(line["model"]), np.float32)))
        return found


class Arrival:
    """When the loss was there first, as `search.arrival` looks at it. together: a round's model is
    the mean of so many workers'."""

    def __init__(self, together=1):
        self._together, self._rounds = together, defaultdict(list)
        self._due, self.seconds, self.models = 0.0, None, 0

    def takes(self, seconds, number, model):
        if self._together > 1:
            of = self._rounds[number]
            of.append((seconds, model))
            if len(of) < self._together:
                return
            seconds = max(one for one, _ in of)
            model = sum(one for _, one in self._rounds.pop(number)) / np.float32(self._together)
        self.models += 1
        if self.seconds is not None or seconds < self._due:
            return
        loss, _ = digits().loss(np.ascontiguousarray(model))
        self._due = seconds + (search.LOOK if loss < search.FAR * search.TARGET
                               else 4 * search.LOOK)
        if loss < search.TARGET:
            self.seconds = seconds
