"""Makes pickles of optimizers with mxnet, and says what each one holds. Standard output: for each a
line of JSON with its name, its bytes in hexadecimal, and its content as `read_pickle` prints it.

The content is what Python itself reads back from the pickle.
"""

import collections
import copy
import inspect
import json
import pickle
import struct
import warnings

import mxnet as mx
import numpy as np
from mxnet.contrib.svrg_optimization import svrg_optimizer

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

SCHEDULERS = {
    "none": None,
    "factor": mx.lr_scheduler.FactorScheduler(
        7, factor=0.9, stop_factor_lr=1e-4, base_lr=0.3, warmup_steps=5, warmup_begin_lr=0.01,
        warmup_mode="constant"),
    "multifactor": mx.lr_scheduler.MultiFactorScheduler(
        [3, 9, 20], factor=0.3, base_lr=0.2, warmup_steps=2, warmup_begin_lr=0.05),
    "poly": mx.lr_scheduler.PolyScheduler(
        50, base_lr=0.5, pwr=3, final_lr=0.001, warmup_steps=4, warmup_begin_lr=0.1),
    "cosine": mx.lr_scheduler.CosineScheduler(40, base_lr=0.4, final_lr=0.002),
    "base": mx.lr_scheduler.LRScheduler(base_lr=0.25),
}

# A value for each argument of a constructor that is not its default.
VALUES = {
    "momentum": 0.9, "lazy_update": False, "learning_rate": 0.125, "wd_lh": 1e-3, "beta1": 0.8,
    "beta2": 0.95, "epsilon": 1e-6, "eta": 0.002, "eps": 1e-5, "momentum_correction": False,
    "multi_precision": True, "warmup_strategy": "power2", "warmup_epochs": 3, "batch_scale": 4,
    "updates_per_epoch": 16, "begin_epoch": 2, "num_epochs": 9, "lower_bound": 0.01,
    "upper_bound": 10.0, "bias_correction": False, "lamda": 0.05, "lamda1": 0.02, "beta": 2.5,
    "gamma1": 0.7, "gamma2": 0.6, "centered": True, "clip_weights": 0.75, "rho": 0.85,
    "schedule_decay": 0.003, "default_optimizer": "adam",
    "rescale_grad": 1 / 32, "param_idx2name": {0: "fc_weight", 1: "fc_bias", 2: "bn_gamma"},
    "wd": 1e-4, "clip_gradient": 5, "begin_num_update": 11,
}
# Given by other means below.
ELSEWHERE = {"self", "args", "kwargs", "lr_scheduler", "sym", "param_dict"}


