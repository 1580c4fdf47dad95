"""A node of a job: a scheduler, a server or a worker, with or without MXNet.

    from pslite.node import Node

    with Node("worker", root="10.0.0.1:9091", workers=2, servers=1) as node:
        print(node.rank, "of", node.num_workers)
        node.barrier("workers")

Leaving the block waits until all nodes of the job have come to their end, as ps-lite does; after an
exception it does not wait. `pslite.kv` has the workers and servers that run on a node.

Where MXNet runs on the preload library, `current()` is the node that it uses.
"""

import atexit
import ctypes
import json
import os
import weakref
from ctypes import byref, c_int32, c_size_t, c_void_p
from typing import Any, Dict, List, Optional, Set, SupportsFloat, SupportsIndex, Tuple, Union

from . import _blocking, _library, _numbers, errors
from ._closing import Closing

__all__ = ["Node", "current"]

_ROLES = {0: "server", 1: "worker", 2: "scheduler"}
_GROUPS = {"scheduler": 1, "servers": 2, "workers": 4, "all": 7}
#: Every node that is not closed: a process that ends stops them.
_open: "weakref.WeakSet[Node]" = weakref.WeakSet()
#: Those of `current` that others made: they stay, as what was made of them does.
_lent: Set["Node"] = set()

_RECOVERED = (
    "this node took the place of one that died, and comes to a barrier: it waits until all others "
    "come to their next one, which may be another one of the program. Skip barriers where "
    "node.is_recovery is true")

Setting = Union[str, SupportsIndex, SupportsFloat, None]


