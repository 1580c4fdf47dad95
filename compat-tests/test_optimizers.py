"""Native optimizers and learning-rate schedulers against those of the wheel, step by step.

The table in docs/optimizers.md says how near each optimizer comes; these tests hold it.
"""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import harness
from optimizer_script import Script, ulps

mx = pytest.importorskip("mxnet")
opt = mx.optimizer
schedulers = mx.lr_scheduler

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", harness.ROOT / "target"))
PROGRAM = TARGET / "release/examples/optimizer_steps"
STEPS = 50
NAMES = {0: "fc_weight", 1: "fc_bias", 2: "bn_gamma", 3: "bn_beta", 4: "out_weight"}
SHAPES = {0: (37, 11), 1: (7,), 2: (64,), 3: (1,), 4: (129, 5)}


@pytest.fixture(scope="session", autouse=True)
def program():
    subprocess.run(["cargo", "build", "--quiet", "--release", "--example", "optimizer_steps"],
                   cwd=harness.ROOT, check=True, timeout=380)
    assert PROGRAM.is_file()


def native(script, folder):
    """The weights after every update by the native optimizer."""
    source, result = folder / "script", folder / "weights"
    source.write_bytes(script.bytes())
    run = subprocess.run([PROGRAM, source, result], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return script.split(result.read_bytes())


def worst(script, folder, **how):
    """The largest distance of any weight after any update, in units of the last place."""
    ours, theirs = native(script, folder), script.by_mxnet(**how)
    assert len(ours) == len(theirs)
    distances = [ulps(left, right) for left, right in zip(ours, theirs)]
    changed = [np.mean(np.isfinite(new) & (new != script.keys[key].reshape(-1)))
               for (key, _, _), new in list(zip(script.updates, theirs))[len(script.keys):]]
    assert np.mean(changed) > 0.3, "hardly anything was updated: the test proves nothing"
    return max(distances)


def updates(make, dtype, keys=(0, 1, 2, 3, 4), steps=STEPS, seed=7, scale=1.0, moves=False):
    """Dense updates of several keys, in another order each round."""
    random = np.random.RandomState(seed)
    script = Script(make, {key: random.randn(*SHAPES[key]).astype(dtype) for key in keys}, moves)
    for _ in range(steps):
        for key in random.permutation(keys):
            gradient = random.randn(*SHAPES[key]) * scale * 10 ** random.uniform(-2, 1)
            gradient[random.rand(*gradient.shape) < 0.05] = 0
            script.dense(int(key), gradient)
    return script


def row_updates(make, dtype, keys=(0, 4), steps=STEPS, seed=11, moves=False):
    """Updates with row_sparse gradients; now and then with none or with all rows."""
    random = np.random.RandomState(seed)
    script = Script(make, {key: random.randn(*SHAPES[key]).astype(dtype) for key in keys}, moves)
    for step in range(steps):
        for key in keys:
            rows, columns = SHAPES[key]
            share = (0, 1, 0.3, 0.3, 0.1)[step % 5]
            chosen = np.flatnonzero(random.rand(rows) < share) if share else np.array([], int)
            script.rows(key, chosen.astype(np.int64), random.randn(len(chosen), columns))
    return script


COMMON = {
    "plain": {},
    "wd": {"wd": 0.0123, "rescale_grad": 1 / 48},
    "clip": {"wd": 0.0007, "rescale_grad": 0.37, "clip_gradient": 0.21},
    "names": {"wd": 0.03, "param_idx2name": NAMES, "begin_num_update": 3},
}

#: The settings that are tried of each class, on top of each of COMMON.
CLASSES = {
    "SGD": [{"learning_rate": 0.0731}, {"momentum": 0.9, "learning_rate": 0.0123}],
    "ccSGD": [{"momentum": 0.85}],
    "Adam": [{}, {"learning_rate": 0.0371, "beta1": 0.87, "beta2": 0.993, "epsilon": 1.37e-6}],
}

#: Classes with a kernel of their own for row_sparse gradients, and their settings.
SPARSE = {
    "SGD": [{}, {"momentum": 0.9}, {"lazy_update": False}, {"momentum": 0.9, "lazy_update": False}],
    "Adam": [{}, {"lazy_update": False, "beta2": 0.9}],
}


#: In float16 the usual epsilons are zero, and zero gradients give NaN. They do here too, but a test
#: on NaNs proves little.
HALF = {"Adam": {"epsilon": 1e-3}}


def maker(name, settings, common, dtype="float32"):
    half = HALF.get(name, {}) if dtype == "float16" else {}

    def make():
        optimizer = getattr(opt, name)(**{**common, **settings, **half})
        if "param_idx2name" in common:
            optimizer.set_lr_mult({"fc_weight": 0.1, "out_weight": 1.7, 2: 0.5})
            optimizer.set_wd_mult({"fc_weight": 2.3, 4: 0.25})
        return optimizer
    return make


def promised():
    """Class -> the last column's promise for each dtype, from the table in the docs."""
    table = {}
    for line in (harness.ROOT / "docs/optimizers.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 4 and re.fullmatch(r"`\w+`", cells[0]):
            table[cells[0].strip("`")] = dict(zip(("float32", "float64", "float16"), cells[1:4]))
    return table


LIMITS = {"bit for bit": 0, "2 ulp": 2}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", CLASSES)
def test_dense(name, dtype, tmp_path):
    promise = promised()[name][dtype]
    if promise == "no":
        pytest.skip("not in MXNet either")
    for settings in CLASSES[name]:
        for common in COMMON:
            script = updates(maker(name, settings, COMMON[common], dtype), dtype)
            assert worst(script, tmp_path) <= LIMITS[promise], (settings, common)


@pytest.mark.parametrize("name", CLASSES)
def test_float16_with_master_copy(name, tmp_path):
    for settings in CLASSES[name]:
        for common in COMMON:
            make = maker(name, {"multi_precision": True, **settings}, COMMON[common])
            promise = promised()[name]["float32"]
            assert worst(updates(make, "float16"), tmp_path) <= LIMITS[promise], (settings, common)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", SPARSE)
def test_row_sparse(name, dtype, tmp_path):
    for settings in SPARSE[name]:
        for common in COMMON:
            script = row_updates(maker(name, settings, COMMON[common], dtype), dtype)
            assert worst(script, tmp_path) == 0, (settings, common)
