"""A process of a real job of real.py: a worker, or the server of a method that has a rule of its
own.

    real_program.py '{"method": ..., "setting": {...}, "case": [...], "seed": ..., "tau": ...}'

A worker computes its gradients inside of a sleep that takes as long as the model says, `tau`
seconds for a second of it. It prints a line of JSON when it begins, `{"begin": clock}`, and one for
each model that it gets:

    {"at": clock, "round": number, "worker": number, "model": base64 of float32,
     "late": the part by which its steps took too long}

and of an exchange the steps of the last stretch and the rounds in flight. It goes on until it is
ended, `limit` seconds at most; with `rounds` so many.
"""

import base64
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path

OPTIONS = json.loads(sys.argv[1])
signal.alarm(OPTIONS["limit"])
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

from pslite import sync as pslite_sync  # noqa: E402
from pslite.kv import KVServer, KVWorker  # noqa: E402
from pslite.node import Node  # noqa: E402
from pslite.store import Store, _number  # noqa: E402

from sync import real_server, real_worker  # noqa: E402
from sync.job import Case, Job  # noqa: E402


class Trainer:
    """A worker of the model, whose steps take time."""

    def __init__(self, number):
        setting = OPTIONS["setting"]
        exchange, alpha, speeds = OPTIONS["case"]
        job = Job(Case(exchange, alpha, tuple(speeds)), OPTIONS["seed"], setting["rate"],
                  setting.get("own_momentum", 0.0))
        self.start, self.speeds, self.number = job.start, job.speeds, number
        self.workers = len(job)
        self._worker = job.workers[number]
        #: What there is to say beside a model.
        self.note = {}
        #: Seconds that steps should have taken, and that they took.
        self._planned = self._took = 0.0

    def steps(self, weights, count):
        begin = time.monotonic()
        seconds = self._worker.steps(weights, count) * OPTIONS["tau"]
        sleep_until(begin + seconds)
        self._planned += seconds
        self._took += time.monotonic() - begin

    def now(self):
        return time.monotonic()

    @property
    def late(self):
        """The part by which steps took longer than they should."""
        return self._took / self._planned - 1 if self._planned else 0.0


def sleep_until(end):
    left = end - time.monotonic()
    if left > 0:
        time.sleep(left)


def say(what):
    print(json.dumps(what), flush=True)


def follow(node, trainer, course):
    """All workers begin together; each model is said."""
    node.barrier("workers")
    say({"begin": time.monotonic()})
    for number, (at, model) in enumerate(itertools.islice(course, OPTIONS.get("rounds"))):
        say({"at": at, "round": number,
             "worker": trainer.number, "late": trainer.late, **trainer.note,
             "model": base64.b64encode(model.tobytes()).decode("ascii")})


def of_sums(node, trainer):
    setting, run = OPTIONS["setting"], getattr(real_worker, OPTIONS["program"])
    with Store(node) as store:
        sums = real_worker.Sums(store, len(trainer.start), trainer.now,
                                setting.get("fragments", 1))
        follow(node, trainer, run(trainer, sums, setting))


def of_turns(node, trainer):
    with Store(node) as store:
        sums = real_worker.Sums(store, len(trainer.start), trainer.now)
        turn = real_worker.Turn(store, trainer.number, trainer.workers)
        own = real_worker.InTurn(trainer.start, turn, sums)
        follow(node, trainer, real_worker.hsp(trainer, own))


def of_mixing(node, trainer):
    node.barrier()
    mixed = real_worker.Mixed(KVWorker(node), trainer.start)
    follow(node, trainer,
           getattr(real_worker, OPTIONS["program"])(trainer, mixed, OPTIONS["setting"]))


def of_exchange(node, trainer):
    pieces = real_worker.Pieces(len(trainer.start))
    pieces.write(trainer.start)
    # Sections are ranges of the numbers that names have.
    names = sorted((f"array {place}" for place in range(len(pieces.arrays))), key=_number)
    with pslite_sync.Exchange(node, dict(zip(names, pieces.arrays))) as exchanged:
        warm(exchanged, trainer)
        follow(node, trainer, real_worker.exchange(trainer, exchanged, pieces, OPTIONS["setting"]))


def warm(exchanged, trainer):
    """Steps that change nothing: what a job measures of itself it knows then."""
    end = time.monotonic() + OPTIONS.get("warm", 0)
    while time.monotonic() < end:
        sleep_until(time.monotonic() + trainer.speeds[trainer.number] * OPTIONS["tau"])
        exchanged.step()
    if OPTIONS.get("warm"):
        exchanged.finish()


WAYS = {"sums": of_sums, "turns": of_turns, "mixing": of_mixing, "exchange": of_exchange}


def main():
    with Node() as node:
        trainer = Trainer(max(0, node.rank) if node.role == "worker" else 0)
        if node.role == "server":
            parts = real_worker.Pieces(len(trainer.start), more=1).parts
            KVServer(node, real_server.Handler(OPTIONS["method"], trainer.start, parts,
                                               OPTIONS["setting"], trainer.workers))
            node.barrier()
        else:
            WAYS[OPTIONS["way"]](node, trainer)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
