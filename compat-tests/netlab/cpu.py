"""A host's share of the processor: a control group with a quota, version 1 or 2, whichever is
there.

The quota is exact for what the processes compute, and for what the kernel does on their behalf in
system calls; what it does for them in interrupts (a part of the network) is counted for whoever was
running.
"""

import os
from pathlib import Path

from . import names
from .tools import LabError, Unavailable

# Microseconds after which a quota begins anew. The kernel's 100 ms would let a server with 30 %
# work for 30 ms and then sleep for 70, which no slow machine does. It takes no quota below LEAST.
PERIOD, LEAST, PERIOD_MOST = 20_000, 1_000, 1_000_000
MOUNTS = Path("/proc/self/mounts")


class Controller:
    """Where the cpu controller is mounted, and how it is spoken to."""

    def __init__(self, root, version):
        self.root = Path(root)
        self.version = version

    def group(self, lab, host):
        return Group(self.root / names.of(lab, host), self.version)


def controller(mounts=None):
    """The machine's cpu controller. Raises Unavailable, with the reason, if there is none to
    use."""
    lines = (MOUNTS.read_text() if mounts is None else mounts).splitlines()
    fields = [line.split() for line in lines]
    for _, root, kind, options, *_ in fields:
        if kind == "cgroup" and "cpu" in options.split(","):
            return _usable(root, 1)
    for _, root, kind, *_ in fields:
        if kind == "cgroup2" and "cpu" in _read(root, "cgroup.controllers").split():
            return _second(root)
    raise Unavailable("no control group (cgroup) with the cpu controller, "
                      "version 1 or 2, is mounted")


def _second(root):
    """Version 2: the children of the root have the controller only if the root says so."""
    if "cpu" not in _read(root, "cgroup.subtree_control").split():
        try:
            Path(root, "cgroup.subtree_control").write_text("+cpu")
        except OSError as error:
            raise Unavailable(
                f"{root} does not give its children the cpu controller: {error}") from None
    return _usable(root, 2)


def _usable(root, version):
    if not os.access(root, os.W_OK) or os.statvfs(root).f_flag & os.ST_RDONLY:
        raise Unavailable(f"no control group can be made in {root}: it is read-only")
    return Controller(root, version)


def _read(root, name):
    try:
        return Path(root, name).read_text()
    except OSError:
        return ""


def quota_of(cores):
    """(quota, period) in microseconds; the quota is None without a limit."""
    if cores is None:
        return None, PERIOD
    if not cores >= LEAST / PERIOD_MOST:
        raise LabError(f"{cores:g} of a core is too little: at least {LEAST / PERIOD_MOST:g}")
    period = max(PERIOD, round(LEAST / cores))
    return round(cores * period), period


def shares_of(nice):
    """The weight of a process of that priority (sched(7)), with 1024 for the usual one."""
    return round(1024 * 1.25 ** -nice)


class Group:
    """One control group. Its processes are put in by themselves, as they start (network.py)."""

    def __init__(self, path, version):
        self.path = path
        self.version = version

    def create(self):
        try:
            self.path.mkdir()
        except OSError as error:
            raise LabError(f"no control group {self.path}: {error}") from None
        self.prefer(os.getpriority(os.PRIO_PROCESS, 0))

    def prefer(self, nice):
        """Where others want the processor too, the group gets as much as one process of that
        priority. Without it the priority of whoever runs a lab would only count among the processes
        of one host."""
        if self.version == 2:
            self._write("cpu.weight.nice", nice)
        else:
            self._write("cpu.shares", shares_of(nice))

    @property
    def members(self):
        """The file into which a process writes its pid to be in the group."""
        return self.path / "cgroup.procs"

    def limit(self, cores):
        """At most so many cores, 0.3 for 30 % of one, at least 0.1 %; None: no limit."""
        quota, period = quota_of(cores)
        if self.version == 2:
            self._write("cpu.max", f"{'max' if quota is None else quota} {period}")
            return
        # Version 1 compares each of the two with the other one that is set at that moment.
        self._write("cpu.cfs_quota_us", -1)
        self._write("cpu.cfs_period_us", period)
        if quota is not None:
            self._write("cpu.cfs_quota_us", quota)

    def _write(self, name, value):
        try:
            (self.path / name).write_text(str(value))
        except OSError as error:
            raise LabError(f"{self.path / name} does not take {value}: {error}") from None

    @property
    def cores(self):
        """The limit that is set; None: none."""
        if self.version == 2:
            quota, period = (_read(self.path, "cpu.max") or "max 1").split()
            return None if quota == "max" else int(quota) / int(period)
        quota = int(_read(self.path, "cpu.cfs_quota_us") or -1)
        return None if quota < 0 else quota / int(_read(self.path, "cpu.cfs_period_us"))

    @property
    def throttled(self):
        """In how many periods it has used up its quota."""
        words = _read(self.path, "cpu.stat").split()
        return int(words[words.index("nr_throttled") + 1]) if "nr_throttled" in words else 0

    def remove(self):
        """Removes the group; its processes must have ended."""
        try:
            self.path.rmdir()
        except FileNotFoundError:
            pass
