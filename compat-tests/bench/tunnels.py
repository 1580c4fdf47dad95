"""Rounds between two sites without an IP route to each other, through one gateway and through two.

    scripts/bench tunnels                         about 4 minutes
    scripts/bench tunnels --rate 30 --rounds 9
    scripts/bench tunnels --delay 20 --loss 0.05  over links that take 20 ms and lose packets

Four sites, a and b, with links to the two others alone, all of the same rate; no site forwards. A
worker at a pushes and pulls every tensor of a fifth of ResNet-50, 20 MB, with a server at b
(mxkv.py: every sum is checked). At the two others runs `pslite tunnel`. One job's links name one of
them, the other job's both. Rounds of both are taken in turn; what is said is the ratio of their
medians, and what part of the links' rate each uses. Needs root.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import wan_paper  # noqa: E402
from cluster import LIBRARY, TCP, Cluster, Failed  # noqa: E402
from harness import PYTHON  # noqa: E402
from netlab import LabError, Mesh, Unavailable, graph  # noqa: E402
from netlab.cluster import Sites  # noqa: E402
from netlab.links import CONGESTION  # noqa: E402
from netlab.tools import Interrupted, raise_on_signals  # noqa: E402
from parts import CACHE  # noqa: E402
from run import machine  # noqa: E402
from wan_jobs import BIGARRAY, DIVISORS, LIMIT, one_round  # noqa: E402

MODEL = "fifth"
#: Two disjoint tunnels by one.
BAR = 1.7
#: The port of the gateways of the job with so many ways.
PORTS = {1: 7100, 2: 7200}
# Seconds for a gateway to listen.
LISTENS = 10


def links_file(stack, mesh, some):
    """A file with the links of those sites, by address."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pslite-tunnels-"))
    path = Path(folder) / "links"
    left = graph.Graph(link for link in mesh.graph().links if {link.one, link.other} <= set(some))
    path.write_text(wan_paper.links_text(left, {site: mesh.host(site).address for site in some}))
    return path


@contextmanager
def gateway(mesh, site, links, port):
    """`pslite tunnel` at a site."""
    host = mesh.host(site)
    process = host.popen([LIBRARY.with_name("pslite"), "tunnel", "--host", host.address,
                          "--port", port, "--links", links])
    try:
        until = time.monotonic() + LISTENS
        while subprocess.run(host.command([sys.executable, "-c", CONNECT, host.address, port]),
                             check=False).returncode:
            if process.poll() is not None or time.monotonic() > until:
                raise Failed(f"no gateway at {site}: exit code {process.poll()}")
        yield
    finally:
        process.terminate()
        process.wait(LISTENS)


# Whether somebody listens there.
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"


def job(stack, mesh, ways):
    """A worker at a, server and scheduler at b, and so many ways between."""
    gateways = ["c", "d"][:ways]
    links = links_file(stack, mesh, ["a", "b", *gateways])
    for site in gateways:
        stack.enter_context(gateway(mesh, site, links, PORTS[ways]))
    return stack.enter_context(Cluster(
        [PYTHON, "-u", str(HERE / "mxkv.py"), str(LIMIT)], 1, 1, TCP,
        place=Sites(mesh, "b", ["b"], ["a"]), label=f"{ways} ways",
        settings={"PS_VERBOSE": "1", "PSLITE_LINKS": str(links),
                  "PSLITE_TUNNELS": str(PORTS[ways]),
                  "MXNET_KVSTORE_BIGARRAY_BOUND": str(BIGARRAY // DIVISORS[MODEL])}))


def measure(options):
    """Seconds of the rounds of each job, taken in turn."""
    far = f" delay={options.delay} loss={options.loss}" if options.delay or options.loss else ""
    square = graph.parse(", ".join(f"{one} {other} {options.rate}{far}"
                                   for one in "ab" for other in "cd"))
    chosen = SimpleNamespace(model=MODEL)
    with Mesh(square, options.congestion, routed=False) as mesh, ExitStack() as stack:
        jobs = {ways: job(stack, mesh, ways) for ways in PORTS}
        for one in jobs.values():
            one_round(one, chosen)
        found = {ways: [] for ways in PORTS}
        for _ in range(options.rounds):
            for ways, one in jobs.items():
                found[ways].append(max(one_round(one, chosen)))
        for one in jobs.values():
            one.end()
    return found


def report(found, rate):
    """Lines about the rounds, and the ratio."""
    least = wan_paper.model_bytes(DIVISORS[MODEL]) * 8 / 1e6 / rate
    lines = ["| ways | round, median | shortest, longest | part of the links' rate |",
             "|---|---|---|---|"]
    lines += [f"| {ways} | {median(rounds):.2f} s | {min(rounds):.2f}, {max(rounds):.2f} s | "
              f"{least / ways / median(rounds):.2f} |" for ways, rounds in found.items()]
    return lines, median(found[1]) / median(found[2])


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench tunnels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=25, help="of each link, Mbit/s; default: 25")
    parser.add_argument("--rounds", type=int, default=7, help="of each job; default: 7")
    parser.add_argument("--delay", type=float, default=0, help="of each link one way, ms")
    parser.add_argument("--loss", type=float, default=0, help="on each link, percent")
    parser.add_argument("--congestion", default=CONGESTION,
                        help="TCP's algorithm; default: %(default)s")
    parser.add_argument("--gate", action="store_true", help="fail if the bar does not hold")
    options = parser.parse_args()
    if options.rounds < 1 or options.rate <= 0:
        parser.error("--rounds and --rate must be more than 0")
    if options.delay < 0 or not 0 <= options.loss < 100:
        parser.error("--delay must be 0 or more, --loss a percentage below 100")
    if not LIBRARY.with_name("pslite").is_file():
        parser.error(f"no program beside {LIBRARY}: run cargo build --release")
    raise_on_signals()
    try:
        found = measure(options)
    except Unavailable as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except (LabError, Failed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        return interrupted.code
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "tunnels.json").write_text(json.dumps({"options": vars(options), "rounds": found}))
    lines, ratio = report(found, options.rate)
    print(f"{machine()} TCP: {options.congestion}.", "", *lines, "", sep="\n")
    print(f"Two ways by one: {ratio:.2f} (bar: {BAR})")
    return 1 if options.gate and ratio < BAR else 0


if __name__ == "__main__":
    sys.exit(main())
