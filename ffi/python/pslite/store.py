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

import hashlib
import threading
from typing import Any, Dict, List, NamedTuple, Optional, SupportsIndex

from . import _agreement, _arrays, _optimizers, errors
from ._arrays import View
from ._closing import Closing
from .kv import Handle, KVWorker
from .node import Node

__all__ = ["Store"]

#: Numbers of MXNet's types (mshadow/base.h), by which servers know what they sum.
_DTYPES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}
#: Commands (kvstore_dist_server.h), and the group of all servers.
_CONTROLLER, _MULTI_PRECISION, _STOP, _SYNC_MODE, _SERVERS = 0, 1, 2, 3, 2
#: Numbers of arrays that are made of names: MXNet's servers keep 31 bits. Smaller ones are those of
#: MXNet's kvstores.
NAMED, _NUMBERS = 1 << 30, 1 << 30
#: What is said of an optimizer when all servers have it.
_AT_SERVERS = "optimizer {} is at the servers"
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
    it comes.

    Every worker makes the same arrays, in any order, before it uses one of them: the first push,
    pull or set_optimizer after `init` waits until all workers have come so far, and servers compare
    names, shapes and types, and optimizers. Workers that differ in them get WorkersDiffer there,
    with what each of them says. A worker that takes the place of one that died waits for nobody:
    what it makes is compared with what there is, and changes nothing.

    Raises InvalidArgument for a node that has a Store or had one, NotStarted, PeerLost, and
    WorkersDiffer if `sync` differs. After a failure the node is as it was before.
    """

    def __init__(self, node: Node, *, sync: bool = True) -> None:
        _refuse(node)
        self._rank = node.rank
        self._node = node
        self._keys: Dict[str, _Key] = {}
        self._names: Dict[int, str] = {}
        self._ranges = node.key_ranges()
        self._closed = False
        self._worker = _worker(node)
        self._agreement = _agreement.Agreement(
            self._command, node.is_recovery, node._setting("PSLITE_STALL_REPORT"))
        #: What was made, and not agreed on yet.
        self._new: Dict[str, str] = {}
        self._agreeing = threading.Lock()
        self._optimizers = 0
        #: It is an Exchange's (sync.py).
        self._steps_itself = False
        node._store = self
        try:
            self._open(sync)
        except BaseException:
            node._store = None
            self._worker._leave(node)
            raise

    def _open(self, sync: bool) -> None:
        if sync and self._rank == 0:
            self._command(_SYNC_MODE, b"")
        self._agreement.say({"the mode": "sync=True" if sync else "sync=False"})
        if self._agreement.compares:
            self._worker._slow = self._stands
        else:
            self._warn()
            self._barrier()

    def _warn(self) -> None:
        text = ("no server of this job compares what workers make (they are MXNet's own, or older "
                "than this package): nothing tells if names, shapes, dtypes or optimizers differ "
                "between workers")
        self._node._library.pslite_log(1, text.encode())

    def _barrier(self) -> None:
        """All workers come here, but for one that takes the place of one that died: nobody knows in
        which of their barriers the others are."""
        if not self._agreement.back:
            self._node.barrier("workers")

    # ---- arrays ----------------------------------------------------------------------------------

    def init(self, name: str, values: Any) -> None:
        """Makes an array. Its values are those of the worker of rank 0, who sends them here. Types:
        float16, float32, float64, int8, int32, int64, uint8.

        Raises InvalidArgument if there is one of that name, and an ArrayError. Raises WorkersDiffer
        in a worker that came back, as the first use of the array does in all others.
        """
        self._make(name, values, None)

    def _make(self, name: str, values: Any, number: Optional[int]) -> None:
        """`init`, for an array of that number: servers know arrays by numbers alone. None: one that
        the name decides, whatever is made before or elsewhere."""
        self._refuse_closed()
        if name in self._keys:
            raise errors.InvalidArgument(f"there is an array {name!r} already")
        view = _arrays.view(values, name)
        if view.dtype not in _DTYPES:
            raise errors.DtypeError(
                f"{name} has elements of {view.dtype}; servers know {', '.join(_DTYPES)}")
        if not view.count:
            raise errors.ShapeError(f"{name} has no elements")
        given = "" if number is None else f", number {number}"
        number = _number(name) if number is None else number
        if number in self._names:
            raise errors.InvalidArgument(
                f"the arrays {self._names[number]!r} and {name!r} have the same number at servers, "
                f"{number}: give one of them another name")
        key = self._placed(number, view)
        said = {f"array {name!r}": f"{view.dtype} of shape {_shape(values, view)}{given}"}
        agreement = self._agreement
        known = agreement.back and agreement.compares and agreement.knows(said)
        if self._node.rank == 0 and not (known and not agreement.makes_keys):
            self._send(key, view, None, None, 0).wait()
        self._keys[name], self._names[number] = key, name
        if not agreement.compares:
            self._barrier()
        elif not known:
            self._new.update(said)

    def _agree(self) -> None:
        """All workers have made what this one has made."""
        if self._new:
            with self._agreeing:
                if self._new:
                    new = dict(self._new)
                    self._agreement.say(new, makes=True)
                    self._new = {each: self._new[each] for each in self._new if each not in new}

    def _say(self, said: Dict[str, str]) -> None:
        """All workers say that, here. Without servers that compare, nothing is compared."""
        self._agree()
        if self._agreement.compares:
            with self._agreeing:
                self._agreement.say(said)

    def _stands(self) -> None:
        """A request takes long."""
        # Another thread makes something: that is no standstill.
        if self._agreeing.acquire(blocking=False):
            try:
                self._agreement.stands()
            finally:
                self._agreeing.release()

    def push(self, name: str, values: Any, *, priority: SupportsIndex = 0) -> Handle:
        """Sends this worker's part of a sum, or its gradient if there is an optimizer."""
        view = self._fitting(name, values, False)
        self._agree()
        return self._send(self._key(name), view, None, None, priority)

    def pull(self, name: str, out: Any, *, priority: SupportsIndex = 0) -> Handle:
        """Gets the values into `out`: after a push the sum of all workers, or the new weights."""
        view = self._fitting(name, out, True)
        self._agree()
        return self._send(self._key(name), None, view, out, priority)

    def push_pull(self, name: str, values: Any, out: Any = None, *,
                  priority: SupportsIndex = 0) -> Handle:
        """Both at once; out: None for `values`."""
        where = values if out is None else out
        came = self._fitting(name, values, out is None)
        target = came if out is None else self._fitting(name, out, True)
        self._agree()
        return self._send(self._key(name), came, target, where, priority)

    def names(self) -> List[str]:
        """The arrays, in the order of their making."""
        return list(self._keys)

    # ---- optimizers ------------------------------------------------------------------------------

    def set_optimizer(self, name: str, **parameters: _optimizers.Parameter) -> None:
        """Servers apply what is pushed to the weights: "sgd", "adam" and so on, with MXNet's names
        of parameters and its defaults (docs/optimizers.md). Call it on every worker, after `init`.
        Returns when the servers have it. In a worker that came back it changes nothing.

        Raises InvalidArgument for what there is not, WorkersDiffer if another worker sets another
        one, RemoteError if a server does not know it.
        """
        pickled = _optimizers.described(name, parameters)
        self._run(pickled, bool(parameters.get("multi_precision")),
                  _optimizers.settings(name, parameters))

    def _run(self, optimizer: bytes, multi_precision: bool, settings: Dict[str, str]) -> None:
        """Servers run this one: the pickle of an optimizer of MXNet's. settings: what it computes
        with, for the comparison."""
        self._refuse_closed()
        self._agree()
        agreement, number = self._agreement, self._optimizers + 1
        at_servers = {_AT_SERVERS.format(number): ""}
        said = {f"{name} of optimizer {number}": value for name, value in settings.items()}
        known = agreement.back and agreement.compares and agreement.knows(said)
        if not known:
            self._say(said)
        if not known or agreement.makes_keys:
            self._command(_CONTROLLER, optimizer)
            if multi_precision:
                self._command(_MULTI_PRECISION, b"")
        self._optimizers = number
        if agreement.compares:
            # Servers of MXNet's own begin anew with each that comes.
            self._say(at_servers)
        else:
            self._barrier()

    def _has_weights(self) -> bool:
        """False for a worker that came back to a job whose servers run no optimizer: their values
        are sums of what was pushed last."""
        agreement = self._agreement
        return not (agreement.back and agreement.compares) or (
            agreement.knows({_AT_SERVERS.format(1): ""}))

    # ---- end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """This worker sends no more; when all have said so, servers end. A second call does
        nothing, and all other calls raise ClosedError from then on. `Node.close` calls this."""
        if self._closed:
            return
        self._closed = True
        if self._agreement.compares:
            self._agreement.close()
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

    def _command(self, head: int, body: bytes) -> List[bytes]:
        return self._worker._command(head, body, _SERVERS)


def _refuse(node: Node) -> None:
    """Raises an exception for a node that can have no Store."""
    if node.role != "worker":
        raise errors.InvalidArgument(f"a Store is of a worker, and this node is a {node.role}")
    if node._store is not None:
        if node._store._steps_itself:
            raise errors.InvalidArgument(
                "this node has an Exchange (pslite.sync), which has its place at the servers: give "
                "that one all arrays. Gradients and optimizers need a job without one")
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


def _number(name: str) -> int:
    """The number of a name, the same in every worker and every run."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return NAMED + int.from_bytes(digest[:8], "little") % _NUMBERS


def _shape(values: Any, view: View) -> str:
    shape = getattr(values, "shape", None)
    return str(tuple(shape)) if shape is not None else f"({view.count},)"
