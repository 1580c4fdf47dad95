"""The optimizers of pslite's own server by name, and how a server is told: a pickle of MXNet's
class, written without MXNet (docs/optimizers.md has what each computes).

Pickles are written here, byte by byte; none is read.
"""

import pickle
import struct
from typing import Any, Dict, Iterable, NamedTuple, SupportsFloat, SupportsIndex, Union

from . import _numbers, errors

Parameter = Union[None, SupportsIndex, SupportsFloat, str]


class Kind(NamedTuple):
    """A class of MXNet's, and what it has beside the attributes of all."""

    name: str
    #: Of the argument learning_rate.
    rate: float
    #: With their defaults.
    parameters: Dict[str, Any]
    module: str = "mxnet.optimizer.optimizer"
    #: How many tensors MXNet would update at once; servers do not look at it.
    at_once: int = 0


KINDS: Dict[str, Kind] = {
    "sgd": Kind("SGD", 0.01, {"momentum": 0.0, "lazy_update": True}, at_once=4),
    "nag": Kind("NAG", 0.01, {"momentum": 0.0}),
    "signum": Kind("Signum", 0.01, {"momentum": 0.9, "wd_lh": 0.0}),
    "adam": Kind("Adam", 0.001, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                                 "lazy_update": True}),
    "adagrad": Kind("AdaGrad", 0.01, {"float_stable_eps": 1e-7}),
    "adadelta": Kind("AdaDelta", 0.01, {"rho": 0.9, "epsilon": 1e-5}),
    "adamax": Kind("Adamax", 0.002, {"beta1": 0.9, "beta2": 0.999}),
    "nadam": Kind("Nadam", 0.001, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                                   "schedule_decay": 0.004, "m_schedule": 1.0}),
    "rmsprop": Kind("RMSProp", 0.001, {"gamma1": 0.9, "gamma2": 0.9, "centered": False,
                                       "epsilon": 1e-8, "clip_weights": None}),
    "ftrl": Kind("Ftrl", 0.1, {"lamda1": 0.01, "beta": 1}),
    "ftml": Kind("FTML", 0.01, {"beta1": 0.6, "beta2": 0.999, "epsilon": 1e-8}),
    "lamb": Kind("LAMB", 0.001, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6,
                                 "lower_bound": None, "upper_bound": None, "bias_correction": True},
                 at_once=45),
    "dcasgd": Kind("DCASGD", 0.01, {"momentum": 0.0, "weight_previous": {}, "lamda": 0.04}),
}

#: What all have, with defaults.
_COMMON: Dict[str, Parameter] = {"rescale_grad": 1.0, "wd": 0.0, "clip_gradient": None,
                                 "begin_num_update": 0, "multi_precision": False}


def described(name: str, parameters: Dict[str, Parameter]) -> bytes:
    """The pickle of an optimizer with these parameters.

    Raises InvalidArgument for a name or a parameter that there is not.
    """
    kind = KINDS.get(name.lower())
    if kind is None:
        raise errors.InvalidArgument(f"there is no optimizer {name!r}; there are {_list(KINDS)}")
    allowed = {"learning_rate": kind.rate, **_COMMON, **kind.parameters}
    allowed.pop("weight_previous", None)
    parameters = {own: _numbers.plain(value) for own, value in parameters.items()}
    for own, value in parameters.items():
        if own not in allowed:
            raise errors.InvalidArgument(f"{name} has no {own!r}; it has {_list(allowed)}")
        if value is not None and not isinstance(value, (bool, int, float)):
            raise errors.InvalidArgument(f"{own} of {name} must be a number, not {value!r}")
    return pickled(kind, attributes(kind, parameters))


def settings(name: str, parameters: Dict[str, Parameter]) -> Dict[str, str]:
    """What an optimizer of `described` computes with, in words."""
    kind = KINDS[name.lower()]
    given = {"learning_rate": kind.rate, **_COMMON, **kind.parameters, **parameters}
    given.pop("weight_previous", None)
    return {"the class": kind.name, **{own: plain(value) for own, value in given.items()}}


def plain(value: Any) -> str:
    """A number in words: 1 and 1.0 are the same, and so are numpy's."""
    if isinstance(value, (bool, str, type(None))):
        return repr(value)
    return repr(float(value))


def attributes(kind: Kind, parameters: Dict[str, Parameter]) -> Dict[str, Any]:
    """Those of the object as MXNet's constructor sets them (python/mxnet/optimizer)."""
    given = {**_COMMON, **kind.parameters, **parameters}
    rate = given.pop("learning_rate", kind.rate)
    first = given["begin_num_update"]
    return {"lr_scheduler": None, "lr": rate, "lr_mult": {}, "wd_mult": {}, "num_update": first,
            "_all_index_update_counts": {0: {}}, "_index_update_count": {},
            "aggregate_num": kind.at_once, "idx2name": {}, "sym_info": (), "param_dict": {},
            "allow_np_array": False, **given}


def pickled(kind: Kind, values: Dict[str, Any]) -> bytes:
    """The object as pickle's protocol 2 has it: its class by name, and its attributes. The class
    need not be there."""
    start = b"c" + f"{kind.module}\n{kind.name}\n".encode()  # GLOBAL
    return b"\x80\x02" + start + b")\x81" + _value(values) + b"b."  # (), NEWOBJ, BUILD, STOP


def _value(value: Any) -> bytes:
    if isinstance(value, dict):
        items = b"".join(_value(key) + _value(item) for key, item in value.items())
        return b"}" + (b"(" + items + b"u" if items else b"")
    if isinstance(value, str):
        text = value.encode()
        return b"X" + struct.pack("<I", len(text)) + text
    # Python's own writer: without its frame of protocol and end.
    return pickle.dumps(value, 2)[2:-1]


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
