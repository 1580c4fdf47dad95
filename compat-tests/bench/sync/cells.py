"""What is searched and measured, on all cores. Plain numbers out: the report is made of them."""

import hashlib
import inspect
import json
import math
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, replace
from statistics import mean

from . import exchange, search
from .digits import CACHE, HERE
from .job import EVEN, Case, Job
from .methods import DEFAULT, NAMED, OWN_MOMENTA, PAPER, neighbours

# Methods that are also searched with plain SGD inside: those that bars name.
PLAIN = (*PAPER, "DiLoCo", "ESync + outer", "Streaming", "published")
# Of the Dirichlet distribution.
UNEVEN_DATA = 0.3
# Rates of the papers' way of comparing: one for all methods.
COMMON = (0.1, 0.2, 0.4)
# FedAsync's weight there: its paper's.
MIX = 0.6
# One rate of the default form, for all cases; with momentum of its own what gets as far.
DEFAULT_RATES = (0.3, 0.4, 0.5, 0.6, 0.8, 1.1)
# Rates of a script that was tuned for plain rounds, without and with momentum of its own.
SCRIPT = {0.0: (0.2, 0.4, 0.6, 0.8, 1.1, 1.6, 2.2),
          0.9: (0.02, 0.04, 0.06, 0.08, 0.11, 0.16, 0.22)}
# Emulated seconds in which it is seen how busy all are; and at which accuracies are compared, with
# those of SSGD at its best rate after five times as long.
WATCHED, TRAINED, LONG = 120, 600, 3000
# Beyond so many times the published form's time a baseline at a common rate is not the best.
SLOWER = 5
# What is done, as soon as it is; and the text of the modules from which it comes.
KEPT = CACHE / "sync-work.jsonl"
SOURCES = hashlib.sha256(b"".join(
    (HERE / name).read_bytes() for name in (
        "digits.c", "digits.py", "job.py", "outer.py", "turns.py", "peers.py", "machine.py",
        "exchange.py", "methods.py", "search.py"))).hexdigest()


@dataclass(frozen=True)
class Extent:
    """How much is done. thin: a coarse search."""

    exchanges: tuple
    alphas: tuple
    seeds: tuple
    thin: bool

    def cases(self):
        return [Case(exchange, alpha) for alpha in self.alphas for exchange in self.exchanges]


WHOLE = Extent((1.0, 2.0, 4.0, 8.0), (None, UNEVEN_DATA), tuple(range(2001, 2011)), False)
QUICK = Extent((1.0, 4.0), (None,), (2001, 2002, 2003), True)


def measure(extent, say):
    """All of it: {part: [record]}. say: called with a line about each piece of work that is done.
    Records have their `case` as (exchange, alpha, is_even)."""
    found = {}
    with Workshop(say) as shop:
        found["default"] = shop.work(default_at, [(rate, momentum, extent)
                                                  for momentum in OWN_MOMENTA
                                                  for rate in DEFAULT_RATES])
        default = best_default(found["default"])
        plain = best_default(one for one in found["default"] if not one["momentum"])
        even = Case(4.0, None, EVEN)
        for name, setting in (("fixed", default), ("fixed plain", plain)):
            found[name] = shop.work(fixed, [(setting, case, extent)
                                            for case in (*extent.cases(), even)])
        found["busy"] = shop.work(busy, [(case, extent) for case in extent.cases()
                                         if case.alpha is None])
        found["script"] = shop.work(as_script, [(momentum, alpha, extent) for momentum in SCRIPT
                                                for alpha in extent.alphas])
        found["common"] = shop.work(at_common_rate, [(rate, case, extent) for rate in COMMON
                                                     for case in extent.cases()])
        found["accuracy"] = shop.work(accuracy, [(default, alpha, extent)
                                                 for alpha in extent.alphas])
        alone = [(name, even, extent) for name in ("DiLoCo", "Streaming", "sections")]
        found["tuned"] = shop.work(tuned, [
            *((name, case, extent) for name in NAMED for case in extent.cases()), *alone])
        found["tuned plain"] = shop.work(tuned_plain, [
            *((name, case, extent) for name in PLAIN for case in extent.cases()), *alone])
    return {**found, "setting": default, "plain setting": plain, "seconds": shop.seconds}


