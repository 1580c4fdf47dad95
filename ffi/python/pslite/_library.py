"""The C ABI (pslite.h) by ctypes: finds its library and declares what this package calls.

That is the preload library, where MXNet runs on it: one process has one library, and one node for
all of it. Everywhere else it is libps.so. Nothing happens at import: the library is loaded by the
first call of `get()`; no code of it runs before a function is called.
"""

import ctypes
import functools
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import List, Optional

from . import errors
from ._mapped import mapped

#: `PSLITE_ABI_VERSION` that this package was written for. Newer ones only add.
ABI = 9
NAMES = ("libps.so.1", "libps.so")
PRELOADED = "libpslite_mxnet.so"
#: The value of an int field that is not set.
EMPTY = 2147483647


class Buffer(Structure):
    """`pslite_buffer`."""

    _fields_ = [
        ("data", c_void_p),
        ("size", c_size_t),
        ("release", c_void_p),
        ("release_arg", c_void_p),
    ]


class Slice(Structure):
    """`pslite_slice`."""

    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Kv(Structure):
    """`pslite_kv`."""

    _fields_ = [("keys", Buffer), ("vals", Buffer), ("lens", Buffer)]


class Array(Structure):
    """`pslite_array`."""

    _fields_ = [("data", c_void_p), ("bytes", c_size_t), ("filled", c_size_t)]


class Job(Structure):
    """`pslite_job`."""

    _fields_ = [
        ("host", c_char_p),
        ("port", c_int32),
        ("timeout_ms", c_int32),
        ("own_host", c_char_p),
    ]


class Destination(Structure):
    """`pslite_destination`."""

    _fields_ = [
        ("place_vals", c_void_p),
        ("place_lens", c_void_p),
        ("arg", c_void_p),
        ("vals", c_void_p),
        ("vals_bytes", c_size_t),
        ("lens", c_void_p),
        ("lens_count", c_size_t),
    ]


class Meta(Structure):
    """`pslite_meta`."""

    _fields_ = [
        ("head", c_int32),
        ("app_id", c_int32),
        ("customer_id", c_int32),
        ("timestamp", c_int32),
        ("sender", c_int32),
        ("recver", c_int32),
        ("priority", c_int32),
        ("request", c_uint8),
        ("push", c_uint8),
        ("pull", c_uint8),
        ("simple_app", c_uint8),
        ("body", c_void_p),
        ("body_size", c_size_t),
        ("error", c_char_p),
    ]


class SessionSettings(Structure):
    """`pslite_session_settings`."""

    _fields_ = [
        ("name", c_char_p),
        ("length", c_uint64),
        ("total", c_uint32),
        ("members", c_uint32),
        ("rank", c_uint32),
        ("min", c_uint32),
        ("max", c_uint32),
        ("quantum", c_uint32),
        ("lookahead", c_uint32),
        ("rule", c_int32),
        ("seed", c_uint64),
        ("epochs", c_uint64),
        ("wraps", c_uint8),
        ("measured", c_uint8),
    ]


class SessionStart(Structure):
    """`pslite_session_start`."""

    _fields_ = [("first", c_uint64), ("order_hash", c_uint64), ("order", c_int32)]


class Batch(Structure):
    """`pslite_batch`."""

    _fields_ = [
        ("iteration", c_uint64),
        ("epoch", c_uint64),
        ("place", c_uint64),
        ("size", c_uint32),
        ("workers", c_uint32),
    ]


class ExchangeCounts(Structure):
    """`pslite_exchange_counts`."""

    _fields_ = [
        ("iterations", c_uint64),
        ("sent", c_uint64),
        ("done", c_uint64),
        ("held", c_double),
    ]


class NodeInfo(Structure):
    """`pslite_node_info`."""

    _fields_ = [
        ("role", c_int32),
        ("id", c_int32),
        ("rank", c_int32),
        ("num_workers", c_int32),
        ("num_servers", c_int32),
        ("port", c_int32),
        ("verbose", c_int32),
        ("is_recovery", c_uint8),
        ("is_ready", c_uint8),
        ("hostname", c_char_p),
    ]


