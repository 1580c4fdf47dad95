"""C++ programs that were written for ps-lite, on include/ps and libps.a: by both compilers, in
several languages, with both string ABIs, with the values of both dialects.

The programs are programs/relink_*.cc. Each checks what it gets by itself and ends with the line
"all is right".
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import built
import byteps_stock
import harness
import kept
from harness import NATIVE, OURS, PROGRAMS, ROOT, STOCK, Cluster

INCLUDE = ROOT / "include"
HEADERS = sorted(path.relative_to(INCLUDE)
                 for folder in ("ps", "dmlc") for path in (INCLUDE / folder).rglob("*.h"))
#: What a program needs beside libps.a.
SYSTEM = ["-pthread", "-ldl", "-lm"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wnon-virtual-dtor", "-Werror"]

#: Compiler, language, string ABI, more.
VARIANTS = {
    "gcc-c++11": ("g++", "c++11", 1),
    "gcc-c++20-old-strings": ("g++", "c++20", 0),
    "clang-c++11-old-strings": ("clang++", "c++11", 0),
    "clang-c++17": ("clang++", "c++17", 1),
    # As BytePS builds its server.
    "byteps": ("g++", "c++11", 0, "-DPSLITE_DIALECT_BYTEPS", "-Ofast", "-fopenmp"),
}
#: With these each program meets both compilers, each language, both string ABIs and both dialects.
ENOUGH = {"gcc-c++20-old-strings", "clang-c++17", "byteps"}
ALL = pytest.mark.parametrize("variant", [
    pytest.param(name, marks=[] if name in ENOUGH else [pytest.mark.full]) for name in VARIANTS])


def compiler(name):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return name


def compile_with(variant, *arguments):
    name, language, strings, *more = VARIANTS[variant]
    command = [compiler(name), f"-std={language}", f"-D_GLIBCXX_USE_CXX11_ABI={strings}", *WARNINGS,
               f"-I{INCLUDE}", *more, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and not done.stderr, (command, done.stderr)


def archive():
    """libps.a without what is for debuggers: each link would read and write 130 MB of that."""
    def make(target):
        subprocess.run(["objcopy", "--strip-debug", harness.LIBRARY.with_name("libps.a"), target],
                       check=True, timeout=100)
    return built.once(make, "libps.a")


def build(variant, *sources, library=None, more=()):
    """Built once, whichever tests use it. library: instead of libps.a."""
    def make(target):
        files = [str(PROGRAMS / source) for source in sources]
        linked = harness.LIBRARY.with_name(library) if library else archive()
        compile_with(variant, *more, "-o", str(target), *files, str(linked), *SYSTEM)
    return built.once(make, variant, sources, library, more)


def run(program, *arguments, environment=None, limit=60, **counts):
    """A cluster of that program, whose processes all come to their end."""
    cluster = Cluster(program, command=[str(program), *arguments], library=STOCK, timeout=limit,
                      env=environment, **counts)
    cluster.run()
    for node in cluster.nodes.values():
        assert not node.hung and node.returncode == 0, cluster.describe()
        assert node.out.splitlines()[-1:] == ["all is right"], cluster.describe()
    return cluster


@pytest.mark.parametrize("variant, headers", [
    ("gcc-c++11", HEADERS[::2]), ("clang-c++17", HEADERS[1::2]),
    # The quick run has each header by one of the two.
    pytest.param("gcc-c++11", HEADERS[1::2], marks=pytest.mark.full),
    pytest.param("clang-c++17", HEADERS[::2], marks=pytest.mark.full),
], ids=["gcc", "clang", "gcc, the others", "clang, the others"])
def test_each_header_alone(variant, headers, tmp_path):
    assert len(headers) > 7
    for header in headers:
        source = tmp_path / f"{header.stem}.cc"
        source.write_text(f'#include "{header}"\n#include "{header}"\n')
        compile_with(variant, "-fsyntax-only", str(source))


@ALL
def test_what_needs_no_job(variant):
    program = build(variant, "relink_parts.cc", "relink_unit.cc",
                    more=["-DRELINK_TWO_UNITS"])
    environment = {"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "3",
                   "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(harness.free_port())}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode == 0 and done.stdout.endswith("all is right\n")), (done.stdout,
                                                                               done.stderr)


@ALL
def test_start_and_end_twice(variant):
    program = build(variant, "relink_start.cc")
    again = f"DMLC_PS_ROOT_PORT={harness.free_port()},DMLC_PS_ROOT_URI=localhost"
    run(program, environment={"RELINK_AGAIN": again})


@ALL
def test_commands(variant):
    run(build(variant, "relink_simple.cc"))


def test_commands_where_keys_stay():
    run(build("clang-c++17", "relink_simple.cc"), environment={"PSLITE_ELASTIC": "0"})


@ALL
def test_keys_and_values(variant):
    run(build(variant, "relink_kv.cc"))


def test_one_worker_and_one_server():
    run(build("clang-c++17", "relink_kv.cc"), workers=1, servers=2)


def test_the_shared_library(tmp_path):
    program = build("gcc-c++11", "relink_kv.cc", library="libps.so")
    (tmp_path / "libps.so.1").symlink_to(harness.LIBRARY.with_name("libps.so"))
    run(program, environment={"LD_LIBRARY_PATH": tmp_path})


def test_over_the_stock_wire():
    """What arrives in small messages is not aligned there; it is all the same."""
    run(build("gcc-c++11", "relink_kv.cc",
              more=["-fsanitize=undefined", "-fno-sanitize-recover"]),
        environment={"PSLITE_TRANSPORT": "zmq"})


@ALL
def test_customers_and_messages(variant):
    run(build(variant, "relink_customers.cc"), workers=1,
        environment={"DMLC_NUM_WORKER": "2"})


@pytest.mark.parametrize("mode, servers", [
    ("mxnet", STOCK), ("shared", NATIVE), ("own", NATIVE)])
def test_a_second_kvstore_of_a_process(mode, servers):
    """MXNet's is refused; others share their keys, or say that they do not."""
    program = build("gcc-c++11", "relink_second_kvstore.cc")
    library = {"scheduler": servers, "server": servers, "worker": STOCK}
    cluster = Cluster(program, command=[str(program), mode], library=library, timeout=60,
                      workers=2 if mode == "mxnet" else 1).run()
    for node in cluster.nodes.values():
        assert not node.hung and node.returncode == 0, cluster.describe()
    assert all(worker.out == "all is right\n" for worker in cluster.workers), cluster.describe()


