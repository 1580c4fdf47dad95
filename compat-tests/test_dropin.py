"""Programs that contain ps-lite in their tree, or look for it on the system, build with this
repository instead: with the commands of docs/relink.md.
"""

import functools
import os
import re
import shutil
import subprocess

import pytest

import guide
from harness import PROGRAMS, ROOT, STOCK, Cluster, scratch

needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
needs_pkg_config = pytest.mark.skipif(not shutil.which("pkg-config"),
                                      reason="pkg-config is not installed")

#: What a program that links libps.a must link of the system: as make/ps.mk, the CMake target and
#: pslite.pc say.
SYSTEM_LIBRARIES = ["stdc++", "gcc_s", "pthread", "dl", "rt", "m"]
#: Where today's C library is no longer split, they are empty, and named for older systems.
MAY_BE_EMPTY = {"pthread", "dl", "rt", "m"}

CXX = ["g++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="session", autouse=True)
def target_dir():
    """All builds here share what cargo compiles, as the builds that users do share theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARGO_TARGET_DIR", os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))
        yield


def run(*command, **more):
    """Runs a command that must succeed; returns what it said."""
    command = [str(word) for word in command]
    more = {"timeout": 500, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
            **more}
    done = subprocess.run(command, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def linked_tree(place):
    """This repository as `place`, entry by entry a link, so that what is built there stays
    there."""
    place.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name not in ("build", "deps", "target", ".git", ".cache"):
            (place / entry.name).symlink_to(entry)
    return place


@functools.lru_cache(maxsize=None)
def archive():
    """build/libps.a as the Makefile builds it, with the variables that MXNet's and BytePS's builds
    pass."""
    tree = linked_tree(scratch("pslite-make-") / "ps-lite")
    run("make", "-j", "ADD_CFLAGS=-D_GLIBCXX_USE_CXX11_ABI=0", "USE_RDMA=1", "USE_FABRIC=1",
        "USE_UCX=1", "UCX_PATH=/nowhere", "WGET=false", "ZMQ_URL=nowhere", "PROTOC=false",
        "CXX=g++", "ASAN=", "USE_KEY32=0", cwd=tree)
    return tree / "build/libps.a"


def cluster(program):
    """The program as a scheduler, two servers and two workers."""
    job = Cluster(program, command=[str(program)], library=STOCK, timeout=60).run()
    assert all(node.returncode == 0 and not node.hung
               for node in job.nodes.values()), job.describe()
    for worker in job.workers:
        assert "sums are right" in worker.out, job.describe()


# ---- the Makefile

def test_make_gives_what_builds_expect():
    tree = archive().parent.parent
    assert archive().is_file()
    assert (tree / "deps/lib/libzmq.a").read_bytes() == b"!<arch>\n"
    assert (tree / "deps/include").is_dir()


def test_make_again_changes_nothing():
    before = archive().stat()
    run("make", "ps", cwd=archive().parent.parent)
    after = archive().stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_make_puts_deps_where_it_is_told(tmp_path):
    run("make", f"DEPS_PATH={tmp_path / 'deps'}", "ps", cwd=archive().parent.parent)
    assert (tmp_path / "deps/lib/libzmq.a").is_file()


def test_make_refuses_short_keys():
    done = subprocess.run(["make", "USE_KEY32=1"], cwd=archive().parent.parent, capture_output=True,
                          text=True)
    assert done.returncode != 0 and "64-bit keys only" in done.stderr


def test_make_without_cargo_says_so(tmp_path):
    tree = linked_tree(tmp_path / "ps-lite")
    done = subprocess.run(["make", "ps"], cwd=tree, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "CARGO": "/nowhere/cargo"})
    assert done.returncode != 0 and "cargo is missing" in done.stderr


def test_make_clean(tmp_path):
    tree = linked_tree(tmp_path / "ps-lite")
    run("make", "ps", cwd=tree)
    run("make", "clean", cwd=tree)
    assert not (tree / "build").exists()


MXNET_MAKEFILE = """\
# What MXNet's Makefile does about ps-lite.
ROOTDIR = $(CURDIR)
PS_PATH=$(ROOTDIR)/3rdparty/ps-lite
DEPS_PATH=$(shell pwd)/deps
CFLAGS = -std=c++11 -fPIC -Wall -Wextra -Werror -I.
include $(PS_PATH)/make/ps.mk
CFLAGS += -DMXNET_USE_DIST_KVSTORE -I$(PS_PATH)/include -I$(DEPS_PATH)/include
LIB_DEP += $(PS_PATH)/build/libps.a
LDFLAGS += $(PS_LDFLAGS_A)

lib/libmxnet.so: kvstore.o $(LIB_DEP)
\t@mkdir -p $(@D)
\t$(CXX) $(CFLAGS) -shared -Wl,-z,defs -o $@ $(filter %.o %.a, $^) $(LDFLAGS)

%.o: %.cc
\t$(CXX) $(CFLAGS) -c $< -o $@

$(PS_PATH)/build/libps.a: PSLITE

PSLITE:
\t$(MAKE) CXX="$(CXX)" DEPS_PATH="$(DEPS_PATH)" -C $(PS_PATH) ps
"""


def write_mxnet(place):
    """A library and a program in the shape of MXNet's tree: the program calls the library, which
    contains ps-lite."""
    source = (PROGRAMS / "dropin.cc").read_text()
    (place / "kvstore.cc").write_text(
        source.replace("int main()", 'extern "C" int mxnet_main();\nint mxnet_main()'))
    (place / "main.cc").write_text('extern "C" int mxnet_main();\n'
                                   'int main() { return mxnet_main(); }\n')
    # The submodule, which the guide has replaced.
    (place / "3rdparty/ps-lite/src").mkdir(parents=True)
    guide.run(guide.block("MXNet", "3rdparty/ps-lite"), place, pslite=linked_tree(place / "pslite"))


def test_a_makefile_like_mxnets(tmp_path):
    write_mxnet(tmp_path)
    (tmp_path / "Makefile").write_text(MXNET_MAKEFILE)
    run("make", "-j2", cwd=tmp_path)
    program = tmp_path / "program"
    run(*CXX, "-o", program, tmp_path / "main.cc", tmp_path / "lib/libmxnet.so",
        f"-Wl,-rpath,{tmp_path / 'lib'}")
    cluster(program)


# ---- the archive

def symbols(*arguments):
    return [line.split() for line in run("nm", *arguments).splitlines() if len(line.split()) >= 2]


def test_only_the_c_abi_is_global():
    declared = set(re.findall(r"^[\w* ]*?\b(pslite_\w+)\(", (ROOT / "include/pslite.h").read_text(),
                              re.M))
    assert len(declared) > 30
    defined = symbols("--defined-only", "--extern-only", archive())
    assert {words[-1] for words in defined} == declared
    shared = installation("install PREFIX=") / "lib/libps.so"
    assert {words[-1] for words in symbols("--dynamic", "--defined-only", shared)} == declared
    # What a system may lack stays a weak reference.
    undefined = symbols("--undefined-only", archive())
    assert {words[0] for words in undefined if words[-1] == "pidfd_spawnp"} <= {"w"}


def test_the_system_libraries_are_these_and_no_more(tmp_path):
    """Each of them is needed, and together they are enough."""
    flags = [f"-l{name}" for name in SYSTEM_LIBRARIES]
    makefile = run("make", "-s", "-f", "-", cwd=ROOT,
                   input="include make/ps.mk\nall:\n\t@echo $(PS_SYSTEM_LIBS)\n")
    assert makefile.split() == flags

    def link(names):
        command = ["g++", "-shared", "-nodefaultlibs", "-Wl,-z,defs", "-Wl,--as-needed", "-o",
                   tmp_path / "all.so", "-Wl,--whole-archive", archive(), "-Wl,--no-whole-archive",
                   *[f"-l{name}" for name in names], "-lc"]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)

    linked = link(SYSTEM_LIBRARIES)
    assert linked.returncode == 0, linked.stderr
    for name in set(SYSTEM_LIBRARIES) - MAY_BE_EMPTY:
        without = link([other for other in SYSTEM_LIBRARIES if other != name])
        assert (without.returncode != 0
                and "undefined reference" in without.stderr), f"-l{name} is not needed"


def test_a_process_holds_it_several_times(tmp_path):
    """A program and three libraries with an archive each, a node in each library; names of libzmq
    belong to the program."""
    zmq = archive().parent.parent / "deps/lib/libzmq.a"
    link = ["-Wl,--whole-archive", archive(), zmq, "-Wl,--no-whole-archive", "-pthread", "-ldl"]
    source = PROGRAMS / "several.cc"
    include = f"-I{ROOT / 'include'}"
    arguments = []
    for role in ("scheduler", "server", "worker"):
        library = tmp_path / f"lib{role}.so"
        run(*CXX, include, f"-DNODE=run_{role}", "-shared", "-fPIC", "-o", library, source, *link)
        arguments += [library, f"run_{role}", role]
    program = tmp_path / "several"
    run(*CXX, include, "-rdynamic", "-o", program, source, *link)
    command = [str(word) for word in (program, *arguments)]
    job = Cluster(program, command=command, roles=("scheduler",), workers=1, servers=1, timeout=60)
    # One process, that is all of them.
    job.counts["scheduler"] = 1
    job.run()
    node = job.nodes["scheduler"]
    assert node.returncode == 0 and "3 nodes in one process" in node.out, job.describe()


# ---- CMake

MXNET_CMAKE = """\
# What MXNet's CMakeLists.txt does about ps-lite.
cmake_minimum_required(VERSION 3.13)
project(mxnet C CXX)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_library(mxnet SHARED kvstore.cc)
set_target_properties(mxnet PROPERTIES LINK_FLAGS "-Wl,--exclude-libs,ALL -Wl,-z,defs")
add_subdirectory("3rdparty/ps-lite")
add_definitions(-DMXNET_USE_DIST_KVSTORE)
list(APPEND mxnet_LINKER_LIBS pslite)
set_target_properties(pslite PROPERTIES CXX_CLANG_TIDY "")
target_link_libraries(mxnet PUBLIC ${mxnet_LINKER_LIBS})
add_executable(program main.cc)
target_link_libraries(program PRIVATE mxnet)
"""


def cmake(source, *options):
    """Configures and builds, in source/build."""
    run("cmake", "-S", source, "-B", source / "build", "-DCMAKE_BUILD_TYPE=Release", *options)
    run("cmake", "--build", source / "build")
    return source / "build"


@needs_cmake
def test_add_subdirectory_as_mxnet_does(tmp_path):
    write_mxnet(tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(MXNET_CMAKE)
    built = cmake(tmp_path)
    exported = {words[-1]
                for words in symbols("--dynamic", "--defined-only", built / "libmxnet.so")}
    assert ("mxnet_main" in exported
            and not [name for name in exported if name.startswith("pslite_")])
    cluster(built / "program")


# ---- a C++ program, as the guide has it

PROGRAM_CMAKE = """\
cmake_minimum_required(VERSION 3.13)
project(user CXX)
set(CMAKE_CXX_STANDARD 11)
add_executable(program program.cc)
"""


def guide_block(part):
    return guide.block("A C++ program", part)


def write_program(place, cmake_lines=""):
    """program.cc, and a CMakeLists.txt that ends with the given lines."""
    shutil.copy(PROGRAMS / "dropin.cc", place / "program.cc")
    (place / "CMakeLists.txt").write_text(PROGRAM_CMAKE + cmake_lines)
    return place


@needs_cmake
def test_inside_the_tree_of_a_program(tmp_path):
    linked_tree(tmp_path / "3rdparty/pslite")
    cluster(cmake(write_program(tmp_path, guide_block("add_subdirectory("))) / "program")


INSTALLERS = ("cmake --install", pytest.param("install PREFIX=", id="make install"))


@functools.lru_cache(maxsize=None)
def installation(how):
    """What one of the guide's two ways installs."""
    folder = scratch("pslite-install-")
    pslite = ROOT if "cmake" in how else archive().parent.parent
    guide.run(guide_block(how), folder, pslite=pslite, prefix=folder / "there")
    return folder / "there"


def needs_installer(how):
    if "cmake" in how and not shutil.which("cmake"):
        pytest.skip("cmake is not installed")


def loads_shared(program):
    return "libps.so.1" in run("readelf", "-d", program)


@needs_cmake
@pytest.mark.parametrize("target", ("pslite::pslite", "pslite::shared"))
@pytest.mark.parametrize("how", INSTALLERS)
def test_find_package(tmp_path, how, target):
    # It may be moved: nothing in the package names the place.
    moved = tmp_path / "moved"
    shutil.copytree(installation(how), moved, symlinks=True)
    source = tmp_path / "source"
    source.mkdir()
    assert target in guide.GUIDE.read_text()
    write_program(source, guide_block("find_package(").replace("pslite::pslite", target))
    prefix = guide.option("-DCMAKE_PREFIX_PATH=").replace("/opt/pslite", str(moved))
    built = cmake(source, prefix) / "program"
    assert loads_shared(built) == (target == "pslite::shared")
    cluster(built)


@needs_cmake
@pytest.mark.parametrize("how", INSTALLERS)
@pytest.mark.parametrize("version, fits", (("0.1", True), ("0.1.0", True), ("0.2", False),
                                           ("1.0", False), ("0.1.9", False)))
def test_which_versions_find_package_takes(tmp_path, how, version, fits):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(user NONE)\n"
        f"find_package(pslite {version} QUIET)\nmessage(\"found=${{pslite_FOUND}}\")\n")
    said = run("cmake", "-S", tmp_path, "-B", tmp_path / "build",
               f"-DCMAKE_PREFIX_PATH={installation(how)}")
    assert ("found=1" in said) == fits, said


