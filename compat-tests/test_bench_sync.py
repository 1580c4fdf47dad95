"""The model of `scripts/bench sync` has the rules of the library, and its timelines are right.

Sequences and values of the machine are those of src/core/training/exchange/machine_tests.rs and
src/core/store/local/tests.rs: what holds of one has to hold of the other.
"""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))
sys.dont_write_bytecode = True
from sync import answer, bars, cells, emulated, exchange, methods, outer, peers  # noqa: E402
from sync import search, tables, turns, wide  # noqa: E402
from sync.digits import digits  # noqa: E402
from sync.job import Case, Job, steps_by_speed  # noqa: E402
from sync.machine import Local, Machine, Spec, window_for  # noqa: E402

PUBLISHED = Spec(sections=1, window=1, keep=False)
CORRECTED = Spec(sections=1, window=1, keep=True)
NOTHING = ([], [])


# ---- machine_tests.rs ---------------------------------------------------------------------------

def test_the_published_form_swaps_and_sends_in_one_moment():
    one = Machine(PUBLISHED)
    assert one.push() == ([], [0]), "the first stretch is one step"
    assert one.push() == NOTHING
    one.answered(0)
    assert one.push() == ([0], [0])
    assert one.sent == 2


def test_a_swap_of_one_section_waits_for_the_end_of_the_stretch():
    one = Machine(Spec(1, 1, False, steps=3))
    assert [one.push() for _ in range(3)] == [NOTHING, NOTHING, ([], [0])]
    one.answered(0)
    assert [one.push() for _ in range(3)] == [NOTHING, NOTHING, ([0], [0])]


def test_sections_take_turns_and_so_many_are_in_flight():
    one = Machine(Spec(sections=4, window=2))
    assert one.push() == NOTHING, "which sections there are is not known"
    assert one.push() == ([], [0, 1])
    one.answered(1)
    assert one.push() == NOTHING, "the oldest comes first"
    one.answered(0)
    assert one.push() == ([0, 1], [2, 3])
    one.answered(2)
    assert one.push() == ([2], [0])


def test_who_waits_is_held_until_the_global_value_is_here():
    one = Machine(Spec(1, 1, False, steps=2, waits=True))
    assert [one.push() for _ in range(2)] == [NOTHING, ([], [0])]
    assert one.push() is None
    assert one.answered(0)
    assert [one.push() for _ in range(2)] == [NOTHING, ([], [0])], "it was swapped as it came"
    faster = Machine(Spec(1, 1, False, steps=2, waits=True), steps=4)
    assert [faster.push() for _ in range(4)] == [NOTHING, NOTHING, NOTHING, ([], [0])]


def test_a_worker_that_hears_nothing_is_held_and_goes_on_with_the_answer():
    one = Machine(PUBLISHED)
    for _ in range(9):
        assert one.push() is not None
    assert one.push() is None and one.push() is None, "as often as it asks"
    one.answered(0)
    assert one.push() == ([0], [0])
    assert one.iteration == 10


def test_a_worker_is_held_after_four_times_its_usual_stretch():
    one = Machine(PUBLISHED)
    one.push()
    for round_ in range(8):
        for _ in range(9):
            one.push()
        one.answered(round_)
        assert one.push() == ([0], [0])
    taken = list(itertools.takewhile(lambda acts: acts is not None,
                                     (one.push() for _ in range(99))))
    assert len(taken) == 40


def test_the_window_keeps_the_network_busy_for_one_step():
    assert [window_for(8, 1, exchange_) for exchange_ in (1, 2, 4, 8)] == [8, 5, 3, 2]
    assert (window_for(8, 0, 1), window_for(8, 1, 0), window_for(8, 60, 0.001)) == (1, 8, 8)
    assert window_for(1, 1, 1) == 1


# ---- store/local/tests.rs -----------------------------------------------------------------------

class Kept:
    """A tensor of two elements, all of one section."""

    def __init__(self, spec):
        self.local = Local(np.array([10, 20], np.float32), spec)

    def steps(self, *gradient):
        self.local.value -= np.array(gradient, np.float32) / 2

    def comes(self, *value):
        self.local.coming[0] = np.array(value, np.float32)

    def does(self, swap, send):
        delta = self.local.exchange(0, swap, send)
        return None if delta is None else delta.tolist()

    def now(self):
        return self.local.value.tolist()


