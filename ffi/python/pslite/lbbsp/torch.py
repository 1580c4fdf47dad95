"""A session beside torch's DistributedDataParallel. torch is imported by `attach`."""

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

    To be called once, before the first iteration. Sessions of a job without servers suffice:
    `Node("worker", root=..., workers=N, servers=0)` beside `pslite scheduler -n N -s 0`.
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
    hook.__annotations__.clear()  # torch takes none but its own.
    model.register_comm_hook(None, hook)


class _Clock:
    """How long a batch takes at this worker: from the end of one exchange until the last gradient
    of the next one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun: Optional[float] = None

    def begin(self, device: Any) -> None:
        self._begun = self._now(device)

    def computed(self, batch: Batch, device: Any) -> None:
        begun, self._begun = self._begun, None
        seconds = None if begun is None else self._now(device) - begun
        self._session.report(seconds, iteration=batch.iteration)

    @staticmethod
    def _now(device: Any) -> float:
        if device.type == "cuda":
            import torch

            torch.cuda.current_stream(device).synchronize()
        return time.monotonic()