@needs_pkg_config
@pytest.mark.parametrize("package", ("pslite", "pslite-shared"))
@pytest.mark.parametrize("how", INSTALLERS)
def test_pkg_config(tmp_path, how, package):
    needs_installer(how)
    text = guide_block("--libs pslite-shared" if "shared" in package else "--libs pslite)")
    question = text.splitlines()[0] + f"\npkg-config --cflags --libs {package}\n"
    flags = guide.run(question, tmp_path, prefix=installation(how)).split()
    if package == "pslite":
        assert [f"-l{name}" for name in SYSTEM_LIBRARIES] == flags[-len(SYSTEM_LIBRARIES):]
    guide.run(text, write_program(tmp_path), prefix=installation(how))
    assert loads_shared(tmp_path / "program") == (package == "pslite-shared")
    cluster(tmp_path / "program")


@pytest.mark.parametrize("line", range(2))
def test_the_lines_of_the_cpp_guide(tmp_path, line):
    how = "install PREFIX="
    page = (ROOT / "docs/cpp.md").read_text()
    lines = re.findall(r"^    (g\+\+ .* program\.cc (?:.*\\\n)*.*)$", page, re.M)
    assert len(lines) == 2
    guide.run(lines[line] + " -o program\n", write_program(tmp_path), prefix=installation(how))
    cluster(tmp_path / "program")


