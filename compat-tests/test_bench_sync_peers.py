"""The programs of `scripts/bench sync peers` compute what the methods of the model compute. Here no
time passes: what the order of events is, the tests say. Two jobs run over loopback."""

import itertools
import json
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import harness
from harness import NATIVE, STOCK, Cluster
from test_python_kv import ENVIRONMENT

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))
sys.dont_write_bytecode = True
from sync import hsp, peers, real, real_heard, real_methods, real_near  # noqa: E402
from sync import real_page, real_server, real_worker, search, tables, turns  # noqa: E402
from sync.job import Case, Job  # noqa: E402
from sync.machine import Local, Machine, Spec, sends_of  # noqa: E402
from sync.methods import NAMED  # noqa: E402

#: Two workers: the sum of two does not depend on their order, and a half is exact.
TWO = Case(1.5, 0.3, (0.25, 1.0))
RATE, SEED = 0.2, 5
#: Seconds for a thread, or for a worker of another one.
LIMIT = 60


class Trainer:
    """A worker whose clock is what its steps take."""

    def __init__(self, case, number):
        job = Job(case, SEED, RATE, 0.5)
        self.start, self.speeds, self.number, self.workers = job.start, job.speeds, number, len(job)
        self._worker, self.clock = job.workers[number], 0.0

    def steps(self, weights, count):
        self.clock += self._worker.steps(weights, count)

    def now(self):
        return self.clock


class Sent:
    """A push and pull that is over when all workers have pushed."""

    def __init__(self, array):
        self.array, self.over = array, threading.Event()

    def wait(self):
        assert self.over.wait(LIMIT)


class Together:
    """A store of workers that are threads: sums, in the order of their numbers."""

    def __init__(self, workers):
        self._workers, self._open, self._lock = workers, {}, threading.Lock()
        self._rounds = [{} for _ in range(workers)]

    def of(self, number):
        return SimpleNamespace(init=lambda name, array: None,
                               push_pull=lambda name, array: self._push(number, name, array))

    def _push(self, number, name, array):
        sent = Sent(array)
        with self._lock:
            round_ = self._rounds[number].get(name, 0)
            self._rounds[number][name] = round_ + 1
            of = self._open.setdefault((name, round_), {})
            of[number] = sent
            if len(of) == self._workers:
                total = sum(of[one].array for one in range(self._workers))
                for one in of.values():
                    one.array[:] = total
                    one.over.set()
        return sent

    def sums(self, trainer, fragments=1):
        return real_worker.Sums(self.of(trainer.number), len(trainer.start), trainer.now,
                                fragments)


class Over(Exception):
    """The test has seen enough."""


class Turns:
    """Workers that are threads come to a server one after the other, in the order in which they
    would arrive."""

    def __init__(self, trainers, exchange_, handler):
        self._trainers, self._exchange, self._handler = trainers, exchange_, handler
        self._waiting, self._moment, self._is_over = {}, threading.Condition(), False

    def of(self, number):
        return SimpleNamespace(push_pull=lambda keys, array: self._request(number, keys, array))

    def _request(self, number, keys, array):
        if keys == [0]:
            self._wait(number)
        answer = self._handler(SimpleNamespace(keys=keys, values=memoryview(array).cast("B")))
        array[:] = answer
        if keys == [real_worker.ARRAYS - 1]:
            with self._moment:
                del self._waiting[number]
                self._moment.notify_all()
        return SimpleNamespace(wait=lambda: None)

    def _wait(self, number):
        trainer = self._trainers[number]
        trainer.clock += self._exchange
        with self._moment:
            self._waiting[number] = trainer.clock
            self._moment.notify_all()
            assert self._moment.wait_for(lambda: self._is_over or self._first() == number, LIMIT)
            if self._is_over:
                raise Over

    def _first(self):
        """Whose turn it is; None until all wait."""
        if len(self._waiting) < len(self._trainers):
            return None
        return min(self._waiting, key=self._waiting.get)

    def ends(self):
        with self._moment:
            self._is_over = True
            self._moment.notify_all()


