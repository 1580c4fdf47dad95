"""What a session may be opened with: the names of choices, and the range of numbers."""

import math
import operator
from typing import Any

from .. import errors

RULES = {"fixed": 0, "cpu": 1, "cpu-last": 2, "cpu-mean": 3, "gpu": 4, "dealt": 5}
LAST = {"drop": 0, "wrap": 1}
MEASURES = {"reports": 0, "pushes": 1}


def whole(value: Any, what: str) -> int:
    """Any type's whole number, such as numpy's."""
    try:
        return operator.index(value)
    except TypeError:
        raise errors.InvalidArgument(f"{what}={value!r} is no whole number") from None


def real(value: Any, what: str) -> float:
    """Any type's number that is finite."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise errors.InvalidArgument(f"{what}={value!r} is no number") from None
    if not math.isfinite(found):
        raise errors.InvalidArgument(f"{what}={value!r} is no finite number")
    return found


def number(value: Any, what: str) -> int:
    """A whole number of 0 or more that the library can take."""
    found = whole(value, what)
    if not 0 <= found < (2**63 if what in ("length", "iteration") else 2**31):
        raise errors.InvalidArgument(f"{what}={value} is out of range")
    return found


def some(value: Any, what: str) -> int:
    """A number of 1 or more; None, which is no limit, is 0 for the library."""
    found = 0 if value is None else number(value, what)
    if value is not None and found == 0:
        raise errors.InvalidArgument(f"{what}=0 leaves no batch; for no limit leave it out")
    return found


def text(value: str, what: str) -> bytes:
    """As the library takes it: a C string ends at its first NUL."""
    if "\0" in value:
        raise errors.InvalidArgument(f"{what}={value!r} has a NUL character in it")
    return value.encode("utf-8", "surrogateescape")


def choice(choices: "dict[str, int]", value: str, what: str) -> int:
    found = choices.get(value)
    if found is None:
        raise errors.InvalidArgument(f"{what}={value!r} is none of {', '.join(choices)}")
    return found
