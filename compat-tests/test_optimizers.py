"""Native optimizers and learning-rate schedulers against those of the wheel, step by step.

The table in docs/optimizers.md says how near each optimizer comes; these tests hold it.
"""

import os
import re
import subprocess

import numpy as np
import pytest

import harness
import kept
from optimizer_script import Script, ulps

# Here too operators are made at their first call: all test processes collect this file.
harness.program("sitecustomize")
mx = pytest.importorskip("mxnet")
import optimizer_matrix  # noqa: E402 (it needs mxnet)
opt = mx.optimizer
schedulers = mx.lr_scheduler

PROGRAM = harness.example("optimizer_steps")
# MXNet's side of an update takes most of the time. With `--full` there are more of them.
STEPS = 50 if kept.STOCK_ANEW in os.environ else 20
NAMES = {0: "fc_weight", 1: "fc_bias", 2: "bn_gamma", 3: "bn_beta", 4: "out_weight"}
SHAPES = {0: (37, 11), 1: (7,), 2: (64,), 3: (1,), 4: (129, 5)}


@pytest.fixture(scope="session", autouse=True)
def program():
    harness.build_examples()
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
    "NAG": [{}, {"momentum": 0.9, "learning_rate": 0.0371}],
    "Signum": [{}, {"momentum": 0.0}, {"momentum": 0.3, "wd_lh": 0.013}],
    "FTML": [{}, {"learning_rate": 0.0025, "beta1": 0.7}],
    "LARS": [{}, {"momentum": 0.9, "learning_rate": 0.17, "eta": 0.0023, "eps": 1e-7},
             {"momentum": 0.9, "momentum_correction": False}],
    "LBSGD": [{"warmup_epochs": 1}, {"momentum": 0.9, "batch_scale": 3, "updates_per_epoch": 7},
              {"batch_scale": 2, "warmup_strategy": "power2", "begin_epoch": 1},
              {"batch_scale": 2, "warmup_strategy": "sqrt", "momentum": 0.5},
              {"batch_scale": 4, "warmup_strategy": "other"}],
    "LAMB": [{}, {"lower_bound": 0.5, "upper_bound": 3.0, "bias_correction": False},
             {"learning_rate": 0.0173}],
    "DCASGD": [{}, {"learning_rate": 0.0371, "lamda": 0.077}],
    "AdaGrad": [{}, {"learning_rate": 0.0371, "eps": 1.3e-5}],
    "RMSProp": [{}, {"centered": True}, {"clip_weights": 0.7, "learning_rate": 0.0371},
                {"centered": True, "clip_weights": 0.7, "gamma1": 0.8, "gamma2": 0.77}],
    "AdaDelta": [{}, {"rho": 0.77, "epsilon": 1.7e-4}],
    "Ftrl": [{}, {"lamda1": 0.3, "beta": 0.77, "learning_rate": 0.037}],
    "Adamax": [{}, {"learning_rate": 0.0371, "beta1": 0.77, "beta2": 0.9}],
    "Nadam": [{}, {"learning_rate": 0.0371, "beta1": 0.77, "schedule_decay": 0.01}],
    "Test": [{}],
}
#: These share state between keys in MXNet, which depends on the order in which keys come.
PER_KEY = ("Nadam",)

#: Settings for row_sparse gradients.
SPARSE = {
    "SGD": [{}, {"momentum": 0.9}, {"lazy_update": False}, {"momentum": 0.9, "lazy_update": False}],
    "Adam": [{}, {"lazy_update": False, "beta2": 0.9}],
    "NAG": [{}, {"momentum": 0.9}],
    "Signum": [{"momentum": 0.0}, {}],
    "FTML": [{}],
    "LAMB": [{}],
    "DCASGD": [{}],
    "RMSProp": [{}, {"centered": True}],
    "AdaDelta": [{}],
    "Nadam": [{}],
    "AdaGrad": [{}],
    "GroupAdaGrad": [{}],
    "Ftrl": [{}, {"lamda1": 0.2}],
    "Test": [{}],
}
#: These cannot decay weights with row_sparse gradients, in MXNet either.
WITHOUT_DECAY = ("AdaGrad", "GroupAdaGrad")

