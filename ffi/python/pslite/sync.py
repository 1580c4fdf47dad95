"""Training while the network works (docs/nbsync.md), for programs that know of it.

**Weights that the program steps itself**, with numpy, torch, or whatever writes them in place:

    from pslite import sync
    from pslite.node import Node

    with Node() as node, sync.Exchange(node, {"w": w, "b": b}) as exchange:
        for batch in batches:
            ...                             # the program's own optimizer changes w and b in place
            exchange.step()                 # one iteration is over

`PSLITE_SYNC` at the scheduler says how: `fedavg:steps=8` waits for the mean after 8 iterations,
`nbsync` goes on computing while deltas travel. The program is the same.

**Equal values.** In such a job workers differ between swaps. `finish` makes them equal, so that
what is evaluated or saved is the global model; of an Exchange, or of a script of MXNet's:

    for epoch in range(epochs):
        train(net, trainer)
    sync.finish(trainer)
    net.save_parameters("weights.params")

`global_weights` reads the global values and changes nothing. mxnet is not imported at import.
"""

import ctypes
import importlib
import re
import sys
import threading
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _arrays, _library, errors
from ._closing import Closing
from .kv import Handle
from .node import Node, current
from .store import Store

__all__ = ["Counts", "Exchange", "finish", "global_weights"]

#: Types of which a mean can be made.
_FLOATS = ("float16", "float32", "float64")
#: A key, as texts of the library name it.
_KEY = re.compile(r"\bkey (\d+)\b")
#: A node's switch for global pulls is one for all of its workers.
_global = threading.Lock()

Arrays = Union[Mapping[str, Any], Iterable[Tuple[str, Any]]]


class Counts(NamedTuple):
    """What an exchange has done."""

    #: Iterations that have begun: calls of `step`.
    iterations: int
    #: Rounds that this worker has sent, of one section each.
    sent: int
    #: Those of them that were over when the last iteration began.
    done: int
    #: Seconds in which `step` was not let go on: in a mode that does not wait, because results were
    #: late.
    held: float


