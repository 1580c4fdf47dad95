"""Arrays by name on pslite's own servers, which sum and run optimizers: a parameter server for any
program, without MXNet and without a handler.

    from pslite.node import Node
    from pslite.store import Store

    with Node() as node:                      # a worker; servers: pslite.job.serve_server
        with Store(node) as store:
            store.init("weight", weight)                  # every worker; rank 0's values count
            store.set_optimizer("adam", learning_rate=1e-3)
            for batch in batches:
                ...
                store.push_pull("weight", gradient, weight).wait()

The servers are `pslite server`, `pslite.job.serve_server` or MXNet's own; the wire is that of
MXNet's kvstore `dist_sync`, or with sync=False `dist_async`.
"""

from ctypes import byref, c_int32
from typing import Any, Dict, List, NamedTuple, Optional, SupportsIndex

from . import _arrays, _library, _optimizers, errors
from ._arrays import View
from ._closing import Closing
from .kv import Handle, KVWorker
from .node import Node

__all__ = ["Store"]

#: Numbers of MXNet's types (mshadow/base.h), by which servers know what they sum.
_DTYPES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}
#: Commands (kvstore_dist_server.h), and the group of all servers.
_CONTROLLER, _MULTI_PRECISION, _STOP, _SYNC_MODE, _SERVERS = 0, 1, 2, 3, 2
#: Elements from which MXNet cuts an array evenly over all servers.
_BIG = 1_000_000


class _Key(NamedTuple):
    """An array at the servers."""

    number: int
    dtype: str
    elements: int
    #: Wire keys, and the bytes of each.
    keys: View
    lens: View