@ALL
def test_byteps(variant):
    program = build(variant, "relink_byteps.cc")
    for mode in ("old", "new"):
        run(program, mode, environment={"RELINK_PORT": harness.free_port()})
    run(program, "joint", servers=0,
        environment={"DMLC_NUM_SERVER": "2", "RELINK_PORT": harness.free_port()})


def wishes(roles=("server", "worker")):
    """Each process wishes for a rank: the last one for the first."""
    return {f"{role}{index}": {"RELINK_RANK": 1 - index} for role in roles for index in range(2)}


def test_byteps_with_ranks_and_groups():
    program = build("byteps", "relink_byteps.cc")
    run(program, "new", node_env=wishes(), environment={"RELINK_PORT": harness.free_port()})
    group = {"DMLC_GROUP_SIZE": 2}
    run(program, "group", node_env=wishes(),
        environment={"RELINK_PORT": harness.free_port(), **group})
    run(program, "joint", node_env=wishes(["worker"]), servers=0,
        environment={"RELINK_PORT": harness.free_port(), "DMLC_NUM_SERVER": 2, **group})


@pytest.mark.parametrize("mode, wire",
                         [("old", "byteps-0.2.5"), ("new", "byteps"), ("group", "byteps")])
def test_byteps_on_its_own_wire(mode, wire):
    environment = {"PSLITE_WIRE": wire, "RELINK_PORT": harness.free_port(),
                   "DMLC_GROUP_SIZE": 2 if mode == "group" else 1}
    run(build("byteps", "relink_byteps.cc"), mode, environment=environment,
        node_env=wishes() if mode == "group" else {})


