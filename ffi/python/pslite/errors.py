"""What goes wrong, as exceptions: one class for each kind of failure.

All are `PsliteError`s. Those that have a counterpart among Python's own exceptions are that one as
well, so `except TimeoutError` and `except ConnectionError` do what they say.
"""

from typing import Dict, Type

__all__ = [
    "AddressError",
    "ArrayError",
    "ClosedError",
    "ConfigError",
    "DtypeError",
    "InvalidArgument",
    "LibraryNotFound",
    "NoMoreBatches",
    "NonContiguousError",
    "NotStarted",
    "Panic",
    "PeerLost",
    "ProtocolError",
    "PsliteError",
    "ReadOnlyError",
    "RemoteError",
    "ShapeError",
    "Stopped",
    "Timeout",
    "Unsupported",
    "WorkersDiffer",
]


class PsliteError(Exception):
    """Something in pslite failed; the text says what, and what to do."""


class LibraryNotFound(PsliteError, ImportError):
    """libps.so was not found, or is of another version than this package."""


class InvalidArgument(PsliteError, ValueError):
    """A bad number, keys that are not sorted, a role that there is not."""


class ConfigError(PsliteError, ValueError):
    """A setting is missing, or holds nonsense."""


class AddressError(PsliteError, OSError):
    """A name does not resolve, a port is busy, there is no such interface."""


class NotStarted(PsliteError, RuntimeError):
    """The call needs a node that was started."""


class PeerLost(PsliteError, ConnectionError):
    """A node on which the call depends is gone."""


class Timeout(PsliteError, TimeoutError):
    """The limit has passed. The request goes on: `wait` may be called again."""


class RemoteError(PsliteError, RuntimeError):
    """The server answered that the request failed; the text is the server's."""


class Stopped(PsliteError, RuntimeError):
    """The node was closed while the call waited."""


class ProtocolError(PsliteError, RuntimeError):
    """An answer does not fit its request."""


class Panic(PsliteError, RuntimeError):
    """A fault of pslite, caught at its border. Please report the text."""


class ClosedError(PsliteError, RuntimeError):
    """The node, worker or server was closed before the call."""


class WorkersDiffer(PsliteError, ValueError):
    """Workers of one job make different arrays, or set different optimizers; the text says who says
    what."""


class NoMoreBatches(PsliteError):
    """`Session.next` of pslite.lbbsp: all batches of all epochs were dealt."""


class Unsupported(PsliteError, NotImplementedError):
    """Something that MXNet has and pslite has not, or not in this state; the text says what to do
    instead."""


class ArrayError(PsliteError):
    """An array cannot be used; nothing was sent, and nothing was written."""


class DtypeError(ArrayError, TypeError):
    """The elements have another type than the call needs, or one that is not supported."""


class ShapeError(ArrayError, ValueError):
    """An array has another number of elements than the call needs."""


class ReadOnlyError(ArrayError, ValueError):
    """Values are to be written to memory that is read-only."""


class NonContiguousError(ArrayError, ValueError):
    """The elements do not lie next to each other in the order of C."""


#: By `pslite_status` of pslite.h.
BY_STATUS: Dict[int, Type[PsliteError]] = {
    -1: InvalidArgument,
    -2: ConfigError,
    -3: AddressError,
    -4: NotStarted,
    -5: PeerLost,
    -6: Timeout,
    -7: RemoteError,
    -8: Stopped,
    -9: ProtocolError,
    -100: Panic,
}
