"""Workers and servers of a key-value store: ps-lite's KVWorker and KVServer.

    node = Node("worker", root="10.0.0.1:9091", workers=2, servers=1).start()
    worker = KVWorker(node)                              # values are float32
    gradients = numpy.ones(1000, "float32")
    worker.push_pull([7], gradients).wait()              # in place; the handler's answer is there
    node.close()

Arrays are used without a copy: numpy arrays and all that has Python's buffer protocol, torch
tensors and MXNet NDArrays on the CPU. They must be contiguous, and the caller neither writes them
nor (if they are pulled into) reads them until the request is over.
"""

import array
import ctypes
import time
import weakref
from collections import OrderedDict
from ctypes import byref, c_int32, c_void_p
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Literal,
    NamedTuple,
    Optional,
    SupportsFloat,
    SupportsIndex,
    Tuple,
    Union,
)

from . import _arrays, _calls, _library, _numbers, errors
from ._arrays import View
from .node import Node

__all__ = ["Handle", "KVServer", "KVWorker", "Request"]

#: Milliseconds after which a wait looks whether a signal came.
_LOOK_MS = 50
#: What a library says of a request that is not over yet.
_TIMEOUT = -6
_LOW, _HIGH = -2**31, 2**31 - 1
#: Seconds after which a wait is slow; then after twice as long, and so on.
_SLOW = 2.0


