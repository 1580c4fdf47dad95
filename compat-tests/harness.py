"""Starts a cluster of real processes on this machine, waits for it, ends it.

Every process runs the same command; `DMLC_ROLE` says what it is, and per process one may choose
whether the stock library inside the mxnet wheel serves it or pslite, preloaded. Outputs go to one
pair of files per process. Every wait has a limit, every process gets its own process group, and
only processes started here are ended, by their pid. Nothing here imports mxnet.

Environment: PSLITE_LIBRARY (the preload library), PSLITE_PYTHON (an interpreter with mxnet),
PSLITE_KEEP (a folder that keeps the outputs of every run), PSLITE_TEST_SEED (see `random_numbers`).
"""

import atexit
import functools
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"
PYTHON = os.environ.get("PSLITE_PYTHON", str(ROOT / ".cache/venv/bin/python"))
LIBRARY = Path(os.environ.get("PSLITE_LIBRARY", ROOT / "target/release/libpslite_mxnet.so"))

STOCK = "stock"
OURS = "ours"
# `pslite server`, `pslite scheduler`: without MXNet, without Python.
NATIVE = "native"
PROGRAM = LIBRARY.with_name("pslite")
ROLES = ("scheduler", "server", "worker")

# Seconds. A run of five processes takes 4 to 6 on two cores, most of it `import mxnet`.
DEFAULT_TIMEOUT = 90
# Factor. Limits are for a machine like that; on a slower one, or beside others, all takes longer.
# Stock alone, of which tests show that it hangs, is given no more than its limit.
PATIENCE = 3
POLL = 0.02
# Between two looks at what a process has mapped: maps are long, and one look for each poll would
# take a tenth of all processor time. A library of ours is there before mxnet's. A process that has
# loaded mxnet does not end within SOON.
LOOK, SOON = 0.2, 0.05

# What the caller's own shell may hold and no test may see.
FOREIGN = ("LD_PRELOAD", "PORT", "DMLC_", "PS_", "PSLITE_", "MXNET_", "OMP_")


#: Cargo's profile of what the tests build. `scripts/test` has one of its own (Cargo.toml).
PROFILE = os.environ.get("PSLITE_CARGO_PROFILE", "release")


