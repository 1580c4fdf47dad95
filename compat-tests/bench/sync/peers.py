"""Published methods that overlap computing and network, or have no rounds. Each is a generator:
(seconds, global model) whenever that has changed."""

import heapq
from collections import deque

import numpy as np

from . import outer
from .job import steps_by_speed


def fedasync(job, setting):
    """FedAsync (arXiv 1903.03934): each model is mixed in when it comes, with a weight that falls
    with its age."""
    model, version, coming = job.start.copy(), 0, []

    def train(number, now):
        local = model.copy()
        seconds = job.workers[number].steps(local, setting["steps"])
        heapq.heappush(coming, (now + seconds + job.exchange, number, version, local))
    for number in range(len(job)):
        train(number, 0.0)
    while True:
        now, number, then, local = heapq.heappop(coming)
        weight = np.float32(setting["mix"] * (1 + version - then) ** -setting["fades"])
        model += weight * (local - model)
        version += 1
        yield now, model
        train(number, now)


def asynchronous(job, setting):
    """Asynchronous Local SGD (arXiv 2401.09135): each delta is applied when it comes, momentum once
    for as many deltas as there are workers (delayed Nesterov), steps by speed (DyLU)."""
    model, steps = job.start.copy(), steps_by_speed(setting["steps"], job.speeds)
    momentum, rate = np.float32(setting["momentum"]), np.float32(setting["outer"] / len(job))
    speed, summed, count, coming = np.zeros_like(model), np.zeros_like(model), 0, []

    def train(number, now):
        local = model.copy()
        seconds = job.workers[number].steps(local, steps[number])
        heapq.heappush(coming, (now + seconds + job.exchange, number, local - model))
    for number in range(len(job)):
        train(number, 0.0)
    while True:
        now, number, delta = heapq.heappop(coming)
        summed += delta
        count += 1
        change = delta
        if count % len(job) == 0:
            speed = momentum * speed + summed
            change = momentum * speed + delta
            summed[:] = 0
        model += rate * change
        yield now, model
        train(number, now)


def co2(job, setting):
    """CO2 (arXiv 2401.16265): k steps of each; then the sum of the round before is applied, with
    outer momentum."""
    model, rule = job.start.copy(), outer.of(setting, len(job.start))
    now, before = 0.0, None
    while True:
        mean, longest = np.zeros_like(model), 0.0
        for worker in job.workers:
            local = model.copy()
            longest = max(longest, worker.steps(local, setting["steps"]))
            mean += (local - model) / np.float32(len(job))
        now += longest if before is None else max(longest, job.exchange)
        if before is not None:
            rule.update(model, before)
            yield now, model
        before = mean


def eager(job, setting):
    """Eager updates (arXiv 2502.12996): a worker steps with its own newest delta, divided by the
    number of workers, and with those of the others of the round before."""
    count = np.float32(len(job))
    models = [job.start.copy() for _ in job.workers]
    rules = [outer.of(setting, len(job.start)) for _ in job.workers]
    before, now = [np.zeros_like(job.start)] * len(job), None
    while True:
        deltas, longest = [], 0.0
        for worker, model in zip(job.workers, models):
            local = model.copy()
            longest = max(longest, worker.steps(local, setting["steps"]))
            deltas.append(local - model)
        now = longest if now is None else now + max(longest, job.exchange)
        mean = sum(before) / count
        for rule, model, new, old in zip(rules, models, deltas, before):
            rule.update(model, mean + (new - old) / count)
        before = deltas
        yield now, sum(models) / count


def streaming(job, setting):
    """Streaming DiLoCo (arXiv 2501.18512): fragments in turn, each every k steps; the result is
    taken so many steps after the send (`delay`) and mixed with the local value. All workers do the
    same at the same step, so the fast ones wait for the others at each result, and there only."""
    model, rule = job.start.copy(), outer.of(setting, len(job.start))
    fragments = setting["fragments"]
    gap, own = max(1, setting["steps"] // fragments), np.float32(setting["own"])
    parts = cut(len(model), fragments)
    locals_ = [model.copy() for _ in job.workers]
    clocks, step, turn = [0.0] * len(job), 0, 0
    flights, free = deque(), 0.0
    while True:
        # To the next send or the next result, whatever comes first.
        ahead = gap - step % gap
        if flights:
            ahead = min(ahead, flights[0][0] - step)
        for number, (worker, local) in enumerate(zip(job.workers, locals_)):
            clocks[number] += worker.steps(local, ahead)
        step += ahead
        while flights and (flights[0][0] == step or len(flights) == fragments):
            _, done, part, mean = flights.popleft()
            clocks = [max(clock, done) for clock in clocks]
            rule.update(model, mean, part)
            for local in locals_:
                local[part] = own * local[part] + (1 - own) * model[part]
            yield done, model
        if step % gap == 0:
            part = parts[turn % fragments]
            turn += 1
            mean = sum(local[part] for local in locals_) / np.float32(len(job)) - model[part]
            free = max(free, *clocks) + job.exchange / fragments
            flights.append((step + setting["delay"], free, part, mean))


def cut(weights, parts):
    """Equal slices of a model."""
    return [slice(weights * part // parts, weights * (part + 1) // parts)
            for part in range(parts)]
