"""The matrix in docs/optimizers.md: each optimizer that the wheel registers, by what it may meet on
a server.

`python compat-tests/optimizer_matrix.py` writes it anew; test_optimizers.py fails when it is stale.
Of a cell the same updates are made here, by examples/optimizer_steps.rs, and by the wheel's own
updater: those of two workers, summed in `dist_sync`, one after the other in `dist_async`.
"""

import collections
import concurrent.futures
import pathlib
import subprocess
import tempfile

import mxnet as mx
import numpy as np

import harness
from optimizer_script import Script, ulps

PROGRAM = harness.example("optimizer_steps")
PAGE = harness.ROOT / "docs/optimizers.md"
BEGIN, END = "<!-- optimizer_matrix.py begins -->", "<!-- optimizer_matrix.py ends -->"
#: What the kvstore keeps, and what the optimizer is told. For `multi_precision` the kvstore has a
#: server store float16 keys as float32.
TYPES = {"float32": ("float32", False), "float16": ("float16", False),
         "multi-precision": ("float32", True)}
KINDS = ("dense", "row_sparse")
MODES = ("dist_sync", "dist_async")
WORKERS = 2
SHAPE = (6, 3)
STEPS = 4

#: Settings beside the defaults, by class; `wd` is 0.01 unless they say otherwise.
VARIANTS = collections.defaultdict(lambda: [{}], {
    "SGD": [{}, {"momentum": 0.9}, {"lazy_update": False}, {"momentum": 0.9, "lazy_update": False}],
    "ccSGD": [{}, {"momentum": 0.9}],
    "Adam": [{}, {"lazy_update": False}],
    "NAG": [{}, {"momentum": 0.9}],
    "Signum": [{}, {"momentum": 0.0}, {"wd_lh": 0.01}],
    "LARS": [{}, {"momentum": 0.9}],
    "LBSGD": [{}, {"momentum": 0.9}, {"warmup_strategy": "lars"}],
    "LAMB": [{}, {"bias_correction": False}],
    "DCASGD": [{}, {"momentum": 0.9}],
    "AdaGrad": [{"wd": 0.0}, {}],
    "GroupAdaGrad": [{"wd": 0.0}, {}],
    "RMSProp": [{}, {"centered": True}, {"clip_weights": 0.5}],
})
#: As in test_optimizers.py: in float16 the usual ones are zero.
EPSILONS = {"Adam": "epsilon", "FTML": "epsilon", "LAMB": "epsilon", "Nadam": "epsilon"}

#: What a cell may say; docs/optimizers.md explains it. Anything else is a fault of ours.
EQUAL, FAILS, GIVEN = "equal", "fails in both", "MXNet's server"
#: The server works on a float32 copy, as in the column multi-precision of that row.
WIDENED = "in float32"
#: What our program says of a key that its optimizer can never update, as a server does before the
#: first push.
KNOWN = "before the first push"
#: Units of the last place.
LIMIT = 2


def classes():
    """Those of the wheel by name, in the order of the alphabet; other tests may have registered
    their own."""
    kinds = mx.optimizer.Optimizer.opt_registry.values()
    found = {kind.__name__: kind for kind in kinds if kind.__module__.startswith("mxnet.")}
    return dict(sorted(found.items()))


def script(name, settings, kind, of, mode):
    """Some updates of one key."""
    dtype, multi_precision = TYPES[of]
    own = {"wd": 0.01, "multi_precision": multi_precision, **settings}
    if dtype == "float16" and name in EPSILONS:
        own[EPSILONS[name]] = 1e-3
    random = np.random.RandomState(3)
    # A server knows the shapes of row_sparse values only: dense ones have one dimension there.
    shape = SHAPE if kind == "row_sparse" else (np.prod(SHAPE),)
    made = Script(lambda: classes()[name](**own), {0: random.randn(*shape).astype(dtype)})
    for step in range(STEPS):
        # Each worker pushes rows of its own, and some that the other one pushes too.
        pushes = [(random.randn(*shape), np.arange((step + worker) % 2, SHAPE[0], 1 + worker))
                  for worker in range(WORKERS)]
        if kind == "row_sparse":
            pushes = [(np.where(np.isin(np.arange(SHAPE[0]), rows)[:, None], of_all, 0), rows)
                      for of_all, rows in pushes]
        if mode == "dist_sync":
            gradients, rows = zip(*pushes)
            pushes = [(sum(gradients), np.unique(np.concatenate(rows)))]
        for gradient, rows in pushes:
            if kind == "dense":
                made.dense(0, gradient)
            else:
                made.rows(0, rows, gradient[rows])
    return made


def by_us(made):
    """The weights after each update, or what was said of it."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = pathlib.Path(folder, "script"), pathlib.Path(folder, "weights")
        source.write_bytes(made.bytes())
        run = subprocess.run([PROGRAM, source, result], capture_output=True, text=True, timeout=60)
        if run.returncode:
            return None, run.stderr
        return made.split(result.read_bytes()), ""


def by_them(made):
    """The weights after each update by MXNet; none if it fails."""
    try:
        return made.by_mxnet()
    except Exception:  # Whatever it is, MXNet cannot do it.
        return None


def cell(name, settings, kind, of, mode):
    """What happens with that optimizer, storage, type and mode."""
    made = script(name, settings, kind, of, mode)
    ours, said = by_us(made)
    theirs = by_them(made)
    if ours is None:
        refused = by_us(Script(made.make, made.keys))[0] is None
        if of == "float16" and "cannot update weights of type float16" in said:
            return WIDENED
        if not refused and KNOWN not in said:
            return f"**fails at the first push**: {said.strip()}"
        if theirs is None and not refused:
            return FAILS
        return (GIVEN if refused or "its native kernel" in said
                else f"**fails here**: {said.strip()}")
    if theirs is None:
        return "**only MXNet fails**"
    far = max(ulps(*pair) for pair in zip(ours, theirs))
    return EQUAL if far <= LIMIT else f"**{far} ulp**"


def label(name, settings):
    given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"`{name}({given})`"


def table():
    """The lines of the matrix."""
    lines = ["| | mode | " + " | ".join(f"{kind}, {of}" for kind in KINDS for of in TYPES) + " |",
             "|---" * (2 + len(KINDS) * len(TYPES)) + "|"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = [(name, settings, mode,
                 [pool.submit(cell, name, settings, kind, of, mode)
                  for kind in KINDS for of in TYPES])
                for name in classes() for settings in VARIANTS[name] for mode in MODES]
        for name, settings, mode, cells in rows:
            results = " | ".join(of.result() for of in cells)
            lines.append(f"| {label(name, settings)} | `{mode}` | {results} |")
    return lines


def page(lines):
    """The page with this matrix."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    # Markdown wants a table to be a paragraph of its own.
    return before + "\n".join([BEGIN, "", *lines, "", END]) + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(table()))
