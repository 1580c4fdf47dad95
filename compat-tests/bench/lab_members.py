"""Servers that join and are emptied while a job trains over a lab: the case `members` of lab.py.

Two servers become three, four, three and two, one after the other, and rounds go on meanwhile. The
servers apply SGD with momentum, and after each round every worker compares all that it pulled, to
the bit, with what the arithmetic says (mxkv.py): what a run gives to which nothing happens.
"""

import json
import subprocess
import time
from statistics import median

from cluster import Failed
from harness import PROGRAM

# Rounds before anything happens, with each number of servers, and at most while one comes or goes.
SETTLE, STEADY, MOST = 4, 6, 40
# Seconds for a server to serve, and for the operator's program to answer.
STARTING, ASKING = 60, 30


class Members:
    """The servers of a running cluster, as an operator sees them."""

    def __init__(self, lab, cluster, settings):
        self._lab = lab
        self._cluster = cluster
        self._settings = settings
        self._root = f"{lab.host('scheduler').address}:{cluster.port}"

    def ask(self, *words):
        """Starts the operator's program on the scheduler's host."""
        command = self._lab.host("scheduler").command([PROGRAM, *words, "--scheduler", self._root])
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=self._cluster.environment("worker"))

    def pieces(self):
        """How many pieces each server has, by id."""
        asked = self.ask("status", "--json")
        try:
            told = asked.communicate(timeout=ASKING)[0]
        except subprocess.TimeoutExpired:
            asked.kill()
            raise Failed("pslite status does not answer") from None
        if asked.returncode != 0:
            raise Failed(f"pslite status: {told}")
        return {node["id"]: node.get("pieces") for node in json.loads(told)["nodes"]}

    def join(self, index):
        """A server on a spare host; how to see that it has its share."""
        host = self._lab.host(f"spare{index}")
        number = len(self._cluster.pids()["server"])
        said = self._cluster.add_server(host.command([PROGRAM, "server", "--join", self._root]),
                                        {"DMLC_NODE_HOST": host.address, **self._settings,
                                         "PS_VERBOSE": "1"})
        limit = time.monotonic() + STARTING
        while "serve\n" not in said.read_text(errors="replace"):
            if time.monotonic() > limit:
                tail = said.read_text(errors="replace")[-2000:]
                raise Failed(f"server {number} does not serve:\n{tail}")
            time.sleep(0.1)
        return lambda: bool(self.pieces().get(8 + 2 * number))

    def drain(self, rank):
        """Empties a server; how to see that it has gone."""
        asked = self.ask("drain", f"server:{rank}", "--wait", "300")

        def gone():
            if asked.poll() is None:
                return False
            if asked.returncode != 0:
                raise Failed(f"pslite drain server:{rank}: {asked.stdout.read()}")
            return True
        return gone


def run(job, name, settings):
    """What happened, one after the other: what, the rounds meanwhile and until the next, those
    before."""
    cluster = job.clusters[name]
    cluster.ask("sgd")
    members = Members(job.lab, cluster, settings)
    for _ in range(SETTLE):
        job.one(name)
    before = [job.one(name) for _ in range(STEADY)]
    found = []
    for what, change in (("2 to 3 servers", lambda: members.join(0)),
                         ("3 to 4", lambda: members.join(1)),
                         ("4 to 3", lambda: members.drain(3)),
                         ("3 to 2", lambda: members.drain(0))):
        done = change()
        during = [job.one(name)]
        while not done():
            if len(during) >= MOST:
                raise Failed(f"{what}: not done after {MOST} rounds")
            during.append(job.one(name))
        after = [job.one(name) for _ in range(STEADY)]
        usual = max(median(before), median(after))
        found.append({"what": what, "during": during, "after": after, "usual": usual,
                      "longest": max(during + after)})
        before = after
    return found
