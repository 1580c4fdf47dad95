"""Jobs from outside: their state, servers that are emptied, what happens in them; and schedulers
and servers without an application.

    from pslite import job

    print(job.status("10.0.0.1:9091").eta)
    for event in job.events("10.0.0.1:9091"):
        print(event.text)

No function here needs a node in this process.
"""

import ctypes
import json
import time
from ctypes import byref, c_size_t
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, SupportsFloat, SupportsIndex

from . import _blocking, _library, _numbers, errors
from .node import Node, _root

__all__ = ["Event", "Moved", "NodeStatus", "Status", "Wait", "drain", "events", "join",
           "serve_scheduler", "serve_server", "status"]

#: Bytes of an answer: a line for each node and piece.
_ANSWER = 1 << 20
#: Seconds between two looks whether a server is empty.
_LOOK = 0.2


@dataclass(frozen=True)
class NodeStatus:
    """One node of a job."""

    #: "server" or "worker".
    role: str
    rank: int
    #: Its number on the wire.
    id: int
    #: HOST:PORT.
    address: str
    #: live, joining, draining, fixed (its values do not move), dead, released, back (a worker that
    #: took the place of a dead one), registered (before the job is complete).
    state: str
    #: Of a server: pieces that it owns, bytes of their values, and bytes of what belongs to these.
    pieces: int
    bytes: int
    state_bytes: int
    #: Of a worker: seconds of an iteration in which none of its requests was under way, and in
    #: which some were (it waits for the network, or for other workers). None: not known (yet).
    computes: Optional[float] = None
    waits: Optional[float] = None


@dataclass(frozen=True)
class Wait:
    """A barrier, or a round, that waits."""

    #: What it is, in plain English.
    what: str
    #: Since when, in seconds since the scheduler began, and for how many seconds.
    since: float
    waited: float
    #: The numbers of the nodes for which it waits. Empty: all have pushed, or nobody knows.
    nodes: List[int]


@dataclass(frozen=True)
class Status:
    """A job, as its scheduler sees it. Times are in seconds; None: not known (yet)."""

    scheduler: str
    #: forming, running, changing (a policy is being made), failed.
    phase: str
    #: How many the job began with.
    workers: int
    servers: int
    #: Servers come and go.
    elastic: bool
    #: The number of the newest policy.
    epoch: int
    #: Copies of each piece.
    replicas: int
    nodes: List[NodeStatus]
    #: How long a round should take with the placement in force, and how long it took lately.
    predicted: Optional[float]
    measured: Optional[float]
    #: No placement can be faster than that, and that by `measured`.
    bound: Optional[float]
    eta: Optional[float]
    #: What limits a round; why nothing is moved; whether another number of servers would pay.
    limit: str
    no_plan: str
    advice: str
    #: Why the job cannot go on, or who is missing.
    note: str
    #: Who waits for whom, for long.
    waits: List[str]
    #: The same as values. Empty also if the scheduler is of an earlier version.
    waiting: List[Wait]
    #: All that the scheduler said, also what this version does not know.
    raw: Dict[str, Any] = field(repr=False, default_factory=dict)

    @property
    def by_id(self) -> Dict[int, NodeStatus]:
        """The nodes by their numbers."""
        return {node.id: node for node in self.nodes}


@dataclass(frozen=True)
class Moved:
    """What moves from one server to another one."""

    #: The numbers of the servers.
    source: int
    target: int
    #: Bytes of values, and of what belongs to them.
    bytes: int


@dataclass(frozen=True)
class Event:
    """Something that happened in a job: what the scheduler tells, with a number, or what is seen by
    comparing two looks at the job.
    """

    #: Seconds since the epoch: when it happened, by the scheduler's clock; without a number, when
    #: it was seen.
    time: float
    #: Without a number: node (its state changed), phase, policy, moved (a server owns other bytes),
    #: advice, note, lost (the scheduler keeps some events no more), end. With one: node, phase,
    #: policy, move, tree, link, wait, advice, note, operator, batch.
    kind: str
    #: Plain English. With a number: the line of the scheduler's log.
    text: str
    #: The node's number, if it is about one.
    node: Optional[int] = None
    #: From 1 on, one more with each event that the scheduler tells.
    number: Optional[int] = None
    #: error, warning, info.
    level: str = "info"
    #: What of it are numbers, by name; docs/operations.md has the names.
    numbers: Dict[str, float] = field(default_factory=dict)
    #: Of a move: why, and between which servers, the largest shares first.
    reason: str = ""
    moves: List[Moved] = field(default_factory=list)


