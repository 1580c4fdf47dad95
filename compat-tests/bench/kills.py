"""Kills nodes of training jobs at random moments, and looks what became of the jobs.

    scripts/bench kills                                  50 moments of servers, 20 of the scheduler
    scripts/bench kills --servers 5 --schedulers 0       fewer
    scripts/bench kills --seed 7 --gate                  other moments; not 0 if a bar does not hold
    scripts/bench kills --topology balanced:1            rounds go along trees; 20 moments of
                                                         servers, 10 of the scheduler, 20 of relays
    scripts/bench kills --sync fedavg:steps=4            workers exchange deltas
    scripts/bench kills --docs                           and the table of docs/benchmarks.md is
                                                         written anew: with --topology, the second
    scripts/bench kills --jobs 3                         so many jobs at a time: most of their time
                                                         they wait

Each moment is met by two jobs, one with SGD with momentum, one with Adam on the servers: 2 workers,
2 servers (one of them `pslite server`), one copy of every piece. A round takes at least 50 ms. One
process is killed with SIGKILL after 1 to 40 rounds and a random part of the next; a job whose
server dies ends with round 40, one whose scheduler dies with round 160. The scheduler (`pslite
scheduler`) keeps a journal and is started again after up to 5 s, so in some jobs before the others
miss it (3 s), in some after that. What all workers hold at the end is compared with what stock's
workers hold after a run that nothing happens to.

With --topology rounds go along trees (docs/trees.md), and relays are killed, too: workers that sum
for others, drawn at random, in jobs that go on without them (PSLITE_ELASTIC_WORKERS=1). Such a job
has 2K+1 workers for balanced:K, so two relays. It runs programs/elastic_workers.py for 40 rounds:
whose gradients were in each of them shows in the values. All must be in each round up to one, and
all but the dead worker's in each that follows. The other two kinds of moments are met along chains
only: a sum of two has the same bits whoever adds, and with two workers no other trees have relays.
By its metrics, the last worker of each job must have sent 80 % of its pushes to another worker.

With --sync (PSLITE_SYNC of docs/nbsync.md) the same jobs exchange deltas, and the global model that
all workers hold at the end is compared with that of an undisturbed job of ours. For modes that
wait: in others time decides what is in which round. It has no table in docs/benchmarks.md.

Raw numbers: .cache/bench/kills.json, kills-trees.json or kills-sync.json. Exit code 1 if a job did
not end as it must; what `pslite status` and the processes said is on standard error then, and in
the folder that PSLITE_KEEP names all that they said. Environment: as compat-tests/harness.py.
"""

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import kills_report  # noqa: E402
import report  # noqa: E402
from parts import CACHE  # noqa: E402
from run import PAGE, machine  # noqa: E402

from elastic_job import (MIXED, PACE, cluster, pslite, server_of_rank,  # noqa: E402
                         start_scheduler_again, undisturbed, with_journal)
from harness import LIBRARY, NATIVE, Cluster  # noqa: E402

# Of a job by who dies; the moments are in the first 40 of all.
ROUNDS = {"server": 40, "scheduler": 160, "relay": 40}
MOMENTS = 40
OPTIMIZERS = {"server": ("sgd", "adam"), "scheduler": ("sgd", "adam"), "relay": ("sgd",)}
# How many moments there are of each kind if nothing is said: without trees, along chains, and along
# other trees.
STRAIGHT = {"server": 50, "scheduler": 20, "relay": 0}
CHAIN = {"server": 20, "scheduler": 10, "relay": 20}
TREES = {"server": 0, "scheduler": 0, "relay": 20}
# Seconds: until a job must have come so far, how exactly lines are timed, how long there is no
# scheduler.
LIMIT, LOOK, AWAY = 60, 0.002, 5
# Seconds after which the others have surely missed a scheduler.
MISSED = 3.5
LOST = r"\blost server "
WITHOUT = "the job goes on without worker"
# Bytes of all values that a worker pushes in a round, by the program, and the part of a leaf's that
# must go to another worker if its rounds go along trees.
MODELS = {"elastic.py": 4 * (1100 * 1000 + 600 * 400 + 300 * 70 + 400 + 1),
          "elastic_workers.py": 4 * (1100 * 1000 + 40)}
ALONG = 0.8
METRICS = "metrics.jsonl"
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
    return went_on(watch, LOST, begin, job.of("worker"))


def went_on(watch, lost, begin, workers):
    """Seconds from then until the scheduler said so, and from that until each of those workers had
    done a round that it began after that; None where the job was over before."""
    found = next(iter(watch.times(watch.job.nodes["scheduler"], lost, begin)), None)
    if found is None:
        return None, None
    # The first that it has done since may have begun before.
    rounds = [watch.times(worker, r"^round \d+$", found)[1:2] for worker in workers]
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


def children(topology):
    """Of each worker in balanced trees."""
    return int(topology.partition(":")[2])


