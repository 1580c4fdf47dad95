"""Runs one command as scheduler, servers and workers, each on a host of its own, or where it is
said.

The hosts are `scheduler`, `server0`, `server1`, ..., `worker0`, ...; a process is called as its
host, also where several are at one site. Whose number is whose rank is the scheduler's choice. What
the processes print comes line by line, with the name in front, as from `pslite run`; and as there,
a failure of one, or the end of all workers, gives the others some time to end by themselves.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from .links import FREE
from .tools import LabError

ROLES = ("scheduler", "server", "worker")
OURS, STOCK = "ours", "stock"
# Nothing else listens in a lab's hosts.
PORT = 9091
# Of the caller's own environment, what no process of a job may see.
FOREIGN = ("LD_PRELOAD", "PORT", "DMLC_", "PS_", "PSLITE_")
# Seconds: between SIGTERM and SIGKILL; for the last lines of processes that are gone; between two
# looks.
TERM_WAIT, LAST_LINES, POLL = 5, 2, 0.05
# The exit code when the time was up, as of timeout(1).
TIMED_OUT = 124


def host_name(role, index):
    return role if role == "scheduler" else f"{role}{index}"


def hosts(workers, servers, spares=(), scheduler=FREE):
    """The hosts for a job, from lists of Rates. Spares are hosts on which nothing is started."""
    named = {"scheduler": scheduler}
    for role, rates in (("server", servers), ("worker", workers), ("spare", spares)):
        named.update({f"{role}{index}": one for index, one in enumerate(rates)})
    return named


class Place:
    """Where the processes of a job are: for whoever starts them."""

    def __init__(self, lab):
        self.lab = lab

    def host(self, role, index):
        return self.lab.host(host_name(role, index))

    def address(self, role, index):
        return self.host(role, index).address

    def command(self, role, index, words):
        """The command that runs `words` on the host of that process."""
        return self.host(role, index).command(words)

    def variables(self, role, index):
        """Where the process and its scheduler are."""
        return {"DMLC_PS_ROOT_URI": self.address("scheduler", 0),
                "DMLC_NODE_HOST": self.address(role, index)}


class Sites(Place):
    """Processes at sites that are named. servers, workers: of each index, its site."""

    def __init__(self, lab, scheduler, servers, workers):
        super().__init__(lab)
        self.sites = {"scheduler": [scheduler], "server": list(servers), "worker": list(workers)}

    def host(self, role, index):
        return self.lab.host(self.sites[role][index])


class Options:
    """What a job is: `command` in every role, except where `native` names a role that the program
    `pslite` takes without it.

    library: ours, stock, or the path of a library to preload. settings: environment for every
    process.
    """

    def __init__(self, command, workers, servers, library=STOCK, settings=None, native=(),
                 port=PORT, ours=None):
        self.command = list(command)
        self.counts = {"scheduler": 1, "server": servers, "worker": workers}
        self.preload = {OURS: ours, STOCK: None}.get(library, library)
        self.settings = dict(settings or {})
        self.native = native
        self.port = port
        if self.preload is None and (library == OURS or native):
            raise LabError("no library: set PSLITE_LIBRARY, or run cargo build --release")
        if self.preload is not None:
            self.preload = str(Path(self.preload).absolute())
            if not Path(self.preload).is_file():
                raise LabError(f"there is no library {self.preload}: run cargo build --release")

    def words(self, role):
        if role in self.native:
            return [str(Path(self.preload).with_name("pslite")), role]
        return self.command

    def environment(self, place, role, index):
        """The whole environment of one process."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        env.update(DMLC_ROLE=role, DMLC_NUM_WORKER=str(self.counts["worker"]),
                   DMLC_NUM_SERVER=str(self.counts["server"]), DMLC_PS_ROOT_PORT=str(self.port),
                   **place.variables(role, index))
        if self.preload and role not in self.native:
            env["LD_PRELOAD"] = self.preload
        env.update(self.settings)
        return env


class Process:
    """One process, and the thread that copies what it says."""

    def __init__(self, label, role, popen, write):
        self.label = label
        self.role = role
        self.popen = popen
        self.reported = False
        self._thread = threading.Thread(target=self._copy, args=(write,), daemon=True)
        self._thread.start()

    def _copy(self, write):
        for line in self.popen.stdout:
            write(f"[{self.label}] {line.decode(errors='replace').rstrip()}")

    @property
    def code(self):
        """The exit code as a shell has it; None while it runs."""
        code = self.popen.poll()
        return 128 - code if code is not None and code < 0 else code

    def signal(self, number):
        """To it and its children."""
        try:
            os.killpg(self.popen.pid, number)
        except ProcessLookupError:
            pass

    def last_lines(self):
        self._thread.join(LAST_LINES)


class Job:
    """The processes of a cluster, from `start` to `end`."""

    def __init__(self, place, options, write=None):
        self._place = place
        self._options = options
        self._lock = threading.Lock()
        self._sink = write or (lambda line: print(line, flush=True))
        self.processes = []

    def _write(self, line):
        with self._lock:
            self._sink(line)

    def _say(self, line):
        print(f"lab: {line}", file=sys.stderr, flush=True)

    def start(self):
        for role in ROLES:
            for index in range(self._options.counts[role]):
                self.spawn(role, index)
        return self

    def spawn(self, role, index):
        """Starts one process; for a second life, or on a spare, too."""
        popen = subprocess.Popen(
            self._place.command(role, index, self._options.words(role)),
            env=self._options.environment(self._place, role, index), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        process = Process(host_name(role, index), role, popen, self._write)
        self.processes.append(process)
        return process

    def wait(self, timeout=None, grace=15):
        """Waits for the end of all; the exit code of the first that failed, else 0.

        timeout: seconds for all of it. grace: for the others, after a failure or the last worker's
        end.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        grace_ends = None
        failure = 0
        while self._running():
            failure = failure or self._report()
            now = time.monotonic()
            if grace_ends is None and (failure or self._workers_are_done()):
                grace_ends = now + grace
            if limit is not None and now >= limit:
                self.end("the time of --timeout has passed")
                return TIMED_OUT
            if grace_ends is not None and now >= grace_ends:
                self.end("did not end by itself")
                return (failure
                        or next((process.code for process in self.processes if process.code), 1))
            time.sleep(POLL)
        failure = failure or self._report()
        for process in self.processes:
            process.last_lines()
        return failure

    def _running(self):
        # Every one is looked at: the look takes note of its end.
        return [process for process in self.processes if process.code is None]

    def _workers_are_done(self):
        return all(process.code is not None
                   for process in self.processes if process.role == "worker")

    def _report(self):
        """Says who has failed since the last time; the first one's code, or 0."""
        first = 0
        for process in self.processes:
            if process.code and not process.reported:
                process.reported = True
                first = first or process.code
                self._say(f"{process.label} ended with exit code {process.code}")
        return first

    def end(self, why="interrupted"):
        """Ends those that still run: SIGTERM, then SIGKILL."""
        running = self._running()
        if not running:
            return
        self._say(f"{why}: {', '.join(process.label for process in running)}; sending SIGTERM")
        for process in running:
            process.reported = True  # that is said already
            process.signal(signal.SIGTERM)
        limit = time.monotonic() + TERM_WAIT
        while self._running() and time.monotonic() < limit:
            time.sleep(POLL)
        for process in self._running():
            process.signal(signal.SIGKILL)
        for process in self.processes:
            process.popen.wait(TERM_WAIT)
            process.last_lines()
