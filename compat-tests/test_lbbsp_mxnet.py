"""pslite.lbbsp in scripts of the stock wheel, which the library measures by itself."""

import json
from statistics import median

import pytest

from harness import OURS, PROGRAMS, Cluster
from test_python_kv import PACKAGE


def run(case, rule):
    """What each worker saw, in the order of ranks."""
    job = Cluster("lbbsp_mxnet.py", args=[case, rule], library=OURS, workers=3, servers=1,
                  timeout=90, env={"PYTHONPATH": f"{PROGRAMS}:{PACKAGE}"}).run()
    for node in job.nodes.values():
        assert node.returncode == 0 and not node.hung, job.describe()
    found = sorted(json.loads(worker.out.splitlines()[-1]) for worker in job.workers)
    return [seen for _, seen in found]


def follows_speeds(found):
    """The speeds are 1, 3 and 2: 8, 24 and 16 samples, but other tests take processor time too."""
    slow, fast, middle = (median(sizes[-8:]) for sizes in sizes_of(found))
    return slow < 12 and fast > 19 and slow < middle < fast


def sizes_of(found):
    sizes = [worker["sizes"] for worker in found]
    assert all(sum(of) == 48 for of in zip(*sizes)), sizes
    return sizes


def test_a_gluon_script():
    found = {rule: run("gluon", rule) for rule in ("fixed", "cpu")}
    assert all(set(sizes) == {16} for sizes in sizes_of(found["fixed"]))
    assert follows_speeds(found["cpu"]), sizes_of(found["cpu"])
    losses = {rule: [sum(of) / 48 for of in zip(*(worker["losses"] for worker in workers))]
              for rule, workers in found.items()}
    assert len(losses["cpu"]) == 20 and losses["cpu"][-1] < 0.8 * losses["cpu"][0]
    off = max(abs(a - b) for a, b in zip(losses["fixed"], losses["cpu"]))
    assert off < 1e-5, losses


def test_a_module_script():
    found = {rule: run("module", rule) for rule in ("fixed", "cpu")}
    assert follows_speeds(found["cpu"]), sizes_of(found["cpu"])
    equal, ours = found["fixed"][0]["weights"], found["cpu"][0]["weights"]
    assert equal and equal.keys() == ours.keys()
    for name in equal:
        assert ours[name] == pytest.approx(equal[name], abs=1e-5) if not isinstance(
            equal[name][0], list) else all(
            row == pytest.approx(other, abs=1e-5)
            for row, other in zip(ours[name], equal[name])), name


def case(words):
    """What each of two workers saw."""
    job = Cluster("lbbsp_mxnet_cases.py", args=[words], library=OURS, workers=2, servers=1,
                  timeout=90, env={"PYTHONPATH": f"{PROGRAMS}:{PACKAGE}"}).run()
    for node in job.nodes.values():
        assert node.returncode == 0 and not node.hung, job.describe()
    found = sorted(json.loads(worker.out.splitlines()[-1]) for worker in job.workers)
    return [seen for _, seen in found]


def computes_all(found, epochs):
    """Each iteration has all of its samples, and each epoch has each sample once."""
    sizes = [worker["sizes"] for worker in found]
    assert all(sum(of) == 24 for of in zip(*sizes)), sizes
    assert {len(of) for of in sizes} == {5 * epochs}, sizes
    left = [list(worker["places"]) for worker in found]
    for epoch in range(epochs):
        samples = []
        for of, places in zip(sizes, left):
            count = sum(of[5 * epoch:5 * epoch + 5])
            samples += places[:count]
            del places[:count]
        assert sorted(samples) == list(range(120)), (epoch, sorted(samples))
    assert all(worker["computed"] == 5 * epochs for worker in found), found


@pytest.mark.parametrize("words", ("peek 0 0", "peek 2 4", "peek 2 9", "reload 2 4"))
def test_a_gluon_loader_that_is_looked_at(words):
    found = case(words)
    computes_all(found, 2)
    assert all(worker["again"] > 0 for worker in found), found


@pytest.mark.parametrize("words", ("early 0 0", "early 2 4", "early 2 9"))
def test_gluon_epochs_that_are_left_early(words):
    computes_all(case(words), 2)


def test_gluon_steps_for_two_batches():
    for worker in case("told"):
        assert worker["computed"] == 4 and len(worker["sizes"]) == 5, worker
    for worker in case("untold"):
        kind, text = worker["refused"]
        assert kind == "InvalidArgument" and "no gradients were pushed for them since" in text
        assert "took Batch" in text and "rank" in text, text


def test_gluon_batches_that_are_only_looked_at():
    for worker in case("looked_at"):
        kind, text = worker["refused"]
        assert kind == "InvalidArgument" and "took Batch 0 of epoch 0" in text, text
        assert "validate with a loader of its own" in text and "`prefetch`" in text, text


def test_a_module_whose_batches_are_looked_at_left_and_scored():
    found = case("module")
    for worker in found:
        kind, text = worker["score"]
        assert kind == "InvalidArgument" and "validate with a loader of its own" in text, text
        del worker["score"]
    computes_all(found, 2)
