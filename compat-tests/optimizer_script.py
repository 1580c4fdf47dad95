"""Scripts of updates for examples/optimizer_steps.rs, and the same updates by MXNet's own Updater.

Layout of a script, all integers 8 bytes, little endian: the optimizer as a value; whether the state
is exported and imported after every update; the number of keys, and for each its number, dtype,
length in bytes and weights; then for each update the key, the length of a row (0: a dense
gradient), the number of rows and the rows, length in bytes and values of the gradient. A value is a
letter and what belongs to it; see `value`.
"""

import pickle
import struct
import warnings

import numpy as np

warnings.filterwarnings("ignore")

DTYPES = {"float32": 0, "float64": 1, "float16": 2}


def integer(number):
    return struct.pack("<q", number)


def text(string):
    return integer(len(string.encode())) + string.encode()


def value(thing):
    """A Python object of the kinds that an optimizer holds."""
    if thing is None:
        return b"N"
    if isinstance(thing, bool):
        return b"B" + integer(thing)
    if isinstance(thing, int):
        return b"I" + integer(thing)
    if isinstance(thing, float):
        return b"F" + struct.pack("<d", thing)
    if isinstance(thing, str):
        return b"S" + text(thing)
    if isinstance(thing, (list, tuple)):
        tag = b"L" if isinstance(thing, list) else b"T"
        return tag + integer(len(thing)) + b"".join(map(value, thing))
    if isinstance(thing, dict):
        items = b"".join(value(key) + value(of) for key, of in thing.items())
        return b"D" + integer(len(thing)) + items
    attributes = thing.__getstate__() if hasattr(thing, "set_wd_mult") else thing.__dict__
    kind = type(thing)
    items = b"".join(text(key) + value(of) for key, of in attributes.items())
    return b"O" + text(f"{kind.__module__}.{kind.__qualname__}") + integer(len(attributes)) + items


class Script:
    """The same updates for both sides."""

    def __init__(self, make, keys, moves=False):
        """`make()` makes the optimizer; `keys` is a dict of key to weights (numpy)."""
        self.make = make
        self.keys = keys
        self.updates = []
        self.moves = moves

    def dense(self, key, gradient):
        self.updates.append((key, None, gradient.astype(self.keys[key].dtype)))

    def rows(self, key, rows, values):
        self.updates.append((key, rows, values.astype(self.keys[key].dtype)))

    def bytes(self):
        sent = pickle.loads(pickle.dumps(self.make(), 0))
        parts = [value(sent), integer(self.moves), integer(len(self.keys))]
        for key, weight in self.keys.items():
            parts += [integer(key), integer(DTYPES[weight.dtype.name])]
            parts += [integer(weight.nbytes), weight.tobytes()]
        for key, rows, values in self.updates:
            parts += [integer(key),
                      integer(0 if rows is None else values[0].size if len(values) else
                              self.keys[key][0].size)]
            parts += [integer(0 if rows is None else len(rows))]
            parts += [integer(int(row)) for row in ([] if rows is None else rows)]
            parts += [integer(values.nbytes), np.ascontiguousarray(values).tobytes()]
        return b"".join(parts)

    def by_mxnet(self, updater_per_key=False):
        """The weights after every update."""
        import mxnet as mx

        def updater():
            return mx.optimizer.get_updater(pickle.loads(pickle.dumps(self.make(), 0)))

        shared = updater()
        updaters = {key: updater() if updater_per_key else shared for key in self.keys}
        sparse = {key for key, rows, _ in self.updates if rows is not None}
        weights = {key: mx.nd.array(weight, dtype=weight.dtype)
                   for key, weight in self.keys.items()}
        for key in sparse:
            weights[key] = weights[key].tostype("row_sparse")
        results = []
        for key, rows, values in self.updates:
            if rows is None:
                gradient = mx.nd.array(values, dtype=values.dtype)
            elif len(rows) == 0:
                gradient = mx.nd.sparse.zeros("row_sparse", self.keys[key].shape,
                                              dtype=values.dtype)
            else:
                gradient = mx.nd.sparse.row_sparse_array(
                    (values, rows), shape=self.keys[key].shape, dtype=values.dtype)
            try:
                updaters[key](key, gradient, weights[key])
            except TypeError as error:
                # `Test` adds the gradient, and then cannot copy row_sparse weights into its dense
                # state. MXNet's server prints that and goes on.
                if rows is None or "does not support assignment" not in str(error):
                    raise
            results.append(weights[key].asnumpy().reshape(-1).copy())
        return results

    def split(self, output):
        """What the native program wrote, as `by_mxnet` returns it."""
        results = []
        for key, _, _ in self.updates:
            weight = self.keys[key]
            results.append(np.frombuffer(output[:weight.nbytes], weight.dtype))
            output = output[weight.nbytes:]
        assert not output
        return results


def ulps(left, right):
    """The largest distance of two arrays in units of the last place; NaNs count as equal."""
    size = {2: np.int16, 4: np.int32, 8: np.int64}[left.dtype.itemsize]

    def ordered(array):
        bits = array.view(size).astype(np.int64)
        return np.where(bits < 0, np.iinfo(size).min - bits, bits)

    both = ~(np.isnan(left) & np.isnan(right))
    if not both.any():
        return 0
    return int(np.abs(ordered(left)[both] - ordered(right)[both]).max())