def example(name):
    """Where a program of examples/ is."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / PROFILE / "examples" / name


def build_examples():
    """Builds those programs, if they are not. In the very words of `build` in scripts/test: for a
    program alone cargo compiles the library anew."""
    words = (f"cargo build --quiet --profile {PROFILE} --lib --bins "
             "--example optimizer_steps --example read_pickle --example openmetrics")
    subprocess.run(words.split(), cwd=ROOT, check=True, timeout=390)


def available():
    """True if there is a pslite library to test."""
    return LIBRARY.is_file()


#: Ports that nobody picks by chance: above those that the system hands out by itself, and above
#: those out of which stock nodes draw theirs (10000 to 49999).
QUIET_PORTS = range(61000, 65500)


_given = set()


def scratch(prefix):
    """A folder for what several tests build and use. It goes with this process: runs leave nothing
    behind."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def free_port(following=0):
    """A TCP port free now, as those that follow it are, that no other node gets by chance.

    Between the choice and the scheduler's bind lie seconds (`import mxnet`). For the same reason
    each of several test processes (pytest -n) chooses from a part of its own, and none twice.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    index = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").lstrip("gw")) % count
    width = len(QUIET_PORTS) // count
    own = QUIET_PORTS[index * width:(index + 1) * width - following]
    # Without a seed: which port it is must differ from run to run, and no result depends on it.
    for first in random.sample(own, 200):
        ports = set(range(first, first + following + 1))
        if not ports & _given and all(map(_is_free, ports)):
            _given.update(ports)
            return first
    raise RuntimeError(f"no free TCP port in {own}")


def random_numbers():
    """Other numbers in every run. The seed is printed, so that a failure shows it; with
    PSLITE_TEST_SEED=SEED the same numbers come again."""
    seed = int(os.environ.get("PSLITE_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"PSLITE_TEST_SEED={seed}")
    return random.Random(seed)


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def program(name):
    """A program as a module. Its folder is not where this process looks for modules: there are some
    that stand before real ones (programs/scipy.py)."""
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.lru_cache(maxsize=None)
def light_command():
    """Runs programs/server.py; without `site`, which takes a sixth of its processor time, where
    the wheel is in its usual place."""
    folder = Path(PYTHON).absolute().parent.parent
    found = sorted(folder.glob("lib/python3*/site-packages/mxnet/libmxnet.so"))
    options = ["-S"] if found else []
    return [PYTHON, *options, "-u", str(PROGRAMS / "server.py"), *map(str, found[:1])]


def patient(seconds):
    """The moment at which a wait of so many seconds is given up."""
    return time.monotonic() + PATIENCE * seconds


class Node:
    """One process of a cluster."""

    def __init__(self, name, role, library, command, env, folder):
        self.name = name
        self.role = role
        self.library = library
        self.started = time.monotonic()
        self.ended = None
        #: True if it had to be killed because its time was up.
        self.hung = False
        #: File names of the shared libraries seen in it, out of the two that matter.
        self.libraries = set()
        self._looked = 0.0
        self.out_path = folder / f"{name}.out"
        self.err_path = folder / f"{name}.err"
        self.go_path = folder / f"{name}.go"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self._popen = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=folder, start_new_session=True)

    @property
    def pid(self):
        return self._popen.pid

    @property
    def returncode(self):
        """None while it runs; negative: the signal that ended it."""
        return self._popen.returncode

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def err(self):
        return self.err_path.read_text(errors="replace")

    @property
    def output(self):
        return self.out + self.err

    @property
    def result(self):
        """The last line of standard output that is a JSON object, or None."""
        for line in reversed(self.out.splitlines()):
            if line.startswith("{"):
                try:
                    return json.loads(line)
                except ValueError:
                    return None
        return None

    def poll(self):
        """True if it has ended. Looks, while it runs, at which libraries it has mapped."""
        if self.returncode is None and len(self.libraries) < 2:
            now = time.monotonic()
            if now - self._looked >= (LOOK if "libmxnet.so" in self.libraries else SOON):
                self._looked = now
                self._look()
        if self.ended is None and self._popen.poll() is not None:
            self.ended = time.monotonic()
        return self.ended is not None

    def _look(self):
        try:
            maps = Path(f"/proc/{self.pid}/maps").read_text()
        except OSError:
            return
        for name in ("libmxnet.so", LIBRARY.name):
            if name in maps:
                self.libraries.add(name)

    def signal(self, number):
        """Sends a signal to the process (not to its children)."""
        if not self.poll():
            os.kill(self.pid, number)

    def kill(self):
        """Ends the process and its children now."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        # The kernel may take long to give back much memory on a machine that is busy.
        self._popen.wait(60)
        if self.ended is None:
            self.ended = time.monotonic()

    def wait_for(self, text, timeout=30, after=""):
        """Waits until the output contains `text` behind the first `after`; False if the process
        ends or time is up."""
        limit = patient(timeout)
        while time.monotonic() < limit:
            ended = self.poll()
            if text in self.output.partition(after)[2] if after else text in self.output:
                return True
            if ended:
                return False
            time.sleep(POLL)
        return False

    def let_go(self):
        """Ends the waiting of a process that was spawned as held."""
        self.go_path.touch()

    def describe(self):
        state = "killed, time was up" if self.hung else f"exit {self.returncode}"
        tail = "\n    ".join(self.output.splitlines()[-25:])
        return f"{self.name} ({self.library}): {state}\n    {tail}"


