"""Workers on an emulated timeline. Gradients are real; time is counted, not waited for.

A step of the slowest worker takes a second, and an exchange of the whole model (push, sum, pull)
takes `exchange` seconds, whoever takes part in it: what limits it is the link of each worker, not
the server.
"""

from dataclasses import dataclass

import numpy as np

from .digits import BATCH, address, digits

# Seconds of a step: four to one, as in the papers' clusters.
UNEVEN = (0.25, 0.25, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0)
EVEN = (1.0,) * 8
# A step takes so much longer or shorter, evenly drawn.
JITTER = 0.05
# Steps that are drawn at a time.
AHEAD = 256


@dataclass(frozen=True)
class Case:
    """What a method is run on. exchange: seconds. alpha: how uneven the data are (None: even).
    speeds: seconds of a step of each worker."""

    exchange: float
    alpha: float = None
    speeds: tuple = UNEVEN

    def name(self):
        data = "iid" if self.alpha is None else f"non-iid {self.alpha}"
        return f"{data}, G = {self.exchange:g}" + (", equal speeds" if self.speeds == EVEN else "")


class Worker:
    """One that takes steps of SGD. What it draws depends on its seed and on how many steps it has
    taken, not on who asks when."""

    def __init__(self, part, seconds, seed, rate, momentum):
        self._part, self._seconds = part, seconds
        self._draw = np.random.RandomState(seed)
        self._rate, self._momentum = rate, momentum
        self._speed = np.zeros(digits().weights, np.float32)
        self._momenta = address(self._speed)
        self._at = AHEAD

    def steps(self, weights, count):
        """So many steps, in place. How many seconds they take."""
        seconds = 0.0
        while count > 0:
            if self._at == AHEAD:
                self._refill()
            at, some = self._at, min(count, AHEAD - self._at)
            # 4 bytes for each number of an image.
            digits().step(weights, self._momenta, some, self._which_at + at * BATCH * 4, self._rate,
                          self._momentum)
            seconds += sum(self._times[at:at + some])
            count -= some
            self._at += some
        return seconds

    def _refill(self):
        which = self._draw.randint(0, len(self._part), (AHEAD, BATCH))
        self._which = np.ascontiguousarray(self._part[which], np.int32)
        self._which_at = address(self._which)
        self._times = (self._seconds * (1 + JITTER * (2 * self._draw.rand(AHEAD) - 1))).tolist()
        self._at = 0


class Job:
    """What a method begins with."""

    def __init__(self, case, seed, rate, momentum=0.0):
        draw = np.random.RandomState(seed)
        parts = digits().divide(len(case.speeds), case.alpha, draw)
        self.case, self.exchange, self.speeds = case, case.exchange, case.speeds
        self.start = digits().begin(seed)
        self.workers = [Worker(part, seconds, [seed, number], rate, momentum)
                        for number, (part, seconds) in enumerate(zip(parts, case.speeds))]

    def __len__(self):
        return len(self.workers)


def steps_by_speed(steps, speeds):
    """Of each worker: as many as fit into so many of the slowest."""
    return [max(1, int(steps * max(speeds) / seconds + 1e-9)) for seconds in speeds]