LOOKUP = CFUNCTYPE(c_void_p, c_void_p, c_char_p)
RECEIVE = CFUNCTYPE(None, c_void_p, c_void_p)

#: What every request of a worker ends with: cmd, priority, done and its argument, the timestamp.
_REQUEST = [c_int32, c_int32, c_void_p, c_void_p, POINTER(c_int32)]
_STATUS = {
    "pslite_node_new": [LOOKUP, c_void_p, POINTER(c_void_p)],
    "pslite_setting_check": [c_char_p],
    "pslite_exit_with": [c_int],
    "pslite_process_node": [POINTER(c_void_p)],
    "pslite_set_process_node": [c_void_p],
    "pslite_start": [c_void_p, c_int32, c_int],
    "pslite_finalize": [c_void_p, c_int32, c_int],
    "pslite_barrier": [c_void_p, c_int32, c_int32, c_uint32],
    "pslite_exchange_finish": [c_void_p, POINTER(c_int32)],
    "pslite_node_describe": [c_void_p, POINTER(NodeInfo)],
    "pslite_dead_nodes": [c_void_p, c_int32, POINTER(c_int32), c_size_t, POINTER(c_size_t)],
    "pslite_metrics": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "pslite_server_key_ranges": [c_void_p, c_void_p, c_size_t, POINTER(c_size_t)],
    "pslite_customer_new": [c_void_p, c_int32, c_int32, RECEIVE, c_void_p, POINTER(c_void_p)],
    "pslite_customer_wait_for": [c_void_p, c_int32, c_int32],
    "pslite_worker_attach": [c_void_p, c_size_t],
    "pslite_worker_own_keys": [c_void_p],
    "pslite_exchange_describe": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "pslite_exchange_begin": [c_void_p],
    "pslite_exchange_counted": [c_void_p, POINTER(ExchangeCounts)],
    "pslite_exchange_pull_global": [c_void_p, c_int],
    "pslite_worker_push": [c_void_p, POINTER(Kv), *_REQUEST],
    "pslite_worker_pull": [c_void_p, Buffer, POINTER(Destination), *_REQUEST],
    "pslite_worker_push_pull": [c_void_p, POINTER(Kv), POINTER(Destination), *_REQUEST],
    "pslite_serve_scheduler": [c_void_p],
    "pslite_serve_server": [c_void_p],
    "pslite_job_status": [POINTER(Job), c_char_p, c_size_t, POINTER(c_size_t)],
    "pslite_job_events": [
        POINTER(Job),
        c_uint64,
        c_uint64,
        c_char_p,
        c_size_t,
        POINTER(c_size_t),
    ],
    "pslite_job_drain": [POINTER(Job), c_int32, c_char_p, c_size_t, POINTER(c_size_t)],
    "pslite_session_open": [c_void_p, POINTER(SessionSettings), POINTER(c_void_p)],
    "pslite_session_open_at": [
        c_void_p,
        POINTER(SessionSettings),
        POINTER(SessionStart),
        POINTER(c_void_p),
    ],
    "pslite_session_skip": [c_void_p, c_uint64],
    "pslite_session_settle": [c_void_p],
    "pslite_session_ordered": [c_void_p, c_uint64, c_uint64],
    "pslite_session_cancel": [c_void_p, c_char_p],
    "pslite_session_next": [c_void_p, c_int32, POINTER(Batch)],
    "pslite_session_report": [c_void_p, c_uint64, c_double, c_double, c_double],
    "pslite_session_progress": [c_void_p, POINTER(c_uint64), POINTER(c_uint64)],
    "pslite_session_samples": [c_uint64, c_uint64, c_uint64, c_uint64, c_size_t, c_void_p],
    "pslite_simple_request": [
        c_void_p,
        c_int32,
        c_char_p,
        c_size_t,
        c_int32,
        POINTER(c_int32),
    ],
    "pslite_simple_respond": [c_void_p, POINTER(Meta), c_char_p, c_size_t],
    "pslite_server_attach": [c_void_p],
    "pslite_server_respond": [c_void_p, POINTER(Meta), POINTER(Kv)],
}
_PLAIN = {
    "pslite_abi_version": ([], c_uint32),
    "pslite_version": ([], c_char_p),
    "pslite_last_error": ([], c_char_p),
    "pslite_node_free": ([c_void_p], None),
    "pslite_node_stop": ([c_void_p], None),
    "pslite_customer_free": ([c_void_p], None),
    "pslite_message_meta": ([c_void_p, POINTER(Meta)], None),
    "pslite_message_frames": ([c_void_p], c_size_t),
    "pslite_message_frame": ([c_void_p, c_size_t], Slice),
    "pslite_message_retain": ([c_void_p], c_void_p),
    "pslite_message_release": ([c_void_p], None),
    "pslite_session_close": ([c_void_p], None),
    "pslite_log": ([c_int, c_char_p], None),
}
_loaded: Optional[ctypes.CDLL] = None


