"""The end of a `with` block, for what has to be closed: a node, a store."""

from types import TracebackType
from typing import Optional, Type

__all__ = ["Closing"]


class Closing:
    """Something that the end of a `with` block closes."""

    def _leave(self, failed: bool) -> None:
        """failed: an exception leaves the block, so nobody is to be waited for."""
        raise NotImplementedError

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._leave(kind is not None)