def test_without_all_that(tmp_path):
    guide.run(guide_block("build/libps.a"), write_program(tmp_path), pslite=archive().parent.parent)
    cluster(tmp_path / "program")


@pytest.mark.parametrize("how", INSTALLERS)
def test_what_is_installed(how):
    needs_installer(how)
    there = installation(how)
    headers = {str(p.relative_to(ROOT / "include")) for p in (ROOT / "include").rglob("*.h")}
    found = {str(p.relative_to(there)) for p in there.rglob("*") if not p.is_dir()}
    lib = {f"lib/{name}" for name in (
        "libps.a", "libps.so", "libps.so.1", "pkgconfig/pslite.pc", "pkgconfig/pslite-shared.pc",
        "cmake/pslite/pslite-config.cmake", "cmake/pslite/pslite-config-version.cmake")}
    assert found == lib | {f"include/{name}" for name in headers} and "include/ps/ps.h" in found
    assert os.readlink(there / "lib/libps.so") == "libps.so.1"
    texts = ([p.read_text() for p in (there / "lib").rglob("*.pc")]
             + [p.read_text() for p in (there / "lib").rglob("*.cmake")])
    assert not [text for text in texts if re.search(r"@\w+@", text)]


def test_a_package_is_made_below_destdir(tmp_path):
    """What DESTDIR is for: the files lie below it, and name the place where they will be."""
    run("make", "install", "PREFIX=/usr", "LIBDIR=/usr/lib/x86_64-linux-gnu", f"DESTDIR={tmp_path}",
        cwd=archive().parent.parent)
    lib = tmp_path / "usr/lib/x86_64-linux-gnu"
    assert ((lib / "libps.so").resolve() == lib / "libps.so.1"
            and (tmp_path / "usr/include/ps/ps.h").is_file())
    assert str(tmp_path) not in (lib / "pkgconfig/pslite.pc").read_text()
    assert "${pslite_libdir}/../../include" in (
        lib / "cmake/pslite/pslite-config.cmake").read_text()