@pytest.mark.parametrize("environment",
                         [{}, {"PSLITE_TRANSPORT": "zmq"}, {"PSLITE_WIRE": "byteps"}], ids=str)
def test_devices_and_types_arrive(environment):
    """What a peer of BytePS's later releases sends and restores, on every wire that has room for
    it."""
    run(build("byteps", "relink_devices.cc"), workers=1, servers=1,
        environment=environment)


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_caller_looks_before_the_end_in_p3_mode(transport):
    """However often it loses its processor just after its call has returned."""
    run(build("gcc-c++11", "relink_p3.cc"), workers=1, servers=1,
        environment={"DMLC_PS_VAN_TYPE": "p3", "PSLITE_TRANSPORT": transport})


@pytest.mark.parametrize("environment",
                         [{}, {"PS_HEARTBEAT_TIMEOUT": 2, "PSLITE_RECOVERY_WAIT": 2}], ids=str)
def test_a_lost_server_is_told(environment):
    """Also where a replacement is waited for, and none comes."""
    program = build("gcc-c++11", "relink_lost.cc")
    cluster = Cluster(program, command=[str(program)], library=STOCK, timeout=60,
                      env=environment).run()
    # Which process is the server of rank 0 is decided by their ports.
    codes = sorted(node.returncode for node in cluster.nodes.values())
    assert codes == [0, 0, 0, 0, 7], cluster.describe()
    last = [node.out.splitlines()[-1:] for node in cluster.nodes.values()]
    assert last.count(["all is right"]) == 4, cluster.describe()


