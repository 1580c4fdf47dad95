"""Jobs on the wire of BytePS's ps-lite: nodes of ours beside nodes of the one in the source archive
on PyPI, each role ours once; and all ours on each wire, with BytePS's rounds back to back."""

import functools
import os
import subprocess
import time
from pathlib import Path

import pytest

import built
import byteps_stock
import harness
from harness import NATIVE, OURS, ROOT, STOCK, Cluster

WIRES = ("mxnet", "byteps-0.2.5", "byteps")
SOURCE = harness.PROGRAMS / "byteps.cc"


@functools.lru_cache(maxsize=None)
def folder():
    return harness.scratch("pslite-byteps-")


@functools.lru_cache(maxsize=None)
def ours():
    """programs/byteps.cc on the C ABI."""
    library = harness.LIBRARY.with_name("libps.so")

    def make(target):
        command = ["g++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                   f"-I{ROOT / 'include'}", "-o", str(target), str(SOURCE), str(library),
                   "-Wl,-rpath,$ORIGIN", "-pthread"]
        subprocess.run(command, check=True, timeout=120)
        # By that name it is looked for.
        target.with_name("libps.so.1").symlink_to(library)
    return built.once(make, "byteps")


@functools.lru_cache(maxsize=None)
def stock():
    """The same on the archive's ps-lite."""
    target = folder() / "stock"
    byteps_stock.compile_program(SOURCE, target, "-DSTOCK")
    return target


class Job(Cluster):
    """Its processes run the program built for the library that serves them."""

    def __init__(self, rounds, keys, elements, pace, **more):
        command = ["/bin/sh", "-c", 'exec "$PROGRAM" "$@"', "sh",
                   *map(str, (rounds, keys, elements, pace))]
        super().__init__(SOURCE, command=command, **more)

    def environment(self, role, index, more=None):
        env = super().environment(role, index, more)
        env.pop("LD_PRELOAD", None)
        library = self.library_of(role, index)
        if library != NATIVE:
            env["PROGRAM"] = str(ours() if library == OURS else stock())
        return env

    def ended_well(self, timeout=None):
        assert self.wait(timeout), self.describe()
        self._read_all()
        for node in self.nodes.values():
            assert node.returncode == 0 and not node.hung, self.describe()
            assert "dropped a message" not in node.output, self.describe()
        for worker in self.workers:
            assert "all sums are right" in worker.out, self.describe()


def ours_only(*where):
    """Each role, or process, of ours; all others are stock."""
    library = {"scheduler": STOCK, "server": [STOCK, STOCK], "worker": [STOCK, STOCK]}
    for role in where:
        if role[-1].isdigit():
            library[role[:-1]][int(role[-1])] = OURS
        else:
            library[role] = OURS
    return library


@pytest.fixture
def peer():
    """Skips where the archive cannot be had; all else that fails is a failure."""
    try:
        byteps_stock.ps_lite()
    except byteps_stock.Unavailable as why:
        pytest.skip(str(why))


def needs_peer(test):
    """That library is built from its sources, for which the first of them waits."""
    return pytest.mark.full(pytest.mark.timeout(1000)(test))


@needs_peer
@pytest.mark.parametrize("where", (
    (), ("scheduler",), ("server",), ("worker",), ("server0", "worker1"),
    ("scheduler", "server1", "worker0")), ids="+".join)
def test_ours_and_stocks_make_one_job(peer, where):
    # Stock's server needs rounds that are apart, and a processor for each of its receiving threads.
    with Job(4, 5, 30000, "apart", library=ours_only(*where), env={"PSLITE_WIRE": "byteps-0.2.5"},
             timeout=150) as job:
        job.start()
        job.ended_well()


@needs_peer
def test_stocks_workers_need_no_pause_at_our_server(peer):
    library = ours_only("server")
    with Job(30, 2, 100000, "tight", library=library, env={"PSLITE_WIRE": "byteps-0.2.5"},
             timeout=150) as job:
        job.start()
        job.ended_well()


@needs_peer
def test_a_scheduler_without_an_application_serves_them(peer):
    library = {**ours_only(), "scheduler": NATIVE}
    with Job(3, 2, 100, "apart", library=library, env={"PSLITE_WIRE": "byteps-0.2.5"},
             timeout=150) as job:
        job.start()
        job.ended_well()


@needs_peer
def test_another_wire_is_named(peer):
    library = ours_only("scheduler")
    with Job(1, 1, 1, "apart", library=library, env={"PSLITE_WIRE": "byteps"}) as job:
        job.start()
        found = job.nodes["scheduler"].wait_for("does the sender have another PSLITE_WIRE?", 20)
        assert found, job.describe()


@pytest.mark.parametrize("wire, other", [(a, b) for a in WIRES for b in WIRES if a != b])
def test_any_other_wire_is_named(wire, other):
    """Whichever wire the scheduler has, and whichever another the nodes."""
    nodes = {node: {"PSLITE_WIRE": other} for node in ("server0", "worker0")}
    library = {"scheduler": OURS, "server": OURS, "worker": OURS}
    with Job(1, 1, 1, "apart", library=library, env={"PSLITE_WIRE": wire}, node_env=nodes,
             workers=1, servers=1) as job:
        job.start()
        found = job.nodes["scheduler"].wait_for("does the sender have another PSLITE_WIRE?", 20)
        assert found, job.describe()
        scheduler = job.nodes["scheduler"]
        assert scheduler.wait_for(f"PSLITE_WIRE is {other} at the ", 20), job.describe()
        assert f"and {wire} at the scheduler" in scheduler.err, job.describe()


