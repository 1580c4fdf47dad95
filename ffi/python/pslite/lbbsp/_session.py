"""A worker's part of a training: `pslite.lbbsp.Session`."""

import array
import threading
import time
from contextlib import contextmanager
from ctypes import byref, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Type

from .. import _blocking, _library, errors
from ..node import Node, current
from . import _missing, _order, _state
from ._batch import Batch
from ._passes import BatchSampler, Pass
from ._settings import LAST, MEASURES, RULES, choice, number, real, some, text, whole
from ._taken import Taken

__all__ = ["Session"]

#: Milliseconds after which a wait looks whether a signal came.
_LOOK_MS = 50
#: Batches that are remembered before it is asked which of them were reported.
_TAKEN_MAX = 64
#: Seconds after which a wait is logged. A wait of the main thread for its own report is hopeless
#: then, unless another thread is known to report.
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
    order of an epoch in place of that: each sample's number once, the same at all workers, which is
    compared. last: what is done with samples
    that do not fill an iteration: "drop", or "wrap": the epoch's first ones fill it up. epochs: of
    rule "dealt", how many, 1 or more; None: no end.

    epoch, iteration: the session begins with that iteration of that epoch, counted from 0. state:
    it begins where the session was that gave this `state_dict()`. All workers begin alike.

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
        epoch: int = 0,
        iteration: int = 0,
        state: Optional[Mapping[str, Any]] = None,
        name: str = "default",
    ) -> None:
        self._handle: Optional[c_void_p] = None
        self._closing: Optional[c_void_p] = None
        #: Calls of the library that have the handle, on all threads.
        self._calls, self._guard = 0, threading.Condition()
        node = current() if node is None else node
        self._node = node
        self.rule, self.name = rule, name
        self.total, self.length = number(total, "total"), number(length, "length")
        self.rank = node.rank if rank is None else number(rank, "rank")
        self.members = node.num_workers if members is None else number(members, "members")
        #: Batches that a loader takes before they are computed.
        self.prefetch = number(prefetch, "prefetch")
        if measure is None:
            measure = "pushes" if node.num_servers > 0 else "reports"
        self._measured = choice(MEASURES, measure, "measure")
        self._seed, self._shuffle, self._order = whole(seed, "seed"), bool(shuffle), order
        self._last = choice(LAST, last, "last")
        self._ordered: "tuple[int, Sequence[int]]" = (-1, ())
        self._library = node._library
        self._epoch, self._ended = 0, False
        self._taken = Taken()
        self._pass: Optional[Pass] = None
        #: Batches that were taken and not computed by a pass that was left early, and were given
        #: again.
        self.given_again = 0
        #: Iterations that were skipped (`set_epoch`, `load_state_dict`).
        self.skipped = 0
        #: The threads that report, as far as they are known.
        self._reporters: Set[int] = set()
        #: What `attach` has made.
        self._followers: List[Any] = []
        settings = _library.SessionSettings(
            name=text(name, "name"), length=self.length, total=self.total,
            members=self.members, rank=self.rank,
            min=number(min, "min"), max=some(max, "max"),
            quantum=number(quantum, "quantum"), lookahead=self.prefetch + 1,
            rule=choice(RULES, rule, "rule"), seed=self._seed & (2**64 - 1),
            epochs=some(epochs, "epochs"), wraps=self._last, measured=self._measured)
        #: The number of the first batch.
        self._first = 0
        start = self._start(number(epoch, "epoch"), number(iteration, "iteration"), state)
        self._handle = self._open(node.handle, settings, start)
        self._first = self.progress[1]
        node._customers.append(self)

    def _start(self, epoch: int, iteration: int,
               state: Optional[Mapping[str, Any]]) -> _library.SessionStart:
        """Where it begins, and in which order."""
        if self.rule == "dealt":
            if iteration or state is not None:
                raise errors.InvalidArgument(
                    "where batches are dealt, a session begins with an epoch (`epoch`)")
            first = self._epoch = epoch
        elif state is not None:
            if epoch or iteration:
                raise errors.InvalidArgument("give either `state`, or `epoch` and `iteration`")
            first = _state.read(self, state)
        else:
            if self._per_epoch and iteration >= self._per_epoch:
                raise errors.InvalidArgument(
                    f"iteration={iteration}: an epoch has {self._per_epoch} iterations")
            first = epoch * self._per_epoch + iteration
        if first >= 2**61:
            raise errors.InvalidArgument(f"epoch={epoch} is out of range")
        if self._order is None:
            kind = _order.SHUFFLED if self._shuffle else _order.STORED
            return _library.SessionStart(first=first, order_hash=0, order=kind)
        if self.rule != "dealt":
            epoch = first // (self._per_epoch or 1)
        found = self._own_order(epoch)
        return _library.SessionStart(first=first, order_hash=found, order=_order.OWN)

    def _open(self, node: c_void_p, settings: _library.SessionSettings,
              start: _library.SessionStart) -> c_void_p:
        handle, over = c_void_p(), threading.Event()

        def opening() -> int:
            try:
                status: int = self._library.pslite_session_open_at(
                    node, byref(settings), byref(start), byref(handle))
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
        "dealt"); RemoteError, PeerLost, Stopped; InvalidArgument if the next batch never comes,
        since this thread would have to report those before it. KeyboardInterrupt leaves the wait
        within 0.1 s.
        """
        batch = self._taken.again() or self._next(timeout)
        if batch is None:
            raise errors.NoMoreBatches(
                "all batches were dealt; `for batch in session` ends without an exception")
        return batch

    def _next(self, timeout: Optional[float], at: Optional[Pass] = None) -> Optional[Batch]:
        timeout = None if timeout is None else real(timeout, "timeout")
        found, begin, said = _library.Batch(), time.monotonic(), False
        watch = _missing.Watch(self, at)
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
            if watch.is_hopeless(str(error), _LONG):
                return None
            if passed >= _LONG and not said:
                said = True
                self._library.pslite_log(1, str(error).encode())
        if found.size == 0:
            self._ended = True
            return None
        batch = Batch(self, found)
        self._taken.add(batch)
        if len(self._taken) > _TAKEN_MAX:
            self._forget_reported()
        return batch

    def __iter__(self) -> Iterator[Batch]:
        """The batches of one epoch, or what is left of it; the next call goes on from there. If an
        iterator was left early, the next one begins with the batches that were not computed."""
        return Pass(self, 0)

    def _begin(self, new: Pass) -> None:
        """Another pass begins. What the former one has not computed is given again."""
        old, self._pass = self._pass, new
        self._forget_reported()
        if not len(self._taken) or self._is_handed_out(old):
            return
        if self._trains_here() is False:
            raise errors.InvalidArgument(
                f"session {self.name!r}: an iterator was left early, and {len(self._taken)} "
                "batches of it are not reported. Another thread than the one that trains begins "
                "the next one, so nobody knows which of them are computed: iterate on the thread "
                "that trains")
        self._settle()
        given = self._taken.rewind()
        for follower in self._followers:
            follower.rewind()
        if given:
            self.given_again += given
            if self.given_again == given:
                self._library.pslite_log(2, (
                    f"session {self.name!r}: an iterator was left early, or looked at. The {given} "
                    "batches that it took and nobody computed are given again (said once)"
                ).encode())

    def _is_handed_out(self, run: Optional[Pass]) -> bool:
        """The application has all batches of that pass, and computes them or did."""
        # A thread that feeds the one that trains leaves no loader early within its last batches.
        feeds = self._trains_here() is False
        return run is not None and (run.is_over or feeds and run.stops > 0)

    def _take(self, at: Pass) -> Optional[Batch]:
        """The next batch of that pass; None: there are no more."""
        if self.rule != "dealt":
            return self._taken.again() or self._next(None, at)
        batch = self._taken.again() or (None if self._ended else self._next(None, at))
        if batch is None:
            return None
        # What a worker that died had may come after an epoch's end: it belongs to this one too.
        if batch.epoch > self._epoch:
            self._epoch = batch.epoch
            self._taken.give_back()
            return None
        return batch

    def _is_last(self, batch: Batch) -> bool:
        return self.rule != "dealt" and (batch.iteration + 1) % self._per_epoch == 0

    # ---- where it is -----------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """What comes next is that epoch. If this worker is in it, nothing happens. What is left of
        earlier ones is skipped, which all workers have to do alike.

        Raises InvalidArgument if that epoch is over: a session does not go back. Open it with
        `epoch` for that.
        """
        epoch = number(epoch, "epoch")
        if self.rule == "dealt":
            raise errors.InvalidArgument(
                "where batches are dealt, workers do not choose the epoch: open the session with "
                "`epoch`")
        self._seek(epoch * self._per_epoch, (epoch + 1) * self._per_epoch, f"epoch {epoch}")

    def state_dict(self) -> Dict[str, Any]:
        """Where this worker is: after the last batch that was computed. To be saved with the
        model, and given to `load_state_dict`, or to `Session` as `state`."""
        if self.rule == "dealt":
            raise errors.InvalidArgument(
                "where batches are dealt, a worker's place says nothing of what was computed: save "
                "the epoch, and open the session with it")
        if self._trains_here() is not False:
            self._settle()
        return _state.write(self, self.progress[1])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where the session was that gave that `state_dict()`. All workers have to do so
        before they take a batch. Raises InvalidArgument if that one had other samples, or if this
        session is beyond that place."""
        first = _state.read(self, state)
        self._seek(first, first + 1, f"iteration {first}")

    def _seek(self, first: int, end: int, what: str) -> None:
        """To that iteration, unless this worker is between the two."""
        taken, reported = self.progress
        if taken == first and (reported == first or self._is_handed_out(self._pass)):
            return
        self._settle()
        taken, reported = self.progress
        if reported >= end:
            raise errors.InvalidArgument(
                f"session {self.name!r}: {what} is over, this worker has computed the iterations "
                f"before {reported}. A session does not go back; open it anew with `epoch`, "
                "`iteration` or `state`")
        if reported >= first:
            return
        with self._call() as handle:
            _library.check(self._library.pslite_session_skip(handle, first))
        self._forget_reported()
        self._pass = None
        self.skipped += first - reported
        self._library.pslite_log(2, (
            f"session {self.name!r}: rank {self.rank} skips the iterations from {reported} to "
            f"{first - 1}").encode())

    def _settle(self) -> None:
        """All that this thread has computed is reported, if the library measures."""
        if self._measured:
            # Gradients may still be on their way to the library, in the queues of MXNet's engine.
            _missing.wait_for_mxnet()
            with self._call() as handle:
                _library.check(self._library.pslite_session_settle(handle))
        self._forget_reported()

    def _trains_here(self) -> Optional[bool]:
        """Whether this thread reports. None: it may."""
        me = threading.get_ident()
        if self._reporters:
            return None if len(self._reporters) > 1 else me in self._reporters
        return None if threading.current_thread() is threading.main_thread() else False

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
        if self.total == 0:
            return 0
        return self.length // self.total if self._last == 0 else -(-self.length // self.total)

    def batches(self) -> "BatchSampler":
        """The indices of the batches, for a loader: `DataLoader(..., batch_sampler=...)`."""
        return BatchSampler(self)

    def _samples(self, epoch: int, place: int, count: int) -> Sequence[int]:
        if self._order is not None:
            if self._ordered[0] != epoch:
                found = self._own_order(epoch)
                with self._call() as handle:
                    _library.check(self._library.pslite_session_ordered(handle, epoch, found))
            order = self._ordered[1]
            return [int(order[at % self.length]) for at in range(place, place + count)]
        if not self._shuffle:
            return [at % self.length for at in range(place, place + count)]
        numbers = (c_uint64 * count)()
        _library.check(self._library.pslite_session_samples(
            self.length, self._seed & (2**64 - 1), epoch, place, count, numbers))
        return array.array("q", numbers)

    def _own_order(self, epoch: int) -> int:
        """Asks the application for an epoch's order. Returns its hash."""
        order = self._order(epoch) if self._order is not None else ()
        found = _order.digest(order, self.length, epoch)
        self._ordered = (epoch, order)
        return found

    # ---- how long they take ----------------------------------------------------------------------

    @property
    def batch(self) -> Batch:
        """The batch that is being computed: the oldest one that is not reported. Raises
        InvalidArgument if there is none."""
        self._forget_reported()
        batch = self._taken.oldest()
        if batch is None:
            raise errors.InvalidArgument(_missing.none_taken(self))
        return batch

    def _forget_reported(self) -> None:
        self._taken.forget(self.progress[1])

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
        self._reporters.add(threading.get_ident())
        self._report(seconds, iteration, cpu, memory)

    def _report(self, seconds: Optional[float], iteration: Optional[int] = None,
                cpu: float = 0.0, memory: float = 0.0) -> None:
        iteration = self.batch.iteration if iteration is None else number(iteration, "iteration")
        seconds = 0.0 if seconds is None else real(seconds, "seconds")
        with self._call() as handle:
            _library.check(self._library.pslite_session_report(
                handle, iteration, seconds, real(cpu, "cpu"), real(memory, "memory")))

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
