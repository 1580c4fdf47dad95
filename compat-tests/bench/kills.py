"""Kills servers and the scheduler of training jobs at random moments, and looks what became of the
jobs.

    scripts/bench kills                                  50 moments of servers, 20 of the scheduler
    scripts/bench kills --servers 5 --schedulers 0       fewer
    scripts/bench kills --seed 7 --gate                  other moments; not 0 if a bar does not hold
    scripts/bench kills --docs                           and the table of docs/benchmarks.md is
                                                         written anew
    scripts/bench kills --jobs 3                         so many jobs at a time: most of their time
                                                         they wait

Each moment is met by two jobs, one with SGD with momentum, one with Adam on the servers: 2 workers,
2 servers (one of them `pslite server`), one copy of every piece. A round takes at least 50 ms. One
process is killed with SIGKILL after 1 to 40 rounds and a random part of the next; a job whose
server dies ends with round 40, one whose scheduler dies with round 160. The scheduler (`pslite
scheduler`) keeps a journal and is started again after up to 5 s, so in some jobs before the others
miss it (3 s), in some after that. What all workers hold at the end is compared with what stock's
workers hold after a run that nothing happens to. Raw numbers: .cache/bench/kills.json. Exit code 1
if a job did not end as it must. Environment: as compat-tests/harness.py.
"""

import argparse
import json
import random
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import kills_report  # noqa: E402
import report  # noqa: E402
from parts import CACHE  # noqa: E402
from run import PAGE, machine  # noqa: E402

from elastic_job import (MIXED, PACE, cluster, server_of_rank, start_scheduler_again,  # noqa: E402
                         undisturbed, with_journal)
from harness import LIBRARY, NATIVE  # noqa: E402

# Of a job whose server dies, and of one whose scheduler does; the moments are in the first 40 of
# both.
ROUNDS = {"server": 40, "scheduler": 160}
MOMENTS = 40
OPTIMIZERS = ("sgd", "adam")
# Seconds: until a job must have come so far, how exactly lines are timed, how long there is no
# scheduler.
LIMIT, LOOK, AWAY = 60, 0.002, 5
# Seconds after which the others have surely missed a scheduler.
MISSED = 3.5
LOST = r"\blost server "
BACK = r"the scheduler is back"


class Went(Exception):
    """A job did not go as it must; says how."""


class Watch:
    """When each line that the processes of a job write was seen."""

    def __init__(self, job):
        self.job = job
        self._lines = {}
        self._files = {}

    def look(self):
        for node in list(self.job.nodes.values()):
            node.poll()
            for path in (node.out_path, node.err_path):
                self._read(node, path)

    def _read(self, node, path):
        # By the node: a process that is started again writes to files of the same names.
        file, rest = self._files.get((node, path)) or (path.open(errors="replace"), "")
        *lines, rest = (rest + file.read()).split("\n")
        self._files[node, path] = file, rest
        now = time.monotonic()
        self._lines.setdefault(node, []).extend((now, line) for line in lines)

    def times(self, node, pattern, since=0.0):
        """When it wrote such lines, from a time on."""
        return [at for at, line in self._lines.get(node, [])
                if at >= since and re.search(pattern, line)]

    def until(self, condition):
        limit = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > limit:
                raise Went("it came to nothing")
            time.sleep(LOOK)
            self.look()

    def until_round(self, moment):
        """Until worker 0 has done that many rounds, and a part of the next."""
        worker = self.job.nodes["worker0"]
        self.until(lambda: self.times(worker, f"^round {int(moment)}$"))
        time.sleep(moment % 1 * PACE)

    def close(self):
        for file, _ in self._files.values():
            file.close()


def finish(watch, dead):
    """Waits for the end of all but the killed; fails unless they end well."""
    rest = [node for node in watch.job.nodes.values() if node is not dead]
    watch.until(lambda: all([node.poll() for node in rest]))
    watch.look()
    wrong = [f"{node.name} ended with {node.returncode}" for node in rest if node.returncode != 0]
    if wrong:
        raise Went(", ".join(wrong))


