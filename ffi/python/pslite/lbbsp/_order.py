"""An order of samples that the application gives: whether it is one, and its hash."""

import array
import hashlib
from typing import Any

from .. import errors

__all__ = ["OWN", "SHUFFLED", "STORED", "digest"]

#: `PSLITE_ORDER_...`
SHUFFLED, STORED, OWN = 1, 2, 3


def digest(order: Any, length: int, epoch: int) -> int:
    """The hash of an epoch's order, the same whatever type it has: of 64 bits, and never 0.

    Raises InvalidArgument if it has not `length` numbers of samples.
    """
    if len(order) != length:
        raise errors.InvalidArgument(
            f"order({epoch}) has {len(order)} samples, and the session has length={length}")
    try:
        # Arrays of numpy and tensors of torch say their numbers faster all at once.
        listed = order.tolist() if hasattr(order, "tolist") else order
        numbers = array.array("q", listed)
    except (TypeError, OverflowError) as error:
        raise errors.InvalidArgument(
            f"order({epoch}) has something that is no number of a sample: {error}") from error
    low, high = min(numbers), max(numbers)
    if low < 0 or high >= length:
        raise errors.InvalidArgument(
            f"order({epoch}) has the sample {low if low < 0 else high}, and the session only those "
            f"from 0 to {length - 1}")
    found = hashlib.blake2b(numbers.tobytes(), digest_size=8).digest()
    return int.from_bytes(found, "little") or 1
