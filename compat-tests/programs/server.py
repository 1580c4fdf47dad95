"""A scheduler or server as mxnet runs it, without the import: the calls of
mxnet/kvstore/kvstore_server.py, and no more.

`import mxnet` makes Python functions for 2500 operators first, for almost two seconds. A scheduler
calls none, and its kvstore asks Python for nothing; neither does a server's if it has no optimizer,
or if the store of ours has it. A server that asks nevertheless gets nothing, and its values are
wrong. Errors look as they do there.

An argument says where libmxnet.so is: then `python -S` will do, which has no packages.
"""

import ctypes
import sys


def library():
    """Finds the package and does not import it."""
    import importlib.util
    from pathlib import Path
    return Path(importlib.util.find_spec("mxnet").origin).with_name("libmxnet.so")


CONTROLLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

mxnet = ctypes.CDLL(sys.argv[1] if sys.argv[1:] else str(library()), ctypes.RTLD_LOCAL)
mxnet.MXGetLastError.restype = ctypes.c_char_p


class MXNetError(RuntimeError):
    """Of the name that mxnet gives it."""


def check_call(code):
    if code != 0:
        raise MXNetError(mxnet.MXGetLastError().decode())


handle = ctypes.c_void_p()
check_call(mxnet.MXKVStoreCreate(b"dist", ctypes.byref(handle)))
check_call(mxnet.MXKVStoreRunServer(handle, CONTROLLER(lambda head, body, _: None), None))
check_call(mxnet.MXKVStoreFree(handle))
