"""The methods as real jobs: workers, servers and scheduler are processes on hosts of a lab, what
they send goes over sockets and links, and the gradients are real. Root.

What the model counts (job.py) passes here: a second of it is TAU seconds, in which a worker
computes its gradient and sleeps. Data, seeds, speeds and rules are the model's. The arrays are
padded, so that an exchange of all weights takes as long as the model says over links whose rate can
be held. How long it really takes is measured, and the model is asked with that.
"""

import json
import math
import time
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import mean, median

from cluster import LIBRARY
from harness import PYTHON, ROOT
from netlab import FREE, Lab, Rates
from netlab.cluster import OURS, Job, Options, Place, hosts
from netlab.links import CONGESTION

from . import real_near, search
from .bars import data
from .digits import digits
from .job import UNEVEN, Case
from .real_heard import Arrival, Heard
from .real_methods import ALPHAS, EXCHANGES, HSP, WAITS, WAYS, form_of, settings
from .real_worker import ARRAYS, ELEMENTS

PROGRAM = Path(__file__).resolve().parent / "real_program.py"
# Seconds that a second of the model takes.
TAU = 0.125
# Where what comes first decides which model a step begins with, one seed says little: those methods
# train with all of them, the others with the first.
SEEDS, BY_CHANCE = (2001, 2002), ("FedAsync", "HSP-like", "asynchronous", "published",
                                  "default")
# A job that takes so many times what the model says has not arrived; seconds more.
PATIENCE, MORE = 2.0, 10
# Seconds for a start; between two looks at the processes.
START, LOOK = 120, 0.02
# Rounds by which an exchange is measured: those that are not counted, and those that are.
BEFORE, ROUNDS = 2, 20
# An exchange may be off by that part before the rate is another one, so often at most.
CLOSE, TRIALS = 0.02, 3
# Where steps take by that part too long the machine does other things: the job is done again, so
# often in all.
LATE, AGAIN = 0.04, 3
# What is sent beside the values: heads of packets and of messages.
HEADS = 1.05
THREADS = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


# ---- a job ---------------------------------------------------------------------------------------

def follow(lab, options, way, setting, until):
    """Runs a job; gives `until` each model as (seconds of the model, round, weights) until that
    gives True, or the limit has passed since the begin. What was heard."""
    heard = Heard(len(options["case"][2]))
    own_servers = way.way == "mixing"
    env = {**THREADS, "PYTHONPATH": str(ROOT / "ffi/python")}
    if way.sync:
        env["PSLITE_SYNC"] = way.sync(setting)
    job = Job(Place(lab), Options(
        [PYTHON, "-u", str(PROGRAM), json.dumps(options)], len(options["case"][2]), 1, OURS, env,
        ("scheduler",) if own_servers else ("scheduler", "server"), ours=LIBRARY), heard.hear)
    end, begun = time.monotonic() + START, False
    try:
        job.start()
        while time.monotonic() < end:
            if any(process.code is not None for process in job.processes):
                raise SystemExit("bench sync peers: a job ended:\n" + "\n".join(
                    line[:500] for line in heard.said[-30:]))
            if heard.begun and not begun:
                end, begun = time.monotonic() + options["limit"] - START, True
            if any([until(seconds / options["tau"], number, model)
                    for seconds, number, model in heard.models()]):
                break
            time.sleep(LOOK)
    finally:
        job.end("it has been followed long enough")
    return heard


def options_of(method, case, seed, setting, seconds, tau=TAU):
    way = WAYS[method]
    more = {**setting, "waits": method in WAITS}
    if method == "published":
        more.update(sections=1, keep=False)
    return {"method": method, "way": way.way, "program": way.program, "setting": more,
            "case": [case.exchange, case.alpha, list(case.speeds)], "seed": seed, "tau": tau,
            "warm": way.warm, "limit": math.ceil(seconds + way.warm + START)}


def trained(lab, method, case, seed, setting, say):
    """`train`, again if the machine had no time for the workers: the one that was least late."""
    found = []
    while not found or (found[-1]["late"] > LATE and len(found) < AGAIN):
        found.append(train(lab, method, case, seed, setting))
        if found[-1]["late"] > LATE:
            say(f"{method}: steps took {found[-1]['late']:.1%} too long")
    return min(found, key=lambda one: one["late"])


