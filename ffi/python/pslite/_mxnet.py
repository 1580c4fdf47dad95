"""MXNet, for the modules of this package that need it. The others must not import this one."""

import importlib
from typing import Any

__all__ = ["mx"]


def _found() -> Any:
    try:
        found = importlib.import_module("mxnet")
    except ImportError as error:
        raise ImportError(
            f"pslite.mxnet needs MXNet, and `import mxnet` fails: {error}. It is made for the "
            "wheel: pip install mxnet==1.9.1 'numpy<1.24'. pslite.store and pslite.kv do without",
            name="mxnet") from error
    if not hasattr(found.kvstore, "KVStoreBase"):
        raise ImportError(
            f"pslite.mxnet needs MXNet 1.7 or newer, and this is {found.__version__}: kvstores "
            "cannot be registered with it", name="mxnet")
    return found


#: It has no types.
mx: Any = _found()