def test_the_published_form_replaces_and_counts_the_first_stretch_once():
    kept = Kept(PUBLISHED)
    kept.steps(-2, 2)
    assert kept.does(False, True) == [1, -1]
    kept.steps(-4, 0)
    kept.comes(100, 200)
    assert kept.now() == [13, 19], "it trains on until it swaps"
    assert kept.does(True, True) == [2, 0]
    assert kept.now() == [100, 200]
    kept.steps(0, 2)
    kept.comes(50, 60)
    assert kept.does(True, True) == [0, -1]
    assert kept.now() == [50, 60]


def test_the_corrected_form_keeps_what_it_sends():
    kept = Kept(CORRECTED)
    kept.steps(-2, 2)
    assert kept.does(False, True) == [1, -1]
    kept.steps(-4, 0)
    kept.comes(100, 200)
    assert kept.does(True, True) == [2, 0]
    assert kept.now() == [102, 200]
    kept.comes(0, 0)
    assert kept.does(True, True) == [0, 0], "each step counts once"
    assert kept.now() == [0, 0]


def test_with_sections_what_was_done_since_the_send_goes_with_the_next_delta():
    kept = Kept(Spec(sections=4, window=2))
    kept.local.parts = [slice(0, 2)]
    kept.steps(-2, 0)
    kept.steps(-2, 0)
    assert kept.does(False, True) == [2, 0]
    kept.steps(0, -8)
    kept.comes(100, 200)
    kept.steps(-2, 0)
    assert kept.does(True, False) is None
    assert kept.now() == [101, 204]
    kept.steps(-2, 0)
    assert kept.does(False, True) == [2, 4]
    kept.comes(0, 0)
    assert kept.does(True, True) == [0, 0], "nothing is left"
    assert kept.now() == [0, 0]


def test_who_waits_takes_the_global_value_as_it_is():
    kept = Kept(Spec(1, 1, False, waits=True))
    kept.steps(-2, 2)
    kept.steps(-2, 2)
    assert kept.does(False, True) == [2, -2]
    kept.comes(1, 2)
    assert kept.does(True, False) is None
    assert kept.now() == [1, 2]
    kept.steps(-2, 0)
    assert kept.does(False, True) == [1, 0]


# ---- a whole job, written out -------------------------------------------------------------------

class Counting:
    """A worker each of whose steps adds one to each element and takes so many seconds."""

    def __init__(self, seconds):
        self._seconds, self.taken = seconds, 0

    def steps(self, weights, count):
        weights += count
        self.taken += count
        return self._seconds * count


class Counted:
    """A job of such workers."""

    def __init__(self, exchange_, *seconds, weights=2):
        self.case = Case(exchange_, None, seconds)
        self.exchange, self.speeds = exchange_, seconds
        self.start = np.zeros(weights, np.float32)
        self.workers = [Counting(one) for one in seconds]

    def __len__(self):
        return len(self.workers)


def first(count, run, job, setting):
    return [(now, model.tolist()) for now, model in itertools.islice(run(job, setting), count)]


def test_the_published_form_on_two_workers():
    """Steps of 1 and 2 s, an exchange of 2.5 s. Deltas of 1 leave at 1 and 2, and are there at 4.5.
    At 5 and 6 they are swapped, and deltas of 4 and 2 leave: 3 in the mean, at 8.5."""
    setting = {"sections": 1, "window": 1, "keep": False}
    assert first(2, exchange.exchange, Counted(2.5, 1, 2), setting) == [
        (4.5, [1, 1]), (8.5, [4, 4])]


def test_two_sections_on_one_worker():
    """Steps of 1 s, an exchange of 2 s, so a section takes 1. Nothing leaves before the sections
    are known: both leave at 2 with two steps, and are there at 3 and 4. At the push of 3 the first
    is swapped and leaves again, with the one step since; at 4 the second, with two."""
    setting = {"sections": 2, "window": 2, "keep": True}
    assert first(4, exchange.exchange, Counted(2, 1), setting) == [
        (3, [2, 0]), (4, [2, 2]), (5, [3, 2]), (6, [3, 4])]


def test_outer_momentum_moves_the_global_model_on():
    """As above with Nesterov 0.5: 2 becomes 2 + 0.5 x 2, then 1 more 1 + 0.5 (1 + 0.5 x 2)."""
    setting = {"sections": 2, "window": 2, "keep": True, "momentum": 0.5}
    assert first(3, exchange.exchange, Counted(2, 1), setting) == [
        (3, [3, 0]), (4, [3, 3]), (5, [5, 3])]


