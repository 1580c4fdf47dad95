"""scripts/lab: hosts as network namespaces on one machine, and clusters over them.

    lab run --workers 4x500 --servers 500,500,500,50 [--library ours]
            [--change 'at=60 server3=200'] -- COMMAND
    lab hold --workers 2x500 --servers 2x100        the hosts alone, until Ctrl-C
    lab list                                        labs, their hosts, rates, cuts, processes
    lab exec HOST -- COMMAND                        a command on a host;  lab shell HOST
    lab change server3=200/50                       now, in a lab that another one runs
    lab clean                                       removes what is left of labs whose owners are
                                                    gone

Rates are Mbit/s: 500, up/down as 200/50, free for no limit; 4x500 is four hosts. Changes:
server3=200, server3.cpu=0.3 (of one core), cut server3, cut worker0 to server3, cut worker0 and
server3, mend ..., mend all.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import changes, names
from .cluster import OURS, PORT, STOCK, Job, Options, hosts
from .network import CONGESTION, Lab, all_labs, remove_stale
from .tools import Interrupted, LabError, Unavailable, raise_on_signals, require

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


def make(options):
    """The lab that the options describe."""
    workers, servers = changes.rate_list(options.workers), changes.rate_list(options.servers)
    spares = changes.rate_list(options.spare) if options.spare else []
    named = hosts(workers, servers, spares, changes.rates(options.scheduler))
    return Lab(named, options.congestion), len(workers), len(servers)


def run(options):
    timed = [changes.parse_timed(text) for text in options.change]
    native = [role for role, wanted in (("scheduler", options.native_scheduler),
                                        ("server", options.native_servers)) if wanted]
    chosen = {"workers": len(changes.rate_list(options.workers)),
              "servers": len(changes.rate_list(options.servers))}
    job = Options(options.command, **chosen, library=options.library,
                  settings=settings(options.set), native=native, port=options.port, ours=library())
    with make(options)[0] as lab:
        timeline = changes.Timeline(lab, timed, told)
        say(f"{lab.name}: {len(lab.hosts)} hosts")
        cluster = Job(lab, job)
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
    with make(options)[0] as lab:
        describe(lab)
        say("Ctrl-C removes it")
        while True:
            time.sleep(3600)


def describe(lab):
    """A table of the hosts."""
    pid = names.owner(lab.name)
    print(f"{lab.name} " + (f"(of process {pid})" if pid else "(its owner is gone: lab clean)"))
    rows = [("host", "address", "up Mbit/s", "down Mbit/s", "cores", "processes", "cut to")]
    for host in lab.hosts.values():
        up, down = ("free" if rate is None else f"{rate:g}" for rate in host.rates)
        cores = "-" if host.cores is None else f"{host.cores:g}"
        rows.append((host.name, host.address, up, down, cores, str(len(host.pids())),
                     ",".join(host.unreachable()) or "-"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(),
              flush=True)


def show(_options):
    for name in all_labs():
        describe(Lab.open(name))
    return 0


def the_lab(options):
    """The lab that --lab names, or the only one."""
    alive = [name for name in all_labs() if names.owner(name) is not None]
    if options.lab:
        alive = [name for name in alive if options.lab in (name, str(names.owner(name)))]
    if len(alive) != 1:
        raise LabError(f"which lab? --lab must name one by name or pid of its owner; there are: "
                       f"{', '.join(alive) or 'none'}")
    return Lab.open(alive[0])


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
        one.add_argument("--workers", default="2x500", metavar="RATES", help="default: %(default)s")
        one.add_argument("--servers", default="2x500", metavar="RATES", help="default: %(default)s")
        one.add_argument("--spare", metavar="RATES",
                         help="more hosts, spare0 and up, on which nothing is started")
        one.add_argument("--scheduler", default="free", metavar="RATE", help="default: %(default)s")
        one.add_argument("--congestion", default=CONGESTION, metavar="NAME",
                         help="TCP's algorithm on all hosts, default: %(default)s")
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
    except Unavailable as error:
        say(error)
        return USAGE
    except LabError as error:
        say(error)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
