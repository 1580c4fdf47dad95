"""Sites without an IP route to each other (docs/tunnels.md): jobs run, every sum is exact, and a
cut link does not stop them.

Needs namespaces, as test_mesh.py.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness
from harness import PROGRAM
from netlab import Mesh, changes, graph
from test_lab import needs_lab

sys.path.insert(0, str(Path(__file__).parent / "bench"))
import wan_jobs  # noqa: E402

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

# A ring: from a to c there are two ways, and from b to d.
RING = graph.parse("a b 60, b c 60, c d 60, a d 60")
PORT = 7100
ROUNDS = 3
# Seconds: for a round after a cut, beside the time of any other.
GOES_ON = 30


def options(**more):
    return SimpleNamespace(model="fiftieth", set={"PSLITE_TUNNELS": str(PORT), **more})


def reaches(mesh, one, other):
    """Whether a packet from one site to another has a route."""
    probe = ("import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
             "s.connect((sys.argv[1], 1))")
    words = [sys.executable, "-c", probe, mesh.host(other).address]
    return not subprocess.run(mesh.host(one).command(words), check=False,
                              stderr=subprocess.DEVNULL).returncode


@needs_lab
@pytest.mark.parametrize("topology", ["packed", "star"])
def test_sites_without_routes(topology):
    """Initial values and control cross the ring; rounds go along trees, or straight."""
    with Mesh(RING, routed=False) as mesh, ExitStack() as stack:
        assert reaches(mesh, "a", "b") and not reaches(mesh, "a", "c")
        job = wan_jobs.ours(stack, mesh, options(), topology, ["a"])
        wan_jobs.settle(job, options())
        for _ in range(ROUNDS):
            wan_jobs.one_round(job, options())
        job.end()


@needs_lab
def test_a_cut_link_of_a_way_is_gone_around():
    """c's way to a through b is cut within a round that goes straight."""
    with Mesh(RING, routed=False) as mesh, ExitStack() as stack:
        job = wan_jobs.ours(stack, mesh, options(), "star", ["a"])
        wan_jobs.settle(job, options())
        usual = max(wan_jobs.one_round(job, options()))
        wrong = []
        timed = changes.parse_timed(f"at={usual / 2} cut b and c")
        timeline = changes.Timeline(mesh, [timed], lambda _, error: wrong.append(error)).start()
        begin = time.monotonic()
        for _ in range(ROUNDS):
            wan_jobs.one_round(job, options())
        timeline.stop()
        assert wrong == [None], wrong
        assert time.monotonic() - begin < 2 * ROUNDS * usual + GOES_ON
        job.end()


@needs_lab
def test_a_gateway_apart(tmp_path):
    """Two sites whose only way leads over a host without a node."""
    line = graph.parse("a b 60, b c 60")
    with Mesh(line, routed=False) as mesh:
        links = tmp_path / "links"
        names = {site: mesh.host(site).address for site in line.sites}
        links.write_text("".join(f"link {names[one]} {names[other]}\n"
                                 for one, other in ("ab", "bc")))
        words = [PROGRAM, "tunnel", "--port", PORT, "--links", links, "--host"]
        gateways = [mesh.host(site).popen([*words, names[site]]) for site in "ab"]
        try:
            client = [sys.executable, "-c", SOCKS, names["b"], str(PORT)]
            serve = mesh.host("c").popen([sys.executable, "-c", ECHO, names["c"], "7000"],
                                         stdout=subprocess.PIPE, text=True)
            assert serve.stdout.readline() == "listens\n"
            assert _retried(mesh, [*client, names["c"], "7000"]) == "0"
            # It leads to no host that it has no link to, nor to one that is not in the file.
            assert _once(mesh, [*client, "10.77.0.99", "7000"]) == "2"
            serve.wait(10)
        finally:
            for one in gateways:
                one.terminate()
                one.wait(10)


# A server that says back one line; a client that asks a gateway, and says what that answered.
ECHO = """import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
connection, _ = listener.accept()
connection.sendall(connection.recv(100))
"""
SOCKS = """import socket, struct, sys
gateway, target = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[4]))
s = socket.create_connection(gateway, 10)
said = b"\\5\\1\\0" + b"\\5\\1\\0\\1" + socket.inet_aton(target[0])
s.sendall(said + struct.pack(">H", target[1]))
answer = b""
while len(answer) < 12:
    got = s.recv(12 - len(answer))
    if not got:
        sys.exit("no answer")
    answer += got
if answer[3] == 0:
    s.sendall(b"hello")
    assert s.recv(100) == b"hello"
print(answer[3])
"""


def _once(mesh, words):
    done = subprocess.run(mesh.host("a").command(words), check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=30)
    return done.stdout.strip() or done.stderr


def _retried(mesh, words):
    """The same, until the gateway listens."""
    until = harness.patient(10)
    while not (said := _once(mesh, words)).isdigit() and time.monotonic() < until:
        time.sleep(0.1)
    return said


def test_tunnels_need_links():
    done = subprocess.run([str(PROGRAM), "tunnel", "--host", "127.0.0.1", "--port", "7100"],
                          env={"PATH": "/usr/bin"}, capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 2 and "PSLITE_LINKS" in done.stderr, done.stderr
    done = subprocess.run(
        [str(PROGRAM), "scheduler", "-n", "1", "-s", "1", "--host", "127.0.0.1", "--port",
         str(harness.free_port())], env={"PATH": "/usr/bin", "PSLITE_TUNNELS": "7100"},
        capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0 and "PSLITE_LINKS" in done.stderr, done.stderr