@pytest.mark.parametrize("by_speed", [False, True])
def test_who_waits_does_the_same_as_taking_turns(by_speed):
    rule = {"rate": 0.4, "steps": 2, "momentum": 0.8, "outer": 0.7, "nesterov": True}
    case = Case(1.5, 0.3)
    run = turns.esync if by_speed else turns.turns
    expected = itertools.islice(run(Job(case, 5, 0.4), rule), 6)
    waits = {**rule, "sections": 1, "window": 1, "waits": True, "by_speed": by_speed}
    found = itertools.islice(exchange.exchange(Job(case, 5, 0.4), waits), 6)
    for (then, model), (now, same) in zip(expected, found):
        assert now == pytest.approx(then) and np.allclose(same, model, atol=1e-5)


def test_no_step_is_lost_and_none_counts_twice():
    """However uneven workers are: the global model of a section and what was not taken into it are
    all steps of all workers."""
    job = Counted(3, 0.25, 0.5, 1, 1.25, weights=64)
    setting = {"sections": 4, "window": 3, "keep": True}
    whole = exchange._Exchange(job, setting, exchange.Usage())
    assert len(list(itertools.islice(whole.run(), 40))) == 40
    for section, part in enumerate(whole.locals[0].parts):
        open_ = [of for number, of in whole.rounds.items() if number % 4 == section]
        travels = sum(delta[0] for of in open_ for delta in of.deltas.values())
        unsent = 0
        for machine_, local in zip(whole.machines, whole.locals):
            flies = any(flight.section == section for flight in machine_.flights)
            unsent += (local.value - (local.sent if flies else local.start))[part][0]
        taken = sum(worker.taken for worker in job.workers)
        assert whole.model[part][0] * 4 + travels + unsent == pytest.approx(taken)


# ---- others -------------------------------------------------------------------------------------

def test_turns_take_the_slowest_worker_and_the_exchange():
    assert first(2, turns.turns, Counted(3, 1, 2), {"steps": 2}) == [(7, [2, 2]), (14, [4, 4])]
    assert first(1, turns.esync, Counted(3, 1, 2), {"steps": 2}) == [(7, [3, 3])]
    assert steps_by_speed(2, (0.5, 1, 3)) == [12, 6, 2]


def test_models_of_fedasync_fade():
    """Both were trained from version 0. The first one counts half; the second one is one version
    old, and counts half of 1 / sqrt 2."""
    setting = {"steps": 1, "mix": 0.5, "fades": 0.5}
    (_, one), (_, two) = first(2, peers.fedasync, Counted(1, 1, 2), setting)
    assert one == [0.5, 0.5]
    assert two[0] == pytest.approx(0.5 + 0.5 / math.sqrt(2) * 0.5)


def test_delayed_nesterov_has_momentum_once_for_all_workers():
    """Each delta of 1 moves by a half at once; at the second the momentum is 2, and half of its
    half comes with it."""
    setting = {"steps": 1, "momentum": 0.5, "outer": 1.0}
    assert first(2, peers.asynchronous, Counted(1, 1, 1.5), setting)[1][1][0] == 1.5


def test_co2_applies_the_sum_of_the_round_before():
    setting = {"steps": 2, "momentum": 0.0, "outer": 1.0}
    assert first(2, peers.co2, Counted(3, 1, 1), setting) == [(5, [2, 2]), (8, [4, 4])]


def test_eager_updates_have_the_own_delta_at_once():
    """Of two workers: half of the own delta now, the other's half a round later."""
    setting = {"steps": 1, "momentum": 0.0, "outer": 1.0}
    assert first(2, peers.eager, Counted(3, 1, 1), setting) == [(1, [0.5, 0.5]), (4, [1.5, 1.5])]


def test_streaming_takes_a_fragment_so_many_steps_after_its_send():
    """Two fragments, one every step, taken a step later; a step takes 1 s and a fragment 0.5."""
    setting = {"steps": 2, "fragments": 2, "delay": 1, "own": 0.0, "momentum": 0.0, "outer": 1.0}
    assert first(3, peers.streaming, Counted(1, 1, 1), setting) == [
        (1.5, [1, 0]), (2.5, [1, 2]), (3.5, [2, 2])]


def test_the_outer_rule_is_mxnets():
    """What nag_mom_update and sgd_mom_update do with the rate -1."""
    model, rule = np.zeros(2, np.float32), outer.Outer(2, 0.5, 0.5, True)
    for mean, expected in ((2, 1.5), (2, 1.5 + 1.5 * 1.5 - 0.5)):
        rule.update(model, np.full(2, mean, np.float32))
        assert model.tolist() == pytest.approx([expected] * 2)
    model, rule = np.zeros(2, np.float32), outer.Outer(2, 0.5, 0.5, False)
    for mean, expected in ((2, 1), (2, 2.5)):
        rule.update(model, np.full(1, mean, np.float32), slice(0, 1))
        assert model.tolist() == [expected, 0]