class Workshop:
    """A process for each core that this one may use. What is done is in the order of the tasks, and
    is kept: what was done by a run that was broken off is not done again, if the modules from which
    it comes are the same."""

    def __init__(self, say):
        self._say, self.seconds, self._kept = say, 0.0, {}

    def __enter__(self):
        self._pool = multiprocessing.Pool(len(os.sched_getaffinity(0)))
        lines = KEPT.read_text().splitlines() if KEPT.is_file() else []
        self._kept = {one["task"]: one for one in map(json.loads, lines)}
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_):
        self._pool.terminate()
        self._pool.join()

    def work(self, function, tasks):
        names = [f"{SOURCES} {inspect.getsource(function)} {task}" for task in tasks]
        names = [hashlib.sha256(name.encode()).hexdigest() for name in names]
        left = [(function, number, task) for number, task in enumerate(tasks)
                if names[number] not in self._kept]
        with KEPT.open("a") as file:
            for number, seconds, record in self._pool.imap_unordered(_timed, left):
                one = {"task": names[number], "seconds": seconds, "record": record}
                self._kept[names[number]] = one
                print(json.dumps(one), file=file, flush=True)
                self._say(f"{function.__name__} {tasks[number][:-1]}: {record['line']} "
                          f"({seconds:.1f} s)")
        self.seconds += sum(self._kept[name]["seconds"] for name in names)
        return [self._kept[name]["record"] for name in names]


def _timed(task):
    function, number, arguments = task
    begin = time.process_time()
    record = function(*arguments)
    return number, time.process_time() - begin, record


def key(case):
    """As records name it."""
    return [case.exchange, case.alpha, case.speeds == EVEN]


def arrivals(method, setting, case, seeds, limit=search.REPORTED):
    return [search.arrival(method, setting, case, seed, limit) for seed in seeds]


# ---- the parts ----------------------------------------------------------------------------------

def default_at(rate, momentum, extent):
    """The default form at a rate, on the seeds of the search: the geometric mean over all cases."""
    setting = {**DEFAULT, "rate": rate * (1 - momentum), "own_momentum": momentum}
    seeds = search.SEARCH_SEEDS[:2] if extent.thin else search.SEARCH_SEEDS
    times = [mean(arrivals(NAMED["sections"], setting, case, seeds, search.SEARCHED))
             for case in extent.cases()]
    whole = math.exp(mean(math.log(one) for one in times))
    return {"rate": setting["rate"], "momentum": momentum, "mean": whole, "times": times,
            "line": f"{whole:.1f}"}


def best_default(records):
    """The default form's one setting."""
    best = min(records, key=lambda record: record["mean"])
    return {**DEFAULT, "rate": best["rate"], "own_momentum": best["momentum"]}


def tuned(name, case, extent):
    """A method at its best setting."""
    method = NAMED[name]
    found = search.best(method, case, neighbours, extent.thin)
    times = [math.inf] * len(extent.seeds)
    if found["setting"]:
        times = arrivals(method, found["setting"], case, extent.seeds)
    return {"method": name, "case": key(case), "times": times, **found,
            "line": f"{mean(times):.1f} {found['setting']}"}


def tuned_plain(name, case, extent):
    """The same where the workers' own optimizer is SGD without momentum."""
    method = NAMED[name]
    ladders = tuple(ladder for ladder in method.ladders if ladder != "own_momentum")

    def grid(of):
        return [setting for setting in method.grid(of) if not setting.get("own_momentum")]
    found = search.best(replace(method, grid=grid, ladders=ladders), case, neighbours, extent.thin)
    times = [math.inf] * len(extent.seeds)
    if found["setting"]:
        times = arrivals(method, found["setting"], case, extent.seeds)
    return {"method": name, "case": key(case), "times": times, **found,
            "line": f"{mean(times):.1f} {found['setting']}"}


def fixed(setting, case, extent):
    """The default form with its one setting."""
    times = arrivals(NAMED["sections"], setting, case, extent.seeds)
    return {"case": key(case), "times": times, "line": f"{mean(times):.1f}"}