def status(root: str, timeout: SupportsFloat = 5.0, own_host: Optional[str] = None) -> Status:
    """Asks the scheduler at "HOST:PORT". own_host: the address of this machine to which a scheduler
    of an earlier version answers; None: the one from which packets to it leave.

    Raises Timeout if no scheduler of pslite answers, InvalidArgument, AddressError.
    """
    library = _library.get()
    return _status_of(json.loads(_asked(root, timeout, own_host, library.pslite_job_status)))


def _status_of(raw: Dict[str, Any]) -> Status:
    fields = NodeStatus.__dataclass_fields__
    nodes = [NodeStatus(**{name: node[name] for name in fields})
             for node in raw["nodes"]]
    known: Dict[str, Any] = {name: raw.get(name) for name in Status.__dataclass_fields__}
    waiting = [Wait(wait["what"], wait["since"], wait["waited"], wait["for"])
               for wait in raw.get("waiting") or []]
    known.update(nodes=nodes, waiting=waiting, raw=raw)
    return Status(**known)


def drain(root: str, rank: SupportsIndex, *, wait: Optional[SupportsFloat] = None,
          timeout: SupportsFloat = 5.0, own_host: Optional[str] = None) -> str:
    """Has a server emptied and released: its pieces go to the others while the job trains. Gives
    the scheduler's answer; wait: returns when the server is released, within so many seconds.

    Raises RemoteError (the scheduler refuses, and says why), Timeout, PeerLost (it died before).
    """
    rank = _numbers.integer(rank, "rank", high=2**30 - 8)
    limit = _numbers.limit(wait, "wait")
    library = _library.get()
    # Servers have the even numbers from 8 on (ps-lite's postoffice.h).
    server = 8 + 2 * rank
    answer = _asked(root, timeout, own_host, lambda job, text, size, got: library.pslite_job_drain(
        job, server, text, size, got))
    end = time.monotonic() + (limit or 0)
    while limit is not None:
        node = status(root, timeout, own_host).by_id.get(server)
        if node is None or node.state == "released":
            break
        if node.state == "dead":
            raise errors.PeerLost(f"server {rank} died before it was empty")
        if time.monotonic() >= end:
            raise errors.Timeout(f"server {rank} is not empty after {limit:g} s: {node.state}")
        time.sleep(_LOOK)
    return answer


def _asked(root: str, timeout: SupportsFloat, own_host: Optional[str],
           call: Callable[[Any, Any, int, Any], int]) -> str:
    found = _root(root)
    job = _library.Job(
        found["DMLC_PS_ROOT_URI"].encode(), int(found["DMLC_PS_ROOT_PORT"]),
        _milliseconds(timeout), own_host.encode() if own_host else None)
    size, got = _ANSWER, c_size_t()
    while True:
        text = ctypes.create_string_buffer(size)

        def ask() -> int:
            return call(byref(job), text, size, byref(got))

        # It ends by itself when the time is over.
        _blocking.run(ask, lambda: None)
        if got.value <= size:
            return text.raw[: got.value].decode()
        size = 2 * got.value


def _milliseconds(timeout: SupportsFloat) -> int:
    return max(1, int(min(1000 * _numbers.seconds(timeout, "timeout"), _numbers.INT32)))


def events(root: str, interval: SupportsFloat = 1.0, timeout: SupportsFloat = 5.0,
           own_host: Optional[str] = None) -> Iterator[Event]:
    """What happens in a job, as it is seen by asking the scheduler every `interval` seconds, until
    the scheduler answers no more. The first events say how the job is now; then come those that
    the scheduler has kept. One of an earlier version keeps none.

    Raises Timeout if no scheduler answers the first time.
    """
    pause = _numbers.seconds(interval, "interval")
    before: Optional[Status] = None
    reader = _Reader()
    while True:
        try:
            now = reader.ask(root, timeout, own_host)
        except errors.Timeout:
            if before is None:
                raise
            yield Event(time.time(), "end", f"the scheduler at {root} answers no more")
            return
        yield from changes(before, now, time.time())
        yield from reader.take(now, time.time())
        before = now
        if not reader.more:
            time.sleep(pause)


