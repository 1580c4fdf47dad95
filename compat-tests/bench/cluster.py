"""A benchmark's cluster, all on this machine, that waits for commands.

The workers read commands from their standard input (kv_bench.cc, mxkv.py, raw_tcp.cc) and sleep in
between. So a cluster on stock and some on ours can live side by side and be measured in turn,
moments apart: what else the machine does then meets all of them.

A cluster is of one kind: `stock`, or what carries data between nodes of ours (PSLITE_TRANSPORT), or
`raw` or `raw apart`, a program that needs neither, left to the system or with a core for each
process.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import FOREIGN, LIBRARY, free_port  # noqa: E402

STOCK, ZMQ, TCP, SHM, RAW, APART = "stock", "zmq", "tcp", "shm", "raw", "raw apart"
# The label of a cluster of that kind whose keys may move.
MOVING = {TCP: "tcp moves", SHM: "shm moves"}
KINDS = (STOCK, ZMQ, TCP, SHM)
# Seconds for the processes to end by themselves after the last command.
ENDING = 60
# The thread that only a node with the native data plane has, and the memory of its rings.
NATIVE_THREAD = "pslite-native"
RING = "/memfd:pslite"
# What a node says when data for a peer do not go by the native data plane (src/node/van/native.rs).
FALLBACK = "take the stock wire"


class Failed(Exception):
    """A run that is no measurement."""


class Cluster:
    """Processes that all run `command`, or what `others` has for their role; they must end by
    themselves after a time of their own choice. place: the hosts of a lab (netlab.cluster.Place);
    settings: more environment for each of them; label: what its rates are called, if not by the
    kind."""

    def __init__(self, command, workers, servers, kind, others=None, place=None, settings=None,
                 label=None):
        self.kind = kind
        self.label = label or kind
        self._folder = tempfile.TemporaryDirectory(prefix="pslite-bench-")
        self._processes = []
        self._killed = []
        self._workers = []
        self._servers = []
        self.port = port = free_port()
        self._numbers = (workers, servers)
        roles = ["scheduler"] + ["server"] * servers if servers else []
        members = {"scheduler": [], "worker": self._workers, "server": self._servers}
        for role in roles + ["worker"] * workers:
            words = (others or {}).get(role, command)
            env = environment(role, workers, servers, kind, port)
            if place:
                words = place.command(role, len(members[role]), words)
                env.update(place.variables(role, len(members[role])))
            members[role].append(self._spawn(words, role, {**env, **(settings or {})}))

    def _spawn(self, command, role, env):
        worker = role == "worker"
        name = f"{self._folder.name}/{len(self._processes)}"
        with open(f"{name}.out", "wb") as out, open(f"{name}.err", "wb") as err:
            process = subprocess.Popen(
                command, env=env, stderr=err, cwd=self._folder.name, text=True, bufsize=1,
                stdin=subprocess.PIPE if worker else subprocess.DEVNULL,
                stdout=subprocess.PIPE if worker else out)
        self._processes.append(process)
        return process

    def environment(self, role):
        """That of a process of this job that needs no library preloaded, without a host."""
        env = environment(role, *self._numbers, self.kind, self.port)
        env.pop("LD_PRELOAD", None)
        return env

    def add_server(self, command, settings):
        """A server more; the file in which is what it says."""
        env = {**self.environment("server"), **settings}
        self._servers.append(self._spawn(command, "server", env))
        return self.logs()[-1]

    def kill_server(self, index):
        """Kills the server that was started as that one."""
        killed = self._servers[index]
        killed.kill()
        killed.wait()
        self._killed.append(killed)

    def ask(self, command):
        """Gives a command to every worker; each one's answer."""
        try:
            for worker in self._workers:
                worker.stdin.write(command + "\n")
            return [self._answer(worker) for worker in self._workers]
        except (BrokenPipeError, ValueError) as error:
            raise Failed(f"{self.kind}: {command}: {error}\n{self._describe()}") from error

    def _answer(self, worker):
        # The library may say something too. The end of the process ends the loop.
        for line in worker.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise ValueError(f"a worker ended (exit code {worker.wait(ENDING)})")

    def end(self):
        """Ends the job; fails unless all went well and the right library and transport did it."""
        carriers = {carrier(worker.pid) for worker in self._workers}
        last = self.ask("end")
        left = [process for process in self._processes if process not in self._killed]
        try:
            codes = [process.wait(ENDING) for process in left]
        except subprocess.TimeoutExpired:
            codes = [process.poll() for process in left]
        if any(code != 0 for code in codes):
            raise Failed(f"{self.kind}: exit codes {codes}\n{self._describe()}")
        expected = {STOCK: "libmxnet.so", RAW: "raw", APART: "raw"}.get(self.kind, LIBRARY.name)
        if any(worker["library"] != expected for worker in last):
            raise Failed(f"the workers should be served by {expected}: {last}")
        strayed = any(FALLBACK in path.read_text(errors="replace") for path in self.logs())
        if strayed or carriers != {self.kind if self.kind in (TCP, SHM) else None}:
            raise Failed(f"{self.kind}: data went by {carriers}\n{self._describe()}")

    def pids(self):
        """The processes by role; without the scheduler, which has nothing to do with data."""
        return {"worker": [process.pid for process in self._workers],
                "server": [process.pid for process in self._servers]}

    def moved(self):
        """Megabytes of each plan that the scheduler has carried out so far; it must be verbose
        (PS_VERBOSE=1)."""
        said = self.logs()[0].read_text(errors="replace")
        return [float(amount) for amount in re.findall(r"pslite: moving ([0-9.]+) MB in ", said)]

    def logs(self):
        return sorted(Path(self._folder.name).glob("*.err"), key=lambda path: int(path.stem))

    def _describe(self):
        """The last lines that each process said."""
        texts = []
        for path in self.logs():
            said = path.read_text(errors="replace").splitlines()[-8:]
            texts.append("\n    ".join([f"process {path.stem}:"] + said))
        return "\n".join(texts)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()
        self._folder.cleanup()


def environment(role, workers, servers, kind, port):
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    env.update(DMLC_ROLE=role, DMLC_NUM_WORKER=str(workers), DMLC_NUM_SERVER=str(servers),
               DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(port),
               DMLC_NODE_HOST="127.0.0.1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    if kind in (ZMQ, TCP, SHM):
        env["LD_PRELOAD"] = str(LIBRARY)
        env["PSLITE_TRANSPORT"] = kind
    return env


def carrier(pid):
    """What carries a process's data by our native data plane, as the system sees it; None without
    it."""
    threads = {task.joinpath("comm").read_text().strip()
               for task in Path(f"/proc/{pid}/task").iterdir()}
    if NATIVE_THREAD not in threads:
        return None
    return SHM if RING in Path(f"/proc/{pid}/maps").read_text() else TCP


def memory(pid):
    """The most that a process ever had in memory, in bytes (VmHWM, proc(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise Failed(f"process {pid} is gone")


__all__ = ["APART", "Cluster", "Failed", "KINDS", "LIBRARY", "MOVING", "RAW", "SHM", "STOCK",
           "TCP", "ZMQ", "memory"]
