"""Trains one unmodified gluon script over slow links: on stock, and on pslite in several forms of
an exchange (docs/nbsync.md). Prints accuracy against time as a table, and draws it.

    scripts/demo --nbsync [FOLDER]

Four workers, one server, 20 Mbit/s each, in network namespaces: needs root. The script is
examples/train_digits.py; its learning rate is the one that it has for plain rounds. The accuracy is
that of rank 0's own model. Writes accuracy.svg and accuracy.json to the folder (default
.cache/demo).
"""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "compat-tests"), str(ROOT / "compat-tests/bench")]
sys.dont_write_bytecode = True
from cluster import LIBRARY  # noqa: E402
from harness import PYTHON  # noqa: E402

#: Seconds for one training.
LIMIT = 300
LINKS = ["--workers", "4x20", "--servers", "20"]
#: The accuracies to which times are compared.
GOALS = (0.80, 0.85, 0.90, 0.92)


class Run(NamedTuple):
    name: str
    sync: str
    #: Fast ones come further in the same time.
    epochs: int
    colour: str


RUNS = (
    Run("stock", "", 12, "#888888"),
    Run("fedavg:steps=10", "fedavg:steps=10", 60, "#1b7f4b"),
    Run("diloco:steps=10", "diloco:steps=10", 60, "#b3541e"),
    Run("nbsync", "nbsync", 60, "#1f4fbf"),
)


def train(run, folder):
    """The epochs of rank 0: accuracy, and seconds since the first step."""
    file = folder / "run.json"
    file.unlink(missing_ok=True)
    sync = ["--set", f"PSLITE_SYNC={run.sync}"] if run.sync else []
    command = [ROOT / "scripts/lab", "run", *LINKS,
               "--library", LIBRARY if run.sync else "stock", *sync,
               "--set", "OMP_NUM_THREADS=1", "--set", "MXNET_CPU_WORKER_NTHREADS=1",
               "--timeout", str(LIMIT), "--",
               PYTHON, ROOT / "examples/train_digits.py",
               "--epochs", str(run.epochs), "--json", file]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=LIMIT + 60)
    if done.returncode != 0 or not file.exists():
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        sys.exit(f"demo: the training on {run.name} failed ({done.returncode}):\n{tail}")
    found = json.loads(file.read_text())
    if found["pslite"] != bool(run.sync):
        sys.exit(f"demo: the training on {run.name} did not run on the library it was meant for")
    file.unlink()
    return found["epochs"]


def reached(epochs, goal):
    """Seconds to the first epoch of which that holds; None: never."""
    return next((epoch["seconds"] for epoch in epochs if epoch["accuracy"] >= goal), None)


def table(found):
    lines = [f"{'seconds to accuracy':>20}" + "".join(f"{goal:>10.2f}" for goal in GOALS)
             + f"{'best':>10}{'epoch':>10}"]
    for run in RUNS:
        epochs = found[run.name]
        times = (reached(epochs, goal) for goal in GOALS)
        cells = ["-" if time is None else f"{time:.2f}" for time in times]
        cells.append(f"{max(epoch['accuracy'] for epoch in epochs):.4f}")
        cells.append(f"{epochs[-1]['seconds'] / len(epochs):.2f} s")
        lines.append(f"{run.name:>20}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


def picture(found):
    """Accuracy against time; the axis of time is logarithmic in steps of ten."""
    width, height, left, bottom = 760, 420, 60, 50
    times = [epoch["seconds"] for epochs in found.values() for epoch in epochs]
    first = min(times)
    decades = max(1.0, _log(max(times) / first))

    def place(epoch):
        x = left + (width - left - 20) * _log(epoch["seconds"] / first) / decades
        y = (height - bottom) - (height - bottom - 20) * epoch["accuracy"]
        return f"{x:.1f},{y:.1f}"

    shapes = [f'<rect width="{width}" height="{height}" fill="white"/>']
    for tenth in range(0, 11, 2):
        y = (height - bottom) - (height - bottom - 20) * tenth / 10
        shapes.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" '
                      'stroke="#dddddd"/>')
        shapes.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">'
                      f"{tenth / 10:.1f}</text>")
    mark = 10.0 ** int(_log(first) - 1)
    while mark <= max(times):
        if mark >= first:
            x = left + (width - left - 20) * _log(mark / first) / decades
            shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="20" y2="{height - bottom}" '
                          'stroke="#dddddd"/>')
            shapes.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">'
                          f"{mark:g} s</text>")
        mark *= 10
    for number, run in enumerate(RUNS):
        points = " ".join(place(epoch) for epoch in found[run.name])
        shapes.append(f'<polyline points="{points}" fill="none" stroke="{run.colour}" '
                      'stroke-width="2"/>')
        y = height - bottom - 20 - 18 * (len(RUNS) - number)
        shapes.append(f'<text x="{width - 160}" y="{y}" fill="{run.colour}">{run.name}</text>')
    shapes.append(f'<text x="{left}" y="{height - 10}">test accuracy of rank 0 against the time '
                  "of its training</text>")
    body = "\n".join(shapes)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="13">\n{body}\n</svg>\n')


def _log(ratio):
    return math.log10(max(ratio, 1e-9))


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".cache/demo").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for run in RUNS:
        print(f"training on {run.name} ({run.epochs} epochs) ...", flush=True)
        found[run.name] = train(run, folder)
    print()
    print(table(found))
    (folder / "accuracy.json").write_text(json.dumps(found, indent=1))
    (folder / "accuracy.svg").write_text(picture(found))
    print(f"\npicture: {folder / 'accuracy.svg'}")
    goal = GOALS[1]
    stock, ours = reached(found["stock"], goal), reached(found["nbsync"], goal)
    if stock is None or ours is None:
        sys.exit(f"demo: not all have reached an accuracy of {goal}")
    print(f"nbsync comes to an accuracy of {goal} {stock / ours:.1f} times as fast as stock")


if __name__ == "__main__":
    main()
