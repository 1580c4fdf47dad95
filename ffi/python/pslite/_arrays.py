"""Memory of arrays, without a copy: what has Python's buffer protocol (numpy, array, bytearray,
memoryview), tensors of torch on the CPU, and arrays of MXNet on the CPU.

Neither numpy nor torch nor mxnet is imported here.
"""

import ctypes
import functools
import operator
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from typing import Any, Dict, Optional, Sequence, Union

from . import _numbers, errors

#: Bytes of an element, by the name of its type.
SIZES: Dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}

#: Names by the letters of the buffer protocol (the module struct).
_NAMES = {"?": "bool", "b": "int8", "B": "uint8", "c": "uint8", "e": "float16", "f": "float32",
          "d": "float64"}
_INTEGERS = {"h": 2, "i": 4, "l": ctypes.sizeof(ctypes.c_long), "q": 8, "n": 8}

_SIMPLE, _WRITABLE, _ND, _FORMAT = 0, 1, 8, 4
_C_CONTIGUOUS = 0x20 | 0x10 | _ND
_WANTED = _C_CONTIGUOUS | _FORMAT


class _PyBuffer(Structure):
    """`Py_buffer` of CPython, which has not changed since 3.3."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [py_object, POINTER(_PyBuffer), c_int], c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_PyBuffer)], None


class View:
    """Elements next to each other in memory that stays where it is as long as this lives."""

    __slots__ = ("_buffer", "_owner", "address", "count", "dtype", "nbytes")

    def __init__(self, address: int, nbytes: int, dtype: str, owner: object,
                 buffer: Optional[_PyBuffer] = None) -> None:
        self.address = address
        self.nbytes = nbytes
        self.dtype = dtype
        #: Elements.
        self.count = nbytes // SIZES[dtype]
        self._owner = owner
        self._buffer = buffer

    def release(self) -> None:
        """What has a buffer may change its size again. Other memory stays as long as this does."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self._owner = None
            _release_buffer(byref(buffer))

    def __del__(self) -> None:
        if self._buffer is not None:
            self.release()


def view(array: Any, what: str, writable: bool = False) -> View:
    """The memory of an array. `what`: how the caller calls it, for errors.

    Raises DtypeError, NonContiguousError, ReadOnlyError.
    """
    buffer, has_one = _PyBuffer(), True
    try:
        _get_buffer(array, byref(buffer), _WANTED)
    except TypeError:
        has_one = False
    except (BufferError, ValueError) as error:
        raise _refused(str(error), what) from None
    if not has_one:
        return _without_buffer(array, what, writable)
    dtype = _name(buffer.format, buffer.itemsize)
    if dtype is not None and not (writable and buffer.readonly):
        return View(buffer.buf or 0, buffer.len, dtype, array, buffer)
    form = (buffer.format or b"B").decode("latin-1")
    _release_buffer(byref(buffer))
    raise _unfit(form, what) if dtype is None else errors.ReadOnlyError(
        f"{what} is read-only, and values are to be written to it; pass an array that can be "
        "written"
    )


def _refused(text: str, what: str) -> errors.PsliteError:
    # numpy raises ValueError for both, and has no buffer of datetime64, for example.
    if "contiguous" not in text:
        return errors.DtypeError(f"{what} has elements that cannot be sent: {text}")
    return errors.NonContiguousError(
        f"{what} is not contiguous in the order of C ({text}); pass a copy, such as "
        "numpy.ascontiguousarray(x)"
    )


def _unfit(form: str, what: str) -> errors.DtypeError:
    return errors.DtypeError(
        f"{what} has elements of the format {form!r}; supported are {', '.join(SIZES)}, in the "
        "order of bytes of this machine"
    )


@functools.lru_cache(maxsize=256)
def _name(form: Optional[bytes], itemsize: int) -> Optional[str]:
    """The type of elements of that format; None: there is none."""
    letter = (form or b"B").decode("latin-1").lstrip("@=<|")
    dtype = _NAMES.get(letter)
    if dtype is None and letter.lower() in _INTEGERS and len(letter) == 1:
        dtype = f"{'int' if letter.islower() else 'uint'}{8 * itemsize}"
    return dtype if dtype is not None and SIZES.get(dtype) == itemsize else None


