"""What belongs to a lab, and whether its owner still lives.

A lab's name holds the pid of its owner and when that process was started, so that neither a dead
owner nor another process with the same pid is taken for it. Everything that a lab makes outside its
own namespaces begins with that name: namespaces, control groups, one folder. Nothing here makes or
removes anything.
"""

import itertools
import os
import re
from pathlib import Path

PREFIX = "pslite-lab"
NAMESPACES = Path("/run/netns")
#: Each lab has a folder here: its hosts' shared memory and boot ids (network.py).
FOLDERS = Path("/dev/shm")
#: The host that is none: where the bridge is.
SWITCH = "switch"
#: Another one: where links with delay pass (delays.py).
WIRE = "wire"
#: What no host may be called.
RESERVED = (SWITCH, WIRE)
#: What a host may be called; also its name in the system (RFC 1123: no underscore, no dot).
HOST = re.compile(r"[a-z][a-z0-9-]{0,30}")
#: Hosts of a lab: tables of neighbours or routes grow with the square of their number.
HOSTS_MAX = 200

_LAB = re.compile(rf"({PREFIX}-(\d+)-(\d+)-\d+)(?:\.({HOST.pattern}))?")
_count = itertools.count()


def new():
    """A name for one more lab of this process."""
    pid = os.getpid()
    return f"{PREFIX}-{pid}-{started(pid)}-{next(_count)}"


def started(pid):
    """When a process was started, in clock ticks since the boot (field 22 of proc(5) stat); None:
    it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The program's name, in brackets, may hold anything.
    return int(text.rpartition(")")[2].split()[19])


def parse(text):
    """(lab, host or None) of a name that `of` or `new` made; None for anything else."""
    found = _LAB.fullmatch(text)
    return (found[1], found[4]) if found else None


def of(lab, host):
    """What a host's namespace and control group are called."""
    return f"{lab}.{host}"


def owner(lab):
    """The pid of the process that made it; None if that process is gone."""
    _, pid, start, _ = lab[len(PREFIX):].split("-")
    return int(pid) if started(int(pid)) == int(start) else None


def hosts(lab):
    """The hosts of a lab that have a namespace, with the switch and the wire."""
    found = (parse(name) for name in _names(NAMESPACES))
    return [entry[1] for entry in found if entry and entry[0] == lab and entry[1]]


def labs(*more):
    """The names of all labs of which anything is left; `more`: further folders to look into."""
    found = (parse(name) for folder in (NAMESPACES, FOLDERS, *more) for name in _names(folder))
    return sorted({entry[0] for entry in found if entry})


def _names(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