class Cluster:
    """A scheduler, servers and workers that run one script.

    library: "stock", "ours", or a dictionary from role to one of these or to a list of them, one
    for each process of the role; servers may be "native", which is `pslite server`. env: for every
    process. node_env: a dictionary from a role or a node's name ("worker1") to more of it. prepare:
    is called with the folder in which they run. prefix: called with a role, the command that its
    processes are run by. roles: which roles to start, for jobs that lack some. place: the hosts of
    a lab (netlab.cluster.Place). whole: the scheduler and all servers run the script and import
    mxnet. Else programs/server.py stands for the scheduler, and for servers with the libraries in
    `light`, which is ours by default: its store asks Python for nothing.
    """

    def __init__(self, script, args=(), workers=2, servers=2, library=STOCK, env=None,
                 node_env=None, timeout=DEFAULT_TIMEOUT, roles=ROLES, port=None,
                 host="127.0.0.1", command=None, prepare=None, prefix=None, place=None, whole=False,
                 light=(OURS,)):
        self.script = Path(script) if Path(script).is_absolute() else PROGRAMS / script
        self.command = command or [PYTHON, "-u", str(self.script), *map(str, args)]
        self.counts = {"scheduler": 1, "server": servers, "worker": workers}
        self.whole = whole or command is not None
        self.light = light
        self.prefix = prefix or (lambda role: [])
        self.place = place
        self.library = library
        self.env = dict(env or {})
        self.node_env = dict(node_env or {})
        self.timeout = timeout
        self.roles = roles
        self.port = port or free_port()
        self.host = host
        self.nodes = {}
        self.seconds = None
        keep = os.environ.get("PSLITE_KEEP")
        if keep:
            Path(keep).mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="pslite-", dir=keep))
        self._keep = bool(keep)
        if prepare:
            prepare(self.folder)

    # ---- what runs

    def library_of(self, role, index):
        choice = self.library
        if isinstance(choice, dict):
            choice = choice.get(role, STOCK)
        if not isinstance(choice, str):
            choice = choice[index]
        assert choice in (STOCK, OURS) or (choice == NATIVE and role != "worker"), choice
        return choice

    def environment(self, role, index, more=None):
        """The whole environment of one process."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        env.update({
            "DMLC_ROLE": role,
            "DMLC_PS_ROOT_URI": self.host,
            "DMLC_PS_ROOT_PORT": str(self.port),
            "DMLC_NUM_WORKER": str(self.counts["worker"]),
            "DMLC_NUM_SERVER": str(self.counts["server"]),
            "DMLC_NODE_HOST": "127.0.0.1",
            # One thread for each process: five share few cores, and sums keep their order.
            "OMP_NUM_THREADS": "1",
            "MXNET_CPU_WORKER_NTHREADS": "1",
            "PYTHONPATH": str(PROGRAMS),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Children of a test, not tests: no cache folder of mxnet in the caller's home.
            "MXNET_HOME": str(self.folder),
        })
        if self.library_of(role, index) == OURS:
            env["LD_PRELOAD"] = str(LIBRARY)
        if self.library_of(role, index) == NATIVE:
            # Nothing of Python is to be found.
            env = {k: v for k, v in env.items() if not k.startswith("PYTHON")} | {"PATH": ""}
        if self.place:
            env.update(self.place.variables(role, index))
        env.update(self.env)
        env.update(self.node_env.get(role, {}))
        env.update(self.node_env.get(f"{role}{index}", {}))
        env.update(more or {})
        return {k: str(v) for k, v in env.items() if v is not None}

    def spawn(self, role, index=0, name=None, more=None, held=False):
        """Starts one process; `more` is environment for it alone. None removes a variable.

        A worker that is held imports mxnet, says "held", and creates its kvstore after `let_go`.
        An import takes 1 to 20 s, by the machine and what else it does, and what a test waits for
        must not depend on that.
        """
        name = name or ("scheduler" if role == "scheduler" else f"{role}{index}")
        assert name not in self.nodes, f"{name} is there already"
        library = self.library_of(role, index)
        command = self.command
        environment = self.environment(role, index, more)
        if held:
            environment["PSLITE_TEST_HELD"] = str(self.folder / f"{name}.go")
        if not self.whole and self._needs_no_python(role, library, environment):
            command = light_command()
        if library == NATIVE:
            command = [str(PROGRAM), role]
        command = self.prefix(role) + command
        if self.place:
            command = self.place.command(role, index, command)
        node = Node(name, role, library, command, environment, self.folder)
        self.nodes[name] = node
        return node

    def _needs_no_python(self, role, library, environment):
        # With these settings it is MXNet's server that serves.
        has_store = {"PSLITE_STORE", "PSLITE_LEVEL"}.isdisjoint(environment)
        return role == "scheduler" or role == "server" and library in self.light and has_store

    def start(self):
        for role in ROLES:
            if role in self.roles:
                for index in range(self.counts[role]):
                    self.spawn(role, index)
        return self

    # ---- waiting

    def wait(self, timeout=None, names=None, exact=False):
        """Waits until all (or the named) processes have ended; kills what is left at the limit.

        True if nothing had to be killed. exact: the limit is what is tested.
        """
        chosen = [self.nodes[n] for n in names] if names else list(self.nodes.values())
        timeout = self.timeout if timeout is None else timeout
        exact = exact or all(node.library == STOCK for node in chosen)
        limit = time.monotonic() + timeout if exact else patient(timeout)
        while time.monotonic() < limit:
            # A list: every process is looked at, not only those before the first that runs.
            if all([node.poll() for node in chosen]):
                break
            time.sleep(POLL)
        late = [node for node in chosen if not node.poll()]
        for node in late:
            node.hung = True
            node.kill()
        self.seconds = time.monotonic() - min(node.started for node in chosen)
        return not late

    def run(self):
        """Starts everything, waits for the end, returns self."""
        with self:
            self.start()
            self.wait()
            self._read_all()
        return self

    def stop(self):
        for node in self.nodes.values():
            if not node.poll():
                node.kill()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()
        self._read_all()
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _read_all(self):
        """Keeps the outputs of those that have ended in memory: the folder goes away."""
        for node in self.nodes.values():
            if not isinstance(node, _Kept) and node.poll():
                self.nodes[node.name] = _Kept(node)

    # ---- what came of it

    def of(self, role):
        return [n for n in self.nodes.values() if n.role == role]

    @property
    def workers(self):
        return self.of("worker")

    @property
    def results(self):
        """The workers' JSON results, in order of their index."""
        return [node.result for node in self.workers]

    @property
    def digests(self):
        """The workers' digests by rank: equal runs have equal digests."""
        return {r["rank"]: r["digest"] for r in self.results if r}

    def describe(self):
        head = f"{self.script.name} library={self.library} env={self.env} seconds={self.seconds}"
        return "\n".join([head] + [node.describe() for node in self.nodes.values()])

    def check(self, excused=lambda cluster: ()):
        """Fails unless every process ended by itself with exit 0, and every worker has a result.

        excused: the names of the processes of a cluster that may end otherwise."""
        names = excused(self)
        for node in self.nodes.values():
            assert node.name in names or (not node.hung and node.returncode == 0), self.describe()
            assert_library(node)
        for node in self.workers:
            assert node.result is not None, self.describe()
        return self