def content(value):
    """A value as `read_pickle` prints it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return ["none"]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["int", value]
    if isinstance(value, float):
        return ["float", struct.pack(">d", value).hex()]
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, dict):
        return ["dict"] + [[content(k), content(v)] for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__] + [content(v) for v in value]
    state = dict(vars(value))
    if isinstance(value, mx.optimizer.Optimizer):
        # Not in a pickle: reading sets it.
        assert state.pop("param_dict") == {}
    cls = type(value)
    return ["object", f"{cls.__module__}.{cls.__name__}"] + [[k, content(v)] for k, v in
                                                            state.items()]


def emit(name, thing):
    for protocol in PROTOCOLS:
        data = pickle.dumps(thing, protocol)
        print(json.dumps({"name": f"{name}, protocol {protocol}", "pickle": data.hex(),
                          "holds": content(pickle.loads(data))}))


def arguments(cls):
    """All arguments of a class's constructor and its bases'."""
    names = set()
    for base in cls.__mro__:
        if issubclass(base, mx.optimizer.Optimizer) and "__init__" in vars(base):
            names.update(inspect.signature(base.__init__).parameters)
    unknown = names - ELSEWHERE - VALUES.keys()
    assert not unknown, f"{cls}: no value for {unknown}"
    return names - ELSEWHERE


def optimizers():
    """By name: every registered class with its defaults, and with all arguments."""
    for cls in sorted(set(mx.optimizer.Optimizer.opt_registry.values()), key=str):
        names = arguments(cls)
        if cls is svrg_optimizer._SVRGOptimizer:
            # It hands what it gets to both of its optimizers.
            yield cls, {"default_optimizer": "sgd"}
            yield cls, {k: VALUES[k] for k in ("default_optimizer", "learning_rate", "wd", "beta1")}
            continue
        yield cls, {}
        yield cls, {k: VALUES[k] for k in names - {"learning_rate"}}
        yield cls, {k: VALUES[k] for k in names}


def special():
    """By name: what the constructors' arguments alone do not give."""
    x = mx.sym.Variable("data")
    fc = mx.sym.FullyConnected(x, num_hidden=3, name="fc", attr={"__lr_mult__": "0.5"})
    fc = mx.sym.FullyConnected(fc, name="last", num_hidden=2,
                               weight=mx.sym.Variable("w", lr_mult=2.0, wd_mult=0.1))
    yield "a symbol", mx.optimizer.SGD(sym=fc, param_idx2name={0: "fc_weight", 1: "w"})

    adam = mx.optimizer.Adam(param_idx2name={i: f"p{i}_weight" for i in range(2000)})
    adam.set_lr_mult({0: 0.5, "p1_weight": 2})
    adam.set_wd_mult({"p7_weight": 0.0, 9: np.float32(0.3)})
    yield "multipliers", adam

    net = mx.gluon.nn.Dense(2, in_units=3)
    yield "parameters of gluon", mx.optimizer.SGD(
        param_dict=dict(enumerate(net.collect_params().values())))

    used = mx.optimizer.NAG(lr_scheduler=copy.deepcopy(SCHEDULERS["factor"]), momentum=0.5)
    weight, gradient = mx.nd.ones(4), mx.nd.ones(4)
    state = used.create_state(0, weight)
    for index in (0, 3, 0):
        used.update(index, weight, gradient, state)
    used._set_current_context(1)
    used.update(5, weight, gradient, state)
    assert used._index_update_count is used._all_index_update_counts[1]
    yield "update counts", used

    for kind in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64,
                 np.uint8, np.uint16, np.uint32, np.uint64, np.bool_):
        for number in (0.1, 1, 100):
            sgd = mx.optimizer.SGD(learning_rate=kind(number), wd=kind(number))
            sgd.lr_mult = {kind(3): kind(1)}
            yield f"{kind.__name__} {number}", sgd
    yield "big-endian", [np.float32(0.1).newbyteorder(), np.dtype(">f8").type(0.1)]
    yield "floats", [0.0, -0.0, 1e-320, 1.7976931348623157e308, float("inf"), float("-inf"), 1 / 3]
    yield "integers", [0, 1, -1, 255, 256, 65535, 65536, -(1 << 31), 1 << 31, (1 << 63) - 1,
                       -(1 << 63)]
    yield "texts", ["", "a\nb", "\\", "\\u0041", "\u00e9", "\u4e2d", "\U0001f600", "\0", "'\"",
                    "x" * 300, "y" * 70_000]
    yield "containers", {"t": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "l": [[], [1], {}],
                         (1, "k"): {1: {2: {3: None}}}}
    yield "equal keys", {1: "a", True: "b", 2.0: "c", 2: "d"}  # noqa: F601
    yield "ordered", collections.OrderedDict([("b", 1), ("a", [2])])
    for factory in (None, int, float, list, dict, str, bool):
        yield f"default {factory}", collections.defaultdict(factory, {"a": 1, 2: 0.5})


def main():
    warnings.simplefilter("ignore")
    for cls, options in optimizers():
        for name, scheduler in SCHEDULERS.items():
            thing = cls(lr_scheduler=copy.deepcopy(scheduler), **options)
            emit(f"{cls.__name__}({', '.join(sorted(options))}) {name}", thing)
    for name, thing in special():
        emit(name, thing)


main()
