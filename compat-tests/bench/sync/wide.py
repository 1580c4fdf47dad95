"""Real trainings at nine sites whose links are slow and uneven: time to an accuracy. Root.

Scripts of gluon that know of nothing (examples/train_digits.py), on stock and with PSLITE_SYNC; and
a network of torch, by pslite.sync and by DiLoCo over gloo (wide_torch.py). The trainings of a table
run one after the other, and again for each seed. Each is ended when it has reached the highest
accuracy of GOALS, or after LIMIT seconds.
"""

import json
import subprocess
import tempfile
import textwrap
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import wan_paper
from cluster import LIBRARY
from harness import PYTHON, ROOT
from netlab import Mesh, graph
from netlab.cluster import OURS, STOCK, Sites
from netlab.layout import sites
from netlab.links import CONGESTION

from .bars import Bar
from .curves import GOALS, LIMIT, START, Wanted, note, script, times_to, train

#: The rates of the links are drawn by that; a quarter of NetStorm's. The network of the script is
#: small, so over these an exchange takes as long as a few steps of nine workers that share this
#: machine's processors. Over SLOWER it takes as long as many, as that of a large network does.
DRAWN, SCALE, SLOWER = 0, 0.25, 0.0625
# The seed that settings are chosen with; those that are measured follow it.
TUNING = 100
# torch: seconds of a step, and how much longer each worker takes. All are equal, which is best for
# DiLoCo.
STEP = 0.25
SITES = 9
TORCH = ("/usr/bin/python3", PYTHON)
PROGRAM = Path(__file__).resolve().parent / "wide_torch.py"
# Along trees: the links are told, so all know them from the start.
TREES = {"PSLITE_SYNC": "nbsync", "PSLITE_TOPOLOGY": "packed"}
STAR = {"PSLITE_SYNC": "nbsync"}
# What DiLoCo is tuned over: its rates and momenta, steps of a round.
RATES, OWN, STEPS = (0.06, 0.12, 0.24, 0.03), (0.9, 0.0), (1, 2, 4, 8, 16)
OUTER = ((0.7, 0.9), (0.7, 0.5), (1.0, 0.5), (1.0, 0.0))
# Steps after which a setting is given up, and settings that one process tries. It is given up
# sooner if it takes WORST times as long as the best one.
MOST, TRIED, WORST = 160, 20, 1.5
# What pslite.sync is tuned over: the step's rate and momentum. Each is trained for real, for so
# many seconds at most.
PAIRS, LOOKED = ((0.24, 0.5), (0.24, 0.0), (0.48, 0.0), (0.12, 0.0), (0.12, 0.9), (0.06, 0.9),
                 (0.06, 0.7), (0.03, 0.9)), 40
# Rounds by which gloo's sum is measured.
SUMS = 8


GLUON = (Wanted("stock, the server at the best site", STOCK, {}),
         Wanted("nbsync, the same server", OURS, STAR),
         Wanted("nbsync along trees, a server at each site", OURS, TREES, "all"))
SYNC = (Wanted("pslite.sync, a server at the best site", OURS, STAR),
        Wanted("pslite.sync along trees, a server at each site", OURS, TREES, "all"))


