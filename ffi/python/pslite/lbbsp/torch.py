"""A session beside torch's DistributedDataParallel. torch is imported by `attach`."""

import threading
import time
from typing import Any, Callable, List, Optional

from .. import errors
from ._batch import Batch
from ._rows import Rows
from ._session import Session
from ._settings import number

__all__ = ["attach"]

#: Numbers of iterations are compared by their last bits, so that sums of squares are exact.
_LOW = 1 << 20


def attach(model: Any, session: Session, *, exchanges: int = 1,
           rows: Optional[Callable[..., int]] = None) -> None:
    """Lets a session follow torch's DistributedDataParallel: measures how long each batch takes
    until its last gradient is there, reports that, and weights gradients, so that their mean over
    workers is the mean over all samples. Losses are means over a worker's batch, as usual.

    To be called once for each model, before the first iteration, on the thread that trains.
    Sessions of a job without servers suffice: `Node("worker", root=..., workers=N, servers=0)`
    beside `pslite scheduler -n N -s 0`.

    Gradients are exchanged once for each batch. exchanges: so often, if a batch has several
    backward passes that exchange them. Under `no_sync` parts of a batch may be computed one after
    the other, but not several batches: the session's `next` raises InvalidArgument. Several models
    may follow one session: then a batch is computed when all of them have exchanged gradients.

    Each exchange is checked: that as many samples were computed as the batch has that is to be
    computed, and that all workers are at the same iteration and have all of its samples together.
    Else `backward` raises InvalidArgument (RuntimeError with its text, where torch changes it).
    rows: how many samples a forward pass has, from what the model is called with; None: the first
    tensor's first dimension.
    """
    import torch  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from torch import distributed as dist

    workers = dist.get_world_size()
    if workers != session.members:
        raise errors.InvalidArgument(
            f"the session has {session.members} workers, and torch.distributed {workers}")
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise errors.InvalidArgument("model is to be a torch.nn.parallel.DistributedDataParallel")
    if session.rule == "dealt":
        raise errors.InvalidArgument(
            "where batches are dealt, workers have different numbers of them, and torch waits for "
            "ever for one that has none; choose another rule")
    if number(exchanges, "exchanges") == 0:
        raise errors.InvalidArgument("exchanges=0: a batch has one at least")
    if any(follower.model is model for follower in session._followers):
        raise errors.InvalidArgument("the session follows this model already")
    follower = _Follower(session, model, exchanges, Rows(rows))

    def hook(_: object, bucket: Any) -> Any:
        buffer, is_last = bucket.buffer(), bucket.is_last()
        batch = follower.exchanged()
        buffer.mul_(batch.weight)
        place = batch.iteration % _LOW
        check = torch.tensor([batch.size, place, place * place], dtype=torch.int64,
                             device=buffer.device) if is_last else None
        if check is not None:
            follower.computed(batch, buffer.device)
            checking = dist.all_reduce(check, async_op=True)
        future = dist.all_reduce(buffer, async_op=True).get_future()

        def done(found: Any) -> Any:
            if check is not None:
                checking.wait()
                _agree(session, batch, check.tolist())
                follower.begin(buffer.device)
            return found.value()[0]

        return future.then(done)

    hook.__annotations__.clear()  # torch takes none but its own.
    model.register_comm_hook(None, hook)
    follower.rows.watch(model)
    session._followers.append(follower)
    session._reporters.add(threading.get_ident())


def _agree(session: Session, batch: Batch, sums: List[int]) -> None:
    """sums: over all workers, of sizes, of iterations, and of their squares."""
    size, places, squares = sums
    # Numbers are equal if the square of their sum is as often the sum of their squares as there are
    # numbers (Cauchy, Schwarz).
    if places * places == session.members * squares and size == batch.total:
        return
    raise errors.InvalidArgument(
        f"session {session.name!r}: gradients of different iterations were exchanged. Rank "
        f"{session.rank} has computed {batch!r}; all workers together {size} samples, and an "
        f"iteration has {batch.total}. All workers are to take, skip and leave batches alike")


class _Follower:
    """A model whose exchanges say which batches are computed."""

    def __init__(self, session: Session, model: Any, exchanges: int, rows: Rows) -> None:
        self.model, self.rows = model, rows
        self._session, self._exchanges = session, exchanges
        first = session._followers[0] if session._followers else None
        self._clock: _Clock = _Clock(session) if first is None else first._clock
        #: The first batch that this model has not exchanged.
        self.next = 0
        self._had = 0
        #: The batch whose gradients are being exchanged.
        self._batch: Optional[Batch] = None

    def rewind(self) -> None:
        """Batches that are not reported are computed again."""
        self.next, self._had, self._batch = 0, 0, None
        self.rows.forget()

    def exchanged(self) -> Batch:
        """A bucket of gradients is there. Returns the batch of which they are."""
        if self._batch is None:
            self._session._forget_reported()
            batch = self._session._taken.oldest(self.next)
            self.rows.check(self._session, batch, self._had > 0)
            self._batch = batch
        assert self._batch is not None
        return self._batch

    def computed(self, batch: Batch, device: Any) -> None:
        """All gradients of a backward pass are there."""
        self._batch = None
        self._had += 1
        if self._had == self._exchanges:
            self._had, self.next = 0, batch.iteration + 1
        others = self._session._followers
        self._clock.computed(batch, device, all(of.next > batch.iteration for of in others))

    def begin(self, device: Any) -> None:
        """An exchange is over: computing goes on."""
        self._clock.begin(device)


class _Clock:
    """How long a batch takes at this worker: from the end of one exchange until the last gradient
    of the next one. Between two epochs a worker may validate, or write a checkpoint: the time of
    an epoch's first batch is not known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: Of the exchanges that the batch has had. None: not known.
        self._seconds: Optional[float] = 0.0
        self._begun: Optional[float] = None
        self._epoch: Optional[int] = None

    def begin(self, device: Any) -> None:
        self._begun = self._now(device)

    def computed(self, batch: Batch, device: Any, is_whole: bool = True) -> None:
        """is_whole: nothing more is computed of that batch."""
        begun, self._begun = self._begun, None
        is_first, self._epoch = batch.epoch != self._epoch, batch.epoch
        # If each batch is the first one of its epoch, its time is better than none.
        if begun is None or is_first and len(self._session) > 1:
            self._seconds = None
        elif self._seconds is not None:
            self._seconds += self._now(device) - begun
        if is_whole:
            seconds, self._seconds = self._seconds, 0.0
            self._session._report(seconds, iteration=batch.iteration)

    @staticmethod
    def _now(device: Any) -> float:
        if device.type == "cuda":
            import torch

            torch.cuda.current_stream(device).synchronize()
        return time.monotonic()