class Node(Closing):
    """One node of a job. It does nothing before `start`.

    role: "scheduler", "server" or "worker". root: where the scheduler listens, "HOST:PORT".
    workers, servers: how many the job has. host: the address of this machine that the others
    connect to. Further settings by the names that they have in the environment (docs/env.md), such
    as `PSLITE_ELASTIC="1"`. What is not given here, or is None, is read from the environment when
    the node starts, as every ps-lite program does: DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT,
    DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_NODE_HOST.

    A process may have several nodes. A child of fork() has none of its parent's.

    Raises InvalidArgument for a root that is none, for a setting that there is not, and for one
    that is given twice.
    """

    def __init__(
        self,
        role: Optional[str] = None,
        *,
        root: Optional[str] = None,
        workers: Optional[SupportsIndex] = None,
        servers: Optional[SupportsIndex] = None,
        host: Optional[str] = None,
        **settings: Setting,
    ) -> None:
        given = _texts({"DMLC_ROLE": role, "DMLC_NUM_WORKER": workers, "DMLC_NUM_SERVER": servers,
                        "DMLC_NODE_HOST": host, **({} if root is None else _root(root))})
        self._settings = {**_known(settings, given), **given}
        # Texts that the library was given must live until it asks for the next one.
        self._answer = ctypes.create_string_buffer(0)
        self._lookup = _library.LOOKUP(self._look_up)
        handle = c_void_p()
        _library.check(_library.get().pslite_node_new(self._lookup, None, byref(handle)))
        self._have(handle, lent=False)

    def _have(self, handle: c_void_p, lent: bool) -> None:
        """lent: somebody else starts the node and ends it."""
        self._library = _library.get()
        self._handle: Optional[c_void_p] = handle
        self._customers: List[Any] = []
        #: The Store of this node, from its making on.
        self._store: Any = None
        self._lent = self._started = lent
        _open.add(self)

    def _setting(self, name: str) -> Optional[str]:
        """As it was given, or as the environment has it."""
        text = self._settings.get(name)
        return os.environ.get(name) if text is None else text

    def _look_up(self, _: Optional[int], name: bytes) -> Optional[int]:
        """Called by the library while the node starts."""
        text = self._setting(name.decode())
        if text is None:
            return None
        self._answer = ctypes.create_string_buffer(text.encode("utf-8", "surrogateescape"))
        return ctypes.addressof(self._answer)

    # ---- beginning and end -----------------------------------------------------------------------

    def start(self, barrier: bool = True) -> "Node":
        """Registers with the scheduler; returns when the job is complete. barrier: and when all
        nodes have come so far. A second call does nothing, so `with Node(...).start() as node:` is
        the same as without `start`.

        Raises ConfigError, AddressError, Timeout (PSLITE_START_TIMEOUT), PeerLost. Then nothing is
        left of the start, and the next one begins anew. Raises ClosedError after `stop`.
        """
        handle = self.handle
        if self._started:
            if not self._lent and not self._describe().is_ready:
                raise errors.ClosedError("the node was stopped; close it, and make a new one")
            return self
        self._block(lambda: self._library.pslite_start(handle, 0, int(barrier)))
        self._started = True
        return self

    def close(self, barrier: bool = True) -> None:
        """Ends the node; a second call does nothing. barrier: waits until all nodes of the job are
        at their end; a server serves until then. Before that the node's Store is closed, without
        which its servers would not end. A node of `current` goes on: this ends the workers and
        servers that were made of it here.

        Raises PeerLost if others are gone: the node is closed all the same.
        """
        if self._handle is None:
            return
        handle = self._handle
        try:
            if self._started and barrier and not self._lent:
                if self._store is not None:
                    self._store.close()
                self._block(lambda: self._library.pslite_finalize(handle, 0, 1))
        finally:
            self._end()

    def stop(self) -> None:
        """Ends the node at once: what waits in other threads ends with Stopped, a start that is
        under way too. May be called from any thread; `close` is still to be called."""
        if self._handle is not None:
            self._library.pslite_node_stop(self._handle)

    def _end(self) -> None:
        handle, self._handle = self._handle, None
        self._started = False
        _open.discard(self)
        _lent.discard(self)
        if handle is None:
            return
        if not self._lent:
            self._library.pslite_node_stop(handle)
        # Their threads end here, so no handler runs any more.
        for customer in self._customers:
            customer._free()
        self._customers = []
        if not self._lent:
            self._library.pslite_node_free(handle)

    def __del__(self) -> None:
        # One that never started, or failed to: there are no threads that could call it.
        if getattr(self, "_handle", None) is not None and not self._started:
            self._end()

    def __enter__(self) -> "Node":
        return self.start()

    def _leave(self, failed: bool) -> None:
        self.close(barrier=not failed)

    # ---- what it knows ---------------------------------------------------------------------------

    @property
    def handle(self) -> c_void_p:
        """`pslite_node*`. Raises ClosedError."""
        if self._handle is None:
            raise errors.ClosedError("the node is closed; make a new one")
        return self._handle

    def _describe(self) -> _library.NodeInfo:
        info = _library.NodeInfo()
        _library.check(self._library.pslite_node_describe(self.handle, byref(info)))
        if self._lent and not info.is_ready:
            raise errors.NotStarted("the node of this process was ended by its owner")
        return info

    @property
    def role(self) -> str:
        """"scheduler", "server" or "worker"."""
        return _ROLES[self._describe().role]

    @property
    def rank(self) -> int:
        """Counts the nodes of this role from 0. Raises NotStarted."""
        return self._known(self._describe().rank)

    @property
    def id(self) -> int:
        """The node's number on the wire: 1 the scheduler, 8, 10, ... servers, 9, 11, ... workers.
        Raises NotStarted."""
        return self._known(self._describe().id)

    def _known(self, number: int) -> int:
        if not self._started or number == _library.EMPTY:
            raise errors.NotStarted("the node has no place in a job yet; call start() first")
        return number

    @property
    def is_recovery(self) -> bool:
        """True if it took the place of a node that died: the others are somewhere in their program,
        and this one skips what they do together at the begin of theirs, such as barriers."""
        return bool(self._describe().is_recovery)

    @property
    def num_workers(self) -> int:
        """Workers of the job. Raises NotStarted."""
        return self._known(self._describe().num_workers)

    @property
    def num_servers(self) -> int:
        """Servers of the job. Raises NotStarted."""
        return self._known(self._describe().num_servers)

    def key_ranges(self) -> List[Tuple[int, int]]:
        """For each server, in the order of ranks, the first of its keys and the first one behind
        them. Raises NotStarted."""
        count = c_size_t()
        _library.check(
            self._library.pslite_server_key_ranges(self.handle, None, 0, byref(count)))
        numbers = (ctypes.c_uint64 * (2 * count.value))()
        _library.check(self._library.pslite_server_key_ranges(
            self.handle, ctypes.cast(numbers, c_void_p), count.value, byref(count)))
        return list(zip(numbers[::2], numbers[1::2]))

    def dead_nodes(self, seconds: SupportsIndex = 60) -> List[int]:
        """Ids of the nodes of which nothing was heard for so long. Raises NotStarted."""
        seconds = _numbers.integer(seconds, "seconds")
        ids, count = (c_int32 * 65536)(), c_size_t()
        _library.check(self._library.pslite_dead_nodes(
            self.handle, seconds, ids, len(ids), byref(count)))
        return list(ids[: count.value])

    def metrics(self) -> Dict[str, Any]:
        """All that the node has counted (docs/metrics.md). Raises NotStarted."""
        size = c_size_t()
        _library.check(self._library.pslite_metrics(self.handle, None, 0, byref(size)))
        while True:
            # It may grow between two calls.
            text = ctypes.create_string_buffer(size.value + 4096)
            _library.check(
                self._library.pslite_metrics(self.handle, text, len(text), byref(size)))
            if size.value <= len(text):
                found: Dict[str, Any] = json.loads(text.raw[: size.value])
                return found

    def barrier(self, group: str = "all", *, leaving: bool = False) -> None:
        """Returns when every node of the group has called it: "all", "workers" or "servers". This
        node must be in the group. leaving: this worker pushes no more, so rounds do not wait for
        it.

        A worker that came back (`is_recovery`) cannot know in which of their barriers the others
        are: this one ends when all of them come to their next one. The log says so.

        Raises PeerLost, NotStarted, InvalidArgument.
        """
        number = _GROUPS.get(group)
        if number is None:
            raise errors.InvalidArgument(f"{group!r} is none of {', '.join(_GROUPS)}")
        handle = self.handle
        if not leaving and self._describe().is_recovery:
            self._library.pslite_log(1, _RECOVERED.encode())
        self._block(lambda: self._library.pslite_barrier(handle, 0, number, int(leaving)))

    def _block(self, call: Any) -> None:
        _blocking.run(call, self.stop)

    def __repr__(self) -> str:
        if self._handle is None:
            return "<pslite.node.Node, closed>"
        if not self._started:
            return "<pslite.node.Node, not started>"
        return f"<pslite.node.Node {self.role} {self.rank}>"


