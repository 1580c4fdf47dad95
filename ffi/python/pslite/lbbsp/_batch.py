"""The samples that a worker computes at once: `pslite.lbbsp.Batch`."""

import time
from typing import TYPE_CHECKING, Optional, Sequence

from .. import _library

if TYPE_CHECKING:
    from ._session import Session

__all__ = ["Batch"]


class Batch:
    """The samples that a worker computes at once."""

    __slots__ = ("_indices", "_session", "epoch", "iteration", "place", "size", "taken_at",
                 "workers")

    def __init__(self, session: "Session", found: _library.Batch) -> None:
        self._session = session
        self._indices: Optional[Sequence[int]] = None
        #: The iteration, over all epochs. Where batches are dealt: how many this worker had before.
        self.iteration: int = found.iteration
        #: The epoch.
        self.epoch: int = found.epoch
        #: The place of the first sample in the epoch's order.
        self.place: int = found.place
        #: How many samples.
        self.size: int = found.size
        #: When it came (time.monotonic).
        self.taken_at = time.monotonic()
        #: How many workers share the iteration. One that was lost counts in the iterations that had
        #: been lent before, as it may have computed its part of them. 1 where batches are dealt.
        self.workers: int = found.workers

    @property
    def total(self) -> int:
        """Samples of all workers in this iteration."""
        return self.size if self._session.rule == "dealt" else self._session.total

    @property
    def weight(self) -> float:
        """The part of the iteration's samples that this batch has: size / total. If means over
        batches are multiplied by it, the sum of all workers' results is the mean over all samples.
        """
        return self.size / self.total

    @property
    def scale(self) -> float:
        """workers * size / total. If means over batches are multiplied by it, the mean of the
        results of those workers that share the iteration is the mean over all samples.

        Whoever divides by another number, such as `node.num_workers`, which stays as it is when a
        worker is lost, multiplies by that number and by `weight`."""
        return self.workers * self.weight

    @property
    def indices(self) -> Sequence[int]:
        """The samples, as numbers below the session's length."""
        if self._indices is None:
            self._indices = self._session._samples(self.epoch, self.place, self.size)
        return self._indices

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<Batch {self.iteration} of epoch {self.epoch}: {self.size} samples>"
