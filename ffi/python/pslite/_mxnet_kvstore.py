"""MXNet's kvstore of the name "pslite": its interface, on a `pslite.store.Store`.

One process has one store, so all kvstores of this name share it. Calls have ended when they return,
but for `push`: MXNet's engine knows nothing of what is sent here.
"""

import copy
import gc
import operator
import pickle
from typing import Any, Dict, List, Tuple, Union

from . import _numbers, _process, errors
from ._mxnet import mx
from ._optimizers import plain

__all__ = ["PSLite", "in_words", "summed", "to_all"]

Key = Union[int, str]

#: As Trainer and Module know a kvstore of many workers, whose rounds wait for all: by parts of its
#: name.
TYPE = "dist_sync_pslite"
#: What an optimizer counts, and servers for themselves.
_COUNTED = ("num_update",)
_base: Any = mx.kvstore.KVStoreBase


class PSLite(_base):  # type: ignore[misc]
    """What `mx.kv.create("pslite")` gives: `dist_sync` on pslite's node, also in a process in which
    MXNet runs on its own ps-lite.

    Keys are integers, or texts, and all of one kind. Values: dense arrays on the CPU, one or a list
    of one for each device.

    Raises as `pslite.mxnet.init`, and InvalidArgument beside a kvstore "dist_..." of MXNet's own.
    """

    def __init__(self) -> None:
        _process.init()
        self._worker = _process.worker()
        self._store = self._worker.store
        self._optimizer: Any = None
        #: What the servers were told of it.
        self._told: Dict[str, Any] = {}
        self._multipliers: Dict[Key, Tuple[float, float]] = {}

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def type(self) -> str:
        """"dist_sync_pslite"; mx.kv.create knows that name as well."""
        return TYPE

    @property
    def rank(self) -> int:
        """Counts the workers from 0."""
        return self._worker.node.rank

    @property
    def num_workers(self) -> int:
        """Workers of the job."""
        return self._worker.node.num_workers

    def is_capable(self, capability: str) -> bool:
        """"optimizer": servers update weights."""
        if capability.lower() == self.OPTIMIZER:
            return True
        raise ValueError(f"there is no capability {capability!r}; there is {self.OPTIMIZER!r}")

    # ---- values ----------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Makes keys. The values are those of rank 0; returns when they are at the servers.

        Raises InvalidArgument if a key is there already, and an ArrayError.
        """
        for one, arrays in _listed(key, value):
            known = self._worker.keys
            if known and type(known[0]) is not type(one):
                raise errors.InvalidArgument(
                    f"key {one!r}: integers and texts cannot both be keys of a kvstore")
            number = one if isinstance(one, int) else len(known)
            self._store._make(_name(one), arrays[0], number)
            known.append(one)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, and `pull` into `out`.

        Raises Unsupported in a worker that took the place of one that died, if servers run no
        optimizer: what they have are sums, not weights.
        """
        if not self._store._has_weights():
            raise errors.Unsupported(
                "this worker took the place of one that died, and servers run no optimizer: they "
                "have sums of gradients, and the weights are in the other workers. Use "
                "update_on_kvstore=True, or start the job again from a checkpoint")
        self.init(key, value)
        self.pull(key, out, priority)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sends a copy of the values, which may be changed right away. Does not wait: what goes
        wrong with it, the next call for the key raises."""
        for one, arrays in _listed(key, value):
            name = self._checked(one)
            total = summed(arrays)
            total = total.copy() if total is arrays[0] else total
            self._worker.settle(name)
            self._worker.pending[name] = self._store.push(name, total, priority=priority)

    def pull(self, key: Any, out: Any = None, priority: int = 0,
             ignore_sparse: bool = True) -> None:
        """Gets values; returns when they are there."""
        if out is None:
            raise errors.InvalidArgument("pull needs out: the array for the values")
        sent = []
        for one, arrays in _listed(key, out):
            name = _name(one)
            self._worker.settle(name)
            sent.append((self._store.pull(name, arrays[0], priority=priority), arrays))
        _wait(sent)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sends values, and gets the sum of all workers', or the new weights, into `out`; None:
        into `value`. Keys of one call are under way at the same time."""
        pushed = _listed(key, value)
        pulled = pushed if out is None else _listed(key, out)
        sent = []
        for (one, arrays), (_, targets) in zip(pushed, pulled):
            name = self._checked(one)
            self._worker.settle(name)
            total, target = summed(arrays), targets[0]
            handle = self._store.push_pull(
                name, total, None if total is target else target, priority=priority)
            sent.append((handle, targets))
        _wait(sent)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0,
                        row_ids: Any = None) -> None:
        """Raises Unsupported."""
        raise errors.Unsupported(
            "the kvstore 'pslite' has dense arrays alone; for row_sparse ones use 'dist_sync'")

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Raises Unsupported."""
        raise errors.Unsupported(
            "the kvstore 'pslite' compresses nothing; for that use 'dist_sync'")

    # ---- the optimizer ---------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Any) -> None:
        """Servers update weights with it: all workers call this. States begin anew.

        Raises InvalidArgument for what is no optimizer or cannot be sent, and RemoteError for one
        that the servers do not have (docs/optimizers.md).
        """
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise errors.InvalidArgument(
                f"{type(optimizer).__name__} is no optimizer of MXNet: pass an mx.optimizer."
                "Optimizer, such as mx.optimizer.create('sgd')")
        self._store._run(_pickled(optimizer), bool(optimizer.multi_precision), in_words(optimizer))
        self._worker.updates = True
        self._optimizer = optimizer
        self._told = _settings(optimizer)
        self._multipliers = _multipliers(optimizer)

    def _checked(self, key: Key) -> str:
        """The array of a key that is about to be pushed.

        Servers have a copy of the optimizer. MXNet goes on with it when the worker's is changed,
        and says nothing; here that is an error.
        """
        if self._optimizer is not None:
            now = _settings(self._optimizer)
            if now != self._told:
                changed = [name for name in now if now[name] != self._told.get(name)]
                raise self._stale(changed[0], self._told.get(changed[0]), now[changed[0]])
            parameter = self._optimizer.param_dict.get(key)
            if parameter is not None:
                told, new = self._multipliers.get(key), _multiplier(parameter)
                if new != told:
                    raise self._stale(f"lr_mult and wd_mult of {parameter.name}", told, new)
        return _name(key)

    def _stale(self, what: str, told: Any, now: Any) -> errors.Unsupported:
        return errors.Unsupported(
            f"{what} of the optimizer was changed from {told!r} to {now!r}, and servers train with "
            "the former. For rates that change use an lr_scheduler, which servers follow; or "
            "update_on_kvstore=False; or call kvstore.set_optimizer again, which begins with new "
            "states")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Raises Unsupported."""
        raise self._states("saved")

    def load_optimizer_states(self, fname: str) -> None:
        """Raises Unsupported."""
        raise self._states("loaded")

    def _states(self, done: str) -> errors.Unsupported:
        return errors.Unsupported(
            f"states of an optimizer that servers run cannot be {done}; with "
            "update_on_kvstore=False they are the worker's, and can")

    # ---- what programs for MXNet's own kvstore call ----------------------------------------------

    def _barrier(self) -> None:
        self._worker.settle()
        self._worker.node.barrier("workers")

    def _send_command_to_servers(self, head: int, body: str) -> None:
        self._worker.settle()
        self._store._command(head, body.encode())