def test_gradients_are_those_of_the_loss():
    which = np.arange(40)
    weights = digits().begin(3)
    gradient = digits().gradient(weights, which)
    images, labels = digits().images[which].astype(np.float64), digits().labels[which]

    def loss(weights):
        first_, bias, second, last = np.split(weights.astype(np.float64), [2048, 2080, 2400])
        hidden = np.maximum(images @ first_.reshape(64, 32) + bias, 0)
        out = hidden @ second.reshape(32, 10) + last
        return np.mean(np.log(np.exp(out).sum(1)) - out[np.arange(40), labels])
    for place in np.random.RandomState(1).choice(2410, 60, replace=False):
        ahead, behind = weights.astype(np.float64), weights.astype(np.float64)
        ahead[place] += 1e-4
        behind[place] -= 1e-4
        slope = (loss(ahead) - loss(behind)) / 2e-4
        assert gradient[place] == pytest.approx(slope, abs=2e-3)


@pytest.mark.parametrize("alpha", [None, 0.3])
def test_data_are_divided_among_the_workers(alpha):
    parts = digits().divide(8, alpha, np.random.RandomState(2))
    together = np.concatenate(parts)
    assert len(parts) == 8 and len(np.unique(together)) > 1400
    kinds = [len(np.unique(digits().labels[part])) for part in parts]
    assert (min(kinds) == 10) == (alpha is None)


def test_a_search_finds_what_is_best_and_tells_who_never_arrives():
    case = Case(1.0)
    found = search.best(methods.NAMED["ESync"], case, methods.neighbours, thin=True)
    bad = search.arrival(methods.NAMED["ESync"], {"rate": 0.1, "steps": 1}, case, 1001)
    assert found["seconds"] < bad and found["tried"] > 4
    assert search.arrival(methods.NAMED["SSGD"], {"rate": 400.0, "steps": 1}, case, 1) == math.inf


@pytest.mark.parametrize("method", methods.ALL, ids=lambda method: method.name)
def test_settings_that_are_searched_can_run(method):
    case = Case(4.0, 0.3)
    grid = method.grid(case)
    settings = [grid[0], grid[-1], *methods.neighbours(method, grid[-1])]
    assert len(settings) > 3 and len({str(sorted(one.items())) for one in grid}) == len(grid)
    for setting in settings:
        job = Job(case, 1, setting["rate"], setting.get("own_momentum", 0.0))
        times = [now for now, _ in itertools.islice(method.run(job, setting), 4)]
        assert times == sorted(times) and times[-1] < 1000


def test_reported_seeds_are_not_those_of_the_search():
    for extent in (cells.WHOLE, cells.QUICK):
        assert not set(extent.seeds) & set(search.SEARCH_SEEDS)
    assert len(cells.WHOLE.seeds) == 10


# ---- bars and tables ----------------------------------------------------------------------------

def made_up(ours):
    """What `cells.measure` could have found at G = 1, of two seeds; `ours` is the default form's
    time."""
    case = [1.0, None, False]
    both = [100.0, 120.0]
    names = [method.name for method in methods.ALL]
    record = {"setting": {"rate": 0.5, "window": 0}, "of_grid": 2.0, "seconds": 1.0, "tried": 3}
    tuned = [{"method": name, "case": case, "times": both, **record} for name in names]
    tuned += [{"method": name, "case": [4.0, None, True], "times": both, **record}
              for name in ("DiLoCo", "Streaming", "sections")]
    parts = {"network": [0.95, 0.97], "computing": [1.0, 1.0]}
    fixed = [{"case": case, "times": [ours, ours]},
             {"case": [4.0, None, True], "times": [ours, ours]}]
    return {
        "tuned": tuned, "tuned plain": tuned, "fixed": fixed, "fixed plain": fixed,
        "setting": {"rate": 0.5}, "plain setting": {"rate": 0.5},
        "default": [{"rate": 0.5, "momentum": 0.0, "mean": 9.0}],
        "common": [{"rate": rate, "case": case, "published": [50.0, 50.0],
                    "others": {"SSGD, k = 1": both, "ESync, k = 1": [80.0, math.inf]}}
                   for rate in cells.COMMON],
        "script": [{"momentum": 0.0, "alpha": None, "rate": 0.8, "cells": [
            {"case": case, "plain": both, "default": [ours, ours], "published": both}]}],
        "busy": [{"case": case, "default": parts, "published": parts}],
        "accuracy": [{"alpha": None, "default": [0.955, 0.965], "published": [0.9, 0.9],
                      "ssgd": [0.96, 0.97], "ssgd_short": [0.9, 0.9], "ssgd_rate": 0.8}]}


