"""What a session may be opened with: the names of choices, and the range of numbers."""

from typing import Optional

from .. import errors

RULES = {"fixed": 0, "cpu": 1, "cpu-last": 2, "cpu-mean": 3, "gpu": 4, "dealt": 5}
LAST = {"drop": 0, "wrap": 1}
MEASURES = {"reports": 0, "pushes": 1}


def number(value: int, what: str) -> int:
    if not 0 <= value < (2**63 if what == "length" else 2**31):
        raise errors.InvalidArgument(f"{what}={value} is out of range")
    return value


def some(value: Optional[int], what: str) -> int:
    """A number of 1 or more; None, which is no limit, is 0 for the library."""
    if value == 0:
        raise errors.InvalidArgument(f"{what}=0 leaves no batch; for no limit leave it out")
    return number(value or 0, what)


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
