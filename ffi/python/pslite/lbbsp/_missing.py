"""A wait for a batch that never comes, since this worker would have to report another one first:
when that is certain (`Watch`), and what the exception says."""

import sys
import time
from typing import TYPE_CHECKING, Optional

from .. import _blocking, errors

if TYPE_CHECKING:
    from ._passes import Pass
    from ._session import Session

__all__ = ["Watch", "none_taken", "wait_for_mxnet"]

#: How the scheduler says that nothing is left to deal.
_ALL_DEALT = "all is dealt"


class Watch:
    """Looks at one wait. The next batch comes when the oldest that was taken is reported. If the
    thread that waits is to do that, it must not wait."""

    def __init__(self, session: "Session", at: "Optional[Pass]") -> None:
        self._session, self._pass = session, at
        self._since = time.monotonic()
        self._reported = -1

    def is_hopeless(self, waits: str, patience: float) -> bool:
        """waits: for whom, as the library says it. Raises InvalidArgument if the batch never comes.
        True: nothing is left to deal, but a loader has the last batches and may hand them out.
        patience: seconds after which it is certain on a thread of which nobody knows whether it
        reports."""
        session = self._session
        here = session._trains_here()
        taken, reported = session.progress
        missing = taken - reported
        if reported != self._reported:
            self._reported, self._since = reported, time.monotonic()
        if session.rule == "dealt":
            if missing == 0 or _ALL_DEALT not in waits:
                return False
            if self._pass is not None and missing <= self._pass.ahead:
                return True
        elif missing <= session.prefetch:
            return False
        if here is False or here is None and time.monotonic() - self._since < patience:
            return False
        session._settle()
        if session.progress[1] != reported:
            return False
        raise errors.InvalidArgument(self._text(missing, reported))

    def _text(self, missing: int, reported: int) -> str:
        session = self._session
        oldest = session._taken.oldest(reported)
        what = f"batch {reported}" if oldest is None else repr(oldest)[1:-1]
        since = time.monotonic() - (self._since if oldest is None else oldest.taken_at)
        text = (f"session {session.name!r}: rank {session.rank} took {what} {since:.0f} s ago and "
                f"has not reported it; {missing} batches were taken that are not reported, and "
                f"{_by_whom(session)}. So the next one never comes. ")
        if session.rule == "dealt":
            return text + "Call session.report() after each batch, or compute it in " \
                "`with session.compute():`"
        if reported == session._first and missing == session.prefetch + 2:
            text += ("If a loader takes batches ahead, give the session `prefetch` (2 * "
                     f"num_workers; it is {session.prefetch}). ")
        return text + (
            "If gradients of several batches are summed up, use parts of one batch instead "
            "(docs/lbbsp.md, \"Several backward passes for a step\"), or report those batches. "
            "Batches of a session are for training: validate with a loader of its own")


def _by_whom(session: "Session") -> str:
    if session._followers:
        return "gradients of none of them were exchanged since: `attach` reports one batch for " \
            "each exchange"
    if session._measured:
        return "no gradients were pushed for them since: the library reports one batch for each " \
            "time that all keys were pushed. session.report() says it in other cases"
    return "the script has to report them: session.report(), or `with session.compute():`"


def none_taken(session: "Session") -> str:
    """That no batch is being computed."""
    text = f"session {session.name!r}: no batch was taken that is not reported"
    _, reported = session.progress
    if reported == session._first:
        return text + ": take one first (`for batch in session`, or a loader over " \
            "session.batches())"
    return text + (f". Batch {reported - 1} was reported, and with it all before: a batch is "
                   "reported once")


def wait_for_mxnet() -> None:
    """Until MXNet's engine has done all that it was given, if this process trains with it. That
    may take as long as other workers take; Ctrl-C leaves it."""
    mxnet = sys.modules.get("mxnet")
    if mxnet is None or not hasattr(mxnet, "nd"):
        return

    def wait() -> int:
        mxnet.nd.waitall()
        return 0

    _blocking.run(wait, lambda: None, joins=False)
