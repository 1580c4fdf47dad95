"""scripts/lab: hosts as network namespaces on one machine, and clusters over them.

    lab run --workers 4x500 --servers 500,500,500,50 [--library ours]
            [--change 'at=60 server3=200'] -- COMMAND
    lab run --delay 20 --loss 0.1 -- COMMAND        links with 20 ms each way, and losses
    lab run --graph netstorm --servers-at best -- COMMAND    sites joined by the links of a graph
    lab hold --workers 2x500 --servers 2x100        the hosts alone, until Ctrl-C
    lab list                                        labs, their hosts, rates, cuts, processes
    lab exec HOST -- COMMAND                        a command on a host;  lab shell HOST
    lab change server3=200/50                       now, in a lab that another one runs
    lab clean                                       removes what is left of labs whose owners are
                                                    gone

Rates are Mbit/s: 500, up/down as 200/50, free for no limit; 4x500 is four hosts. Changes:
server3=200, server3.delay=20 (ms), server3.jitter=5, server3.loss=0.1 (percent), server3.cpu=0.3
(of one core), cut server3, cut worker0 to server3, cut worker0 and server3, mend ..., mend all; in
a lab of sites site1-site4=20/35, site1-site4.delay=20, cut site1 and site4, redraw SEED.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import changes, names, open_lab
from .cluster import OURS, PORT, STOCK, Job, Options
from .layout import layout
from .links import CONGESTION
from .mesh import Mesh
from .network import all_labs, remove_stale
from .tools import Interrupted, LabError, Misuse, Unavailable, raise_on_signals, require

ROOT = Path(__file__).resolve().parent.parent.parent
# Exit codes: a wrong call or an impossible wish, as of argparse; a lab that failed.
USAGE, FAILED = 2, 1


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def library():
    """Our library, where it usually is; None if it is not there."""
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    path = Path(os.environ.get("PSLITE_LIBRARY") or Path(target) / "release/libpslite_mxnet.so")
    return path if path.is_file() else None


def settings(pairs):
    bad = [pair for pair in pairs if not pair.partition("=")[0] or "=" not in pair]
    if bad:
        raise LabError(f"--set {bad[0]}: write it as NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def run(options):
    timed = [changes.parse_timed(text) for text in options.change]
    native = [role for role, wanted in (("scheduler", options.native_scheduler),
                                        ("server", options.native_servers)) if wanted]
    wanted = layout(options)
    job = Options(options.command, wanted.workers, wanted.servers, library=options.library,
                  settings=settings(options.set), native=native, port=options.port, ours=library())
    with wanted.make() as lab:
        timeline = changes.Timeline(lab, timed, told)
        say(f"{lab.name}: {len(lab.hosts)} {wanted.what}")
        if wanted.about:
            say(wanted.about)
        cluster = Job(wanted.place(lab), job)
        try:
            cluster.start()
            timeline.start()
            return cluster.wait(options.timeout, options.grace)
        except Interrupted as interrupted:
            cluster.end(str(interrupted))
            raise
        finally:
            timeline.stop()


def told(timed, error):
    say(f"at {timed.at:g} s: {timed.text}" + (f": {error}" if error else ""))


def hold(options):
    with layout(options).make() as lab:
        describe(lab)
        say("Ctrl-C removes it")
        while True:
            time.sleep(3600)


def describe(lab):
    """Tables of the hosts, and of the links between sites."""
    pid = names.owner(lab.name)
    print(f"{lab.name} " + (f"(of process {pid})" if pid else "(its owner is gone: lab clean)"))
    if isinstance(lab, Mesh):
        table(("site", "address", "cores", "processes"),
              [(site.name, site.address, _cores(site), str(len(site.pids())))
               for site in lab.hosts.values()])
        lost = {site.name: site.unreachable() for site in lab.hosts.values()}
        table(("link", "there Mbit/s", "back Mbit/s", "delays", "cut"),
              [(link.name, *map(_mbit, link.rates), _held(link.delays), ", ".join(
                  f"{one.name} to {other.name}"
                  for one, other in ((link.one, link.other), (link.other, link.one))
                  if other.name in lost[one.name]) or "-") for link in lab.links])
    else:
        table(("host", "address", "up Mbit/s", "down Mbit/s", "delays", "cores", "processes",
               "cut to"),
              [(host.name, host.address, *map(_mbit, host.rates), _held(host.delays), _cores(host),
                str(len(host.pids())), ",".join(host.unreachable()) or "-")
               for host in lab.hosts.values()])


def _mbit(rate):
    return "free" if rate is None else f"{rate:g}"


def _held(delays):
    """Of a link: `20 ms +5 ms 0.1 %`, or with what comes back behind a stroke."""
    if not delays:
        return "-"
    said = [f"{one.delay:g} ms" + (f" +{one.jitter:g} ms" if one.jitter else "")
            + (f" {one.loss:g} %" if one.loss else "") for one in delays]
    return said[0] if said[0] == said[1] else " / ".join(said)


def _cores(host):
    return "-" if host.cores is None else f"{host.cores:g}"


def table(head, rows):
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in [head, *rows]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(),
              flush=True)


def show(_options):
    for name in all_labs():
        describe(open_lab(name))
    return 0


def the_lab(options):
    """The lab that --lab names, or the only one."""
    alive = [name for name in all_labs() if names.owner(name) is not None]
    if options.lab:
        alive = [name for name in alive if options.lab in (name, str(names.owner(name)))]
    if len(alive) != 1:
        raise LabError(f"which lab? --lab must name one by name or pid of its owner; there are: "
                       f"{', '.join(alive) or 'none'}")
    return open_lab(alive[0])


def execute(options):
    host = the_lab(options).host(options.host)
    command = options.command or [os.environ.get("SHELL", "sh")]
    # Ctrl-C is for the command; this one waits for its end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = subprocess.call(host.command(command), preexec_fn=_default_interrupt)
    return 128 - code if code < 0 else code


def _default_interrupt():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def change(options):
    lab = the_lab(options)
    found = changes.parse(" ".join(options.words))
    for one in found:
        one.check(lab)
    for one in found:
        one.apply(lab)
    return 0


def clean(_options):
    for name in remove_stale():
        say(f"removed {name}")
    return 0


def parser():
    main_parser = argparse.ArgumentParser(
        prog="lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = main_parser.add_subparsers(dest="what", required=True)
    add = {name: commands.add_parser(name) for name in
           ("run", "hold", "list", "exec", "shell", "change", "clean")}
    for name in ("run", "hold"):
        one = add[name]
        _star_options(one.add_argument_group("hosts around a switch"))
        _graph_options(one.add_argument_group("sites joined by links"))
        one.add_argument("--congestion", default=CONGESTION, metavar="NAME",
                         help="TCP's algorithm on all hosts, default: %(default)s")
        held = one.add_argument_group("links, if they say nothing themselves")
        held.add_argument("--delay", metavar="MS",
                          help="of each frame over a link, there/back as 20/30; 0: none yet, but "
                               "changes may give some")
        held.add_argument("--jitter", metavar="MS", help="up to so much more")
        held.add_argument("--loss", metavar="PERCENT", help="of frames")
    _run_options(add["run"])
    for name in ("exec", "shell", "change"):
        add[name].add_argument("--lab",
                               help="its name, or the pid of its owner, if there are several")
    for name in ("exec", "shell"):
        add[name].add_argument("host")
    add["shell"].set_defaults(command=[])
    for name in ("run", "exec"):
        add[name].add_argument("command", nargs="+", help="after --")
    add["change"].add_argument("words", nargs="+", metavar="CHANGE")
    for name, function in (("run", run), ("hold", hold), ("list", show), ("exec", execute),
                           ("shell", execute), ("change", change), ("clean", clean)):
        add[name].set_defaults(function=function)
    return main_parser


def _star_options(one):
    # What has a default here has it in layout.py, which must know what was given.
    one.add_argument("--workers", metavar="RATES", help="default: 2x500")
    one.add_argument("--servers", metavar="RATES", help="default: 2x500")
    one.add_argument("--spare", metavar="RATES",
                     help="more hosts, spare0 and up, on which nothing is started")
    one.add_argument("--scheduler", metavar="RATE", help="default: free")


def _graph_options(one):
    one.add_argument("--graph", metavar="GRAPH",
                     help="netstorm, a file with a line `a b 40/25` for each link, or such lines "
                          "with commas between")
    one.add_argument("--seed", type=int, metavar="N",
                     help="draws the rates that the graph does not give; default: 1")
    one.add_argument("--scale", metavar="X",
                     help="drawn rates are U(20, 155) Mbit/s times that; default: 0.25")
    one.add_argument("--scheduler-at", metavar="SITE", help="default: with the first server")
    one.add_argument("--servers-at", metavar="SITES",
                     help="site1,site5, all, or best for one where rounds are shortest; default: "
                          "the first site")
    one.add_argument("--workers-at", metavar="SITES", help="default: all, one at each")
    one.add_argument("--no-routes", action="store_const", const=True,
                     help="no site forwards: one without a link to another does not reach it")


def _run_options(one):
    one.add_argument("--library", default=OURS,
                     help=f"{OURS} (default), {STOCK}, or a path to preload")
    one.add_argument("--native-servers", action="store_true",
                     help="`pslite server` in place of the command")
    one.add_argument("--native-scheduler", action="store_true", help="`pslite scheduler`, likewise")
    one.add_argument("--set", "--env", action="append", default=[], metavar="NAME=VALUE",
                     help="environment of every process")
    one.add_argument("--change", action="append", default=[], metavar="'at=SECONDS CHANGE'",
                     help="change something that many seconds after the start")
    one.add_argument("--port", type=int, default=PORT, help="the scheduler's, default: %(default)s")
    one.add_argument("--timeout", type=float, metavar="SECONDS",
                     help="end everything then; exit code 124")
    one.add_argument("--grace", type=float, default=15, metavar="SECONDS",
                     help="for the others after a failure or the last worker's end, "
                          "default: %(default)s")


def main():
    options = parser().parse_args()
    raise_on_signals()
    try:
        require()
        return options.function(options)
    except Interrupted as interrupted:
        return interrupted.code
    except (Misuse, Unavailable) as error:
        say(error)
        return USAGE
    except LabError as error:
        say(error)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