def in_threads(count, courses):
    """The first models of each: [[(seconds, model)]]."""
    found = [None] * len(courses)

    def run(number):
        found[number] = [(at, model.copy()) for at, model in
                         itertools.islice(courses[number], count)]
    threads = [threading.Thread(target=run, args=(number,), daemon=True)
               for number in range(len(courses))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert all(found), "a thread has failed"
    return found


def expected(run, setting, count, case=TWO):
    return [model.copy() for _, model in
            itertools.islice(run(Job(case, SEED, RATE, 0.5), setting), count)]


def by_sums(program, setting, count):
    together, trainers = Together(2), [Trainer(TWO, number) for number in range(2)]
    return in_threads(count, [
        program(one, together.sums(one, setting.get("fragments", 1)), setting)
        for one in trainers])


RULE = {"steps": 3, "momentum": 0.5, "outer": 0.7}


@pytest.mark.parametrize("nesterov", [True, False])
def test_co2_is_that_of_the_model(nesterov):
    setting = {**RULE, "nesterov": nesterov}
    for worker in by_sums(real_worker.co2, setting, 6):
        for (_, found), wanted in zip(worker, expected(peers.co2, setting, 6)):
            assert np.array_equal(found, wanted)


def test_eager_updates_are_those_of_the_model():
    one, other = by_sums(real_worker.eager, RULE, 6)
    for (_, first), (_, second), wanted in zip(one, other, expected(peers.eager, RULE, 6)):
        assert np.array_equal((first + second) / np.float32(2), wanted)
        assert not np.array_equal(first, second), "each has its own delta earlier"


@pytest.mark.parametrize("fragments,delay,own", [(3, 1, 0.0), (2, 2, 0.25), (1, 3, 0.5)])
def test_streaming_is_that_of_the_model(fragments, delay, own):
    setting = {**RULE, "steps": 4, "fragments": fragments, "delay": delay, "own": own}
    for worker in by_sums(real_worker.streaming, setting, 8):
        for (_, found), wanted in zip(worker, expected(peers.streaming, setting, 8)):
            assert np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name,setting", [
    ("FedAsync", {"steps": 3, "mix": 0.6, "fades": 0.5}),
    ("FedAsync", {"steps": 2, "mix": 0.9, "fades": 0.25}),
    ("asynchronous", {"steps": 2, "momentum": 0.5, "outer": 0.7})])
def test_methods_without_rounds_are_those_of_the_model(name, setting):
    """Each part of the model at the server has its own version, and all of them the same."""
    case = Case(0.7, 0.3, (0.25, 0.6, 1.0))
    trainers = [Trainer(case, number) for number in range(3)]
    parts = real_worker.Pieces(len(trainers[0].start), more=1).parts
    handler = real_server.Handler(name, trainers[0].start, parts, setting, 3)
    order = Turns(trainers, case.exchange, handler)
    program = getattr(real_worker, real_methods.WAYS[name].program)
    # The slowest has had its turn often enough when each has had this many.
    found = in_threads_until(order, [
        program(trainer, real_worker.Mixed(order.of(number), trainer.start), setting)
        for number, trainer in enumerate(trainers)], 12)
    for (_, model), wanted in zip(found, expected(NAMED[name].run, setting, 12, case)):
        assert np.array_equal(model, wanted)


def in_threads_until(order, courses, count):
    """The first models of all together, by their times."""
    models, enough, lock = [], threading.Event(), threading.Lock()

    def run(number):
        try:
            for at, model in courses[number]:
                with lock:
                    models.append((at, model.copy()))
                    if len(models) >= count + len(courses):
                        enough.set()
        except Over:
            pass
    threads = [threading.Thread(target=run, args=(number,), daemon=True)
               for number in range(len(courses))]
    for thread in threads:
        thread.start()
    assert enough.wait(LIMIT)
    order.ends()
    for thread in threads:
        thread.join(LIMIT)
    return sorted(models, key=lambda one: one[0])[:count]


@pytest.mark.parametrize("spec", [Spec(4, 3, True), Spec(1, 1, True), Spec(1, 1, False)])
def test_a_worker_knows_the_global_model_from_what_a_swap_makes_of_its_own(spec):
    draw = np.random.RandomState(3)
    start = draw.randn(40).astype(np.float32)
    machine, local = Machine(spec), Local(start, spec)
    seen = real_worker.Seen(start, spec.sections, spec.keep)
    truth, swapped, sent = start.copy(), 0, 0
    for step in range(60):
        local.value += draw.randn(40).astype(np.float32) / 8
        # Some of what is in flight comes.
        for flight in list(machine.flights)[:step % 3]:
            if not flight.here:
                machine.answered(flight.number)
                local.coming[flight.section] = draw.randn(40).astype(np.float32)[
                    local.parts[flight.section]]
        before = local.value.copy()
        acts = machine.push()
        if acts is None:
            continue
        sends_of(local, *acts)
        for section in acts[0]:
            truth[local.parts[section]] = local.coming[section]
        swapped += len(acts[0])
        newer = seen.swapped(before, local.value, swapped)
        seen.sends(local.value, sent, machine.sent)
        sent = machine.sent
        assert newer == bool(acts[0]) and np.allclose(seen.model, truth, atol=1e-5), step
    assert swapped > 10