class Handle:
    """A request that is under way. It goes on whether anybody waits or not."""

    __slots__ = ("__weakref__", "_call", "_error", "_over", "_result", "_views", "_worker",
                 "timestamp")

    def __init__(self, worker: "KVWorker", call: _calls.Call, views: Tuple[Optional[View], ...],
                 result: Any) -> None:
        self._worker = worker
        self._call = call
        self._views = views
        self._result = result
        self._over = False
        self._error: Optional[errors.PsliteError] = None
        #: The request's number, unique in its worker.
        self.timestamp: int = call.stamp.value

    def wait(self, timeout: Optional[SupportsFloat] = None) -> Any:
        """Blocks until the request is over; gives the array that was pulled into, if any. May be
        called again, and from other threads. timeout: in seconds; None: no limit.

        Raises Timeout (the request goes on), PeerLost (a server is gone), RemoteError (a server
        refused it, and says why), Stopped (the node was closed meanwhile), ProtocolError (what came
        does not fit the array). KeyboardInterrupt leaves the wait within 0.1 s; the request goes
        on.
        """
        if timeout is not None:
            self._wait_for(_numbers.seconds(timeout, "timeout"))
        else:
            self._wait_long()
        if self._error is not None:
            raise self._error
        return self._result

    def _wait_long(self) -> None:
        if self._over or self._look(_LOOK_MS):
            return
        slow, begun = _SLOW, time.monotonic()
        while not self._over and not self._look(_LOOK_MS):
            if time.monotonic() - begun >= slow:
                slow *= 2
                self._worker._slow()

    def _wait_for(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        while not self._over:
            left = max(0.0, 1000 * (end - time.monotonic()) + 0.999)
            if self._look(int(min(left, _LOOK_MS))):
                break
            if time.monotonic() >= end:
                raise errors.Timeout(
                    f"request {self.timestamp} is not over after {timeout:g} s; it goes on")

    @property
    def done(self) -> bool:
        """True if it is over, whether it failed or not. Does not block."""
        return self._over or self._look(0)

    def _look(self, milliseconds: int) -> bool:
        worker = self._worker
        status = worker._library.pslite_customer_wait_for(
            worker.handle, self.timestamp, milliseconds)
        if status == _TIMEOUT:
            return False
        self._end(_library.error_of(status) if status != 0 else None)
        return True

    def _end(self, error: Optional[errors.PsliteError]) -> None:
        if not self._over:
            self._error = error
            self._over = True
        worker = self._worker
        # Of threads that come here at once, one takes it out.
        if worker._open.pop(self.timestamp, None) is not None:
            for view in self._views:
                if view is not None:
                    view.release()
            self._views = ()
            worker._calls.append(self._call)

    def __repr__(self) -> str:
        state = "under way" if not self._over else "failed" if self._error else "done"
        return f"<pslite.kv.Handle {self.timestamp}, {state}>"


class KVWorker:
    """Pushes values to servers, and pulls from them. Of a node that is a worker.

    dtype: of all values, "float32", "float64", "float16", "int64" and so on. app: which KVServer is
    meant, if servers have several. customer: where a process has several workers, the number of
    this one. own_keys: its keys are its own, and so are the optimizer and the mode of the servers
    for them; all workers of that number share them. Else keys are those of customer 0, whatever the
    number. Of pslite's stores only, on a node that runs.

    Keys are integers from 0 to 2**64 - 1, in ascending order. `Node.key_ranges` says which server
    has which. Each key has equally many values, or `lens` says how many each has.

    Raises InvalidArgument if there is a worker of that app and customer already, or, with own_keys,
    if a server cannot keep keys apart.
    """

    def __init__(self, node: Node, dtype: str = "float32", *, app: SupportsIndex = 0,
                 customer: SupportsIndex = 0, own_keys: bool = False) -> None:
        if dtype not in _arrays.SIZES:
            raise errors.DtypeError(
                f"there is no dtype {dtype!r}; there are {', '.join(_arrays.SIZES)}")
        self.dtype = dtype
        self._library = node._library
        self._open: "OrderedDict[int, Handle]" = OrderedDict()
        self._calls, self._keys = _calls.free(), _calls.Keys()
        #: Bodies of answers to commands, by the number of the request.
        self._told: Dict[int, List[bytes]] = {}
        #: Called while somebody waits for long; may raise.
        self._slow: Callable[[], None] = _not_at_all
        self._handle: Optional[c_void_p] = None
        self._receive = _library.RECEIVE(self._received)
        self._handle = _customer(node, app, customer, self._receive)
        node._customers.append(self)
        try:
            _library.check(self._library.pslite_worker_attach(self._handle, _arrays.SIZES[dtype]))
            if own_keys:
                _library.check(self._library.pslite_worker_own_keys(self._handle))
        except BaseException:
            self._leave(node)
            raise

    @property
    def handle(self) -> c_void_p:
        """`pslite_customer*`. Raises ClosedError."""
        if self._handle is None:
            raise errors.ClosedError("the worker's node is closed")
        return self._handle

    def push(self, keys: Any, values: Any, lens: Any = None, *, cmd: SupportsIndex = 0,
             priority: SupportsIndex = 0) -> Handle:
        """Sends values. keys: an integer, several, or an array of uint64. cmd: a number that the
        servers' handler gets. priority: of requests that wait, those with more go first.

        Raises an ArrayError before anything is sent; ClosedError, NotStarted, PeerLost.
        """
        key, vals, len_ = self._memory(keys, values, "values", lens)
        return self._request(key, vals, None, len_, None, cmd, priority)

    def pull(self, keys: Any, out: Any, lens: Any = None, *, cmd: SupportsIndex = 0,
             priority: SupportsIndex = 0) -> Handle:
        """Gets values into `out`, which must be as long as what comes. Otherwise as `push`."""
        key, vals, len_ = self._memory(keys, out, "out", lens, writable=True)
        return self._request(key, None, vals, len_, out, cmd, priority)

    def push_pull(self, keys: Any, values: Any, out: Any = None, lens: Any = None, *,
                  cmd: SupportsIndex = 0, priority: SupportsIndex = 0) -> Handle:
        """Sends values, and gets what the servers answer into `out`; None: into `values`. Otherwise
        as `push`."""
        key, vals, len_ = self._memory(keys, values, "values", lens, writable=out is None)
        if out is None:
            return self._request(key, vals, vals, len_, values, cmd, priority)
        target = _arrays.view(out, "out", True)
        if target.dtype != self.dtype:
            raise self._other_type(target.dtype, "out")
        if target.count != vals.count:
            raise errors.ShapeError(
                f"out has {target.count} elements, and values {vals.count}; both must have as many")
        return self._request(key, vals, target, len_, out, cmd, priority)

    def _request(self, keys: View, values: Optional[View], out: Optional[View],
                 lens: Optional[View], result: Any, cmd: SupportsIndex,
                 priority: SupportsIndex) -> Handle:
        """A push, with values; a pull, with `out`; or both. `result`: what `wait` gives."""
        library, customer = self._library, self.handle
        if type(cmd) is not int or not _LOW <= cmd <= _HIGH:
            cmd = _numbers.integer(cmd, "cmd", _LOW, _HIGH)
        if type(priority) is not int or not _LOW <= priority <= _HIGH:
            priority = _numbers.integer(priority, "priority", _LOW, _HIGH)
        try:
            call = self._calls.pop()
        except IndexError:
            call = _calls.Call()
        call.fill(keys, values, out, lens)
        if out is None:
            status = library.pslite_worker_push(
                customer, call.at_kv, cmd, priority, None, None, call.at_stamp)
        elif values is None:
            status = library.pslite_worker_pull(
                customer, call.keys, call.at_into, cmd, priority, None, None, call.at_stamp)
        else:
            status = library.pslite_worker_push_pull(
                customer, call.at_kv, call.at_into, cmd, priority, None, None, call.at_stamp)
        if status != 0:
            raise _library.error_of(status)
        handle = Handle(self, call, (keys, values, lens, out), result)
        self._open[handle.timestamp] = handle
        self._look_after(handle)
        return handle

    def _command(self, head: int, body: bytes, group: int) -> List[bytes]:
        """A command to all nodes of a group; returns when all have answered. What is in the bodies
        of their answers, of those that have one."""
        stamp = c_int32()
        _library.check(self._library.pslite_simple_request(
            self.handle, head, body, len(body), group, byref(stamp)))
        try:
            status = _TIMEOUT
            while status == _TIMEOUT:
                status = self._library.pslite_customer_wait_for(
                    self.handle, stamp.value, _LOOK_MS)
            _library.check(status)
        finally:
            bodies = self._told.pop(stamp.value, [])
        return bodies

    def _received(self, _: Optional[int], message: int) -> None:
        """An answer to a command, on a thread of the library. Nothing may be raised here."""
        meta = _library.Meta()
        self._library.pslite_message_meta(message, byref(meta))
        if meta.simple_app and not meta.request and meta.body and meta.body_size:
            body = ctypes.string_at(meta.body, meta.body_size)
            self._told.setdefault(meta.timestamp, []).append(body)

    def _look_after(self, newest: Handle) -> None:
        """Requests for which nobody waits end as well: the oldest are looked after, one for each
        new one and one more."""
        for _ in range(2):
            # Other threads may end any of them meanwhile.
            oldest = next(iter(self._open.values()), newest)
            if oldest is newest or not oldest.done:
                break

    def _memory(self, keys: Any, values: Any, what: str, lens: Any,
                writable: bool = False) -> Tuple[View, View, Optional[View]]:
        key = self._keys.view(keys)
        if not key.count:
            raise errors.ShapeError("there are no keys")
        vals = _arrays.view(values, what, writable)
        if vals.dtype != self.dtype:
            raise self._other_type(vals.dtype, what)
        if lens is None:
            if vals.count % key.count:
                raise errors.ShapeError(
                    f"{what} has {vals.count} elements for {key.count} keys; without lens each key "
                    "has as many")
            return key, vals, None
        len_ = _arrays.integers(lens, "int32", "lens")
        if len_.count != key.count:
            raise errors.ShapeError(f"there are {len_.count} lens for {key.count} keys")
        total = sum((c_int32 * len_.count).from_address(len_.address))
        if total != vals.count:
            raise errors.ShapeError(
                f"lens say {total} values, and {what} has {vals.count} elements")
        return key, vals, len_

    def _other_type(self, dtype: str, what: str) -> errors.DtypeError:
        return errors.DtypeError(
            f"{what} has elements of {dtype}, and this worker's are {self.dtype}; convert the "
            f"array, or make a worker with dtype={dtype!r}")

    def _leave(self, node: Node) -> None:
        """Its place in the node is free again."""
        if self in node._customers:
            node._customers.remove(self)
        self._free()

    def _free(self) -> None:
        """The node has ended."""
        handle, self._handle = self._handle, None
        if handle is not None:
            for request in list(self._open.values()):
                status = self._library.pslite_customer_wait_for(handle, request.timestamp, 0)
                request._end(_library.error_of(status) if status not in (0, _TIMEOUT) else
                             errors.Stopped("the node was closed") if status else None)
            self._library.pslite_customer_free(handle)


class Request(NamedTuple):
    """What a server's handler gets of a request."""

    #: Values came with it.
    push: bool
    #: Values are expected.
    pull: bool
    #: The number that the worker gave.
    cmd: int
    #: The worker's id, and the number of its customer.
    sender: int
    customer: int
    #: The request's number there.
    timestamp: int
    #: Of uint64.
    keys: memoryview
    #: Bytes of the values; empty without a push. `numpy.frombuffer(request.values, "float32")`.
    values: memoryview
    #: Of int32: how many values each key has; empty: equally many.
    lens: memoryview


#: What a handler gives: nothing, the values of all keys, or these and how many each key has.
Answer = Union[None, Any, Tuple[Any, Any]]


class KVServer:
    """Serves requests of workers with a function of yours. Of a node that is a server.

    handler(request) is called for one request after the other, on a thread of the library. For a
    pull it gives the values, in the order of the keys: an array, or an array and lens. An exception
    that it raises becomes the worker's RemoteError. The memory of the request stays as long as its
    memoryviews are kept; what the handler gives must not be changed until it was sent, so give a
    copy of what the next push changes.

    (`pslite server` is a server that sums as MXNet's does, with optimizers, and needs no handler.)
    """

    def __init__(self, node: Node, handler: Callable[[Request], Answer], *,
                 app: SupportsIndex = 0) -> None:
        self._library = node._library
        self._handler = handler
        #: Answers that are being sent: a flag that the library sets, and what has to stay.
        self._lent: List[Tuple[c_int32, View]] = []
        self._handle: Optional[c_void_p] = None
        self._receive = _library.RECEIVE(self._received)
        self._handle = _customer(node, app, app, self._receive)
        node._customers.append(self)
        try:
            _library.check(self._library.pslite_server_attach(self._handle))
        except BaseException:
            node._customers.remove(self)
            self._free()
            raise

    def _received(self, _: Optional[int], message: int) -> None:
        """On the customer's thread. Nothing may be raised here."""
        meta = _library.Meta()
        self._library.pslite_message_meta(message, byref(meta))
        if not meta.request or self._handle is None:
            return
        if meta.simple_app:
            self._library.pslite_simple_respond(self._handle, byref(meta), None, 0)
            return
        self._lent = [entry for entry in self._lent if not entry[0].value]
        frames = _Frames(self._library, message)
        try:
            answer = self._handler(Request(
                bool(meta.push), bool(meta.pull), meta.head, meta.sender, meta.customer_id,
                meta.timestamp, frames.of(0, "Q"), frames.of(1, "B"), frames.of(2, "i")))
            kv = self._answer(meta, answer, frames)
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
            meta.error = text.replace("\0", " ").encode("utf-8", "replace")[:4096]
            kv = _library.Kv()
        status = self._library.pslite_server_respond(self._handle, byref(meta), byref(kv))
        if status != 0:
            # The worker is gone: nobody else needs to know.
            self._library.pslite_log(1, self._library.pslite_last_error())

    def _answer(self, meta: _library.Meta, answer: Answer, frames: "_Frames") -> _library.Kv:
        kv = _library.Kv()
        if not meta.pull:
            return kv
        values, lens = answer if isinstance(answer, tuple) else (answer, None)
        if values is None:
            raise TypeError("the handler gave no values for a pull")
        kv.vals = self._lend(_arrays.view(values, "what the handler gave"))
        if lens is not None:
            kv.lens = self._lend(_arrays.integers(lens, "int32", "lens"))
        # Last, since what is retained here is released by the answer.
        kv.keys = frames.again(0)
        return kv

    def _lend(self, view: View) -> _library.Buffer:
        """Memory that stays until the library has set its flag."""
        flag = c_int32()
        self._lent.append((flag, view))
        release = _library.address_of("pslite_release_flag")
        return _library.Buffer(view.address, view.nbytes, release, ctypes.addressof(flag))

    def _free(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.pslite_customer_free(handle)


class _Frames:
    """The arrays of a message, which stays as long as one of them does."""

    def __init__(self, library: ctypes.CDLL, message: int) -> None:
        self._library = library
        self._message = message

    def of(self, index: int, form: Literal["B", "Q", "i"]) -> memoryview:
        """Frame number `index` as numbers of that format of the module struct."""
        frame = self._library.pslite_message_frame(self._message, index)
        if not frame.data or not frame.size:
            return memoryview(array.array(form)).toreadonly()
        memory = (ctypes.c_ubyte * frame.size).from_address(frame.data)
        owner = self._library.pslite_message_retain(self._message)
        weakref.finalize(memory, self._library.pslite_message_release, owner).atexit = False
        return memoryview(memory).cast("B").cast(form).toreadonly()

    def again(self, index: int) -> _library.Buffer:
        """The same frame, to be sent back: the message stays until it was."""
        frame = self._library.pslite_message_frame(self._message, index)
        owner = self._library.pslite_message_retain(self._message)
        release = _library.address_of("pslite_message_release")
        return _library.Buffer(frame.data, frame.size, release, owner)


def _not_at_all() -> None:
    """A wait may take as long as it takes."""


def _customer(node: Node, app: SupportsIndex, number: SupportsIndex, receive: Any) -> c_void_p:
    handle = c_void_p()
    app, number = _numbers.integer(app, "app"), _numbers.integer(number, "customer")
    _library.check(node._library.pslite_customer_new(
        node.handle, app, number, receive, None, byref(handle)))
    return handle
