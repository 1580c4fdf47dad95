"""Numbers of any kind as Python's own: of numpy, torch, MXNet, and of whatever says by `__index__`
or `__float__` which number it is.

Raises InvalidArgument for what is none, or out of bounds.
"""

import math
import operator
from typing import Any, Optional

from . import errors

__all__ = ["INT32", "integer", "is_integer", "limit", "plain", "seconds"]

#: What a C int32_t holds: beyond that ctypes cuts bits off, without a word.
INT32 = 2**31 - 1


def is_integer(value: Any) -> bool:
    """True for one integer, whatever its type; an array of one element is an array."""
    if isinstance(value, int):
        return True
    if _is_truth(value):
        return False
    if hasattr(type(value), "__len__") and getattr(value, "ndim", None) != 0:
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_truth(value: Any) -> bool:
    """True for numpy's and torch's own true and false, which older ones take for integers."""
    return getattr(value, "ndim", None) == 0 and "bool" in str(getattr(value, "dtype", ""))


def integer(value: Any, what: str, low: int = 0, high: int = INT32) -> int:
    """An integer within those bounds. what: how the caller calls it, for errors."""
    if not is_integer(value):
        raise errors.InvalidArgument(
            f"{what} must be an integer, not {value!r} of the type {type(value).__name__}")
    number = operator.index(value)
    if not low <= number <= high:
        raise errors.InvalidArgument(f"{what} must be from {low} to {high}, not {number}")
    return number


def seconds(value: Any, what: str) -> float:
    """A number of seconds. Less than none is none."""
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise errors.InvalidArgument(f"{what} must be a number of seconds, not {value!r}")
    return max(0.0, number)


def limit(value: Any, what: str) -> Optional[float]:
    """The same; None: no limit."""
    return None if value is None else seconds(value, what)


def plain(value: Any) -> Any:
    """A single number as bool, int or float; anything else as it is."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if _is_truth(value):
        return bool(value)
    if is_integer(value):
        return operator.index(value)
    is_one = not hasattr(type(value), "__len__") or getattr(value, "ndim", None) == 0
    if is_one and hasattr(value, "__float__"):
        return float(value)
    return value
