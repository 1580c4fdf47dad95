"""One run over a session's batches: `Pass`, what `iter(session)` gives, and `BatchSampler`, which
gives their indices to the loaders of gluon and torch.

A session has one pass at a time. If a pass is left early (`break`, a look at the first batch), the
next one begins with the batches that were taken and not computed. So nothing is skipped, and the
oldest batch that is not reported is always the one that is computed. An iterator whose pass is not
the present one any more raises an exception when it is used: nobody could know which of the two
computes what.
"""

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping

from .. import errors

if TYPE_CHECKING:
    from ._batch import Batch
    from ._session import Session

__all__ = ["BatchSampler", "Pass"]


class Pass:
    """The batches of one epoch, or what is left of it."""

    def __init__(self, session: "Session", ahead: int) -> None:
        self._session = session
        #: How many batches whoever iterates may take before it hands out the first one.
        self.ahead = ahead
        self._begun = self._ended = False
        #: How often it was asked for more after its last batch.
        self.stops = 0

    @property
    def is_over(self) -> bool:
        """True if all batches are surely in the application's hands: it came back for more. A
        loader asks once for each batch that it hands out, and `ahead` times before the first one.
        """
        return self.stops > self.ahead

    def __iter__(self) -> "Pass":
        return self

    def __next__(self) -> "Batch":
        session = self._session
        if not self._begun:
            self._begun = True
            session._begin(self)
        elif session._pass is not self:
            raise errors.InvalidArgument(
                f"session {session.name!r} has gone on since this iterator began: another one was "
                "begun, or another epoch (set_epoch, load_state_dict). A session has one iterator "
                "at a time; for two at once open two sessions, each with a `name` of its own")
        batch = None if self._ended else session._take(self)
        if batch is None:
            self._ended = True
            self.stops += 1
            raise StopIteration
        self._ended = session._is_last(batch)
        return batch


class Indices:
    """A pass whose batches are lists of indices."""

    def __init__(self, batches: Pass) -> None:
        self._batches = batches

    def __iter__(self) -> "Indices":
        return self

    def __next__(self) -> List[int]:
        return list(next(self._batches).indices)


class BatchSampler:
    """The indices of a session's batches, as the loaders of gluon and torch take them
    (`batch_sampler`). Each iteration over it is an epoch, or what is left of it."""

    def __init__(self, session: "Session") -> None:
        self.session = session

    def __iter__(self) -> Iterator[List[int]]:
        return Indices(Pass(self.session, self.session.prefetch))

    def __len__(self) -> int:
        return len(self.session)

    def set_epoch(self, epoch: int) -> None:
        """As `Session.set_epoch`."""
        self.session.set_epoch(epoch)

    def state_dict(self) -> Dict[str, Any]:
        """As `Session.state_dict`."""
        return self.session.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `Session.load_state_dict`."""
        self.session.load_state_dict(state)
