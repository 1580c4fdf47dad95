"""mxnet in the processes of tests makes its operators' functions late (programs/sitecustomize.py):
the same ones, which give the same."""

import json
import subprocess
import sys

from harness import PROGRAMS, PYTHON

#: The names of all operators, and what some of them give: by position, by name, with `out`, a wrong
#: argument, of symbols and of numpy's arrays.
SHOWS = """
import json
import mxnet as mx

MODULES = (mx.nd.op, mx.nd._internal, mx.nd.contrib, mx.nd.linalg, mx.nd.sparse, mx.nd.random,
           mx.nd.image, mx.sym.op, mx.sym._internal, mx.sym.contrib, mx.np, mx.npx,
           mx.np._internal if hasattr(mx.np, "_internal") else mx.np)


def fails(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


x, out = mx.nd.array([[1, 2], [3, 4]]), mx.nd.zeros((2, 2))
mx.nd.elemwise_add(x, x, out=out)
y = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="full")
print(json.dumps({
    "names": [sorted(name for name in vars(module) if callable(getattr(module, name)))
              for module in MODULES],
    "called": [function.__name__ for function in (mx.nd.dot, mx.nd._internal._plus_scalar)],
    "values": [mx.nd.dot(x, x, transpose_b=True).asnumpy().tolist(), out.asnumpy().tolist(),
               mx.nd.SwapAxis(data=x, dim1=0, dim2=1).asnumpy().tolist(),
               mx.np.ones((2,)).tolist(), mx.nd.LeakyReLU(-x, act_type="leaky").asnumpy().tolist()],
    "symbol": json.loads(y.tojson()),
    "fails": [fails(lambda: mx.nd.dot(x, nothing=1)), fails(lambda: mx.nd.dot(1, 2)),
              fails(lambda: mx.nd.reshape(x, shape=(7,)))],
    "made": type(mx.nd.dot.__closure__).__name__}))
"""


def shown(**environment):
    done = subprocess.run([PYTHON, "-c", SHOWS], env=environment, capture_output=True, text=True,
                          timeout=300, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_operators_that_are_made_late_are_those_of_mxnet():
    late, whole = shown(PYTHONPATH=str(PROGRAMS)), shown()
    # Else one of the two is not what it is taken for.
    assert (late.pop("made"), whole.pop("made")) == ("tuple", "NoneType")
    assert late == whole


def test_programs_are_not_where_tests_look_for_modules():
    """Some stand before real ones there (programs/sklearn.py). By now each file of tests that this
    run has is loaded, and could have put them there."""
    assert str(PROGRAMS) not in sys.path


def test_modules_that_no_program_uses_are_imported_late():
    shows = ("import sys, mxnet; late = 'urllib3' not in sys.modules and 'setuptools' not in "
             "sys.modules; import requests.adapters; "
             "print(late, mxnet.test_utils.requests.get.__module__, "
             "requests.adapters.HTTPAdapter.__name__, 'urllib3' in sys.modules)")
    done = subprocess.run([PYTHON, "-c", shows], env={"PYTHONPATH": str(PROGRAMS)}, text=True,
                          capture_output=True, timeout=300, check=True)
    assert done.stdout.split() == ["True", "requests.api", "HTTPAdapter", "True"], done


LATE = """
import json
import sys
import types
import mxnet
import sitecustomize
from mxnet.gluon.data import ArrayDataset

def has_run(name):
    return type(sys.modules[name]) is types.ModuleType

print(json.dumps({
    "before": {name: has_run(name) for name in sitecustomize.LATE},
    "used": [mxnet.mod.Module.__name__, mxnet.test_utils.default_context().device_type,
             ArrayDataset.__name__],
    "after": sorted(filter(has_run, sitecustomize.LATE))}))
"""


def test_parts_of_mxnet_run_when_they_are_used():
    done = subprocess.run([PYTHON, "-c", LATE], env={"PYTHONPATH": str(PROGRAMS)}, text=True,
                          capture_output=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    assert found["used"] == ["Module", "cpu", "ArrayDataset"]
    assert [name for name, has_run in found["before"].items() if has_run] == ["mxnet.gluon.data"]
    assert set(found["after"]) >= {"mxnet.gluon.data", "mxnet.module", "mxnet.test_utils"}
