"""LB-BSP in scripts of the stock wheel, of which a worker dies and is started again: rounds and the
lease of batches wait for the same workers, so nobody waits for ever, and each sample of each
iteration is computed once."""

import re
import time

import pytest

from elastic_job import ended_well
from harness import OURS, PROGRAMS, Cluster, patient
from test_python_kv import PACKAGE

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

TOTAL = 24
AFTER = 7
#: Where all end: those who go on without the dead one must not be done before it is back.
LONG, SHORT = 240, 40
ELASTIC = {"PSLITE_ELASTIC": 1, "PSLITE_ELASTIC_WORKERS": 1}
REPLACES = {"PS_HEARTBEAT_INTERVAL": 1, "PS_HEARTBEAT_TIMEOUT": 3}


def play(victim, env, end, when=None):
    """A job in which that rank dies. `when`: what the scheduler says before the new process comes;
    nothing: it comes at once. Gives the batches of the dead one, and the results of all others."""
    job = Cluster("lbbsp_restart.py", (victim, AFTER, end), workers=3, servers=1, library=OURS,
                  timeout=60, env={"PYTHONPATH": f"{PROGRAMS}:{PACKAGE}", "PS_VERBOSE": 1, **env})
    with job:
        job.command.append("back")
        back = job.spawn("worker", name="back", held=True)
        job.command.pop()
        job.start()
        assert back.wait_for("held", 60), job.describe()
        dead = first_that_says("dies", [worker for worker in job.workers if worker is not back])
        assert dead, job.describe()
        assert not when or job.nodes["scheduler"].wait_for(when, 30), job.describe()
        back.let_go()
        del job.nodes[dead.name]
        dead.name = "lost worker"
        job.nodes[dead.name] = dead
        ended_well(job, gone=("lost worker",))
        others = [worker.result for worker in job.workers if worker.name != dead.name]
        assert f"this is rank {victim} of 3" in back.output, job.describe()
        lines = re.findall(r"batch \d+: (\d+) (\d+) (\d+)", dead.output)
        return [tuple(map(int, line)) for line in lines], others, back.result, job.describe()


def first_that_says(text, workers):
    limit = patient(60)
    while time.monotonic() < limit:
        for worker in workers:
            if worker.wait_for(text, 0.02):
                return worker
    return None


def computed_twice(batches):
    """Samples of an iteration that two have computed."""
    parts = sorted(batches)
    return [(one, two) for one, two in zip(parts, parts[1:])
            if one[0] == two[0] and one[1] + one[2] > two[1]]


def lacking(batches, iterations):
    """Iterations of which not all samples were computed."""
    sizes = {iteration: 0 for iteration in iterations}
    for iteration, _, size in batches:
        if iteration in sizes:
            sizes[iteration] += size
    return [iteration for iteration, size in sizes.items() if size != TOTAL]


@pytest.mark.parametrize("when", (None, "the job goes on without worker"))
@pytest.mark.parametrize("victim", (0, 1))
def test_one_comes_back_and_shares_batches_again(victim, when):
    dead, others, back, said = play(victim, ELASTIC, LONG, when)
    batches = dead + [tuple(batch) for result in others for batch in result["batches"]]
    assert not computed_twice(batches), said
    # Only what was lent to the dead one and not computed is missing.
    first = back["batches"][0][0]
    lacks = lacking(batches, range(LONG))
    assert len(lacks) <= 3 and all(AFTER <= iteration < first for iteration in lacks), (lacks, said)
    assert any(size > 0 for _, _, size in back["batches"][1:]), said
    # Whatever anybody computed counts once: who ended last has it all.
    counted = max(result["counted"]["small"] for result in others)
    assert counted == sum(size for _, _, size in batches), said
    assert max(result["counted"]["big"] for result in others) == counted, said


@pytest.mark.parametrize("victim", (1, 2))
def test_one_that_replaces_another_goes_on_with_its_batches(victim):
    dead, others, back, said = play(victim, REPLACES, SHORT)
    batches = dead + [tuple(batch) for result in others for batch in result["batches"]]
    assert back["batches"][0][0] == AFTER, said
    assert f"the process that replaces worker {victim} goes on with iteration {AFTER}" in said, said
    assert not computed_twice(batches) and not lacking(batches, range(SHORT)), said
    for result in others:
        assert result["counted"] == {"big": TOTAL * SHORT, "small": TOTAL * SHORT}, said
