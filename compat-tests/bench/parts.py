"""What is measured: each part starts its clusters, asks them in turn, and adds the rates to a
series.

A point is a tuple that begins with the part's name; its rates are kept by kind of cluster.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

from cluster import APART, KINDS, MOVING, RAW, SHM, STOCK, TCP, ZMQ, Cluster, Failed, memory
from harness import PROGRAM, PYTHON, ROOT

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".cache/bench"
SHAPES = ((1, 1), (2, 2))  # workers, servers
SIZES = (64, 4 << 10, 256 << 10, 4 << 20)
MODES = {"sequential": 1, "pipelined": 16}  # requests under way
OPS = ("push", "pull", "pushpull")
# Slices of the largest requests scatter most: so many times more of them, in a part that compares
# all sizes.
LARGE, MORE = 4 << 20, 3
# The points of kv_bench beside which raw TCP stands.
NATIVE_POINTS = (("push", 4 << 10, 1), ("push", 4 << 20, 16), ("pull", 4 << 20, 16))
# Name of a set of tensors in mxkv.py, its title, and steps of one slice.
WORKLOADS = (("resnet50", "ResNet-50", 1), ("keys", "1000 keys of 4 KB", 3))
PLAIN, SGD = "no optimizer", "SGD with momentum"
# Of the part `memory`: workers, and the bytes of the values; a worker's pushes of a round, and
# SGD's momentum, are as many each.
HOLDERS, HELD = 2, 4 * 25_557_032 * 4
# Requests with which a point's speed is first looked at, and the most that a slice may have.
FIRST, MOST = 32, 50_000
# Seconds after which a cluster ends itself, whatever happens.
KV_LIMIT, MX_LIMIT = 1200, 1800


def build(name="kv_bench"):
    """A program of this folder, compiled if it is older than its sources."""
    program = CACHE / name
    sources = [HERE / f"{name}.cc", HERE / "abi.h"]
    if program.exists() and all(s.stat().st_mtime < program.stat().st_mtime for s in sources):
        return program
    CACHE.mkdir(parents=True, exist_ok=True)
    # The wheel's string ABI. Nothing of the wheel is linked: it is opened at run time.
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++11", "-O2", "-Wall", "-Wextra",
                    "-Werror", "-D_GLIBCXX_USE_CXX11_ABI=0", str(sources[0]), "-o", str(program),
                    "-ldl", "-pthread"], check=True, timeout=120)
    return program


def wheel():
    """The stock library, without importing it."""
    # Not resolved: a virtual environment's interpreter is a link out of it.
    venv = Path(PYTHON).absolute().parent.parent
    found = sorted(venv.glob("lib/python3*/site-packages/mxnet/libmxnet.so"))
    if not found:
        sys.exit(f"no libmxnet.so beside {PYTHON}: run scripts/python-env")
    return found[0]


def in_turn(series, point, command, clusters, rounds, combine):
    """Asks every cluster for a slice, `rounds` times, each time another one first."""
    for round_ in range(rounds):
        first = round_ % len(clusters)
        for one in clusters[first:] + clusters[:first]:
            rates = [answer["ops_per_s"] for answer in one.ask(command)]
            series.add(point, one.label, combine(rates))


def chosen(options, kinds):
    """Those of a part's kinds that the caller wants."""
    return [kind for kind in kinds if not options.stock_only or kind in (STOCK, RAW)]


def one_by_one(series, point, command, clusters, options, rounds):
    """As many requests as fill a slice on the fastest, the same number on all."""
    first = [one.ask(f"{command} {FIRST}") for one in clusters]
    fastest = max(answer["ops_per_s"] for answers in first for answer in answers)
    count = int(min(MOST, max(FIRST, fastest * options.slice)))
    in_turn(series, point, f"{command} {count}", clusters, rounds,
            sum)  # every worker makes requests of its own


