"""Batches that were taken from the library and are not reported: `Taken`.

A loader takes batches ahead. If it is left early, those that it had not handed out are computed by
nobody. They are not lost: the next pass over the session gives them again (`_passes`).
"""

import threading
from collections import deque
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._batch import Batch

__all__ = ["Taken"]


class Taken:
    """Batches in the order in which they were taken. The first ones were given to the present pass,
    the others are to be given again. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: "deque[Batch]" = deque()
        self._given = 0

    def __len__(self) -> int:
        return len(self._batches)

    def forget(self, reported: int) -> None:
        """Those before the batch of that number were reported."""
        with self._lock:
            while self._batches and self._batches[0].iteration < reported:
                self._batches.popleft()
                self._given = max(0, self._given - 1)

    def again(self) -> "Optional[Batch]":
        """The next one that is to be given again."""
        with self._lock:
            if self._given == len(self._batches):
                return None
            self._given += 1
            return self._batches[self._given - 1]

    def add(self, batch: "Batch") -> None:
        """A batch comes from the library, and is given."""
        with self._lock:
            self._batches.append(batch)
            self._given += 1

    def give_back(self) -> None:
        """The pass does not want the one that it was given last: the next pass gets it."""
        with self._lock:
            self._given -= 1

    def rewind(self) -> int:
        """All are to be given again. Returns how many of them had been given."""
        with self._lock:
            given, self._given = self._given, 0
            return given

    def oldest(self, at_least: int = 0) -> "Optional[Batch]":
        """The oldest one that was given, of that number or a later one."""
        with self._lock:
            for at, batch in enumerate(self._batches):
                if at == self._given:
                    break
                if batch.iteration >= at_least:
                    return batch
        return None
