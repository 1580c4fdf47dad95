"""What a worker keeps for its next requests: the C structs of those that are over, and the C arrays
of keys. To make them takes longer than to fill or to find them.

Nothing of a caller's array is kept: each request asks it anew where its memory is (_arrays.py).
"""

import ctypes
from collections import deque
from ctypes import byref, c_int32
from typing import Any, Deque, Dict, Optional, Tuple

from . import _arrays, _library
from ._arrays import View

#: Structs of so many requests are kept; and so many arrays, of at most so many keys each.
CALLS_KEPT = 64
ARRAYS_KEPT = 1024
LONGEST_KEPT = 16
_LISTS = (list, tuple)


class Call:
    """The structs of one request, and of no other until it is over: the library reads meanwhile
    where pulled values go."""

    __slots__ = ("_has_lens", "_into", "_lens", "_place", "_vals", "at_into", "at_kv", "at_stamp",
                 "keys", "stamp")

    def __init__(self) -> None:
        kv, self._place, self.stamp = _library.Kv(), _library.Array(), c_int32()
        self._into = _library.Destination(
            _library.address_of("pslite_place_array"), None, ctypes.addressof(self._place))
        # Parts of `kv`, not copies.
        self.keys, self._vals, self._lens = kv.keys, kv.vals, kv.lens
        self._has_lens = False
        self.at_kv: Any = byref(kv)
        self.at_into: Any = byref(self._into)
        self.at_stamp: Any = byref(self.stamp)

    def fill(self, keys: View, values: Optional[View], out: Optional[View],
             lens: Optional[View]) -> None:
        """Memory that stays as it is until the request is over; so nothing releases it."""
        self.keys.data, self.keys.size = keys.address, keys.nbytes
        if values is not None:
            self._vals.data, self._vals.size = values.address, values.nbytes
        if out is not None:
            place, into = self._place, self._into
            place.data = into.vals = out.address
            place.bytes = into.vals_bytes = out.nbytes
            place.filled = 0
        if lens is not None or self._has_lens:
            self._fill_lens(lens)

    def _fill_lens(self, lens: Optional[View]) -> None:
        address, nbytes = (lens.address, lens.nbytes) if lens is not None else (None, 0)
        self._lens.data, self._lens.size = address, nbytes
        self._into.lens, self._into.lens_count = address, lens.count if lens is not None else 0
        self._has_lens = lens is not None


def free() -> Deque[Call]:
    """For structs that no request needs now. Any thread may take and give back; what is full
    forgets another one for what is added."""
    return deque(maxlen=CALLS_KEPT)


class Keys:
    """Arrays of uint64 by the numbers in them. Nobody writes them, so requests may share one."""

    def __init__(self) -> None:
        self._kept: Dict[Tuple[int, ...], View] = {}

    def view(self, keys: Any) -> View:
        """As `_arrays.integers`."""
        if type(keys) is int:
            keys = (keys,)
        if type(keys) in _LISTS and len(keys) <= LONGEST_KEPT:
            # 1.0 and True are equal to 1 and would find its array.
            for key in keys:
                if type(key) is not int:
                    break
            else:
                name = tuple(keys)
                return self._kept.get(name) or self._added(name)
        return _arrays.integers(keys, "uint64", "keys")

    def _added(self, name: Tuple[int, ...]) -> View:
        made = _arrays.integers(name, "uint64", "keys")
        if len(self._kept) >= ARRAYS_KEPT:
            self._kept.clear()
        self._kept[name] = made
        return made

    def __len__(self) -> int:
        return len(self._kept)
