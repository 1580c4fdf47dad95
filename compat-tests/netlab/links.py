"""What a device of a lab may send: token buckets, and TCP's algorithm. Each function takes a
namespace and a device, and keeps nothing.

A device that has a rate sends through a token bucket (tbf, tc-tbf(8)). It can be changed while it
sends, and then a change meets what is under way.
"""

import json
from pathlib import Path
from typing import NamedTuple, Optional

from .tools import LabError, Unavailable, run

# The bucket: what may be sent at once, in seconds of the rate and in bytes. The largest segment
# that TCP makes, 64 KB as 45 packets of 1514 bytes, must fit. Else the kernel has to cut it, which
# costs the processor several times as much; and one that waited in a faster link's queue, when that
# became slow, would never be sent, nor what is behind it.
BURST_SECONDS, BURST_LEAST = 0.002, 72_000
# What may wait for the bucket, in seconds of the rate and in bytes; what is more gets lost, as in a
# switch.
QUEUE_SECONDS, QUEUE_LEAST = 0.05, 256 * 1024
# Slower than that, a queue of QUEUE_LEAST is seconds long, which TCP takes for a dead host.
MBIT_LEAST = 0.5
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
#: What hosts have by default, the first that the kernel has. CUBIC is what nearly all hosts have;
#: every kernel has Reno. Both fill a link while the other direction is full too. (BBR took 40 of
#: 60 Mbit/s there: it counts the time that its confirmations wait for the length of the way.)
PREFERRED = ("cubic", "reno")


class Rates(NamedTuple):
    """What a host may send and receive, in Mbit/s on the wire; None: as fast as the machine can.

    Of a link between two sites: what goes from the first to the second, and back.
    """

    up: Optional[float]
    down: Optional[float]

    @classmethod
    def both(cls, rate):
        return cls(rate, rate)

    def __str__(self):
        up, down = ("free" if rate is None else f"{rate:g}" for rate in self)
        return up if up == down else f"{up}/{down}"


FREE = Rates(None, None)


def available():
    """TCP's algorithms that this kernel has loaded."""
    try:
        return AVAILABLE.read_text().split()
    except OSError:
        return []


def preferred():
    found = available()
    return next((name for name in PREFERRED if name in found), PREFERRED[-1])


#: TCP's algorithm where none is named.
CONGESTION = preferred()


def no_algorithm(name):
    return Unavailable(f"this kernel has no TCP algorithm {name}; loaded are "
                       f"{', '.join(available())} ({AVAILABLE})")


def check(mbit, what):
    """Raises if that is no rate for a device."""
    if mbit is not None and not mbit >= MBIT_LEAST:
        raise LabError(f"{mbit:g} Mbit/s is too slow for {what}: at least {MBIT_LEAST}")


def bucket(mbit, longer=0.0):
    """(burst, queue) in bytes of a device with that rate. longer: seconds more of the queue."""
    bytes_per_second = mbit * 1e6 / 8
    return (max(BURST_LEAST, round(bytes_per_second * BURST_SECONDS)),
            max(QUEUE_LEAST, round(bytes_per_second * (QUEUE_SECONDS + longer))))


def shape(namespace, device, mbit, longer=0.0):
    """Sets what a device may send, in Mbit/s; also while it sends. None: no limit. longer: seconds
    that its queue has more than usual: before a long way queues are longer."""
    if mbit is None:
        # It has no bucket if it never had a rate, and then there is nothing to remove.
        run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
        return
    check(mbit, device)
    burst, queue = bucket(mbit, longer)
    run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
        "rate", f"{round(mbit * 1e6)}bit", "burst", burst, "limit", burst + queue)


def shaped(namespace, device):
    """What `shape` set, in Mbit/s."""
    for entry in json.loads(run("tc", "-n", namespace, "-j", "qdisc", "show", "dev", device)):
        if entry["kind"] == "tbf":
            return entry["options"]["rate"] * 8 / 1e6
    return None
