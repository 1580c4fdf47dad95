"""Runs the system's programs, each with a limit, and says what failed in one line."""

import os
import shutil
import signal
import subprocess

PROGRAMS = ("ip", "tc", "bridge", "nsenter", "unshare", "mount", "sh")
# Seconds. Each takes milliseconds; a machine without a free core may need longer.
LIMIT = 30


class LabError(Exception):
    """One line: what failed and why."""


class Unavailable(LabError):
    """This machine, or this user, cannot have what was asked for."""


class Misuse(LabError):
    """What was asked for cannot be, on any machine."""


class Interrupted(Exception):
    """SIGTERM or SIGHUP, which otherwise would leave everything behind; Ctrl-C likewise."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def raise_on_signals():
    """From now on the first of SIGNALS raises Interrupted; later ones do not disturb what it sets
    off."""
    for number in SIGNALS:
        signal.signal(number, _raise)


def _raise(number, _frame):
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise Interrupted(number)


def require():
    """Raises unless this user can make a lab here, as far as one can tell without making one."""
    if os.geteuid() != 0:
        raise Unavailable("needs root: only root can make network namespaces")
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        raise Unavailable(f"needs {', '.join(missing)} (Debian: apt-get install "
                          "iproute2 util-linux)")


def run(*words, text=None, check=True):
    """Runs a program to its end; its standard output. `text` is its standard input."""
    try:
        done = subprocess.run([str(word) for word in words], input=text or "", capture_output=True,
                              text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(map(str, words))} took longer than {LIMIT} s") from None
    if check and done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise LabError(f"{' '.join(map(str, words))}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def batch(program, namespace, lines):
    """Runs many lines of ip, tc or bridge in one process, in a namespace; stops at the first that
    fails."""
    try:
        run(program, "-n", namespace, "-batch", "-", text="".join(f"{line}\n" for line in lines))
    except LabError as error:
        raise LabError(f"{error} (of {lines})") from None
