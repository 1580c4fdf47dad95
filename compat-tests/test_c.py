"""docs/c.md: its program in C is built as it stands there, by both compilers and with both
libraries, and runs."""

import re
import shutil
import subprocess

import pytest

import harness
from harness import ROOT, STOCK, Cluster

GUIDE = (ROOT / "docs/c.md").read_text()
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wstrict-prototypes", "-Werror"]


def build(folder, compiler, line, *more):
    """The guide's program, by one of its own command lines."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source, = re.findall(r"^```c\n(.*?)^```$", GUIDE, re.M | re.S)
    (folder / "example.c").write_text(source)
    lib = folder / "pslite/lib"
    lib.mkdir(parents=True)
    for name, file in (("libps.a", "libps.a"), ("libps.so", "libps.so"),
                       ("libps.so.1", "libps.so")):
        (lib / name).symlink_to(harness.LIBRARY.with_name(file))
    (folder / "pslite/include").symlink_to(ROOT / "include")
    words = line.replace("/opt/pslite", str(folder / "pslite")).split()
    assert words[0] == "gcc"
    command = [compiler, *STRICT, *more, *words[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, (command, done.stderr)
    return folder / "example"


LINES = [line.replace("\\\n", "") for line in re.findall(r"^    (gcc (?:.*\\\n)*.*)$", GUIDE, re.M)]


def run(program, environment=None):
    job = Cluster(program, command=[str(program)], library=STOCK, timeout=60, env=environment).run()
    assert all(node.returncode == 0 and not node.hung
               for node in job.nodes.values()), job.describe()
    for worker in job.workers:
        assert "all sums are right" in worker.out, job.describe()


def test_the_guide_has_two_lines():
    assert len(LINES) == 2 and "libps.a" in LINES[0] and "libps.so" in LINES[1]


@pytest.mark.parametrize("compiler", ("gcc", "clang"))
@pytest.mark.parametrize("line", range(2), ids=("static", "shared"))
def test_the_program_of_the_guide(tmp_path, compiler, line):
    run(build(tmp_path, compiler, LINES[line]))


def test_it_touches_no_memory_but_its_own(tmp_path):
    """Over the wire whose small messages are not aligned; what is retained and lent comes back."""
    program = build(tmp_path, "gcc", LINES[1], "-fsanitize=address,undefined",
                    "-fno-sanitize-recover", "-g")
    run(program, {"PSLITE_TRANSPORT": "zmq", "ASAN_OPTIONS": "detect_leaks=0"})


def test_the_guide_names_only_what_the_header_has():
    names = set(re.findall(r"\bpslite_\w+[a-z]\b|\bPSLITE_\w+[A-Z0-9]\b", GUIDE))
    header = (ROOT / "include/pslite.h").read_text()
    known = set(re.findall(r"\bpslite_\w+|\bPSLITE_\w+", header))
    assert names - known - {"pslite_node_set", "pslite_server_attach"} == set()


def test_the_header_cites_no_lines_of_other_sources():
    for path in (ROOT / "include").rglob("*.h"):
        assert not re.search(r"\b\w+\.(h|cc|cpp):\d", path.read_text()), path
