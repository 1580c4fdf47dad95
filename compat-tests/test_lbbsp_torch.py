"""pslite.lbbsp beside torch's DistributedDataParallel: examples/torch_ddp.py on gloo."""

import json
import os
from statistics import median

import pytest

import harness
from harness import Cluster
from test_python_kv import ENVIRONMENT, python_with_torch

EXAMPLE = harness.ROOT / "examples/torch_ddp.py"
SCHEDULER = "from pslite import job; job.serve_scheduler()"


def run(*options, speeds=(None, None, None)):
    """What each worker saw, in the order of ranks."""
    python, workers = python_with_torch(), len(speeds)
    port = harness.free_port()
    more = {f"worker{rank}": {"RANK": rank, "SPEED": speed or 0}
            for rank, speed in enumerate(speeds)}
    script = ('if [ "$DMLC_ROLE" = scheduler ]; then exec "$0" -c "$SCHEDULER"; fi; '
              'exec "$0" "$EXAMPLE" --json --speed "$SPEED" "$@"')
    job = Cluster(EXAMPLE, command=["sh", "-c", script, python, *map(str, options)],
                  workers=workers, servers=0, timeout=90, node_env=more,
                  env={**ENVIRONMENT, "EXAMPLE": EXAMPLE, "SCHEDULER": SCHEDULER,
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
