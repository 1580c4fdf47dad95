"""A method like HSP (ICPP 2022, doi 10.1145/3545008.3545024), by what its abstract says: the server
takes from one worker after the other, so that they do not crowd its link; then all get the new
model; who would be idle computes on with the weights that it has.

It is for networks whose bottleneck is the server's link. So here an exchange is that link's: half
of it for all pushes, which follow each other in the order of the workers, half for the pulls.
"""

import numpy as np


class _Stepping:
    """A worker that goes on computing. value: after the last step that is over, at `now`."""

    def __init__(self, worker, start):
        self._worker = worker
        self.value, self.sent, self.now = start.copy(), start.copy(), 0.0
        self._begin()

    def _begin(self):
        self._next = self.value.copy()
        self._ends = self.now + self._worker.steps(self._next, 1)

    def step(self):
        self.value, self.now = self._next, self._ends
        self._begin()

    def until(self, moment):
        """All steps that are over by then."""
        while self._ends <= moment:
            self.step()

    def swap(self, model, moment):
        """At the end of the step that is under way then: what was not sent is kept."""
        self.until(moment)
        self.value, self.now = self._next, self._ends
        self.value = model + (self.value - self.sent)
        self.sent = model.copy()
        self._begin()


def hsp(job, _):
    """(seconds, global model) after each round."""
    model, push = job.start.copy(), job.exchange / 2 / len(job)
    workers = [_Stepping(worker, model) for worker in job.workers]
    for one in workers:
        one.step()
    while True:
        free, mean = 0.0, np.zeros_like(model)
        for one in workers:
            free = max(free, one.now)
            one.until(free)
            mean += (one.value - one.sent) / np.float32(len(job))
            one.sent = one.value.copy()
            free += push
        free += job.exchange / 2
        model += mean
        yield free, model
        for one in workers:
            one.swap(model, free)
