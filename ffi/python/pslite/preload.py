"""Import this before mxnet: the process is then served by pslite instead of the wheel's ps-lite.

    import pslite.preload
    import mxnet as mx

It does what LD_PRELOAD would have done: it loads libpslite_mxnet.so into the global scope, in which
libmxnet.so looks for the functions of ps-lite first, before its own. Nothing else changes, and no
code of the library runs. In a process that LD_PRELOAD has served already, it does nothing.

Raises ImportError if the library is not found, or if mxnet is loaded already: then its calls are
bound, and nothing could be replaced any more.

`library` is the path of the library in use.
"""

import ctypes
import os
from pathlib import Path

__all__ = ["library"]

NAME = "libpslite_mxnet.so"
# A function that libmxnet.so has too, but never in the global scope: Python loads it locally.
MARK = "_ZN2ps10Postoffice5StartEiPKcb"


def _mapped(name):
    """The path of a shared library in this process, or None."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[1:]
                if path[0] and path[1].rpartition("/")[2] == name:
                    return "".join(path)
    except OSError:
        pass
    return None


def _global():
    """True if the global scope has the functions of ps-lite: of a library that was preloaded."""
    return hasattr(ctypes.CDLL(None), MARK)


def _candidates():
    """Where the library may be. What PSLITE_LIBRARY says is not second-guessed."""
    told = os.environ.get("PSLITE_LIBRARY")
    if told:
        return [told]
    package = Path(__file__).resolve().parent
    # Beside the package's files; where cargo puts it in a checkout (this is ffi/python/pslite); the
    # loader's own search, for a name without a slash: LD_LIBRARY_PATH, /etc/ld.so.conf.
    checkout = package.parent.parent.parent / "target" / "release" / NAME
    return [str(package / NAME), str(checkout), NAME]


def _load():
    loaded = _mapped(NAME)
    if loaded and _global():
        return loaded
    wheel = _mapped("libmxnet.so")
    if wheel:
        raise ImportError(
            f"pslite.preload comes too late: {wheel} is loaded, and its calls are bound to its own "
            "ps-lite. Import pslite.preload before mxnet and before everything that imports mxnet, "
            "or start the process with LD_PRELOAD.", name=__name__, path=wheel)
    tried = []
    for candidate in [loaded] if loaded else _candidates():
        if "/" in candidate and not os.path.isfile(candidate):
            tried.append(f"{candidate}: no such file")
            continue
        try:
            ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            text = str(error)
            tried.append(text if text.startswith(candidate) else f"{candidate}: {text}")
            continue
        if not _global():
            tried.append(f"{candidate}: it has no functions of ps-lite")
            continue
        return _mapped(NAME) or candidate
    raise ImportError(
        f"pslite.preload finds no {NAME}. Build it with `cargo build --release`, or say in "
        "PSLITE_LIBRARY where it is. Tried:\n  " + "\n  ".join(tried), name=__name__)


library = _load()