#: In float16 the usual epsilons are zero, and zero gradients give NaN. They do here too, but a test
#: on NaNs proves little.
HALF = {"Adam": {"epsilon": 1e-3}, "FTML": {"epsilon": 1e-3}, "LAMB": {"epsilon": 1e-3},
        "Nadam": {"epsilon": 1e-3}, "LARS": {"eta": 0.3}}


def maker(name, settings, common, dtype="float32"):
    half = HALF.get(name, {}) if dtype == "float16" else {}

    def make():
        optimizer = opt.Optimizer.opt_registry[name.lower()](**{**common, **settings, **half})
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


def in_mxnet(classes):
    """Of these classes with each dtype, those that MXNet has. (`test_docs_have_the_matrix` holds
    the table.)"""
    table = promised()
    return [(name, dtype)
            for name in classes for dtype in table[name] if table[name][dtype] != "no"]


LIMITS = {"bit for bit": 0, "2 ulp": 2}


@pytest.mark.parametrize("name, dtype", in_mxnet(CLASSES))
def test_dense(name, dtype, tmp_path):
    promise = promised()[name][dtype]
    for settings in CLASSES[name]:
        for common in COMMON:
            script = updates(maker(name, settings, COMMON[common], dtype), dtype)
            far = worst(script, tmp_path, updater_per_key=name in PER_KEY)
            assert far <= LIMITS[promise], (settings, common)


@pytest.mark.parametrize("name", CLASSES)
def test_float16_with_master_copy(name, tmp_path):
    for settings in CLASSES[name]:
        for common in COMMON:
            make = maker(name, {"multi_precision": True, **settings}, COMMON[common], "float16")
            promise = promised()[name]["float32"]
            far = worst(updates(make, "float16"), tmp_path, updater_per_key=name in PER_KEY)
            assert far <= LIMITS[promise], (settings, common)


@pytest.mark.parametrize("name, dtype", in_mxnet(SPARSE))
def test_row_sparse(name, dtype, tmp_path):
    promise = promised()[name][dtype]
    for settings in SPARSE[name]:
        for common in COMMON:
            given = COMMON[common]
            if name in WITHOUT_DECAY:
                given = {key: of for key, of in given.items() if key != "wd"}
            script = row_updates(maker(name, settings, given, dtype), dtype)
            far = worst(script, tmp_path, updater_per_key=name in PER_KEY)
            assert far <= LIMITS[promise], (settings, common)


SCHEDULES = {
    "factor": lambda: schedulers.FactorScheduler(7, 0.83, base_lr=0.11),
    "factor that stops": lambda: schedulers.FactorScheduler(3, 0.3, stop_factor_lr=0.003,
                                                            base_lr=0.2),
    "factor after warmup": lambda: schedulers.FactorScheduler(
        5, 0.9, base_lr=0.11, warmup_steps=13, warmup_begin_lr=0.001),
    "multi factor": lambda: schedulers.MultiFactorScheduler([5, 6, 20, 41], 0.37, base_lr=0.11),
    "multi factor after warmup": lambda: schedulers.MultiFactorScheduler(
        [15, 30], 0.1, base_lr=0.11, warmup_steps=10, warmup_begin_lr=0.03, warmup_mode="constant"),
    "poly": lambda: schedulers.PolyScheduler(37, base_lr=0.11, final_lr=0.002),
    "poly after warmup": lambda: schedulers.PolyScheduler(
        200, base_lr=0.11, pwr=3, warmup_steps=9, warmup_begin_lr=0.01),
    "cosine": lambda: schedulers.CosineScheduler(37, base_lr=0.11, final_lr=0.002),
    "cosine after warmup": lambda: schedulers.CosineScheduler(
        200, base_lr=0.11, warmup_steps=9, warmup_begin_lr=0.01),
}