class _Reader:
    """Reads what a scheduler has kept, each event once."""

    def __init__(self) -> None:
        self.more = False
        self._after = 0
        self._began: Optional[float] = None

    def ask(self, root: str, timeout: SupportsFloat, own_host: Optional[str]) -> Status:
        """How the job is, with what is not known yet of what has happened."""
        library = _library.get()
        after, no_points = self._after, 2**64 - 1
        answer = _asked(
            root, timeout, own_host, lambda job, text, size, got: library.pslite_job_events(
                job, after, no_points, text, size, got))
        return _status_of(json.loads(answer))

    def take(self, now: Status, at: float) -> Iterator[Event]:
        """The events of that answer."""
        part = now.raw.get("chronicle")
        self.more = bool(part and part["more"])
        if not part:
            return
        if self._began not in (None, part["began"]):
            # Its numbers are others: all of it is asked for.
            self._after, self.more = 0, True
            self._began = part["began"]
            yield Event(at, "lost", "the scheduler was started again: its events are numbered anew",
                        level="warning")
            return
        self._began = part["began"]
        lost = part["first"] - self._after - 1
        if lost > 0:
            yield Event(at, "lost", f"{lost} events before the next one are not kept any more",
                        level="warning", numbers={"events": float(lost)})
            self._after += lost
        for told in part["events"]:
            self._after = told["number"]
            moves = [Moved(move["from"], move["to"], move["bytes"])
                     for move in told.get("moves", [])]
            yield Event(told["time"], told["kind"], told["text"], told["node"], told["number"],
                        told["level"], told["numbers"], told.get("reason", ""), moves)


def changes(before: Optional[Status], now: Status, at: float) -> Iterator[Event]:
    """What is different in `now`; None: all is new."""
    if before is None or before.phase != now.phase:
        yield Event(at, "phase", f"the job is {now.phase}")
    if now.note and (before is None or before.note != now.note):
        yield Event(at, "note", now.note)
    if now.elastic and (before is None or before.epoch != now.epoch):
        yield Event(at, "policy", f"policy {now.epoch} is in force")
    old = before.by_id if before else {}
    for node in now.nodes:
        was = old.get(node.id)
        name = f"{node.role} {node.rank}"
        if was is None or was.state != node.state:
            yield Event(at, "node", f"{name} at {node.address} is {node.state}", node.id)
        if was is not None and was.bytes != node.bytes:
            yield Event(at, "moved", f"{name} owns {node.bytes} bytes in {node.pieces} pieces, "
                        f"before {was.bytes}", node.id)
    for gone in sorted(set(old) - set(now.by_id)):
        yield Event(at, "node", f"{old[gone].role} {old[gone].rank} is gone", gone)
    if now.advice and (before is None or before.advice != now.advice):
        yield Event(at, "advice", now.advice)


def serve_scheduler(root: Optional[str] = None, *, workers: Optional[SupportsIndex] = None,
                    servers: Optional[SupportsIndex] = None, **settings: Any) -> None:
    """Is the scheduler of a job until all its nodes have come and left, as `pslite scheduler`. What
    is not given is read from the environment.

    Raises what ended the job early: PeerLost, ConfigError, AddressError.
    """
    node = Node("scheduler", root=root, workers=workers, servers=servers, **settings)
    _serve(node, node._library.pslite_serve_scheduler)


def serve_server(root: Optional[str] = None, *, workers: Optional[SupportsIndex] = None,
                 servers: Optional[SupportsIndex] = None, **settings: Any) -> None:
    """Is a server on pslite's own store, as `pslite server`: for MXNet's workers, and for
    `pslite.store`. Returns when the workers have stopped it, or when it was emptied.

    Raises as `serve_scheduler`.
    """
    node = Node("server", root=root, workers=workers, servers=servers, **settings)
    _serve(node, node._library.pslite_serve_server)


def join(root: str, timeout: SupportsFloat = 5.0, **settings: Any) -> None:
    """Is one more server of a job that runs, as `pslite server --join`. Returns as `serve_server`.

    Raises Timeout if no scheduler answers, ConfigError if servers of that job cannot come and go.
    """
    found = status(root, timeout)
    if not found.elastic and found.phase != "forming":
        raise errors.ConfigError(
            f"servers of the job at {root} cannot come and go: a node of it does not follow keys "
            "that move")
    own: Dict[str, Any] = {"PSLITE_ELASTIC": "1", "PSLITE_ELASTIC_WORKERS": "1",
                               "PSLITE_JOIN": "1", **settings}
    serve_server(root, workers=found.workers, servers=found.servers, **own)


def _serve(node: Node, call: Callable[[Any], int]) -> None:
    handle = node.handle
    try:
        node._block(lambda: call(handle))
    finally:
        node.close(barrier=False)
