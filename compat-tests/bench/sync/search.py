"""How long a method takes to a loss, and its best setting.

Seeds of the search are not those of what is reported.
"""

import math

import numpy as np

from .digits import digits
from .job import Job

# The loss of the global model on the test's images at which a run has arrived.
TARGET = 0.2
# Seconds between two looks at it; where it is more than FAR times the target, four times as many.
LOOK, FAR = 0.5, 2.0
# Emulated seconds: who has not arrived then never does.
SEARCHED, REPORTED = 900.0, 3000.0
DIVERGED = 20.0
SEARCH_SEEDS = (1001, 1002, 1003, 1004)
# Of the grid, those that are tried on all seeds; those from which the search goes on to neighbours;
# and how often it does at most.
FINALISTS, STARTS, TURNS = 10, 2, 6
# A run on the grid ends at so many times the best so far.
PATIENCE = 1.5
# A neighbour has to be that much better: less is chance.
BETTER = 0.99


def arrival(method, setting, case, seed, limit=REPORTED):
    """Seconds until the loss is below TARGET; inf if that is never."""
    due = 0.0
    for now, model in _run(method, setting, case, seed):
        if now > limit:
            return math.inf
        if now < due:
            continue
        loss, _ = digits().loss(model)
        due = now + (LOOK if loss < FAR * TARGET else 4 * LOOK)
        if not loss < DIVERGED:
            return math.inf
        if loss < TARGET:
            return now
    raise AssertionError("a method has ended")


def course(method, setting, case, seed, until):
    """[(seconds, loss, accuracy)] up to that second."""
    found = []
    for now, model in _run(method, setting, case, seed):
        if now > until:
            return found
        if not found or now - found[-1][0] >= LOOK:
            found.append((now, *digits().loss(model)))
    raise AssertionError("a method has ended")


def _run(method, setting, case, seed):
    with np.errstate(over="ignore", invalid="ignore"):
        job = Job(case, seed, setting["rate"], setting.get("own_momentum", 0.0))
        yield from method.run(job, setting)


def best(method, case, neighbours, thin=False):
    """The setting that arrives first on the seeds of the search, of the method's grid and then of
    neighbours of the best there. thin: a quarter of the grid, two seeds, few neighbours.

    {"setting" (None: none arrives), "seconds" (mean over the seeds), "of_grid" (the same before
    neighbours), "tried" (settings)}
    """
    seeds = SEARCH_SEEDS[:2] if thin else SEARCH_SEEDS
    grid = method.grid(case)
    if thin and len(grid) > 10:
        grid = grid[::4]
    starts = []
    for setting in _sift(method, case, grid, seeds[0]):
        most = starts[-1][0] if len(starts) == STARTS else math.inf
        mean = _mean(method, setting, case, seeds, most)
        if mean < most:
            starts = sorted([*starts, (mean, setting)], key=lambda one: one[0])[:STARTS]
    if not starts:
        return {"setting": None, "seconds": math.inf, "of_grid": math.inf, "tried": len(grid)}
    tried = {_key(setting) for _, setting in starts}
    before = len(tried)
    climbed = [_climb(method, case, neighbours, seeds, start, tried, 1 if thin else TURNS)
               for start in starts]
    seconds, setting = min(climbed, key=lambda one: one[0])
    return {"setting": setting, "seconds": seconds, "of_grid": starts[0][0],
            "tried": len(grid) + len(tried) - before}


def _climb(method, case, neighbours, seeds, start, tried, turns):
    """From one setting to better ones beside it: (seconds, setting). tried: what was looked at."""
    time, found = start
    for _ in range(turns):
        before = found
        for setting in neighbours(method, before):
            if _key(setting) in tried:
                continue
            tried.add(_key(setting))
            mean = _mean(method, setting, case, seeds, BETTER * time)
            if mean < BETTER * time:
                found, time = setting, mean
        if found is before:
            break
    return time, found


def _sift(method, case, grid, seed):
    """The best of a grid on one seed. The grid is gone through in an order that is drawn, so that a
    good one comes early and ends the others."""
    quick, times = SEARCHED / PATIENCE, []
    for place in np.random.RandomState(1).permutation(len(grid)):
        time = arrival(method, grid[place], case, seed, min(SEARCHED, quick * PATIENCE))
        quick = min(quick, time)
        times.append((time, place))
    arrived = sorted(one for one in times if math.isfinite(one[0]))
    return [grid[place] for _, place in arrived[:FINALISTS]]


def _mean(method, setting, case, seeds, most):
    """The mean over the seeds; inf as soon as it is clear that it is not below `most`."""
    left, total = min(SEARCHED, most) * len(seeds), 0.0
    for seed in seeds:
        total += arrival(method, setting, case, seed, min(SEARCHED, left - total))
        if not total < left:
            return math.inf
    return total / len(seeds)


def _key(setting):
    return tuple(sorted((name, round(float(value), 6)) for name, value in setting.items()))