class Store(Closing):
    """Arrays by name. Of a node that is a worker, and has no other Store and no KVWorker of app 0
    and customer 0.

    sync: a push is over when those of all workers are summed and applied. False: each is applied as
    it comes. Every worker must make the same calls of `init`, in the same order.

    Raises InvalidArgument for a node that has a Store or had one, NotStarted, PeerLost. After a
    failure the node is as it was before.
    """

    def __init__(self, node: Node, *, sync: bool = True) -> None:
        _refuse(node)
        rank = node.rank
        self._node = node
        self._keys: Dict[str, _Key] = {}
        self._ranges = node.key_ranges()
        self._closed = False
        self._worker = _worker(node)
        node._store = self
        try:
            if sync and rank == 0:
                self._command(_SYNC_MODE, b"")
            node.barrier("workers")
        except BaseException:
            node._store = None
            self._worker._leave(node)
            raise

    # ---- arrays ----------------------------------------------------------------------------------

    def init(self, name: str, values: Any) -> None:
        """Makes an array. Its values are those of the worker of rank 0; returns when they are at
        the servers. Types: float16, float32, float64, int8, int32, int64, uint8.

        Raises InvalidArgument if there is one of that name, and an ArrayError.
        """
        self._make(name, values, len(self._keys))

    def _make(self, name: str, values: Any, number: int) -> None:
        """`init`, for an array of that number: servers know arrays by numbers alone."""
        self._refuse_closed()
        if name in self._keys:
            raise errors.InvalidArgument(f"there is an array {name!r} already")
        view = _arrays.view(values, name)
        if view.dtype not in _DTYPES:
            raise errors.DtypeError(
                f"{name} has elements of {view.dtype}; servers know {', '.join(_DTYPES)}")
        if not view.count:
            raise errors.ShapeError(f"{name} has no elements")
        key = self._placed(number, view)
        if self._node.rank == 0:
            self._send(key, view, None, None, 0).wait()
        self._keys[name] = key
        self._node.barrier("workers")

    def push(self, name: str, values: Any, *, priority: SupportsIndex = 0) -> Handle:
        """Sends this worker's part of a sum, or its gradient if there is an optimizer."""
        return self._send(self._key(name), self._fitting(name, values, False), None, None, priority)

    def pull(self, name: str, out: Any, *, priority: SupportsIndex = 0) -> Handle:
        """Gets the values into `out`: after a push the sum of all workers, or the new weights."""
        return self._send(self._key(name), None, self._fitting(name, out, True), out, priority)

    def push_pull(self, name: str, values: Any, out: Any = None, *,
                  priority: SupportsIndex = 0) -> Handle:
        """Both at once; out: None for `values`."""
        where = values if out is None else out
        came = self._fitting(name, values, out is None)
        target = came if out is None else self._fitting(name, out, True)
        return self._send(self._key(name), came, target, where, priority)

    def names(self) -> List[str]:
        """The arrays, in the order of their making."""
        return list(self._keys)

    # ---- optimizers ------------------------------------------------------------------------------

    def set_optimizer(self, name: str, **parameters: _optimizers.Parameter) -> None:
        """Servers apply what is pushed to the weights: "sgd", "adam" and so on, with MXNet's names
        of parameters and its defaults (docs/optimizers.md). Call it on every worker, after `init`.
        Returns when the servers have it.

        Raises InvalidArgument for what there is not, RemoteError if a server does not know it.
        """
        self._run(_optimizers.described(name, parameters), bool(parameters.get("multi_precision")))

    def _run(self, optimizer: bytes, multi_precision: bool) -> None:
        """Servers run this one: the pickle of an optimizer of MXNet's."""
        self._refuse_closed()
        self._command(_CONTROLLER, optimizer)
        if multi_precision:
            self._command(_MULTI_PRECISION, b"")
        self._node.barrier("workers")

    # ---- end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """This worker sends no more; when all have said so, servers end. A second call does
        nothing, and all other calls raise ClosedError from then on. `Node.close` calls this."""
        if self._closed:
            return
        self._closed = True
        self._node.barrier("workers", leaving=True)
        if self._node.rank == 0:
            self._command(_STOP, b"")

    def __enter__(self) -> "Store":
        return self

    def _leave(self, failed: bool) -> None:
        if not failed:
            self.close()

    # ---- the wire --------------------------------------------------------------------------------

    def _placed(self, number: int, view: View) -> _Key:
        """Which keys an array has: those that MXNet would give it (kvstore_dist.h:650-680)."""
        servers = len(self._ranges)
        if view.count < _BIG:
            placed = [(number * 9973 % servers, view.count)]
        else:
            ends = [int(view.count / servers * (rank + 1) + 0.5) for rank in range(servers)]
            ends[-1] = view.count
            placed = [(rank, end - begin)
                      for rank, (begin, end) in enumerate(zip([0, *ends], ends))]
        keys = [self._ranges[rank][0] + number for rank, _ in placed]
        lens = [count * _arrays.SIZES[view.dtype] for _, count in placed]
        if max(lens) > 2**31 - 1:
            raise errors.ShapeError("an array has at most 2 GB at each server")
        return _Key(number, view.dtype, view.count, _arrays.integers(keys, "uint64", "keys"),
                    _arrays.integers(lens, "int32", "lens"))

    def _refuse_closed(self) -> None:
        if self._closed:
            raise errors.ClosedError(
                "the store is closed: its worker has told the servers that it sends no more")

    def _key(self, name: str) -> _Key:
        self._refuse_closed()
        if name not in self._keys:
            raise errors.InvalidArgument(
                f"there is no array {name!r}; call init first. There are: "
                f"{', '.join(self._keys) or 'none'}")
        return self._keys[name]

    def _fitting(self, name: str, values: Any, writable: bool) -> View:
        key, view = self._key(name), _arrays.view(values, name, writable)
        if view.dtype != key.dtype:
            raise errors.DtypeError(f"{name} has elements of {key.dtype}, not {view.dtype}")
        if view.count != key.elements:
            raise errors.ShapeError(f"{name} has {key.elements} elements, not {view.count}")
        return view

    def _send(self, key: _Key, values: Optional[View], out: Optional[View], result: Any,
              priority: SupportsIndex) -> Handle:
        # Cantor's pairing of a plain push or pull, which is 0, and the type (kvstore_dist.h:65).
        dtype = _DTYPES[key.dtype]
        cmd = dtype * (dtype + 1) // 2 + dtype
        return self._worker._request(key.keys, values, out, key.lens, result, cmd, priority)

    def _command(self, head: int, body: bytes) -> None:
        library, handle, stamp = self._node._library, self._worker.handle, c_int32()
        _library.check(library.pslite_simple_request(
            handle, head, body, len(body), _SERVERS, byref(stamp)))
        wait = library.pslite_customer_wait_for
        while True:
            status = wait(handle, stamp.value, 50)
            if status != -6:
                return _library.check(status)


def _refuse(node: Node) -> None:
    """Raises an exception for a node that can have no Store."""
    if node.role != "worker":
        raise errors.InvalidArgument(f"a Store is of a worker, and this node is a {node.role}")
    if node._store is not None:
        raise errors.InvalidArgument(
            "this node had a Store, which is closed, and its servers have ended" if
            node._store._closed else
            "this node has a Store already, and can have one: use that one for all arrays")


def _worker(node: Node) -> KVWorker:
    try:
        return KVWorker(node, "uint8")
    except errors.InvalidArgument as error:
        raise errors.InvalidArgument(
            "a Store needs app 0 and customer 0 of its node, and they are taken: by a KVWorker, "
            "which can have customer=1 instead, or by MXNet's own kvstore") from error
