"""The one worker of this process, for `pslite.mxnet`: its node, its store, and its place among the
workers of this host.

It knows nothing of MXNet. At the exit of the process it leaves the job, as MXNet's own kvstore
does: it waits for the others, unless an exception ended the program.
"""

import array
import atexit
import hashlib
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, SupportsIndex, Tuple, Union

from . import _library, errors, job
from .kv import Handle
from .node import Node, _make_current, current
from .store import NAMED, Store

__all__ = ["NAMED", "Worker", "init", "shutdown", "worker"]

_HOSTS = "pslite.hosts"


class Worker:
    """This process in its job. own: the store on its own node; None: the node is MXNet's."""

    def __init__(self, node: Node, own: Optional[Store], given: Dict[str, Any]) -> None:
        self.node = node
        #: What `init` was given.
        self.given = given
        self.process = os.getpid()
        #: The kvstore's keys, in the order of their making: all integers, or all texts.
        self.keys: List[Union[int, str]] = []
        #: Servers run an optimizer: what is pushed is a gradient.
        self.updates = False
        #: The last push of each array, if nobody waited for it yet.
        self.pending: Dict[str, Handle] = {}
        self._own = own
        self._place: Optional[Tuple[int, int]] = None

    @property
    def store(self) -> Store:
        """Raises InvalidArgument in a process whose node is MXNet's."""
        if self._own is None:
            raise errors.InvalidArgument(
                "MXNet's own kvstore has this process's place in the job, and its keys at the "
                "servers: use either mx.kv.create('dist_...') or pslite.mxnet, not both")
        return self._own

    @property
    def is_lent(self) -> bool:
        """The node is MXNet's."""
        return self._own is None

    def declare(self, name: str, values: Any) -> bool:
        """Makes an array that is no key of the kvstore; False: it was there. All workers make the
        same ones; the values are those of rank 0."""
        if name in self.store._keys:
            return False
        self.store._make(name, values, None)
        return True

    def settle(self, *names: str) -> None:
        """Waits for the last pushes of these arrays; of all, if none is named."""
        for name in names or list(self.pending):
            handle = self.pending.pop(name, None)
            if handle is not None:
                handle.wait()

    @property
    def place(self) -> Tuple[int, int]:
        """Which of the workers of this host this one is, and how many there are."""
        if self._place is None:
            self._place = self._asked()
        return self._place

    def meet(self) -> None:
        """All workers tell each other where they are. One that takes the place of a dead one cannot
        ask for that."""
        if not self.node._describe().is_recovery:
            self._place = self._met()

    def _met(self) -> Tuple[int, int]:
        count, rank = self.node.num_workers, self.node.rank
        if count == 1:
            return 0, 1
        # Floats, because servers of MXNet's own sum nothing else.
        hosts = array.array("d", bytes(8 * count))
        hosts[rank] = _number(self.node._describe().hostname)
        self.declare(_HOSTS, hosts)
        self.store.push_pull(_HOSTS, hosts).wait()
        return hosts[:rank].count(hosts[rank]), hosts.count(hosts[rank])

    def _asked(self) -> Tuple[int, int]:
        names = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT")
        found = job.status(":".join(os.environ.get(name, "") for name in names))
        hosts = {node.rank: node.address.rpartition(":")[0]
                 for node in found.nodes if node.role == "worker"}
        rank = self.node.rank
        here = [other for other, host in sorted(hosts.items()) if host == hosts.get(rank)]
        return here.index(rank), len(here)


def _number(host: bytes) -> float:
    """A number for a host, which a float64 holds exactly."""
    return float(int.from_bytes(hashlib.sha256(host).digest()[:6], "big") + 1)


_worker: Optional[Worker] = None
_lock = threading.Lock()
#: Called before this process gets a node of its own: raises what forbids it.
forbids: List[Callable[[], None]] = []


def init(root: Optional[str] = None, *, workers: Optional[SupportsIndex] = None,
         servers: Optional[SupportsIndex] = None, **settings: Any) -> None:
    """Makes this process a worker of its job; returns when the job is complete. What is not given
    is read from the environment, as by `pslite.node.Node`. A second call does nothing.

    Raises as `Node` and `Node.start`; InvalidArgument for a second call that asks for something
    else, for arguments in a process whose node is MXNet's, and beside a kvstore "dist_..." that
    MXNet's own ps-lite has.
    """
    global _worker
    asked = {"root": root, "workers": workers, "servers": servers, **settings}
    given = {name: value for name, value in asked.items() if value is not None}
    with _lock:
        if _worker is None:
            _worker = _lent_worker() or _own_worker(given)
        _refuse_other(_worker, given)


def _refuse_other(known: Worker, given: Dict[str, Any]) -> None:
    """Raises an exception for arguments that would do nothing."""
    other = sorted(name for name, value in given.items() if known.given.get(name) != value)
    if other and known.is_lent:
        raise errors.InvalidArgument(
            f"{', '.join(other)}: this process has MXNet's node, which was started by the "
            "environment; call init() without arguments")
    if other:
        raise errors.InvalidArgument(
            f"{', '.join(other)}: this process is in its job already, by an init() that said "
            "otherwise, or by a kvstore 'pslite'; call init() before, and once")


def _lent_worker() -> Optional[Worker]:
    try:
        node = current()
    except errors.NotStarted:
        return None
    return Worker(node, None, {})


def own() -> Optional[Worker]:
    """This process's worker, if it has one on a node of its own."""
    known = _worker
    return None if known is None or known.is_lent or known.process != os.getpid() else known


def _own_worker(given: Dict[str, Any]) -> Worker:
    for forbid in forbids:
        forbid()
    node = Node("worker", **given)
    try:
        node.start()
        _make_current(node)
        made = Worker(node, Store(node), given)
        made.meet()
    except BaseException:
        node.close(barrier=False)
        raise
    return made


def worker() -> Worker:
    """This process's. Raises NotStarted before `init`."""
    if _worker is None:
        raise errors.NotStarted(
            "this process is in no job yet: call pslite.mxnet.init(), or make a kvstore "
            "(mx.kv.create('pslite')), first")
    return _worker


def shutdown() -> None:
    """Leaves the job; returns when all its nodes are at their end. A second call does nothing, and
    the end of the program does it, too.

    Raises PeerLost if others are gone: this worker has left all the same.
    """
    _leave(True)


def _leave(waits: bool) -> None:
    global _worker
    with _lock:
        left, _worker = _worker, None
    # A child of fork() has no node of its parent's.
    if left is None or left.is_lent or left.process != os.getpid():
        return
    done = False
    try:
        if waits:
            left.settle()
            left.store.close()
            done = True
    finally:
        left.node.close(barrier=done)


@atexit.register
def _at_exit() -> None:
    """A failure is one line, and the exit code says it: what is raised here, Python prints and
    ignores."""
    try:
        # Python keeps the exception that ended the program there.
        _leave(not hasattr(sys, "last_value"))
    except BaseException as error:
        text = f"this worker could not leave its job: {type(error).__name__}: {error}"
        _library.get().pslite_log(0, text.replace("\0", " ").encode("utf-8", "replace"))
        _library.get().pslite_exit_with(1)