@pytest.mark.parametrize("order", ["ps first", "dmlc first"])
@pytest.mark.parametrize("variant", ["gcc-c++11", "clang-c++17"])
def test_beside_dmlc_core(variant, order, tmp_path):
    """MXNet has a newer dmlc/logging.h than ps-lite: that one is taken, in whatever order all is
    found and included."""
    venv = Path(harness.PYTHON).parent.parent
    found = glob.glob(str(venv / "lib/python3*/site-packages/mxnet/include/dmlc"))
    assert found, "the wheel has dmlc-core's headers"
    lines = ["#include <ps/ps.h>", "#include <dmlc/parameter.h>"]
    if order == "dmlc first":
        lines.reverse()
    program = ["int main() { CHECK_EQ(1, 1) << 2; dmlc::optional<int> none;",
               "return none.has_value(); }"]
    source = tmp_path / "both.cc"
    source.write_text("\n".join([*lines, *program]) + "\n")
    theirs = os.path.dirname(found[0])
    name, language, _, *_ = VARIANTS[variant]
    for folders in ([f"-I{theirs}", f"-I{INCLUDE}"], [f"-I{INCLUDE}", f"-I{theirs}"]):
        # dmlc-core's own parameters are not all used.
        command = [compiler(name), f"-std={language}", "-Wall", "-Wextra", "-Werror",
                   "-Wno-unused-parameter", *folders, "-fsyntax-only", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (command, done.stderr)


def build_twins(folder):
    """relink_twin.cc over the ps-lite that BytePS 0.2.5.post15 contains, and over ours."""
    theirs = folder / "theirs"
    try:
        byteps_stock.compile_program(PROGRAMS / "relink_twin.cc", theirs)
    except byteps_stock.Unavailable as why:
        pytest.skip(str(why))
    return theirs, build("clang-c++11-old-strings", "relink_twin.cc")


def said(cluster):
    """What each node printed, by its place in the job."""
    for node in cluster.nodes.values():
        assert not node.hung and node.returncode == 0, cluster.describe()
    lines = [node.out.splitlines() for node in cluster.nodes.values()]
    return {next(line for line in node if line.startswith("job:")): node for node in lines}


def said_by_theirs(program):
    """What all say where all are theirs; kept (kept.py)."""
    def run_it():
        # Beside other work they take long to start.
        cluster = Cluster(program, command=[str(program)], library=STOCK, timeout=200)
        return json.dumps(said(cluster.run())).encode()
    key = kept.key("what twins say", program=hashlib.sha256(program.read_bytes()).hexdigest(),
                   harness=kept.texts(__file__, harness.__file__))
    return json.loads(kept.of_stock().value(key, run_it))


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_the_same_source_over_another_ps_lite(tmp_path):
    program, twin = build_twins(tmp_path)
    theirs = said_by_theirs(program)
    ours = said(Cluster(twin, command=[str(twin)], library=STOCK, timeout=60).run())
    assert len(theirs) == 5 and theirs == ours
    assert max(len(lines) for lines in ours.values()) > 10


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("others",
                         [["scheduler", "server0", "worker1"], ["server0", "server1"], ["worker0"]])
def test_nodes_of_both_in_one_job(others, tmp_path):
    theirs, ours = build_twins(tmp_path)
    alone = said_by_theirs(theirs)
    names = ["scheduler", "server0", "server1", "worker0", "worker1"]
    programs = {name: {"RELINK_PROGRAM": theirs if name in others else ours} for name in names}
    cluster = Cluster(ours, command=["sh", "-c", 'exec "$RELINK_PROGRAM"'], library=STOCK,
                      timeout=60, node_env=programs, env={"PSLITE_WIRE": "byteps-0.2.5"})
    assert said(cluster.run()) == alone


def beside_the_wheel(program, wheels, roles, library):
    """A job whose `roles` run the C++ program, and all others the wheel with that script."""
    commands = {role: {"RELINK_COMMAND": program if role in roles
                       else f"{harness.PYTHON} {PROGRAMS / wheels}"}
                for role in harness.ROLES}
    cluster = Cluster("relink_wheel.py", command=["sh", "-c", "exec $RELINK_COMMAND"],
                      library=library, timeout=60, node_env=commands,
                      env={"MXNET_KVSTORE_BIGARRAY_BOUND": 1000}).run()
    for node in cluster.nodes.values():
        assert not node.hung and node.returncode == 0, cluster.describe()
        libraries = set() if node.role in roles or node.library == NATIVE else {"libmxnet.so"}
        if node.library == OURS:
            libraries.add(harness.LIBRARY.name)
        assert node.libraries == libraries, cluster.describe()
    return cluster


@pytest.mark.parametrize("variant, kind", [
    ("gcc-c++20-old-strings", STOCK), ("clang-c++17", STOCK), ("gcc-c++11", OURS),
    ("gcc-c++11", NATIVE)])
def test_workers_in_a_job_of_the_wheel(variant, kind):
    """The wheel's scheduler and servers, preloaded or not, or those without MXNet; and C++ workers
    that say what MXNet's say."""
    program = build(variant, "relink_wheel.cc")
    cluster = beside_the_wheel(program, "server.py", ["worker"],
                               {"scheduler": kind, "server": kind, "worker": STOCK})
    assert all(worker.out == "all is right\n" for worker in cluster.workers), cluster.describe()


@pytest.mark.parametrize("kind", [STOCK, OURS])
def test_servers_for_workers_of_the_wheel(kind):
    """C++ servers with a handle of their own, and a C++ scheduler."""
    program = build("gcc-c++11", "relink_wheel.cc")
    cluster = beside_the_wheel(program, "relink_wheel.py", ["scheduler", "server"],
                               {"worker": kind})
    for node in cluster.workers:
        assert node.result and node.result["wrong"] == [], cluster.describe()
    others = [node for node in cluster.nodes.values() if node.role != "worker"]
    assert all(node.out == "all is right\n" for node in others), cluster.describe()


def test_the_table_of_names_is_current():
    done = subprocess.run([str(ROOT / "scripts/api-matrix"), "--check"], capture_output=True,
                          text=True, timeout=200)
    assert done.returncode == 0, done.stderr