class Lab:
    """The sites, and what runs there."""

    def __init__(self, stack, scale):
        drawn = graph.named("netstorm", DRAWN, scale)
        self._mesh = stack.enter_context(Mesh(drawn, CONGESTION))
        self._names = list(self._mesh.hosts)
        self.hosts = [host.address for host in self._mesh.hosts.values()]
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pslite-wide-")))
        self._links = self._folder / "links"
        self._links.write_text(wan_paper.links_text(
            drawn, {name: host.address for name, host in self._mesh.hosts.items()}))
        self.data = self._folder / "data.npz"
        save(self.data)

    def gluon(self, wanted, seed):
        return self._train(wanted, script(seed))

    def exchange(self, wanted, setting, seed, limit=LIMIT):
        return self._train(wanted, self._torch("exchange", {**setting, "seed": seed}), limit)

    def diloco(self, setting, seed, points=None):
        command = self._torch("diloco", {**setting, "seed": seed, "hosts": self.hosts})
        place = Sites(self._mesh, self._names[0], [], self._names)
        return train(place, Wanted("DiLoCo", STOCK, {}), command, SITES, 0,
                     points=points)

    def _torch(self, how, options):
        return [python_with_torch(), "-u", str(PROGRAM), str(START + LIMIT), str(self.data), how,
                json.dumps({"speeds": [1.0] * SITES, "step": STEP, **options})]

    def _train(self, wanted, command, limit=LIMIT):
        at = sites(wanted.at, self._mesh.graph(), "servers", self._names)
        settings = {"PYTHONPATH": str(ROOT / "ffi/python"),
                    "PSLITE_LIBPS": str(LIBRARY.with_name("libps.so"))}
        if "PSLITE_TOPOLOGY" in wanted.settings:
            settings["PSLITE_LINKS"] = str(self._links)
        return train(Sites(self._mesh, at[0], at, self._names), wanted, command, SITES, len(at),
                     settings, limit=limit)