# ---- all ours ------------------------------------------------------------------------------------


def all_ours(wire, **env):
    env = {"PSLITE_WIRE": wire, "PSLITE_HOLD_PUSHES": 1 if wire == "mxnet" else None, **env}
    return {"library": {"scheduler": OURS, "server": OURS, "worker": OURS},
            "env": {name: value for name, value in env.items() if value is not None}}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("keys, elements", ((1, 131072), (1, 512), (20, 20000)))
def test_rounds_back_to_back(wire, keys, elements):
    with Job(300, keys, elements, "tight", **all_ours(wire)) as job:
        job.start()
        job.ended_well()


@pytest.mark.parametrize("more", ({"PSLITE_TRANSPORT": "tcp"}, {"PSLITE_TRANSPORT": "zmq"}),
                         ids=str)
def test_rounds_back_to_back_however_they_travel(more):
    with Job(300, 2, 30000, "tight", **all_ours("mxnet", **more)) as job:
        job.start()
        job.ended_well()


@pytest.mark.parametrize("more", (
    {"DMLC_LOCAL": 1}, {"PS_RESEND": 1, "PS_RESEND_TIMEOUT": 50, "PS_DROP_MSG": 2}), ids=str)
def test_what_stock_can_besides(more):
    with Job(100, 2, 5000, "tight", **all_ours("byteps-0.2.5", **more)) as job:
        job.start()
        job.ended_well()


def test_without_the_gate_rounds_mix():
    """What the tests above would say, and what BytePS's own server gives."""
    for _ in range(3):
        with Job(300, 1, 131072, "tight", servers=1,
                 **all_ours("byteps", PSLITE_HOLD_PUSHES=0)) as job:
            job.start()
            assert job.wait(), job.describe()
            job._read_all()
            if any("values are wrong" in worker.out for worker in job.workers):
                return
    pytest.fail("no value was wrong in 900 rounds")


@pytest.mark.parametrize("wire", WIRES[1:])
def test_the_death_of_a_server_ends_the_job(wire):
    with Job(100000, 2, 100, "apart", **all_ours(wire, PSLITE_PEER_TIMEOUT=1)) as job:
        job.start()
        server = job.nodes["server1"]
        # Rounds go.
        deadline = harness.patient(20)
        while not server_is_busy(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        server.kill()
        assert job.wait(30), job.describe()
        job._read_all()
        # The other server has no connection to it, and ends when the rest has gone.
        for node in job.workers + [job.nodes["scheduler"]]:
            assert (node.returncode not in (0, None)
                    and "lost server " in node.output), job.describe()


def server_is_busy(node):
    """True once it has used a tenth of a second of a processor."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12]) > os.sysconf("SC_CLK_TCK") // 10


@pytest.mark.parametrize("wire", WIRES)
def test_start_with_a_barrier_and_wished_ranks(wire):
    node_env = {f"{role}{i}": {"RANK": 1 - i, "PS_VERBOSE": 1}
                for role in ("worker", "server") for i in (0, 1)}
    with Job(5, 4, 1000, "apart", **all_ours(wire, START_BARRIER=1), node_env=node_env) as job:
        job.start()
        job.ended_well()
    for role in ("worker", "server"):
        for i in (0, 1):
            assert f"this is {role} {1 - i} " in job.nodes[f"{role}{i}"].output, job.describe()


@pytest.mark.parametrize("wire", WIRES)
def test_wishes_that_do_not_fit_end_the_job(wire):
    with Job(1, 1, 1, "apart", **all_ours(wire), node_env={"worker0": {"RANK": 1}}) as job:
        job.start()
        assert job.wait(30, ["scheduler"]), job.describe()
        assert job.nodes["scheduler"].returncode == 1, job.describe()
        assert "wishes rank" in job.nodes["scheduler"].output, job.describe()


@pytest.mark.parametrize("wire", ("mxnet", "byteps"))
def test_processes_of_several_nodes(wire):
    node_env = {f"{role}{i}": {"RANK": i} for role in ("worker", "server") for i in (0, 1)}
    with Job(50, 6, 5000, "tight", **all_ours(wire, GROUP=2, START_BARRIER=1),
             node_env=node_env) as job:
        job.start()
        job.ended_well()


@pytest.mark.parametrize("wire", WIRES)
def test_a_process_starts_again_in_another_job(wire):
    port = harness.free_port()
    first = Job(10, 4, 3000, "tight", servers=1, **all_ours(wire),
                node_env={"worker0": {"NEXT": f"1,2,{port}"}})
    second = Job(10, 4, 3000, "tight", workers=1, servers=2, port=port,
                 roles=("scheduler", "server"), **all_ours(wire))
    with first, second:
        second.start()
        first.start()
        first.ended_well()
        second.ended_well()
        assert first.nodes["worker0"].out.count("all sums are right") == 2, first.describe()
