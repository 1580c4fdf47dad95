"""Batches for the loaders of gluon and torch."""

from typing import TYPE_CHECKING, Iterator, List

if TYPE_CHECKING:
    from ._session import Session

__all__ = ["BatchSampler"]


class BatchSampler:
    """The indices of a session's batches, as the loaders of gluon and torch take them
    (`batch_sampler`). Each iteration over it is an epoch."""

    def __init__(self, session: "Session") -> None:
        self.session = session

    def __iter__(self) -> Iterator[List[int]]:
        for batch in self.session:
            yield list(batch.indices)

    def __len__(self) -> int:
        return len(self.session)