def relayed(optimizer, rounds, env, library):
    """A job whose workers may die. Ranks 0 and 1 sum for others, and no other one does."""
    flags = {"PSLITE_ELASTIC": 1, "PSLITE_ELASTIC_WORKERS": 1, "PS_VERBOSE": 1}
    return Cluster("elastic_workers.py", (rounds, PACE), env={**flags, **env}, library=library,
                   workers=2 * children(env["PSLITE_TOPOLOGY"]) + 1)


def kill_relay(watch, numbers):
    """As `kill_server`; fails, too, if it is not each gradient once or not at all."""
    job = watch.job
    moment, rank = numbers.uniform(1, MOMENTS), numbers.randrange(2)
    watch.until_round(moment)
    said, begin = f"this is rank {rank} of {job.counts['worker']}\n", time.monotonic()
    victim = next(worker for worker in job.of("worker") if said in worker.out)
    victim.signal(signal.SIGKILL)
    finish(watch, victim)
    others = [worker for worker in job.of("worker") if worker is not victim]
    check_counts([worker.result for worker in others], rank, int(moment))
    return went_on(watch, WITHOUT, begin, others)


def check_counts(results, rank, least):
    """Fails unless the gradients of that worker were in all rounds up to one, and that after
    `least` or a later one, those of the others in all, and all elements are what this makes
    them."""
    rounds = ROUNDS["relay"]
    everybody = 2 ** (len(results) + 1) - 1
    if len({result["digest"] for result in results}) > 1:
        raise Went("workers differ")
    for counted in results[0]["counted"]:
        whole = counted.count(everybody)
        if whole < least or counted[whole:] != [everybody - 2 ** rank] * (rounds - whole):
            raise Went(f"counted were {counted}, of {everybody}, and {2 ** rank} died")
    if any(result["counted"] != results[0]["counted"] for result in results):
        raise Went("workers saw different rounds")
    # After one round more or less of the dead worker values differ by 1 at least.
    possible = [value_after(whole, rounds - whole, everybody, everybody - 2 ** rank)
                for whole in range(least, rounds + 1)]
    for value in results[0]["values"]:
        if min(abs(value - one) for one in possible) > 0.1:
            raise Went(f"an element is {value}, and may be {possible}")


def value_after(whole, rest, everybody, others):
    """An element after so many rounds with those gradients, by programs/elastic_workers.py."""
    value, momentum = 1000.0, 0.0
    for gradient in [everybody] * whole + [others] * rest:
        momentum = momentum / 2 - gradient
        value += momentum
    return value


# How a job is made, what is done to it.
KINDS = {"server": (cluster, kill_server), "scheduler": (with_journal, kill_scheduler),
         "relay": (relayed, kill_relay)}
# Jobs choose their ports one after the other.
CHOOSING = threading.Lock()


class Question(NamedTuple):
    """What is tried: who dies, under which optimizer, at which moment, in which job."""

    kind: str
    optimizer: str
    seed: int
    number: int
    topology: Optional[str]
    sync: Optional[str]

    def env(self):
        along = {"PSLITE_TOPOLOGY": self.topology, "PSLITE_METRICS": METRICS}
        return {**(along if self.topology else {}),
                **({"PSLITE_SYNC": self.sync} if self.sync else {})}


def trial(asked):
    """One job; what came of it."""
    kind, optimizer, seed, number, topology, _ = asked
    make, kill = KINDS[kind]
    # The same moment for each optimizer.
    numbers = random.Random(f"{seed} {kind} {number}")
    found = {"kind": kind, "optimizer": optimizer, "number": number, "found": None,
             "recovered": None}
    rounds = ROUNDS[kind]
    with CHOOSING:
        made = make(optimizer=optimizer, rounds=rounds, env=asked.env(),
                    library={**MIXED, "scheduler": NATIVE})
    with made as job:
        watch = Watch(job.start())
        status = ""
        try:
            found["found"], found["recovered"] = kill(watch, numbers)
            found["wrong"] = differs(asked, job)
            if topology and not found["wrong"]:
                found["along"] = along(job, rounds)
                if found["along"] < ALONG:
                    found["wrong"] = f"{found['along']:.2f} of the rounds went along trees"
        except Went as went:
            found["wrong"] = str(went)
            status = status_of(job)
        finally:
            watch.close()
        if found["wrong"]:
            print(f"{kind} {number}, {optimizer}: {found['wrong']}\n{status}\n{job.folder}\n"
                  f"{job.describe()}", file=sys.stderr)
    return found


def differs(asked, job):
    """What is wrong with the values at the end; relays' were looked at before."""
    if asked.kind == "relay" or job.digests == expected(asked.optimizer, ROUNDS[asked.kind],
                                                        asked.sync):
        return None
    return "other weights"