class Exchange(Closing):
    """Arrays that all workers train together. Of a node that is a worker, in a job whose scheduler
    has PSLITE_SYNC; a node has one Exchange, or one Store.

    arrays: by name; a dict, or pairs such as `model.named_parameters()`. All workers give the same
    names, shapes and types (float16, float32, float64), in any order. The values of rank 0 count:
    when this returns, the arrays of all workers have them. Arrays are read and written in place, so
    they must be contiguous, on the CPU, and writable. Of a dict the array that it has under a name
    at that moment is used, so a new one may be put there.

    Raises ConfigError in a job without PSLITE_SYNC; WorkersDiffer, with what each worker says, if
    they differ; an ArrayError for an array that cannot be used; InvalidArgument.
    """

    def __init__(self, node: Node, arrays: Arrays) -> None:
        self._mode = _mode(node)
        if not self._mode:
            raise errors.ConfigError(
                "this job exchanges nothing: set PSLITE_SYNC at the scheduler (nbsync, "
                "nbsync:published, fedavg:steps=N, diloco:steps=N); docs/nbsync.md has the modes")
        self._arrays: Mapping[str, Any] = arrays if isinstance(arrays, Mapping) else _pairs(arrays)
        self._names = list(self._arrays)
        if not self._names:
            raise errors.InvalidArgument("an Exchange needs an array")
        for name, array in self._arrays.items():
            _check(name, array)
        self._failed: Optional[errors.PsliteError] = None
        self._store = Store(node)
        self._store._steps_itself = True
        self._library, self._node = node._library, node
        self._begin()

    def _begin(self) -> None:
        store = self._store
        _library.check(self._library.pslite_exchange_begin(store._worker.handle))
        store._say({"who steps the values": "the program (pslite.sync)"})
        for name in self._names:
            store.init(name, self._arrays[name])
        self._pull()

    # ---- training --------------------------------------------------------------------------------

    def step(self) -> None:
        """One iteration is over: the program has changed the arrays since the last call, or it
        leaves some as they are. What was changed is sent, and global values are written to the
        arrays, as the job's mode says; if it is one that waits, this returns when they are here.

        Raises RemoteError, with the array's name, if what was changed is not finite, PeerLost, and
        an ArrayError. After a failure of the exchange, each call raises it again.
        """
        if self._failed is not None:
            raise self._failed
        # All are looked at before the first one is sent: an iteration has each of them once.
        store, arrays = self._store, [(name, self._current(name)) for name in self._names]
        try:
            self._wait([(name, store.push_pull(name, array)) for name, array in arrays])
        except errors.PsliteError as error:
            self._failed = error
            raise

    # ---- what it knows ---------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """How the job exchanges, in words: "nbsync, 8 sections, nesterov 0.5 x 1"."""
        return self._mode

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        counts = _library.ExchangeCounts()
        _library.check(self._library.pslite_exchange_counted(
            self._store._worker.handle, ctypes.byref(counts)))
        return Counts(counts.iterations, counts.sent, counts.done, counts.held)

    def names(self) -> List[str]:
        """The arrays, in the order in which they were given."""
        return list(self._names)

    # ---- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Returns when all workers have called it, all that they have changed is at the servers,
        and the arrays have the global values, equal to the bit at all workers. Training may go on
        after it. A worker that has ended is not awaited.

        Raises RemoteError if what was changed is not finite, PeerLost, and an ArrayError.
        """
        if self._failed is not None:
            raise self._failed
        finish(self)

    def _pull(self) -> None:
        arrays = [(name, self._current(name)) for name in self._names]
        self._wait([(name, self._store.pull(name, array)) for name, array in arrays])

    def close(self) -> None:
        """This worker trains no more. What it has changed and not sent is sent, and waited for; the
        arrays keep the worker's own values. A second call does nothing. `Node.close` calls this.

        Raises RemoteError if what was changed is not finite, and PeerLost.
        """
        try:
            self._store.close()
        except errors.PsliteError as error:
            raise self._named(error) from error

    def __enter__(self) -> "Exchange":
        return self

    def _leave(self, failed: bool) -> None:
        if not failed:
            self.close()

    # ---- requests --------------------------------------------------------------------------------

    def _current(self, name: str) -> Any:
        try:
            array = self._arrays[name]
        except KeyError:
            raise errors.InvalidArgument(
                f"the array {name!r} is gone; an Exchange has the same arrays to its end") from None
        self._store._fitting(name, array, True)
        return array

    def _wait(self, sent: List[Tuple[str, Handle]]) -> None:
        for name, handle in sent:
            try:
                handle.wait()
            except errors.PsliteError as error:
                raise self._named(error, name) from error

    def _named(self, error: errors.PsliteError, name: Optional[str] = None) -> errors.PsliteError:
        """The same, with names in place of keys."""
        names = self._store._names

        def named(found: "re.Match[str]") -> str:
            known = names.get(int(found[1]))
            return found[0] if known is None else f"array {known!r}"

        text = _KEY.sub(named, str(error))
        if name is not None and "array " not in text:
            text = f"array {name!r}: {text}"
        return type(error)(text)

    def _pull_global(self, out: Mapping[str, Any]) -> None:
        for name, array in out.items():
            self._store._fitting(name, array, True)
        with _Global(self._node):
            self._wait([(name, self._store.pull(name, array)) for name, array in out.items()])


def finish(of: Any = None, *, node: Optional[Node] = None) -> bool:
    """Waits until all workers have come here, and all that they have changed is at the servers.
    What each pulls next is equal to the bit at all of them. Every kvstore of this process has part
    in it.

    of: an Exchange, whose arrays then have the values; a gluon Trainer or a Module, whose
    parameters are then pulled; or a kvstore, and the program pulls what it wants. node: the worker;
    None: that of the Exchange, or of this process (`pslite.node.current`).

    A worker that has ended is not awaited. One that took the place of a dead one is not awaited
    either, since rounds do not wait for it; it waits until what it has changed is at the servers.

    Returns False in a job without an exchange: nothing is done there.

    Raises NotStarted, PeerLost, RemoteError (what was changed cannot be sent: the training has
    diverged), and InvalidArgument for what has no parameters to pull.
    """
    pull = _pull_of(of)
    if isinstance(of, Exchange):
        node = of._node
    mxnet = sys.modules.get("mxnet")
    if mxnet is not None:
        mxnet.nd.waitall()  # Its pushes and pulls go on in threads of its own.
    worker = node if node is not None else current()
    handle, exchanges = worker.handle, ctypes.c_int32()
    worker._block(lambda: worker._library.pslite_exchange_finish(handle, ctypes.byref(exchanges)))
    if exchanges.value:
        pull()
        if mxnet is not None:
            mxnet.nd.waitall()
    return bool(exchanges.value)


def _pull_of(of: Any) -> Any:
    """Pulls all parameters of that."""
    if isinstance(of, Exchange):
        return of._pull
    if of is None or hasattr(of, "pull"):
        return lambda: None
    if hasattr(of, "allreduce_grads"):
        return lambda: _pull_trainer(of)
    if hasattr(of, "update_metric"):
        return lambda: _pull_module(of)
    raise errors.InvalidArgument(
        f"{type(of).__name__}: finish() takes an Exchange, a gluon Trainer, a Module or a kvstore")


def _pull_trainer(trainer: Any) -> None:
    kvstore = trainer._kvstore
    if kvstore is None or not trainer._update_on_kvstore:
        return  # It has not stepped yet, or is none of the exchange's.
    for number, parameter in enumerate(trainer._params):
        if parameter.grad_req != "null":
            kvstore.pull(number, parameter.list_data(), priority=-number)


def _pull_module(module: Any) -> None:
    kvstore = module._kvstore
    if kvstore is None or not module._update_on_kvstore:
        return
    group = module._exec_group
    for name, arrays in zip(group.param_names, group.param_arrays):
        kvstore.pull(name, arrays)
    # The copies on the host are those of the devices again when somebody asks for them.
    module._params_dirty = True


def global_weights(source: Any, out: Optional[Mapping[Any, Any]] = None) -> Dict[Any, Any]:
    """The global values, as the servers have them now. What the worker trains with stays as it is.
    Each array is of one round; different ones may be a round apart, where the mode does not wait.

    source: an Exchange; a gluon Trainer of MXNet's that updates on a kvstore; or such a kvstore.
    out: by name the arrays to write to, or by key those of a kvstore, which needs them. None: new
    ones are made, of numpy for an Exchange and of MXNet for a Trainer. Gives them, by name or key.
    Of a kvstore, no other thread of the program may pull meanwhile.

    Raises InvalidArgument, ArrayError, PeerLost; in MXNet's own kvstore, MXNetError.
    """
    if isinstance(source, Exchange):
        wanted = _made(source._arrays) if out is None else dict(out)
        source._pull_global(wanted)
        return wanted
    if hasattr(source, "_param2idx"):
        return _of_trainer(source, out)
    if not hasattr(source, "pull"):
        raise errors.InvalidArgument(
            f"global_weights is of an Exchange, of a gluon Trainer or of a kvstore, not of "
            f"{type(source).__name__}")
    if out is None:
        raise errors.InvalidArgument(
            "a kvstore does not say which arrays it has: pass out={key: array, ...}")
    return _of_kvstore(source, dict(out))


def _of_trainer(trainer: Any, out: Optional[Mapping[Any, Any]]) -> Dict[Any, Any]:
    kvstore = trainer._kvstore
    if kvstore is None or not trainer._update_on_kvstore:
        raise errors.InvalidArgument(
            "this Trainer does not train on a kvstore, or has not begun: global values are there "
            "after the first step, with update_on_kvstore=True")
    parameters = {each.name: each for each in trainer._params}
    if out is None:
        out = {name: each.list_data()[0].copy() for name, each in parameters.items()}
    unknown = [name for name in out if name not in parameters]
    if unknown:
        raise errors.InvalidArgument(f"the Trainer has no parameter {unknown[0]!r}")
    _of_kvstore(kvstore, {trainer._param2idx[name]: array for name, array in out.items()})
    return dict(out)


def _of_kvstore(kvstore: Any, out: Dict[Any, Any]) -> Dict[Any, Any]:
    mx = importlib.import_module("mxnet")

    # Its requests are made on threads of MXNet's: none may be left of before, nor go on behind.
    mx.nd.waitall()
    with _Global(current()):
        for key, array in out.items():
            kvstore.pull(key, out=array)
        mx.nd.waitall()
    return out


class _Global:
    """A block in which pulls of a node's workers bring the global values."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> None:
        _global.acquire()
        self._switch(1)

    def __exit__(self, *failure: object) -> None:
        try:
            self._switch(0)
        finally:
            _global.release()

    def _switch(self, on: int) -> None:
        node = self._node
        _library.check(node._library.pslite_exchange_pull_global(node.handle, on))


def _mode(node: Node) -> str:
    """How the job exchanges; empty: it does not."""
    text, size = ctypes.create_string_buffer(1024), ctypes.c_size_t()
    _library.check(node._library.pslite_exchange_describe(
        node.handle, text, len(text), ctypes.byref(size)))
    return text.raw[:size.value].decode()


def _pairs(arrays: Iterable[Tuple[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, array in arrays:
        if name in found:
            raise errors.InvalidArgument(f"there are two arrays {name!r}")
        found[name] = array
    return found


def _check(name: str, array: Any) -> None:
    if not isinstance(name, str):
        raise errors.InvalidArgument(f"the name of an array is a text, not {name!r}")
    dtype = _arrays.view(array, name, True).dtype
    if dtype not in _FLOATS:
        raise errors.DtypeError(
            f"{name} has elements of {dtype}; a mean can be made of {', '.join(_FLOATS)}")


def _made(arrays: Mapping[str, Any]) -> Dict[str, Any]:
    import numpy

    def made(name: str, array: Any) -> Any:
        view = _arrays.view(array, name)
        return numpy.empty(tuple(getattr(array, "shape", (view.count,))), view.dtype)

    return {name: made(name, array) for name, array in arrays.items()}
