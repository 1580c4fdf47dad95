"""Leaves out of `import mxnet` what no program of a test uses.

Python runs this file before the program, and a test has several processes.

mxnet generates and compiles the text of 2500 functions, one for each operator, which is half of
what the import takes. Here mxnet makes the same functions by the same code, each at its first call.
Only their `__doc__` is missing. Modules of mxnet that few programs use, and `requests`, which it
imports for downloads, are imported when something of them is used. `distutils` is Python's own, and
not the one that setuptools puts in its place. Python looks seldom for what is garbage: an import
makes a hundred thousand objects, of which none is.
"""

import gc
import importlib
import importlib.machinery
import importlib.util
import sys
import types

MODULE = "mxnet.base"
# Those of mxnet.base that make the functions of all operators; their last argument makes one.
MAKERS = ("_init_op_module", "_init_np_op_module")
# Nothing else of mxnet uses these while it is imported.
LATE = {f"mxnet.{name}" for name in (
    "contrib.onnx", "contrib.quantization", "contrib.text", "gluon.contrib", "gluon.data",
    "gluon.model_zoo", "log", "module", "monitor", "notebook", "recordio", "rnn", "rtc",
    "test_utils", "visualization")}
# New objects until Python looks for garbage: 700 by default.
OBJECTS = 50_000


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
    """Finds `mxnet.base`, where Python finds it, patched after it has run; those of LATE, which run
    when something of them is used; and nothing else."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname != MODULE and fullname not in LATE:
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and fullname in LATE:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        elif spec is not None:
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


gc.set_threshold(OBJECTS)
sys.meta_path.insert(0, _Finder)
if "requests" not in sys.modules and importlib.util.find_spec("requests"):
    sys.modules["requests"] = _Late("requests")
if sys.version_info < (3, 12):
    _without_setuptools()
