"""Hosts on one machine: network namespaces joined by links, with rates, delays, cuts and CPU
shares.

The modules, each using only those above it:

    names      what belongs to a lab, whose it is, and whether its owner still lives
    tools      runs the system's programs (ip, tc, bridge) and says what failed
    cpu        a host's share of the processor (cgroup)
    delays     what holds frames of a link back: delay, jitter, loss (delay.c)
    links      what a device may send (tbf), and TCP's algorithm
    changes    the words for what to change, now or later
    graph      sites and links, drawn rates, the ways through them
    network    what all labs have: hosts, made and removed
    star       hosts around a switch
    mesh       sites joined by the links of a graph
    cluster    runs a command as scheduler, servers and workers over the hosts
    layout     what the options of scripts/lab ask for
    cli        scripts/lab

`model` (the bound of a round's time on a star), `graph_model` (a round's time on a graph; uses
`graph`) and `goodput` (a program that measures a link) use none of the others. Only the standard
library is needed. docs/lab.md says what a lab can emulate and what it cannot.
"""

from . import names as _names
from .links import FREE, Rates
from .mesh import Mesh, Site
from .star import Host, Lab
from .tools import LabError, Misuse, Unavailable


def open_lab(name):
    """A lab that another process made, of whichever kind. Do not close it."""
    kind = Lab if _names.SWITCH in _names.hosts(name) else Mesh
    return kind.open(name)


__all__ = ["FREE", "Host", "Lab", "LabError", "Mesh", "Misuse", "Rates", "Site", "Unavailable",
           "open_lab"]
