"""Leaves out of `import mxnet` what no program of a test uses.

Python runs this file before the program, and a test has several processes.

mxnet generates and compiles the text of 2500 functions, one for each operator, which is half of
what the import takes. Here mxnet makes the same functions by the same code, each at its first call.
Only their `__doc__` is missing. `requests`, which mxnet imports for downloads, is imported when
something of it is used. `distutils` is Python's own, and not the one that setuptools puts in its
place.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
import types

MODULE = "mxnet.base"
# Those of mxnet.base that make the functions of all operators; their last argument makes one.
MAKERS = ("_init_op_module", "_init_np_op_module")


def _later(make_op_func):
    """Makes what stands for a function that `make_op_func` has not made yet."""
    def make(handle, name, func_name):
        made = []

        def operator(*args, **kwargs):
            if not made:
                made.append(make_op_func(handle, name, func_name))
            return made[0](*args, **kwargs)

        operator.__name__ = func_name
        operator.__doc__ = ""
        return operator
    return make


def _patched(init):
    def init_later(*args, **kwargs):
        if "make_op_func" in kwargs:
            kwargs["make_op_func"] = _later(kwargs["make_op_func"])
        else:
            args = (*args[:-1], _later(args[-1]))
        return init(*args, **kwargs)
    return init_later


class _Finder(importlib.machinery.PathFinder):
    """Finds `mxnet.base` and nothing else: where Python finds it, patched after it has run."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname != MODULE:
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                for name in MAKERS:
                    setattr(module, name, _patched(getattr(module, name)))

            spec.loader.exec_module = exec_module
        return spec


class _Late(types.ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name):
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _without_setuptools():
    try:
        import _distutils_hack
    except ImportError:
        return
    _distutils_hack.remove_shim()


sys.meta_path.insert(0, _Finder)
if importlib.util.find_spec("requests"):
    sys.modules["requests"] = _Late("requests")
if sys.version_info < (3, 12):
    _without_setuptools()
