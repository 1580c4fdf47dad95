"""A worker's part of a training: `pslite.lbbsp.Session`."""

import array
import threading
import time
from collections import deque
from contextlib import contextmanager
from ctypes import byref, c_uint64, c_void_p
from types import TracebackType
from typing import Callable, Iterator, Optional, Sequence, Type

from .. import _blocking, _library, errors
from ..node import Node, current
from ._batch import Batch
from ._sampler import BatchSampler
from ._settings import LAST, MEASURES, RULES, choice, number, some, text

__all__ = ["Session"]

#: Milliseconds after which a wait looks whether a signal came.
_LOOK_MS = 50
#: Batches that are remembered before it is asked which of them were reported.
_TAKEN_MAX = 64
#: Seconds after which a wait is logged.
_LONG = 10.0

#: Gives the order of an epoch's samples.
Order = Callable[[int], Sequence[int]]


class Session:
    """This worker's part of a training. All workers open it with the same arguments, but for rank,
    min and max. Iterating over it gives the batches of one epoch.

    node: a started worker; None: that of this process (`pslite.node.current`), as a preloaded
    mxnet has one. length: samples of an epoch. total: samples of an iteration, all workers
    together. rank, members: which worker this is, and how many there are; None: as the node says.

    rule: "cpu" (sizes in proportion to speeds, which a regression predicts), "cpu-last" (to the
    last speeds), "cpu-mean" (to averages), "gpu" (steps from the slowest worker to the fastest,
    within min and max), "fixed" (all are equal), or "dealt" (no iterations: whoever asks gets the
    next `total` samples, each sample once in an epoch).
    quantum: sizes are multiples of it. min, max: the fewest and the most samples that this worker
    takes, 1 or more; max=None: no limit.

    prefetch: batches that a loader takes before they are computed; 2 * num_workers for those of
    gluon and torch. measure: "pushes": the library measures how long a batch takes, from the last
    answer before it until the last of its gradients is pushed; "reports": `report` or `compute`
    says it. None: "pushes" if the job has servers.

    shuffle: samples come in another order in each epoch, which `seed` decides. order: gives the
    order of an epoch in place of that; the same for all workers. last: what is done with samples
    that do not fill an iteration: "drop", or "wrap": the epoch's first ones fill it up. epochs: of
    rule "dealt", how many, 1 or more; None: no end.

    A worker that has closed a session and opens one of that name again waits until the others have
    closed it too. Ctrl-C leaves that wait within 0.1 s.

    Raises InvalidArgument, NotStarted, ConfigError (the scheduler is not pslite's), RemoteError (it
    refuses, and says why: workers do not agree, or another worker has closed the session, so that
    nobody joins it any more).
    """

    def __init__(
        self,
        node: Optional[Node] = None,
        *,
        length: int,
        total: int,
        rank: Optional[int] = None,
        members: Optional[int] = None,
        rule: str = "cpu",
        quantum: int = 1,
        min: int = 1,
        max: Optional[int] = None,
        prefetch: int = 0,
        measure: Optional[str] = None,
        shuffle: bool = True,
        seed: int = 0,
        order: Optional[Order] = None,
        last: str = "drop",
        epochs: Optional[int] = None,
        name: str = "default",
    ) -> None:
        self._handle: Optional[c_void_p] = None
        self._closing: Optional[c_void_p] = None
        #: Calls of the library that have the handle, on all threads.
        self._calls, self._guard = 0, threading.Condition()
        node = current() if node is None else node
        self._node = node
        self.rule, self.total, self.length = rule, total, length
        self.rank = node.rank if rank is None else rank
        self.members = node.num_workers if members is None else members
        if measure is None:
            measure = "pushes" if node.num_servers > 0 else "reports"
        self._seed, self._shuffle, self._order = seed, shuffle, order
        self._last = choice(LAST, last, "last")
        self._ordered: "tuple[int, Sequence[int]]" = (-1, ())
        self._library = node._library
        #: The first batch of the next epoch, where batches are dealt.
        self._held: Optional[Batch] = None
        self._epoch, self._ended = 0, False
        self._taken: "deque[Batch]" = deque()
        self._lookahead = number(prefetch, "prefetch") + 1
        #: The thread that both takes batches and reports them, if that is known.
        self._reporter: Optional[int] = None
        settings = _library.SessionSettings(
            name=text(name, "name"), length=number(length, "length"), total=number(total, "total"),
            members=number(self.members, "members"), rank=number(self.rank, "rank"),
            min=number(min, "min"), max=some(max, "max"),
            quantum=number(quantum, "quantum"), lookahead=self._lookahead,
            rule=choice(RULES, rule, "rule"), seed=seed & (2**64 - 1),
            epochs=some(epochs, "epochs"), wraps=self._last,
            measured=choice(MEASURES, measure, "measure"))
        self._handle = self._open(node.handle, settings)
        node._customers.append(self)

    def _open(self, node: c_void_p, settings: _library.SessionSettings) -> c_void_p:
        handle, over = c_void_p(), threading.Event()

        def opening() -> int:
            try:
                status: int = self._library.pslite_session_open(
                    node, byref(settings), byref(handle))
                return status
            finally:
                over.set()

        def cancel() -> None:
            # Again and again: the first time may be before the library waits.
            while not over.wait(0.01):
                self._library.pslite_session_cancel(node, settings.name)

        try:
            _blocking.run(opening, cancel)
        except BaseException:
            # It may have got its place just before the signal came.
            self._library.pslite_session_close(handle)
            raise
        return handle

    # ---- batches ---------------------------------------------------------------------------------

    def next(self, timeout: Optional[float] = None) -> Batch:
        """The next batch. timeout: seconds to wait for it; None: no limit.

        Raises Timeout, whose text says for whom it waits; NoMoreBatches where all were dealt (rule
        "dealt"); RemoteError, PeerLost, Stopped; InvalidArgument if `attach` follows the session
        and the next batch would never come. KeyboardInterrupt leaves the wait within 0.1 s.
        """
        batch = self._next(timeout)
        if batch is None:
            raise errors.NoMoreBatches(
                "all batches were dealt; `for batch in session` ends without an exception")
        return batch

    def _next(self, timeout: Optional[float]) -> Optional[Batch]:
        found, begin, said = _library.Batch(), time.monotonic(), False
        while True:
            passed = time.monotonic() - begin
            left = _LOOK_MS if timeout is None else _wait_ms(timeout - passed)
            with self._call() as handle:
                status = self._library.pslite_session_next(handle, left, byref(found))
                error = None if status == 0 else _library.error_of(status)
            if error is None:
                break
            over = timeout is not None and time.monotonic() - begin >= timeout
            if over or not isinstance(error, errors.Timeout):
                raise error
            self._check_that_it_may_come()
            if passed >= _LONG and not said:
                said = True
                self._library.pslite_log(1, str(error).encode())
        if found.size == 0:
            self._ended = True
            return None
        batch = Batch(self, found)
        self._taken.append(batch)
        if len(self._taken) > _TAKEN_MAX:
            self._forget_reported()
        return batch

    def _check_that_it_may_come(self) -> None:
        """The next batch comes when the oldest that was taken is reported. If this thread is to do
        that, it must not wait."""
        if self._reporter != threading.get_ident():
            return
        taken, reported = self.progress
        if taken - reported >= self._lookahead:
            raise errors.InvalidArgument(
                f"{taken - reported} batches were taken, and gradients of none of them were "
                "exchanged since: the next one never comes. `attach` reports one batch for each "
                "exchange. If a loader takes batches ahead, give the session `prefetch` (2 * "
                "num_workers). If gradients of several batches are summed up (no_sync), use parts "
                "of one batch instead (docs/lbbsp.md, \"Several backward passes for a step\")")

    def __iter__(self) -> Iterator[Batch]:
        """The batches of one epoch, or what is left of it; the next call goes on from there."""
        if self.rule == "dealt":
            yield from self._dealt()
            return
        while True:
            batch = self.next()
            yield batch
            if batch.iteration % self._per_epoch == self._per_epoch - 1:
                return

    def _dealt(self) -> Iterator[Batch]:
        while not self._ended:
            batch, self._held = self._held, None
            if batch is None:
                batch = self._next(None)
            if batch is None:
                return
            # What a worker that died had may come after an epoch's end: it belongs to this one too.
            if batch.epoch > self._epoch:
                self._epoch, self._held = batch.epoch, batch
                return
            yield batch

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Iterations of an epoch. Raises TypeError where batches are dealt: nobody knows how many
        a worker gets."""
        if self.rule == "dealt":
            raise TypeError("where batches are dealt, nobody knows how many a worker gets")
        return self._per_epoch

    @property
    def _per_epoch(self) -> int:
        whole = self.length // self.total
        return whole if self._last == 0 else -(-self.length // self.total)

    def batches(self) -> "BatchSampler":
        """The indices of the batches, for a loader: `DataLoader(..., batch_sampler=...)`."""
        return BatchSampler(self)

    def _samples(self, epoch: int, place: int, count: int) -> Sequence[int]:
        if self._order is not None:
            if self._ordered[0] != epoch:
                self._ordered = (epoch, self._order(epoch))
            order = self._ordered[1]
            return [int(order[at % self.length]) for at in range(place, place + count)]
        if not self._shuffle:
            return [at % self.length for at in range(place, place + count)]
        numbers = (c_uint64 * count)()
        _library.check(self._library.pslite_session_samples(
            self.length, self._seed & (2**64 - 1), epoch, place, count, numbers))
        return array.array("q", numbers)

    # ---- how long they take ----------------------------------------------------------------------

    @property
    def batch(self) -> Batch:
        """The batch that is being computed: the oldest one that is not reported. Raises
        InvalidArgument if there is none."""
        self._forget_reported()
        if not self._taken:
            raise errors.InvalidArgument("no batch was taken that is not reported")
        return self._taken[0]

    def _forget_reported(self) -> None:
        _, reported = self.progress
        while self._taken and self._taken[0].iteration < reported:
            self._taken.popleft()

    @property
    def progress(self) -> "tuple[int, int]":
        """How many batches were taken, and how many of them reported."""
        taken, reported = c_uint64(), c_uint64()
        with self._call() as handle:
            _library.check(self._library.pslite_session_progress(
                handle, byref(taken), byref(reported)))
        return taken.value, reported.value

    def report(self, seconds: Optional[float] = None, *, iteration: Optional[int] = None,
               cpu: float = 0.0, memory: float = 0.0) -> None:
        """A batch was computed: that iteration's, or the oldest one that is not reported.

        seconds: of computing, without waiting for others; None: not known. cpu, memory: the share
        of processors and memory that this worker can have, from 0 to 1; 0: as the library sees it.
        """
        if iteration is None:
            iteration = self.batch.iteration
        with self._call() as handle:
            _library.check(self._library.pslite_session_report(
                handle, iteration, seconds or 0.0, cpu, memory))

    @contextmanager
    def compute(self) -> Iterator[Batch]:
        """Measures the time of the block, in which the oldest batch is computed, and reports it.
        Do not wait for other workers inside the block."""
        batch, begin = self.batch, time.monotonic()
        yield batch
        self.report(time.monotonic() - begin, iteration=batch.iteration)

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the session; the others go on without this worker. A second call does nothing. A
        thread that waits in `next` gets ClosedError."""
        self._free()
        if self in self._node._customers:
            self._node._customers.remove(self)

    def _free(self) -> None:
        """Called by the node, too, when it ends."""
        with self._guard:
            handle, self._handle = self._handle, None
            # No call waits for longer than a look. A signal's handler may have interrupted one:
            # then that one closes.
            if not self._guard.wait_for(lambda: self._calls == 0, timeout=20 * _LOOK_MS / 1000):
                self._closing, handle = handle, None
        if handle is not None:
            self._library.pslite_session_close(handle)

    @contextmanager
    def _call(self) -> Iterator[c_void_p]:
        """The handle, which stays while the block runs. Raises ClosedError."""
        with self._guard:
            if self._handle is None:
                raise errors.ClosedError("the session is closed")
            handle = self._handle
            self._calls += 1
        try:
            yield handle
        finally:
            with self._guard:
                self._calls -= 1
                self._guard.notify_all()
                left = self._closing if self._calls == 0 else None
                if left is not None:
                    self._closing = None
            if left is not None:
                self._library.pslite_session_close(left)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()


def _wait_ms(seconds: float) -> int:
    """Milliseconds of one wait, with a look at signals in between."""
    return min(_LOOK_MS, max(0, int(1000 * seconds + 0.999)))
