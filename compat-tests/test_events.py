"""What happens in a job, as its scheduler keeps it: `pslite status --events` says what the log
says, with the numbers."""

import collections
import json
import os
import re
import signal
import subprocess
import time

import pytest

import harness
from elastic_job import MIXED, cluster, end_early, ended_well, pslite, reach
from harness import NATIVE
from test_elastic import has_pieces, join

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

#: A line of the log, without its time and level.
LINE = re.compile(r"^\[[0-9:]{8}\] pslite: (?:error: |warning: )?(.*)$", re.M)
#: The scheduler is the program.
LIBRARY = {**MIXED, "scheduler": NATIVE}
KINDS = {"node", "phase", "policy", "move", "tree", "link", "wait", "advice", "note", "operator",
         "batch", "end"}


class Reader:
    """`pslite status --events` of a job, in the background."""

    def __init__(self, job, *more):
        command = [str(harness.PROGRAM), "status", "--events", *more, "--scheduler",
                   f"127.0.0.1:{job.port}"]
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(harness.FOREIGN)}
        self.path = job.folder / f"events{len(more)}"
        self.process = subprocess.Popen(command, env=env, stdout=self.path.open("w"),
                                        stderr=subprocess.STDOUT)

    def lines(self):
        return self.path.read_text().splitlines()

    def events(self):
        return [json.loads(line) for line in self.lines()]

    def wait_for(self, what, is_it):
        limit = harness.patient(60)
        while True:
            found = [event for event in self.events() if is_it(event)]
            if found:
                return found[0]
            assert time.monotonic() < limit, (what, self.lines())
            time.sleep(0.2)

    def end(self):
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()


@pytest.mark.long
def test_what_happens_is_told_with_its_numbers():
    """A server joins and gets keys, another one dies, a third is emptied."""
    rounds = 900
    log_of = {"PS_VERBOSE": 0, "PSLITE_LOG": "info"}
    with cluster(rounds=rounds, env=log_of, library=LIBRARY) as job:
        job.start()
        readers = reader, people = Reader(job, "--json"), Reader(job)
        try:
            reach(job, 5)
            join(job, 2)
            joins = reader.wait_for("a join", lambda e: e["text"].endswith("joins the job"))
            assert (joins["kind"], joins["level"], joins["node"]) == ("node", "info", 12), joins
            has_pieces(job, 2)
            moves = reader.wait_for("a move to it", lambda e: any(
                share["to"] == 12 for share in e.get("moves", [])))
            numbers = moves["numbers"]
            assert sum(share["bytes"] for share in moves["moves"]) <= numbers["bytes"], moves
            assert moves["kind"] == "move" and moves["level"] == "info", moves
            assert {"pieces", "before", "after"} <= set(numbers) and moves["reason"], moves
            megabytes = f"moving {numbers['bytes'] / 1e6:.1f} MB in {numbers['pieces']:.0f} pieces"
            assert moves["text"].startswith(megabytes), moves
            job.nodes["server1"].signal(signal.SIGKILL)
            dies = reader.wait_for("a death", lambda e: e["level"] == "error")
            assert dies["kind"] == "node" and dies["node"] in (8, 10), dies
            policy = reader.wait_for("a policy without it", lambda e: e["kind"] == "policy"
                                     and e["number"] > dies["number"])
            assert policy["numbers"]["servers"] == 2, policy
            lives = 18 - dies["node"]
            rank = (lives - 8) // 2
            drained = pslite(job, "drain", f"server:{rank}", "--wait", "20")
            assert drained.returncode == 0, (drained, job.describe())
            empties = reader.wait_for("a drain", lambda e: "is to be emptied" in e["text"])
            assert (empties["kind"], empties["node"]) == ("node", lives), empties
            end_early(job, rounds, every=200)
            ended_well(job, gone=("server1",))
            assert [each.end() for each in readers] == [0, 0], reader.lines()
        finally:
            for each in readers:
                each.process.kill()
        log = LINE.findall(job.nodes["scheduler"].err)
        events, printed = reader.events(), people.lines()
    assert events[-1]["kind"] == "end" and {event["kind"] for event in events} <= KINDS, events
    told = events[:-1]
    assert [event["number"] for event in told] == list(range(1, len(told) + 1)), events
    assert all(one["at"] <= next_["at"] for one, next_ in zip(told, told[1:])), events
    # What happens in the last second is not heard any more: the scheduler ends with the job.
    assert collections.Counter(log[:len(told)]) == collections.Counter(
        event["text"] for event in told), (log, told)
    for line, event in zip(printed, told):
        clock, kind, text = line.split(maxsplit=2)
        assert (kind, text) == (event["kind"], event["text"]), (line, event)
        assert clock == time.strftime("%H:%M:%S", time.gmtime(event["time"])), (line, event)


def test_waits_are_told_as_values():
    """A worker stands still, and the others wait for it."""
    with cluster(rounds=400, env={"PSLITE_STALL_REPORT": 1}, model=("small",)) as job:
        job.start()
        reach(job, 5)
        worker = job.nodes["worker1"]
        rank = int(re.search(r"this is worker (\d+) ", worker.output).group(1))
        worker.signal(signal.SIGSTOP)
        try:
            limit = harness.patient(30)
            while True:
                status = json.loads(pslite(job, "status", "--json").stdout)
                if status["waiting"]:
                    break
                assert time.monotonic() < limit, job.describe()
                time.sleep(0.2)
        finally:
            worker.signal(signal.SIGCONT)
        wait = status["waiting"][0]
        assert wait["for"] == [9 + 2 * rank] and wait["waited"] >= 1, status
        assert status["waits"][0].startswith(f"{wait['what']} has waited "), status
        end_early(job, 400, every=100)
        ended_well(job)