@lru_cache(maxsize=None)
def expected(optimizer, rounds, sync):
    """The workers' digests when nothing happens: of stock, or of ours that exchanges deltas."""
    if not sync:
        return undisturbed(optimizer, rounds=rounds)
    with cluster(optimizer=optimizer, rounds=rounds, env={"PSLITE_SYNC": sync},
                 library={**MIXED, "scheduler": NATIVE}) as job:
        if not job.start().wait() or len(set(job.digests.values())) != 1:
            raise SystemExit(f"the undisturbed job did not end well:\n{job.describe()}")
        return job.digests


def along(job, rounds):
    """Which part of its pushes the last worker, a leaf that lives, sent to another worker."""
    leaf, sent = job.counts["worker"] - 1, 0
    for line in (job.folder / METRICS).read_text().splitlines():
        told = json.loads(line)
        if (told["role"], told["rank"]) == ("worker", leaf):
            sent = sum(one["value"] for one in told["metrics"]
                       if one["name"] == "bytes" and one.get("kind") == "push"
                       and one["direction"] == "sent" and one["peer"].startswith("worker"))
    return sent / rounds / MODELS[job.script.name]


def status_of(job):
    """What an operator would see; nothing of a job that is over."""
    try:
        status = pslite(job, "status")
        return status.stdout + status.stderr
    except subprocess.TimeoutExpired as late:
        return str(late)


def is_topology(name):
    if not re.fullmatch(r"balanced:[1-9]", name):
        raise argparse.ArgumentTypeError(f"{name} is not balanced:1 to balanced:9")
    return name


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--topology", type=is_topology, metavar="NAME",
                        help="rounds go along trees: balanced:1 is a chain")
    for kind, whom in (("server", "a server"), ("scheduler", "the scheduler"),
                       ("relay", "a worker that sums for others")):
        parser.add_argument(f"--{kind}s", type=int, metavar="N",
                            help=f"moments at which {whom} is killed: {STRAIGHT[kind]}, along "
                            f"chains {CHAIN[kind]}, along other trees {TREES[kind]}")
    parser.add_argument("--sync", metavar="TEXT", help="workers exchange deltas: a mode that waits")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--jobs", type=int, default=1, help="at a time: 1", choices=range(1, 65),
                        metavar="N")
    parser.add_argument("--gate", action="store_true", help="fail if a bar does not hold")
    parser.add_argument("--docs", action="store_true",
                        help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    defaults = {None: STRAIGHT, "balanced:1": CHAIN}.get(options.topology, TREES)
    options.moments = {kind: count if asked is None else asked for kind, count in defaults.items()
                       for asked in [getattr(options, f"{kind}s")]}
    if options.moments["relay"] and not options.topology:
        parser.error("--relays: no job without --topology has relays")
    if defaults is TREES and (options.moments["server"] or options.moments["scheduler"]):
        parser.error("--servers, --schedulers: two workers have no relay but with balanced:1")
    if options.sync and (options.docs or options.topology or options.moments["relay"]):
        parser.error("--sync: without --topology, --relays and --docs")
    if options.sync and options.sync.partition(":")[0] not in ("fedavg", "diloco"):
        parser.error(f"--sync {options.sync}: only fedavg and diloco repeat to the bit")
    if not LIBRARY.is_file():
        parser.error(f"no {LIBRARY}: run cargo build --release, or set PSLITE_LIBRARY")
    return options


def main():
    options = parse()
    words = [Question(kind, optimizer, options.seed, number, options.topology, options.sync)
             for kind, count in options.moments.items()
             for number in range(count) for optimizer in OPTIMIZERS[kind]]
    # The answers are there before anybody asks for one twice.
    for kind, optimizer in dict.fromkeys(word[:2] for word in words if word.kind != "relay"):
        expected(optimizer, ROUNDS[kind], options.sync)
    trials = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(trial, words):
            trials.append(one)
            print(f"{time.strftime('%H:%M:%S')} {kills_report.line(one)}", file=sys.stderr,
                  flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    record = {"seed": options.seed, "topology": options.topology, "sync": options.sync,
              "trials": trials}
    name = "kills-trees" if options.topology else "kills-sync" if options.sync else "kills"
    (CACHE / f"{name}.json").write_text(json.dumps(record, indent=1))
    rounds = (f"Rounds go along trees, `{options.topology}`." if options.topology
              else f"`PSLITE_SYNC={options.sync}`." if options.sync else "")
    how = f"{machine()} {rounds} Seed {options.seed}, {options.jobs} at a time."
    text = f"{' '.join(how.split())}\n\n{kills_report.table(trials, options.topology)}"
    print(text)
    wrong = [one for one in trials if one["wrong"]]
    if options.docs and not wrong:
        markers = kills_report.TREES if options.topology else kills_report.STRAIGHT
        PAGE.write_text(report.insert(PAGE.read_text(), text, *markers))
    return 1 if wrong or (options.gate and not kills_report.hold(trials)) else 0


if __name__ == "__main__":
    sys.exit(main())