def at_common_rate(rate, case, extent):
    """The published form beside the four of its paper, with one step and with G of them."""
    published = arrivals(NAMED["published"], {"rate": rate, "sections": 1, "window": 1,
                                              "keep": False}, case, extent.seeds, 1e4)
    limit = SLOWER * mean(published)
    counts = sorted({1, max(1, round(case.exchange / max(case.speeds)))})
    others = {}
    for name in PAPER:
        for steps in counts if name != "SSGD" else (1,):
            setting = {"rate": rate, "steps": steps, "mix": MIX, "fades": 0.5}
            others[f"{name}, k = {steps}"] = arrivals(NAMED[name], setting, case, extent.seeds,
                                                      limit)
    return {"rate": rate, "case": key(case), "published": published, "others": others,
            "line": f"published {mean(published):.0f}"}


def as_script(momentum, alpha, extent):
    """A script whose rate is the best for plain rounds. In these rounds the exchange only adds a
    constant to each, so the rate is searched at one."""
    plain, ours = NAMED["SSGD"], NAMED["sections"]
    seeds = search.SEARCH_SEEDS[:2] if extent.thin else search.SEARCH_SEEDS

    def setting(rate, form):
        return {"rate": rate, "own_momentum": momentum, **form}
    rates = [(mean(arrivals(plain, setting(rate, {"steps": 1}), Case(1.0, alpha), seeds)), rate)
             for rate in SCRIPT[momentum]]
    rate = min(rates)[1]
    cells = []
    for case in (Case(seconds, alpha) for seconds in extent.exchanges):
        cells.append({
            "case": key(case),
            "plain": arrivals(plain, setting(rate, {"steps": 1}), case, extent.seeds, 1e5),
            "default": arrivals(ours, setting(rate, DEFAULT), case, extent.seeds),
            "published": arrivals(ours, setting(rate, {"sections": 1, "window": 1,
                                                       "keep": False}), case, extent.seeds)})
    return {"momentum": momentum, "alpha": alpha, "rate": rate, "rates": rates, "cells": cells,
            "line": f"rate {rate}"}


def busy(case, extent):
    """Which part of the time network and workers are busy, in the default form and in the
    published one."""
    found = {"case": key(case)}
    for name, form in (("default", DEFAULT),
                       ("published", {"sections": 1, "window": 1, "keep": False})):
        network, computing = [], []
        for seed in extent.seeds:
            usage, job = exchange.Usage(), Job(case, seed, 0.2)
            for now, _ in exchange.exchange(job, form, usage):
                if now > WATCHED:
                    break
            network.append(min(1.0, usage.network / now))
            computing.append(1 - usage.held / (now * len(job)))
        found[name] = {"network": network, "computing": computing}
    shown = mean(found["default"]["network"])
    return {**found, "line": f"network {shown:.2f}"}


def accuracy(setting, alpha, extent):
    """After TRAINED seconds at G = 4; the mean of the last fifth of the looks, for each seed."""
    case = Case(4.0, alpha)

    def of(name, form, until):
        seen = [search.course(NAMED[name], form, case, seed, until) for seed in extent.seeds]
        return [mean(one[2] for one in looks[-len(looks) // 5:]) for looks in seen]
    found = {"default": of("sections", setting, TRAINED),
             "published": of("published", {**setting, "sections": 1, "window": 1, "keep": False,
                                           "momentum": 0.0}, TRAINED)}
    plain = {rate: of("SSGD", {"rate": rate, "steps": 1}, LONG) for rate in (0.2, 0.4, 0.8)}
    best = max(plain, key=lambda rate: mean(plain[rate]))
    short = of("SSGD", {"rate": best, "steps": 1}, TRAINED)
    return {"alpha": alpha, **found, "ssgd": plain[best], "ssgd_rate": best, "ssgd_short": short,
            "line": f"default {mean(found['default']):.4f}, SSGD {mean(plain[best]):.4f}"}


def progress(begin):
    """A function that writes a line with the time that has passed."""
    def say(line):
        print(f"{time.monotonic() - begin:6.0f} s  {line}", file=sys.stderr, flush=True)
    return say
