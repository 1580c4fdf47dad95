"""Batches for mxnet's Module. mxnet is imported when the first batch is made."""

from typing import Any, List

from .. import errors
from ._session import Session

__all__ = ["DataIter"]


class DataIter:
    """Batches of arrays for mxnet's Module: in place of `mx.io.NDArrayIter`.

        module.fit(lbbsp.DataIter(session, images, labels), ...)

    data, label: numpy arrays with as many rows as the session has samples. The first batch's size,
    total / workers, is what Module divides gradients by; so `total` must be a multiple of it.

    For training only: the library reports a batch when its gradients are pushed. To `score`, give
    an iterator of its own, such as `mx.io.NDArrayIter`.
    """

    def __init__(self, session: Session, data: Any, label: Any, data_name: str = "data",
                 label_name: str = "softmax_label") -> None:
        for what, rows in (("data", data), ("label", label)):
            if len(rows) != session.length:
                raise errors.ShapeError(
                    f"{what} has {len(rows)} rows, and the session {session.length} samples")
        if session.total % session.members:
            raise errors.InvalidArgument(
                f"total={session.total} is no multiple of the {session.members} workers: Module "
                "would divide gradients by another number")
        self._session, self._data, self._label = session, data, label
        self._names = (data_name, label_name)
        self.batch_size = session.total // session.members
        self._batches = iter(session)

    @property
    def provide_data(self) -> List[Any]:
        """Name and shape of the data."""
        return self._describe(0, self._data, self.batch_size)

    @property
    def provide_label(self) -> List[Any]:
        """Name and shape of the labels."""
        return self._describe(1, self._label, self.batch_size)

    def _describe(self, which: int, rows: Any, size: int) -> List[Any]:
        import mxnet  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return [mxnet.io.DataDesc(self._names[which], (size, *rows.shape[1:]), rows.dtype)]

    def reset(self) -> None:
        """The next epoch, or what is left of this one: begins with the batches that were taken
        and not computed."""
        self._batches = iter(self._session)

    def __iter__(self) -> "DataIter":
        """What is left of the epoch. A batch that was only looked at is given again."""
        self.reset()
        return self

    def __next__(self) -> Any:
        import mxnet

        batch = next(self._batches)
        at = list(batch.indices)
        data, label = self._data[at], self._label[at]
        return mxnet.io.DataBatch(
            [mxnet.nd.array(data, dtype=data.dtype)], [mxnet.nd.array(label, dtype=label.dtype)],
            pad=0, provide_data=self._describe(0, self._data, batch.size),
            provide_label=self._describe(1, self._label, batch.size))

    next = __next__