def kv(series, options):
    """ps-lite's requests on the stock wire, at every size and in every mode."""
    command = [str(build()), str(wheel()), str(KV_LIMIT)]
    for workers, servers in SHAPES:
        with ExitStack() as stack:
            clusters = [stack.enter_context(Cluster(command, workers, servers, kind))
                        for kind in chosen(options, (STOCK, ZMQ))]
            for size in SIZES:
                rounds = options.rounds * (MORE if size >= LARGE else 1)
                for mode, window in MODES.items():
                    for op in OPS:
                        one_by_one(series, ("kv", (workers, servers), mode, op, size),
                                   f"{op} {size} {window}", clusters, options, rounds)
            for one in clusters:
                one.end()


def native(series, options):
    """The same requests beside raw TCP: what the native data plane leaves of it."""
    command = [str(build()), str(wheel()), str(KV_LIMIT), "keep"]
    with ExitStack() as stack:
        clusters = [stack.enter_context(Cluster(command, 1, 1, kind))
                    for kind in chosen(options, (STOCK, TCP, SHM))]
        raw = [str(build("raw_tcp")), str(KV_LIMIT)]
        for kind, more in ((APART, ["apart"]), (RAW, [])):
            clusters.insert(0, stack.enter_context(Cluster(raw + more, 1, 0, kind)))
        for op, size, window in NATIVE_POINTS:
            one_by_one(series, ("native", op, size, window), f"{op} {size} {window}", clusters,
                       options, options.rounds)
        for one in clusters:
            one.end()


def mx(series, options):
    """Steps of training as MXNet's kvstore sees them, without and with an optimizer on the
    servers."""
    command = training()
    with ExitStack() as stack:
        clusters = [stack.enter_context(Cluster(command, 2, 2, kind))
                    for kind in chosen(options, KINDS)]
        train(series, "mx", clusters, options)


def moves(series, options):
    """The same steps where keys may move, beside static jobs: what that costs where nothing is
    gained by it. One kind after the other: of two jobs each is first as often as second. (With
    four in turn, each always came after the same other one.)"""
    if options.stock_only:
        return
    command = training()
    for kind in chosen(options, MOVING):
        with ExitStack() as stack:
            clusters = [stack.enter_context(Cluster(command, 2, 2, kind, label=label,
                                                    settings={"PSLITE_ELASTIC": value}))
                        for value, label in (("0", kind), ("moves", MOVING[kind]))]
            train(series, "moves", clusters, options)


def training():
    """The command of a worker that trains."""
    return [PYTHON, "-u", str(HERE / "mxkv.py"), str(MX_LIMIT)]


def train(series, part, clusters, options):
    """Steps on all clusters in turn, and their end."""
    for optimizer in (PLAIN, SGD):
        if optimizer == SGD:
            for one in clusters:
                one.ask("sgd")
        for name, title, steps in WORKLOADS:
            for one in clusters:
                one.ask(f"{name} 1")  # warm-up: makes the connections and the buffers
            in_turn(series, (part, title, optimizer), f"{name} {steps}", clusters,
                    options.rounds, mean)  # every worker makes the same steps
    for one in clusters:
        one.end()


def held(optimizer):
    """Bytes that a server must hold: values, the optimizer's state, and the pushes of the open
    round that wait for the last worker's."""
    return HELD * (1 + (optimizer == SGD) + (HOLDERS - 1))


def server_memory(series, options):
    """What `pslite server` holds at most, by what it must hold; first with a late worker, then
    without."""
    command = [PYTHON, "-u", str(HERE / "mxkv.py"), str(MX_LIMIT)]
    for kind in KINDS:
        with Cluster(command, HOLDERS, 1, kind, {"server": [str(PROGRAM), "server"]}) as one:
            server, = one.pids()["server"]
            one.ask("keys 1")  # all have met; 4 MB are less than is noticed
            nothing = memory(server)
            for optimizer in (PLAIN, SGD):
                if optimizer == SGD:
                    one.ask("sgd")
                one.ask("large 1 late")
                one.ask(f"large {options.rounds}")
                series.add(("memory", optimizer), kind,
                           (memory(server) - nothing) / held(optimizer))
            one.end()


PARTS = {"kv": kv, "mx": mx, "moves": moves, "native": native, "memory": server_memory}
# Parts that give the same number each time.
ONCE = ("memory",)

__all__ = ["Failed", "PARTS", "ONCE"]