class _Kept:
    """What is left of a node whose files are gone."""

    def __init__(self, node):
        node.poll()
        for field in ("name", "role", "library", "started", "ended", "hung", "libraries", "pid",
                      "returncode", "out", "err", "output", "result"):
            setattr(self, field, getattr(node, field))
        self._text = node.describe()

    def poll(self):
        return True

    def describe(self):
        return self._text


def assert_library(node):
    """Fails unless the process mapped exactly the library that it was meant to use."""
    if node.library == NATIVE:
        assert not node.libraries, f"{node.name} needs {node.libraries}"
        return
    assert "libmxnet.so" in node.libraries, f"{node.name} never loaded mxnet\n{node.describe()}"
    mapped = LIBRARY.name in node.libraries
    assert mapped == (node.library == OURS), (
        f"{node.name} should use {node.library}, mapped: {node.libraries}\n{node.describe()}")
    if node.result is not None:
        assert node.result["pslite"] == mapped, node.result


def run(script, *args, **options):
    """Runs a cluster to its end and checks it. Stock alone is asked again if it hangs."""
    def job():
        return Cluster(script, args=args, **options).run()
    stock_alone = options.get("library", STOCK) == STOCK
    return (until_none_hangs(job) if stock_alone else job()).check()


def until_none_hangs(job, excused=lambda cluster: (), tries=3):
    """The first job of stock alone, which `job()` runs and returns, that does not hang.

    Stock has races: of `two_threads.py` one job in forty waits for ever. Such a job says nothing
    of what stock computes, which is what is asked for. Whatever else is wrong stays in the job;
    so do processes that are excused (`Cluster.check`).
    """
    for _ in range(tries):
        found = job()
        nodes = found.nodes.values()
        assert all(node.library == STOCK for node in nodes), "only stock's hangs are excused"
        names = excused(found)
        if not any(node.hung and node.name not in names for node in nodes):
            break
        print(f"stock hangs:\n{found.describe()}")
    return found


def main():
    """python harness.py PROGRAM [ARGS...]: one run, described. LIBRARY=ours, NAME=value before
    it."""
    import sys
    env = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a and not a.startswith("-"))
    rest = [a for a in sys.argv[1:] if "=" not in a or a.startswith("-")]
    library = env.pop("LIBRARY", STOCK)
    workers, servers = int(env.pop("WORKERS", 2)), int(env.pop("SERVERS", 2))
    timeout = float(env.pop("TIMEOUT", DEFAULT_TIMEOUT))
    cluster = Cluster(rest[0], rest[1:], workers=workers, servers=servers, library=library,
                      env=env, timeout=timeout).run()
    print(cluster.describe())
    print(json.dumps(cluster.results))


if __name__ == "__main__":
    main()
