"""A benchmark's cluster, all on this machine, that waits for commands.

The workers read commands from their standard input (kv_bench.cc, mxkv.py) and sleep in between. So a
cluster on stock and one on ours can live side by side and be measured in turn, moments apart: what
else the machine does then meets both.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import FOREIGN, LIBRARY, OURS, STOCK, free_port  # noqa: E402

# Seconds for the processes to end by themselves after the last command.
ENDING = 60


class Failed(Exception):
    """A run that is no measurement."""


class Cluster:
    """Processes that all run `command`, which must end by itself after a time of its own choice."""

    def __init__(self, command, workers, servers, library):
        self.library = library
        self._folder = tempfile.TemporaryDirectory(prefix="pslite-bench-")
        self._processes = []
        port = free_port()
        for role in ["scheduler"] + ["server"] * servers + ["worker"] * workers:
            self._spawn(command, role, environment(role, workers, servers, library, port))
        self._workers = self._processes[-workers:]

    def _spawn(self, command, role, env):
        worker = role == "worker"
        name = f"{self._folder.name}/{len(self._processes)}"
        with open(f"{name}.out", "wb") as out, open(f"{name}.err", "wb") as err:
            self._processes.append(subprocess.Popen(
                command, env=env, stderr=err, cwd=self._folder.name, text=True, bufsize=1,
                stdin=subprocess.PIPE if worker else subprocess.DEVNULL,
                stdout=subprocess.PIPE if worker else out))

    def ask(self, command):
        """Gives a command to every worker; each one's answer."""
        try:
            for worker in self._workers:
                worker.stdin.write(command + "\n")
            return [self._answer(worker) for worker in self._workers]
        except (BrokenPipeError, ValueError) as error:
            raise Failed(f"{self.library}: {command}: {error}\n{self._describe()}") from error

    def _answer(self, worker):
        # The library may say something too. The end of the process ends the loop.
        for line in worker.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise ValueError(f"a worker ended (exit code {worker.wait(ENDING)})")

    def end(self):
        """Ends the job; fails unless all went well and the right library did it."""
        last = self.ask("end")
        try:
            codes = [process.wait(ENDING) for process in self._processes]
        except subprocess.TimeoutExpired:
            codes = [process.poll() for process in self._processes]
        if any(code != 0 for code in codes):
            raise Failed(f"{self.library}: exit codes {codes}\n{self._describe()}")
        expected = LIBRARY.name if self.library == OURS else "libmxnet.so"
        if any(worker["library"] != expected for worker in last):
            raise Failed(f"the workers should be served by {expected}: {last}")

    def _describe(self):
        """The last lines that each process said."""
        texts = []
        for path in sorted(Path(self._folder.name).glob("*.err")):
            said = path.read_text(errors="replace").splitlines()[-8:]
            texts.append("\n    ".join([f"process {path.stem}:"] + said))
        return "\n".join(texts)

    def cpu_seconds(self):
        """Of all processes together, so far."""
        ticks = 0
        for process in self._processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

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


def environment(role, workers, servers, library, port):
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    env.update(DMLC_ROLE=role, DMLC_NUM_WORKER=str(workers), DMLC_NUM_SERVER=str(servers),
               DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(port),
               DMLC_NODE_HOST="127.0.0.1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    if library == OURS:
        env["LD_PRELOAD"] = str(LIBRARY)
    return env


__all__ = ["Cluster", "Failed", "LIBRARY", "OURS", "STOCK"]