def kill_server(watch, numbers):
    """Seconds from the kill until the scheduler said so, and from then until every worker had done
    a round that it began after that; None where the job was over before."""
    job = watch.job
    moment, rank = numbers.uniform(1, MOMENTS), numbers.randrange(job.counts["server"])
    watch.until_round(moment)
    victim, begin = server_of_rank(job, rank), time.monotonic()
    victim.signal(signal.SIGKILL)
    finish(watch, victim)
    found = next(iter(watch.times(job.nodes["scheduler"], LOST, begin)), None)
    if found is None:
        return None, None
    # The first that it has done since may have begun before.
    rounds = [watch.times(worker, r"^round \d+$", found)[1:2] for worker in job.of("worker")]
    return found - begin, max(sum(rounds, [])) - found if all(rounds) else None


def kill_scheduler(watch, numbers):
    """Seconds from the kill until every node said so, and from the start of the new process until
    it was back for all; None where the job was over before."""
    job = watch.job
    watch.until_round(numbers.uniform(1, MOMENTS))
    others, begin = job.of("worker") + job.of("server"), time.monotonic()
    dead = job.nodes["scheduler"]
    dead.signal(signal.SIGKILL)
    time.sleep(numbers.uniform(0, AWAY))
    watch.look()
    again = time.monotonic()
    start_scheduler_again(job)
    if again - begin > MISSED:
        # A job that ends before it is back says nothing of how long that took.
        watch.until(lambda: all(watch.times(node, BACK, again) for node in others))
    finish(watch, dead)
    gone = [watch.times(node, "data go on", begin)[:1] for node in others]
    back = [watch.times(node, BACK, again)[:1] for node in others]
    return (max(sum(gone, [])) - begin if all(gone) else None,
            max(sum(back, [])) - again if all(back) else None)


# The number of moments, how a job is made, what is done to it.
KINDS = {"server": (cluster, kill_server), "scheduler": (with_journal, kill_scheduler)}
# Jobs choose their ports one after the other.
CHOOSING = threading.Lock()


def trial(kind, optimizer, seed, number):
    """One job; what came of it."""
    make, kill = KINDS[kind]
    # The same moment for each optimizer.
    numbers = random.Random(f"{seed} {kind} {number}")
    found = {"kind": kind, "optimizer": optimizer, "number": number, "found": None,
             "recovered": None}
    rounds = ROUNDS[kind]
    expected = undisturbed(optimizer, rounds=rounds)
    with CHOOSING:
        made = make(optimizer=optimizer, rounds=rounds, library={**MIXED, "scheduler": NATIVE})
    with made as job:
        watch = Watch(job.start())
        try:
            found["found"], found["recovered"] = kill(watch, numbers)
            found["wrong"] = None if job.digests == expected else "other weights"
        except Went as went:
            found["wrong"] = str(went)
        finally:
            watch.close()
        if found["wrong"]:
            print(f"{kind} {number}, {optimizer}: {found['wrong']}\n{job.describe()}",
                  file=sys.stderr)
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--servers", type=int, default=50,
                        help="moments at which a server is killed")
    parser.add_argument("--schedulers", type=int, default=20,
                        help="moments at which the scheduler is")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--jobs", type=int, default=1, help="at a time: 1", choices=range(1, 65),
                        metavar="N")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true",
                        help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    if not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    return options


def main():
    options = parse()
    words = [(kind, optimizer, options.seed, number)
             for kind, count in (("server", options.servers), ("scheduler", options.schedulers))
             for number in range(count) for optimizer in OPTIMIZERS]
    # Stock's answers are there before anybody asks for one twice.
    for kind, optimizer in dict.fromkeys(word[:2] for word in words):
        undisturbed(optimizer, rounds=ROUNDS[kind])
    trials = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(lambda word: trial(*word), words):
            trials.append(one)
            print(f"{time.strftime('%H:%M:%S')} {kills_report.line(one)}", file=sys.stderr,
                  flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    record = {"seed": options.seed, "trials": trials}
    (CACHE / "kills.json").write_text(json.dumps(record, indent=1))
    how = f"{machine()} Seed {options.seed}, {options.jobs} at a time."
    text = f"{how}\n\n{kills_report.table(trials)}"
    print(text)
    wrong = [one for one in trials if one["wrong"]]
    if options.docs and not wrong:
        PAGE.write_text(report.insert(PAGE.read_text(), text, kills_report.BEGIN, kills_report.END))
    return 1 if wrong or (options.gate and not kills_report.hold(trials)) else 0


if __name__ == "__main__":
    sys.exit(main())
