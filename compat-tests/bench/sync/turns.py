"""Methods whose workers and network take turns. Each is a generator: (seconds, global model) after
each round."""

import numpy as np

from . import outer
from .job import steps_by_speed


def turns(job, setting):
    """SSGD (one step), FedAvg (k steps), DiLoCo (k steps, outer momentum; arXiv 2311.08105)."""
    return _rounds(job, setting, [setting["steps"]] * len(job))


def esync(job, setting):
    """ESync: as many steps as fit into k of the slowest."""
    return _rounds(job, setting, steps_by_speed(setting["steps"], job.speeds))


def _rounds(job, setting, steps):
    model, rule = job.start.copy(), outer.of(setting, len(job.start))
    now = 0.0
    while True:
        mean, longest = np.zeros_like(model), 0.0
        for worker, count in zip(job.workers, steps):
            local = model.copy()
            longest = max(longest, worker.steps(local, count))
            mean += (local - model) / np.float32(len(job))
        now += longest + job.exchange
        rule.update(model, mean)
        yield now, model