def summed(arrays: List[Any]) -> Any:
    """The sum over devices; of one array, itself."""
    if len(arrays) == 1:
        return arrays[0]
    return mx.nd.add_n(*(each.as_in_context(arrays[0].context) for each in arrays))


def to_all(arrays: List[Any]) -> None:
    """Copies the first one to the others."""
    for other in arrays[1:]:
        arrays[0].copyto(other)


def _wait(sent: List[Tuple[Any, List[Any]]]) -> None:
    for handle, targets in sent:
        handle.wait()
        to_all(targets)


def _listed(key: Any, values: Any) -> List[Tuple[Key, List[Any]]]:
    """Each key with its arrays, one for each device."""
    if not isinstance(key, (list, tuple)):
        return [(_key(key), _devices(key, values))]
    if not isinstance(values, (list, tuple)) or len(key) != len(values):
        count = len(values) if isinstance(values, (list, tuple)) else 1
        raise errors.ShapeError(f"there are {len(key)} keys and {count} values")
    return [(_key(one), _devices(one, value)) for one, value in zip(key, values)]


def _devices(key: Key, values: Any) -> List[Any]:
    arrays = list(values) if isinstance(values, (list, tuple)) else [values]
    if not arrays:
        raise errors.ShapeError(f"key {key!r} has no array")
    for each in arrays:
        if not isinstance(each, mx.nd.NDArray):
            raise errors.DtypeError(
                f"the value of key {key!r} is of the type {type(each).__name__}; it must be an "
                "NDArray of MXNet")
    return arrays


def _key(key: Any) -> Key:
    if isinstance(key, str):
        return key
    number = -1 if isinstance(key, bool) or not _numbers.is_integer(key) else operator.index(key)
    if not 0 <= number < _process.NAMED:
        raise errors.InvalidArgument(
            f"a key is a text, or an integer from 0 to {_process.NAMED - 1}, not {key!r}")
    return number


def _name(key: Key) -> str:
    return f"key {key}"