def _without_buffer(array: Any, what: str, writable: bool) -> View:
    module = type(array).__module__.partition(".")[0]
    if module == "torch" and hasattr(array, "data_ptr"):
        return _torch(array, what, writable)
    if module == "mxnet" and hasattr(array, "wait_to_read"):
        return _mxnet(array, what, writable)
    raise errors.DtypeError(
        f"{what} is {_article(array)}; it must be an array with the buffer protocol (such as "
        "numpy.ndarray), a torch tensor on the CPU, or an NDArray of MXNet on the CPU"
    )


def _torch(tensor: Any, what: str, writable: bool) -> View:
    if tensor.device.type != "cpu":
        raise errors.DtypeError(
            f"{what} is on the device {tensor.device}; move it to the CPU first (x.cpu())"
        )
    if tensor.layout is not _strided(tensor) or not tensor.is_contiguous():
        raise errors.NonContiguousError(f"{what} is not contiguous; pass x.contiguous()")
    if writable and tensor.requires_grad and not tensor.is_leaf:
        raise errors.ReadOnlyError(
            f"{what} is the result of an operation that is differentiated; pass x.detach()"
        )
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in SIZES:
        raise errors.DtypeError(f"{what} is of the type {dtype}; supported are {', '.join(SIZES)}")
    return View(tensor.data_ptr(), tensor.numel() * tensor.element_size(), dtype, tensor)


def _strided(tensor: Any) -> Any:
    """`torch.strided`, without importing torch by name: the tensor has it."""
    import sys

    return sys.modules["torch"].strided


def _mxnet(array: Any, what: str, writable: bool) -> View:
    import sys

    base = sys.modules["mxnet"].base
    if array.stype != "default":
        raise errors.NonContiguousError(
            f"{what} is of the storage type {array.stype}; pass x.tostype('default')"
        )
    if array.ctx.device_type not in ("cpu", "cpu_pinned", "cpu_shared"):
        raise errors.DtypeError(f"{what} is on {array.ctx}; move it first: x.as_in_context(cpu())")
    # Whoever writes it must be done; and whoever reads it, if it is to be written.
    if writable:
        base.check_call(base._LIB.MXNDArrayWaitToWrite(array.handle))
    else:
        array.wait_to_read()
    address = c_void_p()
    base.check_call(base._LIB.MXNDArrayGetData(array.handle, byref(address)))
    dtype = getattr(array.dtype, "__name__", str(array.dtype))
    if dtype not in SIZES:
        raise errors.DtypeError(f"{what} is of the type {dtype}; supported are {', '.join(SIZES)}")
    return View(int(address.value or 0), int(array.size) * SIZES[dtype], dtype, array)


def _article(value: object) -> str:
    return f"of the type {type(value).__module__}.{type(value).__qualname__}"


def integers(values: Union[int, Sequence[int], Any], dtype: str, what: str) -> View:
    """Integers as an array of that type: one that is such an array already is not copied."""
    if _numbers.is_integer(values):
        values = (_integer(values, what),)
    if not isinstance(values, (list, tuple, range)):
        found = view(values, what)
        if found.dtype == dtype:
            return found
        values = _listed(values, found, what)
    kind = {"uint64": ctypes.c_uint64, "int32": ctypes.c_int32}[dtype]
    low, high = (0, 2**64 - 1) if dtype == "uint64" else (0, 2**31 - 1)
    if not all(type(value) is int for value in values):
        values = [_integer(value, what) for value in values]
    for value in values:
        if not low <= value <= high:
            raise errors.InvalidArgument(f"{what} must be from {low} to {high}, not {value}")
    array = (kind * len(values))(*values)
    return View(ctypes.addressof(array), ctypes.sizeof(array), dtype, array)


def _integer(value: Any, what: str) -> int:
    if not _numbers.is_integer(value):
        raise errors.DtypeError(f"{what} must be integers, not {_article(value)}")
    return operator.index(value)


def _listed(values: Any, found: View, what: str) -> Sequence[int]:
    if "int" not in found.dtype:
        raise errors.DtypeError(f"{what} must be integers, not {found.dtype}")
    found.release()
    listed: Sequence[int] = [int(value) for value in (
        values.tolist() if hasattr(values, "tolist") else memoryview(values).tolist())]
    return listed
