"""Which shared libraries this process has mapped. It reads /proc/self/maps, and loads nothing."""

from typing import Optional

__all__ = ["mapped"]


def mapped(name: str) -> Optional[str]:
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