class Counting:
    """A worker each of whose steps adds one, and takes a moment."""

    def __init__(self, number, workers):
        self.start, self.number, self.workers = np.zeros(5, np.float32), number, workers
        self.taken = 0

    def steps(self, weights, count):
        time.sleep(0.001 * (self.number + 1))
        weights += count
        self.taken += count

    def now(self):
        return 0.0


def test_who_sends_in_turn_loses_no_step_and_counts_none_twice():
    together, trainers = Together(4), [Counting(number, 4) for number in range(4)]
    owns = [real_worker.InTurn(one.start, real_worker.Turn(together.of(one.number), one.number, 4),
                               together.sums(one)) for one in trainers]
    found = in_threads(12, [real_worker.hsp(*each) for each in zip(trainers, owns)])
    for at in range(12):
        models = [worker[at][1] for worker in found]
        assert all(np.array_equal(model, models[0]) for model in models), at
        assert models[0][0] >= at + 1, "each has a step in each round"
    whole = models[0][0]
    unsent = sum(own.value[0] - whole for own in owns)
    assert sum(one.taken for one in trainers) == 4 * whole + unsent


def test_hsp_of_the_model_written_out():
    """Steps of 1 and 2 s, an exchange of 2: a push takes 0.5. The first worker sends its step at 1;
    the second one its step at 2, which is there at 2.5; all have the model of 1 at 3.5. The first
    has taken its steps of 2, 3 and 4 then, and swaps at 4; the second one at 4. So 3 and 1 leave
    at 4 and 4.5, and the model of 3 is there at 6."""
    class Of:
        exchange, start = 2.0, np.zeros(2, np.float32)

        def __init__(self):
            self.workers = [Stepping(1.0), Stepping(2.0)]

        def __len__(self):
            return 2

    class Stepping:
        def __init__(self, seconds):
            self._seconds = seconds

        def steps(self, weights, count):
            weights += count
            return self._seconds * count
    found = [(now, model.tolist()) for now, model in itertools.islice(hsp.hsp(Of(), {}), 2)]
    assert found == [(3.5, [1, 1]), (6, [3, 3])]


# ---- over sockets -------------------------------------------------------------------------------

def job(method, case, setting, rounds, server=NATIVE, **scheduler):
    """The models of each worker."""
    options = {**real.options_of(method, case, SEED, {"rate": RATE, "own_momentum": 0.5, **setting},
                                 0, tau=0), "warm": 0, "rounds": rounds}
    done = Cluster(real.PROGRAM, command=[harness.PYTHON, "-u", str(real.PROGRAM),
                                          json.dumps(options)],
                   library={"scheduler": NATIVE, "server": server, "worker": STOCK},
                   workers=len(case.speeds), servers=1, env=ENVIRONMENT, timeout=LIMIT,
                   node_env={"scheduler": scheduler}).run()
    assert all(node.returncode == 0 and not node.hung for node in done.nodes.values()), (
        done.describe())
    found = []
    for worker in done.workers:
        heard = real_heard.Heard(1)
        for line in worker.out.splitlines():
            heard.hear(line)
        found.append([model for _, _, model in heard.models()])
        assert len(found[-1]) == rounds, done.describe()
    return found


def test_sums_over_sockets_are_the_models():
    setting = {**RULE, "nesterov": True}
    for models in job("CO2", TWO, setting, 4):
        for found, wanted in zip(models, expected(peers.co2, setting, 4)):
            assert np.array_equal(found, wanted)


def test_a_server_with_a_rule_of_its_own_over_sockets_is_the_models():
    one, setting = Case(1.0, None, (0.5,)), {"steps": 2, "mix": 0.6, "fades": 0.5}
    (models,) = job("FedAsync", one, setting, 4, server=STOCK)
    for found, wanted in zip(models, expected(peers.fedasync, setting, 4, one)):
        assert np.array_equal(found, wanted)


def test_a_mode_of_ours_over_sockets_is_the_models():
    setting = {**RULE, "nesterov": True}
    sync = real_methods.WAYS["DiLoCo"].sync(setting)
    for models in job("DiLoCo", TWO, setting, 4, PSLITE_SYNC=sync):
        for found, wanted in zip(models, expected(turns.turns, setting, 4)):
            assert np.allclose(found, wanted, atol=1e-5)


# ---- settings, arrivals -------------------------------------------------------------------------

