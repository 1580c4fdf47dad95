"""A session beside torch's DistributedDataParallel. torch is imported by `attach`."""

import threading
import time
from typing import Any, Optional

from .. import errors
from ._batch import Batch
from ._session import Session

__all__ = ["attach"]


def attach(model: Any, session: Session) -> None:
    """Lets a session follow torch's DistributedDataParallel: measures how long each batch takes
    until its last gradient is there, reports that, and weights gradients, so that their mean over
    workers is the mean over all samples. Losses are means over a worker's batch, as usual.

    To be called once, before the first iteration, on the thread that trains. Sessions of a job
    without servers suffice: `Node("worker", root=..., workers=N, servers=0)` beside
    `pslite scheduler -n N -s 0`.

    Gradients are exchanged once for each batch. Under `no_sync` parts of a batch may be computed
    one after the other, but not several batches: the session's `next` raises InvalidArgument.
    """
    import torch  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from torch import distributed as dist

    clock = _Clock(session)
    workers = dist.get_world_size()

    def hook(_: object, bucket: Any) -> Any:
        batch = session.batch
        buffer = bucket.buffer()
        buffer.mul_(batch.weight)
        is_last = bucket.is_last()
        if is_last:
            clock.computed(batch, buffer.device)
        future = dist.all_reduce(buffer, async_op=True).get_future()

        def done(found: Any) -> Any:
            if is_last:
                clock.begin(buffer.device)
            return found.value()[0]

        return future.then(done)

    if workers != session.members:
        raise errors.InvalidArgument(
            f"the session has {session.members} workers, and torch.distributed {workers}")
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise errors.InvalidArgument("model is to be a torch.nn.parallel.DistributedDataParallel")
    if session.rule == "dealt":
        raise errors.InvalidArgument(
            "where batches are dealt, workers have different numbers of them, and torch waits for "
            "ever for one that has none; choose another rule")
    hook.__annotations__.clear()  # torch takes none but its own.
    model.register_comm_hook(None, hook)
    session._reporter = threading.get_ident()


class _Clock:
    """How long a batch takes at this worker: from the end of one exchange until the last gradient
    of the next one. Between two epochs a worker may validate, or write a checkpoint: the time of
    an epoch's first batch is not known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun: Optional[float] = None
        self._epoch: Optional[int] = None

    def begin(self, device: Any) -> None:
        self._begun = self._now(device)

    def computed(self, batch: Batch, device: Any) -> None:
        begun, self._begun = self._begun, None
        is_first, self._epoch = batch.epoch != self._epoch, batch.epoch
        # If each batch is the first one of its epoch, its time is better than none.
        if begun is None or is_first and len(self._session) > 1:
            seconds = None
        else:
            seconds = self._now(device) - begun
        self._session.report(seconds, iteration=batch.iteration)

    @staticmethod
    def _now(device: Any) -> float:
        if device.type == "cuda":
            import torch

            torch.cuda.current_stream(device).synchronize()
        return time.monotonic()