def candidates() -> List[str]:
    """Where libps.so may be. What PSLITE_LIBPS says is not second-guessed."""
    told = os.environ.get("PSLITE_LIBPS")
    if told:
        return [told]
    package = Path(__file__).resolve().parent
    paths = [str(package / name) for name in NAMES]
    if package.parts[-3:] == ("ffi", "python", "pslite"):
        # In a checkout: where cargo puts it.
        paths.append(str(package.parents[2] / "target" / "release" / "libps.so"))
    # A name without a slash: the loader's own search (LD_LIBRARY_PATH, /etc/ld.so.conf).
    return [*paths, *NAMES]


def _load() -> ctypes.CDLL:
    preloaded = mapped(PRELOADED)
    if preloaded:
        return _declared(ctypes.CDLL(preloaded), preloaded)
    tried = []
    for path in candidates():
        if "/" in path and not os.path.isfile(path):
            tried.append(f"{path}: no such file")
            continue
        try:
            return _declared(ctypes.CDLL(path), path)
        except OSError as error:
            text = str(error)
            tried.append(text if text.startswith(path) else f"{path}: {text}")
    raise errors.LibraryNotFound(
        "pslite finds no libps.so. Install the wheel, or build it with `cargo build --release` and "
        "say in PSLITE_LIBPS where it is. Tried:\n  " + "\n  ".join(tried)
    )


def _declared(library: ctypes.CDLL, path: str) -> ctypes.CDLL:
    """The same with the types of all functions."""
    try:
        for name, arguments in _STATUS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        for name, (arguments, result) in _PLAIN.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except AttributeError as error:
        raise errors.LibraryNotFound(
            f"{path} is too old for this package, or no library of pslite: {error}"
        ) from None
    version = library.pslite_abi_version()
    if version < ABI:
        raise errors.LibraryNotFound(
            f"{path} has version {version} of the C ABI; this package needs {ABI} or newer"
        )
    return library


def get() -> ctypes.CDLL:
    """The library; loads it at the first call."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


@functools.lru_cache(maxsize=None)
def address_of(name: str) -> int:
    """The address of a function of the library, to be passed to it."""
    address = ctypes.cast(getattr(get(), name), c_void_p).value
    assert address is not None, name
    return address


def check(status: int) -> None:
    """Raises what a status says; the text is that of the failure on this thread."""
    if status != 0:
        raise error_of(status)


def error_of(status: int) -> errors.PsliteError:
    """The exception for a status of the call before, on this thread."""
    text = get().pslite_last_error() or b""
    kind = errors.BY_STATUS.get(status, errors.PsliteError)
    return kind(text.decode("utf-8", "replace"))