def test_the_page_has_a_setting_for_each_method_and_case():
    found, default = real_methods.written((harness.ROOT / "docs/benchmarks.md").read_text())
    for name in set(real_methods.WAYS) - {real_methods.HSP.name}:
        for exchange_, alpha in itertools.product(real_methods.EXCHANGES, real_methods.ALPHAS):
            setting = default if name == "default" else found[name, exchange_, alpha]
            assert setting["rate"] > 0, (name, exchange_, alpha)
            words = tables.setting(setting)
            assert tables.setting(real_methods.read(words)) == words


@pytest.mark.parametrize("name", ["FedAvg", "sections"])
def test_an_arrival_is_looked_at_as_the_model_does(name):
    case = Case(1.0)
    setting = {"rate": 0.4, "own_momentum": 0.5, "steps": 4, "sections": 8, "keep": True,
               "momentum": 0.5}
    wanted = search.arrival(NAMED[name], setting, case, 2001)
    arrival = real_heard.Arrival()
    run = NAMED[name].run(Job(case, 2001, 0.4, 0.5), setting)
    for number, (now, model) in enumerate(run):
        arrival.takes(now, number, model)
        if arrival.seconds is not None:
            break
    assert arrival.seconds == wanted


def test_the_model_is_asked_what_it_says_nearby():
    """Where all wait for each round chance decides the time, and not the models."""
    one = {"method": "FedAvg", "exchange": 1.0, "alpha": None, "seed": 2001,
           "setting": {"rate": 0.208, "own_momentum": 0.9, "steps": 4}}
    case = Case(one["exchange"])
    exact = search.arrival(NAMED["FedAvg"], one["setting"], case, 2001)
    near = [real_near.shaken(one, case.speeds, draw) for draw in range(2)]
    assert near[0] != near[1] and near == pytest.approx([exact] * 2, rel=0.02)


def test_models_of_a_round_are_taken_together():
    arrival = real_heard.Arrival(together=2)
    arrival.takes(1.0, 0, np.zeros(2410, np.float32))
    assert arrival.models == 0
    arrival.takes(3.0, 1, np.zeros(2410, np.float32))
    arrival.takes(2.0, 0, np.zeros(2410, np.float32))
    assert arrival.models == 1 and arrival._due > 2.0


def test_what_was_heard_counts_from_the_first_begin():
    heard = real_heard.Heard(2)
    heard.hear('[worker0] {"begin": 5.0}')
    heard.hear('[worker0] {"at": 7.0, "round": 0, "worker": 0, "late": 0.1, "model": "AACAPw=="}')
    heard.hear("[worker1] a warning")
    assert heard.models() == [] and not heard.begun
    heard.hear('[worker1] {"begin": 4.5}')
    ((seconds, number, model),) = heard.models()
    assert (seconds, number, model.tolist()) == (2.5, 0, [1.0]) and heard.models() == []


# ---- what came of it ----------------------------------------------------------------------------

def made_up(default, others):
    """What `real.measure` could have found: two seeds of the default form, one of another method,
    for which the model says 50 s."""
    one = {"wanted": 1.0, "exchange": 1.02, "alpha": None, "setting": {"rate": 0.4}, "limit": 90.0,
           "model": 50.0, "near": [48.0, 52.0]}
    jobs = [{**one, "method": "default", "seed": seed, "real": default} for seed in (2001, 2002)]
    jobs.insert(0, {**one, "method": "CO2", "seed": 2001, "real": others})
    return {"tau": 0.1, "seconds": 120.0, "jobs": jobs,
            "links": [{"wanted": 1.0, "exchange": 1.02, "rate": 100.0}]}


def test_a_real_job_is_judged_by_whether_it_arrives():
    first, last = real_page.bars(made_up(50.0, 100.0))
    assert first.holds and "the best of the others (CO2)" in first.text
    assert first.measured == "2.00" and last.holds is None
    assert last.measured == "median 1.50 [1.00..2.00], 1 of 2 within 15%"
    judged = real_page.bars(made_up(50.0, float("inf")))
    assert judged[0].holds is False and "CO2 does not arrive" in judged[0].measured
    assert "1 of 1 within" in judged[1].measured


def test_the_tables_have_what_was_real_beside_the_model():
    text = real_page.page(made_up(50.0, 100.0))
    assert ("| **default** | rate 0.4 | 50, 50 | 50, 50 | 48..52, 48..52 | 1.00 | 1.00 |"
            in text)
    assert "| CO2 | rate 0.4 | 100 | 50 | 48..52 | **2.00** | 2.00 |" in text
    assert "iid, G = 1 (links of 100.0 Mbit/s, an exchange takes 1.02):" in text
    assert "| not in 90 | 50 | 48..52 |  |  |" in real_page.page(made_up(50.0, float("inf")))
