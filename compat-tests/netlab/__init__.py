"""Hosts on one machine: network namespaces joined by a bridge, with rates, cuts and CPU shares.

The modules, each using only those above it:

    names      what belongs to a lab, whose it is, and whether its owner still lives
    tools      runs the system's programs (ip, tc, bridge) and says what failed
    cpu        a host's share of the processor (cgroup)
    network    the lab and its hosts: made, changed live, removed
    changes    the words for what to change, now or later
    cluster    runs a command as scheduler, servers and workers over the hosts
    cli        scripts/lab

`model` (the bound of a round's time) and `goodput` (a program that measures a link) use none of
them. Only the standard library is needed. docs/lab.md says what a lab can emulate and what it
cannot.
"""

from .network import FREE, Host, Lab, Rates
from .tools import LabError, Unavailable

__all__ = ["FREE", "Host", "Lab", "LabError", "Rates", "Unavailable"]