def _pickled(optimizer: Any) -> bytes:
    """As MXNet sends it: text without a zero byte.

    The multipliers of gluon's parameters are not in MXNet's pickles, and lost there. Here servers
    are told.
    """
    told = _plain(optimizer)
    told.lr_scheduler = told.lr_scheduler and _plain(told.lr_scheduler)
    found = _multipliers(optimizer)
    if any(each != (1.0, 1.0) for each in found.values()):
        told.lr_mult = {**told.lr_mult, **{key: rate for key, (rate, _) in found.items()}}
        told.wd_mult = {**told.wd_mult, **{key: decay for key, (_, decay) in found.items()}}
    try:
        return pickle.dumps(told, 0)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise errors.InvalidArgument(
            f"{type(optimizer).__name__} cannot be sent to servers: {error}") from error


def _plain(told: Any) -> Any:
    """A copy, in which numbers are Python's own: servers know no others."""
    made = copy.copy(told)
    for name, value in vars(made).items():
        vars(made)[name] = _numbers.plain(value)
    return made


def _multiplier(parameter: Any) -> Tuple[float, float]:
    return float(parameter.lr_mult), float(parameter.wd_mult)


def _multipliers(optimizer: Any) -> Dict[Key, Tuple[float, float]]:
    return {key: _multiplier(parameter) for key, parameter in optimizer.param_dict.items()}


def _settings(optimizer: Any) -> Dict[str, Any]:
    """What servers compute with: numbers, multipliers by key or name, the scheduler as it is."""
    plain = (bool, int, float, str, type(None))
    found: Dict[str, Any] = {
        name: value for name, value in
        ((name, _numbers.plain(value)) for name, value in vars(optimizer).items())
        if isinstance(value, plain) and name not in _COUNTED}
    found["lr_scheduler"] = optimizer.lr_scheduler
    for name in ("lr_mult", "wd_mult"):
        found[name] = dict(getattr(optimizer, name))
    return found


def in_words(optimizer: Any) -> Dict[str, str]:
    """What an optimizer computes with, for the comparison between workers."""
    found = {"the class": type(optimizer).__name__}
    for name, value in _settings(optimizer).items():
        if isinstance(value, dict):
            value = sorted((str(key), each) for key, each in value.items())
        elif name == "lr_scheduler" and value is not None:
            value = type(value).__name__, sorted(
                (own, each) for own, each in vars(value).items() if isinstance(each, (int, float)))
        found[name] = plain(value) if isinstance(value, (bool, int, float)) else repr(value)
    rates = sorted((str(key), rates) for key, rates in _multipliers(optimizer).items()
                   if rates != (1.0, 1.0))
    return {**found, "multipliers of parameters": repr(rates)}


def _alone(original: Any) -> Any:
    """A process is one worker of its job. MXNet's own ps-lite would register a second one, for
    which the job has no place: it would wait for ever."""

    def create(name: Any = "local") -> Any:
        is_own = isinstance(name, str) and "dist" in name.lower()
        if is_own and name.lower() not in _base.kv_registry and _process.own() is not None:
            raise errors.InvalidArgument(
                f"mx.kv.create({name!r}): this process has its place in the job by pslite.mxnet, "
                "and MXNet's own kvstore would ask for another one; use mx.kv.create('pslite') "
                "here")
        return original(name)

    create.__doc__ = original.__doc__
    return create


def _refuse_beside() -> None:
    """The same, the other way round. (A kvstore on the preload library lends its node.)"""
    # The classes are compared, as an object may compute its own.
    found = [each for each in gc.get_objects() if type(each) is mx.kvstore.KVStore]
    dist = [each.type for each in found if "dist" in each.type]
    if dist:
        raise errors.InvalidArgument(
            f"the kvstore {dist[0]!r} of MXNet's own ps-lite has this process's place in the job: "
            "use either that or pslite.mxnet; or preload pslite, and both share one node")


def register() -> None:
    """Makes the names known to mx.kv.create, Trainer and Module."""
    _base.register(PSLite)
    _base.kv_registry[TYPE] = PSLite
    for module in (mx.model, mx.gluon.trainer, mx.module.module):
        module._create_kvstore = _by_name(module._create_kvstore)
    for module in (mx.kvstore, mx.kvstore.base):
        module.create = _alone(module.create)
    _process.forbids.append(_refuse_beside)


def _by_name(original: Any) -> Any:
    """Trainer and Module with one device make no kvstore of a name without "dist" in it: they would
    train on this worker alone, without a word. So they get the kvstore itself."""

    def create(kvstore: Any, num_device: int, arg_params: Any) -> Any:
        if isinstance(kvstore, str) and kvstore.lower() == PSLite.__name__.lower():
            kvstore = mx.kv.create(kvstore)
        return original(kvstore, num_device, arg_params)

    return create


register()