def test_bars_hold_where_others_take_long_enough():
    judged = bars.all_of(made_up(50.0))
    failed = [bar.text for bar in judged if bar.holds is False]
    equal = "equal speeds, G 4: sections with outer momentum by DiLoCo, all tuned"
    assert failed == [f"{equal} ({inner})" for inner in bars.INNER.values()]
    assert len([bar for bar in judged if bar.holds]) >= 7
    assert any("[2.00..2.40]" in bar.measured for bar in judged)


@pytest.mark.parametrize(("ours", "text"), [
    (70.0, "by the best tuned of the four"), (100.0, "by DiLoCo, tuned"),
    (90.0, "by Streaming, tuned"), (70.0, "unmodified script"), (math.inf, "unmodified script")])
def test_bars_do_not_hold_where_they_do_not(ours, text):
    failed = [bar.text for bar in bars.all_of(made_up(ours)) if bar.holds is False]
    assert any(text in one for one in failed), failed


def test_a_baseline_that_never_arrives_is_not_the_best():
    assert bars.at_common(made_up(50.0), 0.1, [1.0, None, False]).whole == 110 / 50


def test_tables_have_every_method_and_mark_what_does_not_hold():
    found = made_up(100.0)
    judged = bars.all_of(found)
    text = tables.methods(found) + tables.page(found, judged, "two minutes")
    for method in methods.ALL:
        assert f"| {method.name} |" in text
    assert text.count("**does not hold**") == len([bar for bar in judged if bar.holds is False])
    assert "110 [100..120]" in text and "window fits" in text
    rows = [line for line in tables.methods(found).splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1


def jobs(gain, sent):
    """What `emulated.measure` could have found: an exchange of 10 bytes takes 2 s."""
    waits = emulated.Turn(10, 40.0, 0.5, 100.0)
    ours = emulated.Turn(10, 40.0 / gain, 0.99, sent / gain)
    return {"exchange": 2.0, "bytes": 10.0, "predicted": [2.0],
            "turns": {emulated.WAITS: [waits], emulated.PLAIN: [waits], "nbsync:window=8": [ours],
                      emulated.DEFAULT: [ours]}}


@pytest.mark.parametrize(("gain", "sent", "holds"), [
    (1.9, 190.0, [True, True, True]), (1.7, 190.0, [False, True, False]),
    (1.9, 170.0, [True, False, True])])
def test_real_jobs_are_judged_by_steps_and_by_what_is_busy(gain, sent, holds):
    judged = list(emulated.bars(jobs(gain, sent)))
    assert [bar.holds for bar in judged if bar.holds is not None] == holds
    assert judged[0].measured == f"{gain:.2f}" and judged[1].measured == "50.0%, 50.0%"


def test_local_answers_are_judged_with_one_thread():
    times = {1: {"ours": [1.1, 9.0, 1.2], "local": [1.0]}, 2: {"ours": [3.0], "local": [1.0]}}
    assert [bar.holds for bar in answer.bars(times)] == [True, None]
    times[1]["local"] = [0.9]
    assert [bar.holds for bar in answer.bars(times)] == [False, None]


def along(*points):
    """A training whose accuracy was looked at so often."""
    return [list(point) for point in points]


def wide_found(ours):
    """What the wide area gives where stock takes 80 and 100 s; ours: the trainings of the rest."""
    stock = [along((40, 0.5), (80, 0.91), (100, 0.96))]
    return {table: {"stock": stock, "beside": stock, "ours": ours} for table in wide.BARS}


def test_trainings_of_a_wide_area_are_judged_by_the_median():
    ours = [along((2, 0.92), (10, 0.95)), along((3, 0.92), (12, 0.95)), along((3, 0.92), (9, 0.94))]
    rows = {row.text: row for row in wide.bars(wide_found(ours))}
    last = rows["gluon, accuracy 0.95: ours (12.0 s; 1 of 3 never) by stock (100.0 s)"]
    assert (last.wanted, last.measured, last.holds) == ("at least 8", "8.3", True)
    early = rows["torch, accuracy 0.90: ours (3.0 s) by stock (80.0 s)"]
    assert (early.wanted, early.measured, early.holds) == ("reported", "26.7", None)


def test_a_training_of_a_wide_area_that_takes_too_long_is_seen():
    rows = wide.bars(wide_found([along((2, 0.92), (13, 0.95))]))
    assert [row.text.split(",")[0] for row in rows if row.holds is False] == ["gluon", "gluon"]
    assert wide.epoch([along((1, 0), (3, 0)), along((1, 0), (2, 0), (6, 0))]) == 2.25