def python_with_torch():
    for python in TORCH:
        if Path(python).exists() and subprocess.run(
                [python, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
            return str(python)
    raise SystemExit("bench sync wide: no Python with torch (Debian: apt-get install "
                     "python3-torch)")


def save(path):
    """The images for torch, whose Python need not have scikit-learn."""
    from sklearn.datasets import load_digits
    found = load_digits()
    order = np.random.RandomState(7).permutation(len(found.target))
    np.savez(path, images=(found.images[order] / 16).astype("float32")[:, None],
             labels=found.target[order].astype("int64"))


# ---- DiLoCo at its best -------------------------------------------------------------------------

def tuned(lab, say):
    """DiLoCo's best settings by how long a sum takes here, and what each setting needs; the
    seconds of a sum."""
    paced = lab.diloco({"rate": 0.0, "own": 0.0, "outer": 0.0, "momentum": 0.0, "steps": 1,
                        "step": 0.0}, TUNING, points=SUMS)
    times = [seconds for seconds, _ in paced.points]
    cost = median(after - before for before, after in zip(times, times[1:]))
    say(f"a sum over gloo takes {cost:.2f} s")
    grid = [{"rate": rate, "own": own, "steps": steps, "outer": outer, "momentum": momentum}
            for rate, own, steps, (outer, momentum) in product(RATES, OWN, STEPS, OUTER)]
    needed, rows = [], []
    for at in range(0, len(grid), TRIED):
        best = min(rows)[0] if rows else None
        needed += emulated(lab, grid[at:at + TRIED], cost, best)
        rows += [(needed[index] * (grid[index]["steps"] * STEP + cost), index)
                 for index in range(at, len(needed)) if needed[index]]
    rows.sort()
    if not rows:
        raise SystemExit("bench sync wide: no setting of DiLoCo reaches the accuracy")
    for seconds, index in rows[:5]:
        say(f"DiLoCo, {grid[index]}: {needed[index]} rounds, {seconds:.1f} s expected")
    return [grid[index] for _, index in rows], cost


def emulated(lab, settings, cost, best):
    """The rounds that each needs; None: it does not arrive, or far too late. cost: seconds of a
    sum; best: those of the best setting so far."""
    asked = [{**setting, "seed": TUNING, "speeds": [1.0] * SITES, "step": STEP,
              "most": MOST // setting["steps"], "goal": GOALS[-1], "best": best, "worst": WORST,
              "round": setting["steps"] * STEP + cost} for setting in settings]
    done = subprocess.run(
        [python_with_torch(), str(PROGRAM), "3600", str(lab.data), "emulate", json.dumps(asked)],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# ---- the whole ----------------------------------------------------------------------------------

def measure(times, say):
    """{table: {name: [points]}, "settings", "sum"}, the tables of BARS."""
    found = {table: {} for table in BARS}
    with ExitStack() as stack:
        gluon(Lab(stack, SLOWER), times, found[GLUON_SLOWER], say)
    with ExitStack() as stack:
        lab = Lab(stack, SCALE)
        gluon(lab, times, found["gluon"], say)
        torch(lab, times, found, say)
    return found


def gluon(lab, times, curves, say):
    for seed in range(times):
        for wanted in GLUON:
            note(curves, wanted.name, lab.gluon(wanted, seed), say)


def torch(lab, times, found, say):
    settings, found["sum"] = tuned(lab, say)
    best = settings[0]
    own = chosen(lab, say)
    found["settings"] = {"DiLoCo": best, "pslite.sync": own}
    for seed in range(times):
        note(found["torch"], "DiLoCo over gloo, tuned", lab.diloco(best, seed), say)
        for wanted in SYNC:
            note(found["torch"], wanted.name, lab.exchange(wanted, own, seed), say)


def chosen(lab, say):
    """The rate and momentum of the program under pslite.sync."""
    taken = {}
    for rate, own in PAIRS:
        curve = lab.exchange(SYNC[-1], {"rate": rate, "own": own}, TUNING, LOOKED)
        taken[rate, own] = curve.reached(GOALS[-1])
        say(f"pslite.sync, rate {rate}, momentum {own}: {taken[rate, own] or 'never'}")
    arrived = {pair: seconds for pair, seconds in taken.items() if seconds is not None}
    if not arrived:
        raise SystemExit("bench sync wide: no setting of pslite.sync reaches the accuracy")
    rate, own = min(arrived, key=arrived.get)
    return {"rate": rate, "own": own}


GLUON_SLOWER = "gluon, links a quarter as fast"
#: How many times as fast the last of a table is as its first.
BARS = {"gluon": 8, GLUON_SLOWER: 8, "torch": 2}


def bars(found):
    """[Bar]: of each table, by the medians of the seeds."""
    rows = []
    for table, wanted in BARS.items():
        curves = found[table]
        first, last = next(iter(curves)), list(curves)[-1]
        for name, goal in product(list(curves)[1:], GOALS):
            base, ours = (median(times_to(curves[one], goal)) for one in (first, name))
            judged = name == last and goal == GOALS[-1]
            rows.append(Bar(
                f"{table}, accuracy {goal:.2f}: {name} ({ours:.1f} s{never(curves[name], goal)}) "
                f"by {first} ({base:.1f} s{never(curves[first], goal)})",
                f"at least {wanted}" if judged else "reported", f"{base / ours:.1f}",
                base / ours >= wanted if judged else None))
    return rows


def never(curves, goal):
    """How many trainings did not get there."""
    missed = times_to(curves, goal).count(LIMIT)
    return f"; {missed} of {len(curves)} never" if missed else ""


def settings(found):
    """What was chosen, and what things take."""
    said = "; ".join(f"{name}: " + ", ".join(f"{what} {value:g}" for what, value in one.items())
                     for name, one in found["settings"].items())
    epochs = "; ".join(f"{name}: {epoch(curves):.2f} s" for name, curves in found["gluon"].items())
    slower = "; ".join(f"{name}: {epoch(curves):.2f} s"
                       for name, curves in found[GLUON_SLOWER].items())
    return textwrap.fill(
        f"An epoch of the script takes: {epochs}. Over the slower links: {slower}. A sum of all "
        f"over gloo takes {found['sum']:.2f} s, a step of torch's network {STEP:g} s. Settings, "
        f"chosen with a seed of their own: {said}.", 100)


def epoch(curves):
    """Seconds of an epoch, the mean of a training; the median of all trainings."""
    return median((points[-1][0] - points[0][0]) / (len(points) - 1) for points in curves)
