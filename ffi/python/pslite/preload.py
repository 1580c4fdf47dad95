"""Import this before mxnet: the process is then served by pslite instead of the wheel's ps-lite.

    import pslite.preload
    import mxnet as mx

It does what LD_PRELOAD would have done: it loads libpslite_mxnet.so into the global scope, in which
libmxnet.so looks for the functions of ps-lite first, before its own. Nothing else changes, and no
code of the library runs. In a process that LD_PRELOAD has served already, it does nothing.

Raises ImportError, and has done nothing then, if the library is not found; if mxnet is loaded
already: its calls are bound, and nothing could be replaced any more; if the mxnet that `import
mxnet` would find has no functions of ps-lite that could be replaced.

`library` is the path of the library in use.
"""

import ctypes
import importlib.util
import mmap
import os
import struct
from pathlib import Path
from typing import List, Optional

from ._mapped import mapped

__all__ = ["library"]

NAME = "libpslite_mxnet.so"
# A function that libmxnet.so has too, but never in the global scope: Python loads it locally.
MARK = "_ZN2ps10Postoffice5StartEiPKcb"


def _global() -> bool:
    """True if the global scope has the functions of ps-lite: of a library that was preloaded."""
    return hasattr(ctypes.CDLL(None), MARK)


def _exports(path: str, name: str) -> bool:
    """True if a 64-bit ELF file has a name in its dynamic symbols."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start, = struct.unpack_from("<Q", data, 0x28)
        count, = struct.unpack_from("<H", data, 0x3C)
        # name, type, flags, address, offset, size, link, info, align, entry size
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
        for section in sections:
            if section[1] == 11:  # SHT_DYNSYM; the linked section holds the names
                offset, size = sections[section[6]][4:6]
                return data.find(b"\0" + name.encode() + b"\0", offset, offset + size) >= 0
    return False


def _unfit() -> Optional[str]:
    """The libmxnet.so that would be imported, if it does not export what is to be replaced; or
    None.

    Such wheels would go on using their own ps-lite without a word. mxnet is not imported for this,
    and what other wheels have is looked at by the library itself, when it is first called.
    """
    try:
        found = importlib.util.find_spec("mxnet")
        if found is None or not found.origin:
            return None
        path = os.path.join(os.path.dirname(found.origin), "libmxnet.so")
        with open(path, "rb"):
            pass
    except (AttributeError, ImportError, OSError, TypeError, ValueError):
        # No mxnet here, or one that keeps its library elsewhere.
        return None
    try:
        return None if _exports(path, MARK) else path
    except (IndexError, OSError, ValueError, struct.error):
        # Compressed, or not for this platform: nothing in it can be replaced.
        return path


def _candidates() -> List[str]:
    """Where the library may be. What PSLITE_LIBRARY says is not second-guessed."""
    told = os.environ.get("PSLITE_LIBRARY")
    if told:
        return [told]
    package = Path(__file__).resolve().parent
    paths = [str(package / NAME)]
    if package.parts[-3:] == ("ffi", "python", "pslite"):
        # In a checkout: where cargo puts it.
        paths.append(str(package.parents[2] / "target" / "release" / NAME))
    # A name without a slash: the loader's own search (LD_LIBRARY_PATH, /etc/ld.so.conf).
    return paths + [NAME]


def _load() -> str:
    loaded = mapped(NAME)
    if loaded and _global():
        return loaded
    wheel = mapped("libmxnet.so")
    if wheel:
        raise ImportError(
            f"pslite.preload comes too late: {wheel} is loaded, and its calls are bound to its own "
            "ps-lite. Import pslite.preload before mxnet and before everything that imports mxnet, "
            "or start the process with LD_PRELOAD.", name=__name__, path=wheel)
    unfit = _unfit()
    if unfit:
        raise ImportError(
            f"pslite.preload has no effect on {unfit}: it exports no functions of ps-lite. The "
            "page docs/mxnet-wheels.md of pslite lists the wheels of MXNet that do.", name=__name__,
            path=unfit)
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
        return mapped(NAME) or candidate
    raise ImportError(
        f"pslite.preload finds no {NAME}. Build it with `cargo build --release`, or say in "
        "PSLITE_LIBRARY where it is. Tried:\n  " + "\n  ".join(tried), name=__name__)


library = _load()
