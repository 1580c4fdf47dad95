"""pslite.lbbsp beside torch's DistributedDataParallel: examples/torch_ddp.py on gloo."""

import json
import os
import sys
from statistics import median
from types import SimpleNamespace

import pytest

import harness
from harness import Cluster
from test_python_kv import ENVIRONMENT, PACKAGE, python_with_torch

sys.path.insert(0, str(PACKAGE))

from pslite.lbbsp import torch as lbbsp_torch  # noqa: E402

EXAMPLE = harness.ROOT / "examples/torch_ddp.py"
SCHEDULER = "from pslite import job; job.serve_scheduler()"


def run(*options, speeds=(None, None, None), script=EXAMPLE):
    """What each worker saw, in the order of ranks."""
    python, workers = python_with_torch(), len(speeds)
    port = harness.free_port()
    more = {f"worker{rank}": {"RANK": rank, "SPEED": speed or 0}
            for rank, speed in enumerate(speeds)}
    shell = ('if [ "$DMLC_ROLE" = scheduler ]; then exec "$0" -c "$SCHEDULER"; fi; '
             'exec "$0" "$SCRIPT" --json --speed "$SPEED" "$@"')
    job = Cluster(script, command=["sh", "-c", shell, python, *map(str, options)],
                  workers=workers, servers=0, timeout=90, node_env=more,
                  env={**ENVIRONMENT, "SCRIPT": script, "SCHEDULER": SCHEDULER,
                       "WORLD_SIZE": workers, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                       "GLOO_SOCKET_IFNAME": "lo", "HOME": os.environ.get("HOME", "/")}).run()
    for node in job.nodes.values():
        assert node.returncode == 0 and not node.hung, job.describe()
    found = [json.loads(worker.out.splitlines()[-1]) for worker in job.workers]
    return sorted(found, key=lambda seen: seen["rank"])


@pytest.mark.parametrize("dtype,close", (("float64", 1e-10), ("float32", 1e-5)))
def test_losses_are_those_of_equal_batches(dtype, close):
    speeds = (3000, 9000, 6000)
    options = ("--dtype", dtype, "--steps", 24)
    equal = run(*options, "--rule", "fixed", speeds=speeds)
    ours = run(*options, "--rule", "cpu", speeds=speeds)
    assert all(set(worker["sizes"]) == {80} for worker in equal)
    sizes = [worker["sizes"] for worker in ours]
    assert all(sum(of) == 240 for of in zip(*sizes)), sizes
    # 40, 120 and 80 by the speeds; other tests take processor time too.
    slow, fast, middle = (median(of[-8:]) for of in sizes)
    assert slow < 60 and fast > 95 and slow < middle < fast, sizes
    losses = [found[0]["losses"] for found in (equal, ours)]
    assert losses[0][-1] < 0.8 * losses[0][0]
    assert max(abs(a - b) for a, b in zip(*losses)) < close, losses


def test_parts_of_a_batch_and_too_many_batches():
    program = harness.PROGRAMS / "lbbsp_parts.py"
    for worker in run(speeds=(None, None), script=program):
        (whole, alone, taken), (parts, refused, _) = worker["found"]
        assert flat(whole) == pytest.approx(flat(parts), abs=1e-12) and any(flat(whole))
        for kind, text in (alone, refused):
            assert kind == "InvalidArgument" and "parts of one batch" in text, worker
        assert taken == 1


def flat(lists):
    return [number for each in lists for number in (each if isinstance(each, list) else [each])
            for number in (number if isinstance(number, list) else [number])]


def test_validation_between_epochs_is_no_computing(monkeypatch):
    """Five batches are an epoch."""
    class Session:
        def __init__(self, iterations):
            self.iterations, self.reports = iterations, []

        def __len__(self):
            return self.iterations

        def report(self, seconds, iteration):
            self.reports.append(seconds)

    now = [0.0]
    monkeypatch.setattr(lbbsp_torch.time, "monotonic", lambda: now[0])
    cpu = SimpleNamespace(type="cpu")
    # If each batch is the first one of its epoch, only that of which no begin is known is not.
    for iterations, wanted in ((5, [None, 2.0, 2.0, 2.0, 2.0, None, 2.0, 2.0]),
                               (1, [None] + 7 * [2.0])):
        session = Session(iterations)
        clock = lbbsp_torch._Clock(session)
        for iteration in range(8):
            now[0] += 2
            clock.computed(SimpleNamespace(epoch=iteration // iterations, iteration=iteration), cpu)
            now[0] += 5  # The exchange.
            clock.begin(cpu)
        assert session.reports == wanted