def train(lab, method, case, seed, setting):
    """Seconds of the model until the loss is there, really and as the model says."""
    form = form_of(method)
    predicted = search.arrival(form, setting, case, seed)
    arrival = Arrival(len(case.speeds) if method == "eager" else 1)

    def until(*model):
        arrival.takes(*model)
        return arrival.seconds is not None
    limit = PATIENCE * min(predicted, search.REPORTED) * TAU + MORE
    options = options_of(method, case, seed, setting, limit)
    heard = follow(lab, options, WAYS[method], setting, until)
    return {"method": method, "exchange": case.exchange, "alpha": case.alpha, "seed": seed,
            "setting": setting, "model": predicted, "real": arrival.seconds or math.inf,
            "models": arrival.models, "limit": limit / TAU,
            "late": max(heard.late.values(), default=0.0), "flights": mean(heard.flights or [0]),
            "steps": [mean(heard.steps[number]) for number in sorted(heard.steps)]}


# ---- the links -----------------------------------------------------------------------------------

def exchange_of(lab, speeds):
    """Seconds of TAU that an exchange of all weights takes: rounds of workers that compute
    nothing."""
    times = {}

    def until(seconds, number, _):
        times[number] = max(seconds, times.get(number, 0))
        return number >= BEFORE + ROUNDS
    case, setting = Case(1.0, None, (0.0,) * len(speeds)), {"rate": 0.0, "steps": 1}
    follow(lab, options_of("FedAvg", case, SEEDS[0], setting, 60), WAYS["FedAvg"], setting, until)
    return median(times[number + 1] - times[number] for number in range(BEFORE, BEFORE + ROUNDS))


def set_links(lab, workers, server):
    """Sets the links of all workers, and that of the server."""
    for name, host in lab.hosts.items():
        if name.startswith(("worker", "server")):
            host.rates = workers if name.startswith("worker") else server


@contextmanager
def links_of(method, lab, rate, workers):
    """The links while a method runs. HSP is for networks in which that of the server limits: all
    workers' pushes one after the other take half of an exchange, and the pulls the other half."""
    if method == HSP.name:
        set_links(lab, FREE, Rates.both(round(2 * workers * rate, 2)))
    yield
    if method == HSP.name:
        set_links(lab, Rates.both(round(rate, 2)), FREE)


def adjust(lab, wanted, speeds, say):
    """Sets the links' rate for an exchange of so many seconds of the model; what it takes."""
    rate = ELEMENTS * 4 * 8 * (1 + 1 / ARRAYS) * HEADS / (wanted * TAU) / 1e6
    for left in reversed(range(TRIALS)):
        set_links(lab, Rates.both(round(rate, 2)), FREE)
        took = exchange_of(lab, speeds)
        say(f"links of {rate:.1f} Mbit/s: an exchange takes {took:.3f} of {wanted:g}")
        if abs(took / wanted - 1) < CLOSE or not left:
            return took, rate
        rate *= took / wanted
    raise AssertionError


# ---- the whole -----------------------------------------------------------------------------------

def measure(say, methods=tuple(WAYS), exchanges=EXCHANGES, alphas=ALPHAS, seeds=SEEDS,
            speeds=UNEVEN):
    """{"links": [{"wanted", "exchange", "rate"}], "jobs": [record of `train`]}."""
    best, found = settings(), {"links": [], "jobs": [], "tau": TAU}
    digits()
    begin = time.monotonic()
    with Lab(hosts([FREE] * len(speeds), [FREE]), CONGESTION) as lab:
        for wanted in exchanges:
            _, rate = adjust(lab, wanted, speeds, say)
            for alpha in alphas:
                took = exchange_of(lab, speeds)
                say(f"an exchange takes {took:.3f}")
                found["links"].append({"wanted": wanted, "exchange": took, "rate": rate})
                for seed, method in product(seeds, methods):
                    if seed != seeds[0] and method not in BY_CHANCE:
                        continue
                    with links_of(method, lab, rate, len(speeds)):
                        one = trained(lab, method, Case(took, alpha, speeds), seed,
                                      best[method, wanted, alpha], say)
                    found["jobs"].append({**one, "wanted": wanted})
                    say(f"{method}, {data(alpha)} {wanted:g}, {seed}: {one['real']:.1f}, the model "
                        f"{one['model']:.1f}: {one['real'] / one['model']:.2f}")
    found["seconds"] = time.monotonic() - begin
    for one in found["jobs"]:
        one["near"] = real_near.nearby(one, speeds)
    return found