@pytest.mark.parametrize("moves", [False, True], ids=["stays", "moves"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedule(schedule, moves, tmp_path):
    """The rates of every update; also if the key moves to another server after each."""
    for start in (0, 8):
        def make():
            return opt.SGD(lr_scheduler=SCHEDULES[schedule](), begin_num_update=start)
        assert worst(updates(make, "float32", moves=moves), tmp_path) == 0, start


def test_schedule_that_was_used_before_it_was_sent(tmp_path):
    def make():
        optimizer = opt.Adam(lr_scheduler=schedulers.MultiFactorScheduler([4, 9, 30], 0.5))
        for count in range(6):
            for key in SHAPES:
                optimizer.update(key, mx.nd.ones(3), mx.nd.ones(3),
                                 (mx.nd.zeros(3), mx.nd.zeros(3)))
        return optimizer
    assert worst(updates(make, "float32"), tmp_path) == 0


@pytest.mark.parametrize("name", ("LARS", "LBSGD"))
def test_schedule_of_those_that_ask_differently(name, tmp_path):
    """MXNet's result depends here on which key comes first; ours is that of each key alone."""
    def make():
        return opt.Optimizer.opt_registry[name.lower()](
            momentum=0.9, lr_scheduler=schedulers.FactorScheduler(6, 0.7, base_lr=0.2))
    assert worst(updates(make, "float32"), tmp_path, updater_per_key=True) == 0


@pytest.mark.parametrize("name", CLASSES)
def test_state_moves(name, tmp_path):
    """A key that moves between servers after every update ends as one that stays."""
    for settings in CLASSES[name]:
        for dtype in ("float32", "float16"):
            given = {"multi_precision": True} if dtype == "float16" else {}
            make = maker(name, {**settings, **given}, COMMON["wd"], dtype)
            moved = native(updates(make, dtype, moves=True, steps=9), tmp_path)
            stayed = native(updates(make, dtype, steps=9), tmp_path)
            assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(moved, stayed))


def test_docs_list_what_is_supported():
    classes = subprocess.run([PROGRAM, "list"], capture_output=True, text=True,
                             check=True).stdout.split()
    assert set(promised()) == set(classes)
    assert set(classes) == set(CLASSES) | {"GroupAdaGrad"}
    registered = {kind.__name__ for kind in opt.Optimizer.opt_registry.values()}
    assert registered - set(classes) == {"SGLD"}


def test_docs_have_the_matrix():
    """What MXNet can do and we cannot must be known before anything is trained: no cell says
    otherwise."""
    lines = optimizer_matrix.table()
    allowed = {optimizer_matrix.EQUAL, optimizer_matrix.WIDENED, optimizer_matrix.FAILS,
               optimizer_matrix.GIVEN}
    wrong = [line for line in lines[2:] if not set(line.strip("| ").split(" | ")[2:]) <= allowed]
    assert not wrong, wrong
    assert optimizer_matrix.page(lines) == optimizer_matrix.PAGE.read_text(), \
        "docs/optimizers.md is stale: run compat-tests/optimizer_matrix.py"


def refusal(make, dtype="float32", dense=True):
    """What the native program says when it refuses."""
    script = Script(make, {0: np.ones((3, 2), dtype)})
    if dense:
        script.dense(0, np.ones((3, 2)))
    else:
        script.rows(0, np.array([1]), np.ones((1, 2)))
    run = subprocess.run([PROGRAM, "/dev/stdin", "/dev/null"], input=script.bytes(),
                         capture_output=True, timeout=60)
    assert run.returncode != 0
    return run.stderr.decode()


class OwnOptimizer(opt.SGD):
    """A class that only this program knows."""


def test_what_is_refused():
    unknown = refusal(OwnOptimizer)
    assert "OwnOptimizer" in unknown and "RMSProp" in unknown
    assert "SGLD" in refusal(opt.SGLD) and "random" in refusal(opt.SGLD)
    assert "float16" in refusal(opt.RMSProp, "float16")
    assert "momentum" in refusal(lambda: opt.DCASGD(momentum=0.9))
    assert "warmup_strategy" in refusal(lambda: opt.LBSGD(warmup_strategy="lars"))
    assert "weight decay" in refusal(lambda: opt.AdaGrad(wd=0.1), dense=False)
    assert "row_sparse" in refusal(opt.LARS, dense=False)
    assert "GroupAdaGrad" in refusal(opt.contrib.GroupAdaGrad)

    def changed():
        optimizer = opt.SGD()
        optimizer.warp = 9
        return optimizer
    assert "warp" in refusal(changed)
