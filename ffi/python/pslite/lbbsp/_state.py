"""Where a session is, as it is saved with a model: `Session.state_dict`."""

from typing import TYPE_CHECKING, Any, Dict, Mapping

from .. import errors
from ._settings import number

if TYPE_CHECKING:
    from ._session import Session

__all__ = ["read", "write"]



def _samples(session: "Session") -> Dict[str, Any]:
    own = session._order is not None
    return {"length": session.length, "total": session.total, "last": session._last,
            "shuffle": "order" if own else session._shuffle,
            "seed": session._seed if session._shuffle and not own else 0}


def write(session: "Session", iteration: int) -> Dict[str, Any]:
    """iteration: the first one that is not computed."""
    per_epoch = session._per_epoch
    return {"version": 1, "iteration": iteration, "epoch": iteration // per_epoch,
            **_samples(session)}


def read(session: "Session", state: Mapping[str, Any]) -> int:
    """The first iteration that was not computed. Raises InvalidArgument."""
    if session.rule == "dealt":
        raise errors.InvalidArgument(
            "where batches are dealt, a session begins with an epoch (`epoch`)")
    if not isinstance(state, Mapping) or state.get("version") != 1 or "iteration" not in state:
        raise errors.InvalidArgument("that is no state_dict() of a session, or of a later version")
    for name, value in _samples(session).items():
        if name in state and state[name] != value:
            raise errors.InvalidArgument(
                f"the session that was saved had {name}={state[name]!r}, this one has {value!r}: "
                "its iterations have other samples. Begin with `epoch` instead")
    return number(state["iteration"], "iteration")
