"""pslite.lbbsp in scripts of the stock wheel, which the library measures by itself."""

import json
from statistics import median

import pytest

from harness import OURS, Cluster
from test_python_kv import PACKAGE


def run(case, rule):
    """What each worker saw, in the order of ranks."""
    job = Cluster("lbbsp_mxnet.py", args=[case, rule], library=OURS, workers=3, servers=1,
                  timeout=90, env={"PYTHONPATH": str(PACKAGE)}).run()
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
