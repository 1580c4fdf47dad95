"""pslite.lbbsp beside torch's DistributedDataParallel: examples/torch_ddp.py on gloo."""

import json
import os
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest

import harness
import kept
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

        def _report(self, seconds, iteration):
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


CASES = harness.PROGRAMS / "lbbsp_torch_cases.py"
TOTAL, SAMPLES, ITERATIONS = 24, 120, 5


def together(*words):
    """What each worker saw, by case. Tests that ask for the same cases share one job, in all
    processes of this run (pytest -n): most of it is `import torch`."""
    def job():
        return json.dumps(run(";".join(words), speeds=(None, None), script=CASES)).encode()
    kept_here = kept.Kept(Path(os.environ[kept.RUN], "torch"))
    return json.loads(kept_here.value(kept.key("cases with torch", words=words), job))


def of_loader(case, workers, prefetch):
    """Without batches ahead there are no two iterators."""
    cases = {name: f"{name} {workers} {prefetch}"
             for name in ("peek", "early", *["kept"] * (prefetch > 0))}
    return [worker[cases[case]] for worker in together(*cases.values())]


def without_loader(case):
    return [worker[case] for worker in together("seeks", "models", "wrong")]


def agree(workers, epochs):
    """Each gradient has the weight of the samples that were computed, each iteration has all of its
    samples, and each epoch has each sample once. epochs: of how many iterations."""
    pairs = [worker["pairs"] for worker in workers]
    assert {len(of) for of in pairs} == {sum(epochs)}, pairs
    assert all(size == weight for of in pairs for size, weight in of), pairs
    assert all(sum(size for size, _ in step) == TOTAL for step in zip(*pairs)), pairs
    for worker in workers:
        worker["left"] = list(worker["places"])
    begin = 0
    for count in epochs:
        samples = []
        for worker, of in zip(workers, pairs):
            computed = sum(size for size, _ in of[begin:begin + count])
            samples += worker["left"][:computed]
            del worker["left"][:computed]
        assert len(set(samples)) == len(samples) == count * TOTAL, samples
        begin += count


# num_workers of the loader, and what the session is told of it: just so much, or more.
LOADERS = ((0, 0), (0, 4), (2, 4), (2, 12))


@pytest.mark.parametrize("workers,prefetch", LOADERS)
def test_a_loader_that_is_looked_at(workers, prefetch):
    found = of_loader("peek", workers, prefetch)
    agree(found, [ITERATIONS] * 3)
    # The speeds are 1 and 3: sizes follow them, so a weight of another batch would be seen.
    slow, fast = sorted(worker["pairs"][-1][0] for worker in found)
    assert (slow, fast) == (6, 18)
    assert all(worker["seen"] == 12 and worker["again"] > 0 == worker["skipped"]
               for worker in found), found


@pytest.mark.parametrize("workers,prefetch", LOADERS)
def test_epochs_that_are_left_early(workers, prefetch):
    found = of_loader("early", workers, prefetch)
    agree(found, [ITERATIONS] * 3)
    assert all(worker["skipped"] == 0 for worker in found)


@pytest.mark.parametrize("workers,prefetch", LOADERS[1:])
def test_two_iterators(workers, prefetch):
    found = of_loader("kept", workers, prefetch)
    agree(found, [ITERATIONS])
    for worker in found:
        kind, text = worker["refused"]
        assert kind == "InvalidArgument" and "one iterator at a time" in text, worker


def test_epochs_that_are_skipped_and_jobs_that_go_on():
    found = without_loader("seeks")
    agree(found, [2, 2, 2])
    for worker in found:
        assert worker["skipped"] == 6 and "epoch 1 is over" in worker["back"][1]
        for name in ("state", "epoch", "loaded"):
            assert worker[name] == [[2, 12], [2, 13], [2, 14]], (name, worker)


def test_models_that_share_batches():
    found = without_loader("models")
    for name in ("two", "twice"):
        workers = [worker[name] for worker in found]
        for worker in workers:
            pairs = worker["pairs"]
            assert pairs[::2] == pairs[1::2] and worker["progress"] == [5, 5], worker
            worker["pairs"], places = pairs[::2], []
            for size, _ in worker["pairs"]:
                first, second = worker["places"][:size], worker["places"][size:2 * size]
                assert first == second
                places += first
                del worker["places"][:2 * size]
            worker["places"] = places
        agree(workers, [ITERATIONS])


WRONG = {
    "again": "a batch that was reported",
    "size": "has computed 11 samples, and the batch that is to be computed has 12",
    "apart": "gradients of different iterations were exchanged",
    "none": "take one first",
    "model": "follows this model already",
}


def test_what_attach_refuses():
    for worker in without_loader("wrong"):
        for name, text in WRONG.items():
            kind, said = worker[name]
            # torch makes a RuntimeError of what a hook raises.
            assert kind in ("InvalidArgument", "RuntimeError") and text in said, (name, worker)
