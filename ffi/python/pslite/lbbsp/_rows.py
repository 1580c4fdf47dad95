"""How many samples a model has computed since its last exchange of gradients: `Rows`. So `attach`
sees whether the batch that it weights is the one that was computed. torch is not imported here.
"""

import inspect
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple

from .. import errors

if TYPE_CHECKING:
    from ._batch import Batch
    from ._session import Session

__all__ = ["Rows"]

#: Forward passes that are remembered. Only the last ones can belong to an exchange.
_SEEN_MAX = 4096

_ADVICE = ("A batch has one exchange of gradients: add up the losses, or compute all but the last "
           "under no_sync(), or say how many there are: attach(..., exchanges=N)")


class Rows:
    """See the module. count: how many samples a forward pass has, from its arguments; None: the
    first tensor's first dimension."""

    def __init__(self, count: Optional[Callable[..., int]]) -> None:
        self._count = count
        #: Of each forward pass since the last exchange.
        self._seen: "deque[int]" = deque(maxlen=_SEEN_MAX)
        #: The first tensor of the last of them, and how often that was written.
        self._input: Optional[Tuple[Any, int]] = None
        self._last: Optional[Tuple[Any, int]] = None

    def watch(self, model: Any) -> None:
        """Sees each forward pass of a module of torch."""
        register = model.register_forward_pre_hook
        if "with_kwargs" in inspect.signature(register).parameters:
            register(lambda _, given, named: self._forward(given, named), with_kwargs=True)
            return
        # torch before 2.0 shows a hook the arguments without names only.
        forward = model.forward

        def watched(*given: Any, **named: Any) -> Any:
            self._forward(given, named)
            return forward(*given, **named)

        model.forward = watched

    def _forward(self, given: Any, named: Any) -> None:
        import torch  # type: ignore[import-not-found, import-untyped, unused-ignore]

        # Some train in eval mode, with the statistics of another training.
        if not torch.is_grad_enabled():
            return
        tensor = _first_tensor((given, named), torch.Tensor)
        self._input = None if tensor is None else (weakref.ref(tensor), tensor._version)
        if self._count is not None:
            self.saw(int(self._count(*given, **named)))
        elif tensor is not None and tensor.dim() > 0:
            self.saw(int(tensor.shape[0]))
        else:
            raise errors.InvalidArgument(
                "the model is called without a tensor of samples, so `attach` does not see how "
                "many there are: say attach(..., rows=function), which is called as the model is")

    def saw(self, rows: int) -> None:
        """A forward pass begins."""
        self._seen.append(rows)

    def forget(self) -> None:
        """What was seen is of a batch that is computed anew."""
        self._seen.clear()

    def check(self, session: "Session", batch: "Optional[Batch]", goes_on: bool) -> None:
        """Gradients are exchanged, which are to be those of that batch. goes_on: the batch has had
        an exchange before. Raises InvalidArgument."""
        seen = list(self._seen)
        self._seen.clear()
        last, self._last = self._last, self._input
        where = f"session {session.name!r}: rank {session.rank} "
        if not goes_on and batch is not None and not seen:
            raise errors.InvalidArgument(
                f"{where}exchanges gradients a second time after one forward pass. {_ADVICE}")
        if batch is None or not goes_on and _same(last, self._input):
            raise errors.InvalidArgument(
                f"{where}exchanges gradients of a batch that was reported: either the same samples "
                f"are computed again, or none were taken since (`for batch in session`, a loader). "
                f"{_ADVICE}")
        if seen and not fits(seen, batch.size):
            said = str(seen[0]) if len(seen) == 1 else " + ".join(map(str, seen[-8:]))
            raise errors.InvalidArgument(
                f"{where}has computed {said} samples, and the batch that is to be computed has "
                f"{batch.size} ({batch!r}). A batch was skipped, several were added up, or the "
                "samples are not in the first dimension of the model's first tensor: then say "
                "attach(..., rows=function), which is called as the model is. Batches that are not "
                "to be computed are to be reported: session.report()")


def fits(seen: List[int], size: int) -> bool:
    """Whether the last forward passes are a batch of that size: as a whole, in parts, or as often
    as the model is called with it. Passes before them had no backward pass."""
    rows = 0
    for part in reversed(seen):
        rows += part
        if part > size or part == 0:
            return False
        if rows % size == 0:
            return True
    return False


def _same(one: Optional[Tuple[Any, int]], other: Optional[Tuple[Any, int]]) -> bool:
    """Both are the same tensor, which was not written in between."""
    if one is None or other is None or one[1] != other[1]:
        return False
    tensor = one[0]()
    return tensor is not None and tensor is other[0]()


def _first_tensor(found: Any, kind: type, depth: int = 8) -> Any:
    """The first tensor in tuples, lists and dicts."""
    if isinstance(found, kind):
        return found
    if depth == 0:
        return None
    if isinstance(found, dict) or hasattr(found, "values") and callable(found.values):
        found = found.values()
    elif not isinstance(found, (tuple, list)):
        return None
    for each in found:
        tensor = _first_tensor(each, kind, depth - 1)
        if tensor is not None:
            return tensor
    return None