def current() -> Node:
    """The node of this process: the one that MXNet uses, if it runs on the preload library; that of
    `pslite.mxnet.init`; in a program in C++, that of ps::Postoffice.

    Who made it ends it. `close` of a node that MXNet or C++ made does not.

    Raises NotStarted if there is none; the text says what makes one.
    """
    library, handle = _library.get(), c_void_p()
    _library.check(library.pslite_process_node(byref(handle)))
    known = [node for node in list(_open)
             if node._handle is not None and node._handle.value == handle.value]
    if known and not known[0]._lent:
        return known[0]
    info = _library.NodeInfo()
    _library.check(library.pslite_node_describe(handle, byref(info)))
    if not info.is_ready:
        raise errors.NotStarted(
            "the node of this process is not in a job: MXNet starts it when its first kvstore is "
            "made (mx.kv.create), and ends it with the last one")
    if known:
        return known[0]
    node = Node.__new__(Node)
    node._settings = {}
    node._have(handle, lent=True)
    _lent.add(node)
    return node


def _make_current(node: Node) -> None:
    """`current` gives this one, until it is closed."""
    _library.check(node._library.pslite_set_process_node(node.handle))


def _texts(settings: Dict[str, Any]) -> Dict[str, str]:
    plain = {name: _numbers.plain(value) for name, value in settings.items()}
    return {name: str(int(value)) if isinstance(value, bool) else str(value)
            for name, value in plain.items() if value is not None}


def _known(settings: Dict[str, Any], given: Dict[str, str]) -> Dict[str, str]:
    """Settings as texts. given: what arguments of their own say."""
    library = _library.get()
    for name in settings:
        if library.pslite_setting_check(name.encode("utf-8", "surrogateescape")) != 0:
            text = _library.error_of(-1)
            raise errors.InvalidArgument(
                f"Node has no argument {name!r}: beside role, root, workers, servers and host it "
                f"takes the settings of a node by their names in the environment; {text}")
    texts = _texts(settings)
    for name in texts.keys() & given.keys():
        if texts[name] != given[name]:
            raise errors.InvalidArgument(
                f"{name} is given twice: as {given[name]!r} by the argument that stands for it, "
                f"and as {texts[name]!r}")
    return texts


def _root(root: str) -> Dict[str, str]:
    host, _, port = str(root).rpartition(":")
    if not host or not port.isdigit():
        raise errors.InvalidArgument(f"root must be HOST:PORT, not {root!r}")
    return {"DMLC_PS_ROOT_URI": host.strip("[]"), "DMLC_PS_ROOT_PORT": port}


@atexit.register
def _stop_all() -> None:
    """No thread of the library may call a handler of an interpreter that ends."""
    for node in list(_open):
        node._end()
