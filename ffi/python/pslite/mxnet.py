"""pslite for MXNet without preloading: a kvstore, and the names that users of BytePS and Horovod
know.

    import pslite.mxnet                 # registers the kvstore
    trainer = gluon.Trainer(parameters, "sgd", {"learning_rate": 0.1}, kvstore="pslite")

    import pslite.mxnet as bps          # or: sums over workers, and the optimizer in the worker
    bps.init()
    trainer = bps.DistributedTrainer(parameters, "sgd", {"learning_rate": 0.1})

Each process is a worker; servers and scheduler are `pslite server` and `pslite scheduler`, or
MXNet's own. Arrays are dense, on the CPU, and are used where they lie.

Raises ImportError without MXNet.
"""

import warnings
from typing import Any, Dict, List, Optional, SupportsIndex, Tuple

from . import _numbers, _process, errors
from ._mxnet import mx
from ._mxnet_kvstore import PSLite, in_words, summed, to_all
from ._process import init, shutdown

__all__ = ["DistributedOptimizer", "DistributedTrainer", "PSLite", "broadcast_parameters", "init",
           "local_rank", "local_size", "push_pull", "rank", "shutdown", "size"]

_optimizer_base: Any = mx.optimizer.Optimizer
_trainer_base: Any = mx.gluon.Trainer

#: What programs change of an optimizer that steps. (Others change by themselves.)
_CHANGED = ("lr", "wd", "rescale_grad", "clip_gradient", "momentum", "lr_mult", "wd_mult",
            "multipliers of parameters")
#: A name, and an array for each device.
Named = Tuple[str, List[Any]]


def rank() -> int:
    """Counts the workers of the job from 0. As all functions, raises NotStarted before `init`."""
    return _process.worker().node.rank


def size() -> int:
    """Workers of the job."""
    return _process.worker().node.num_workers


def local_rank() -> int:
    """Counts the workers of this host from 0."""
    return _process.worker().place[0]


def local_size() -> int:
    """Workers of the job on this host."""
    return _process.worker().place[1]


def push_pull(tensor: Any, out: Any = None, *, name: Optional[str] = None, average: bool = True,
              priority: SupportsIndex = 0) -> Any:
    """The average of all workers' tensors, or their sum, in `out`, which it gives; None: in
    `tensor`. Returns when it is there. All workers make the same calls in the same order.

    name: of what is summed; tensors of one name have one type and size. None: by type and size.

    Raises an ArrayError, DtypeError for the average of integers, and Unsupported if servers run an
    optimizer.
    """
    target = tensor if out is None else out
    if getattr(tensor, "stype", "default") != "default":
        # It does not even know its size.
        raise errors.NonContiguousError(
            f"tensor is of the storage type {tensor.stype}; pass x.tostype('default')")
    dtype = getattr(tensor.dtype, "__name__", str(tensor.dtype))
    if average and "float" not in dtype:
        raise errors.DtypeError(
            f"tensor is of the type {dtype}, whose average is none; pass average=False")
    called = f"push_pull {name}" if name else f"push_pull of {tensor.size} {dtype}"
    worker = _summing()
    worker.declare(called, tensor)
    into = None if target is tensor else target
    worker.store.push_pull(called, tensor, into, priority=priority).wait()
    if average:
        target /= size()
    return target


def broadcast_parameters(params: Any, root_rank: SupportsIndex = 0) -> None:
    """Gives all workers the values of one of them. params: what `collect_params` gives, or a dict
    of arrays by name. Returns when they are there.

    Raises InvalidArgument for a rank that there is not, and for parameters without values yet; and
    Unsupported in a worker that took the place of one that died: the others are past it.
    """
    found: List[Named] = []
    for name, value in sorted(params.items()):
        if not hasattr(value, "list_data"):
            found.append((name, [value]))
            continue
        if value._deferred_init or value._data is None:
            raise errors.InvalidArgument(
                f"{name} has no values yet: call initialize() and run the network once before; "
                "or leave it to DistributedTrainer, which does it at the first step")
        found.append((name, value.list_data()))
    _broadcast(found, root_rank)


def _summing() -> "_process.Worker":
    worker = _process.worker()
    if worker.updates:
        raise errors.Unsupported(
            "servers run the optimizer of a kvstore 'pslite', so they do not sum: use "
            "update_on_kvstore=False there, or the kvstore alone")
    return worker


def _has_parameters(what: str) -> None:
    """Where workers step by themselves, one that comes back cannot get what the others have."""
    if _process.worker().node.is_recovery:
        raise errors.Unsupported(
            f"this worker took the place of one that died, and {what} cannot give it the "
            "parameters that the others train: those are in the other workers, and servers have "
            "sums of gradients. Use gluon.Trainer(..., kvstore='pslite'), where servers update, or "
            "start the job again from a checkpoint")


def _root_rank(given: SupportsIndex) -> int:
    number = _numbers.integer(given, "root_rank", low=-_numbers.INT32)
    if not 0 <= number < size():
        raise errors.InvalidArgument(f"root_rank is {number}, and there are {size()} workers")
    return number


def _broadcast(named: List[Named], root_rank: SupportsIndex) -> None:
    worker = _summing()
    root_rank = _root_rank(root_rank)
    _has_parameters("broadcast_parameters")
    sent = []
    for name, arrays in named:
        mine = arrays[0]
        called = f"parameter {name}"
        if worker.declare(called, mine) and root_rank == 0:
            # The servers have the values of rank 0.
            sent.append((worker.store.pull(called, mine), arrays))
            continue
        if rank() != root_rank:
            mine = mx.nd.zeros(mine.shape, ctx=mine.context, dtype=mine.dtype)
        into = None if mine is arrays[0] else arrays[0]
        sent.append((worker.store.push_pull(called, mine, into), arrays))
    for handle, arrays in sent:
        handle.wait()
        to_all(arrays)


def _sum(named: List[Named]) -> None:
    """Sums each over devices and workers, in place. All are under way at the same time; those that
    come first go first."""
    worker = _summing()
    totals = [summed(arrays) for _, arrays in named]
    for (name, _), total in zip(named, totals):
        worker.declare(f"parameter {name}", total)
    sent = []
    for index, ((name, arrays), total) in enumerate(zip(named, totals)):
        into = None if total is arrays[0] else arrays[0]
        handle = worker.store.push_pull(f"parameter {name}", total, into, priority=-index)
        sent.append((handle, arrays))
    for handle, arrays in sent:
        handle.wait()
        to_all(arrays)


class _Compared:
    """The settings of one optimizer that steps in every worker, as all workers have said them.
    Where they differ, parameters drift apart. called: its name, the same at all workers."""

    def __init__(self, called: str, optimizer: Any, more: Dict[str, str]) -> None:
        self._called = called
        self._told = {**in_words(optimizer), **more}
        # How often something new was said.
        self._changes = 0
        self._say(self._told)

    def tell_changes(self, optimizer: Any) -> None:
        """What was changed since it was told last, at every worker."""
        now = in_words(optimizer)
        changed = {name: now[name] for name in _CHANGED
                   if name in now and now.get(name) != self._told.get(name)}
        if changed:
            self._told.update(changed)
            self._changes += 1
            self._say(changed)

    def _say(self, told: Dict[str, str]) -> None:
        at = f" at change {self._changes}" if self._changes else ""
        said = {f"{name} of {self._called}{at}": value for name, value in told.items()}
        _summing().store._say(said)


class DistributedTrainer(_trainer_base):  # type: ignore[misc]
    """gluon's Trainer: at each step gradients are averaged over the workers, and every worker
    updates its own parameters. The batch size of `step` is that of one worker.

    It gives all workers the parameters of the worker `root_rank`: at once, or at the first step
    those whose shape is not known before. A change of the learning rate counts at once; all workers
    have to make the same.

    Raises NotStarted before `init`, and Unsupported for row_sparse parameters and gradients, and in
    a worker that took the place of one that died. Raises WorkersDiffer if optimizers, their
    settings, root_rank or batch sizes differ between workers: parameters would drift apart.
    """

    _params_to_init: List[Any]
    #: Trainers of this process so far.
    _made = 0

    def __init__(self, params: Any, optimizer: Any,
                 optimizer_params: Optional[Dict[str, Any]] = None,
                 root_rank: SupportsIndex = 0) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn("DistributedTrainer sums gradients itself, and takes the optimizer that "
                          "is inside the DistributedOptimizer", stacklevel=2)
            optimizer = optimizer.inner
        self._root_rank = _root_rank(root_rank)
        _has_parameters("DistributedTrainer")
        super().__init__(params, optimizer, optimizer_params, kvstore=None)
        for parameter in self._params:
            if (parameter._stype, parameter._grad_stype) != ("default", "default"):
                raise errors.Unsupported(
                    f"{parameter.name} or its gradient is row_sparse, and DistributedTrainer has "
                    "dense arrays alone; for row_sparse ones use gluon.Trainer with 'dist_sync'")
        self._scale /= size()
        DistributedTrainer._made += 1
        self._called = f"DistributedTrainer {DistributedTrainer._made}"
        self._compared = _Compared(self._called, self._optimizer,
                                   {"root_rank": str(self._root_rank)})
        # The network's prefix counts the networks of its process.
        prefix = getattr(params, "prefix", "")
        self._names = {each.name: f"{each.name[len(prefix):]} of {self._called}"
                       if prefix and each.name.startswith(prefix)
                       else f"{each.name} of {self._called}" for each in self._params}
        # Trainer would do it in its first step, after gradients of other parameters.
        self._init_kvstore()
        self._init_params()

    def _init_kvstore(self) -> None:
        # Trainer's asks parameters for values first, which those without a shape do not have yet.
        self._kvstore = self._update_on_kvstore = None
        self._distributed, self._kv_initialized = False, True

    def _init_params(self) -> None:
        waiting = self._params_to_init
        ready = [each for each in waiting if not each._deferred_init]
        _broadcast([(self._names[each.name], each.list_data()) for each in ready],
                   self._root_rank)
        self._params_to_init = [each for each in waiting if each._deferred_init]

    def _allreduce_grads(self) -> None:
        self._compared.tell_changes(self._optimizer)
        _sum([(self._names[each.name], each.list_grad())
              for each in self._params if each.grad_req != "null"])


class DistributedOptimizer(_optimizer_base):  # type: ignore[misc]
    """An optimizer that averages gradients over the workers before it updates: for Module and own
    loops, with kvstore=None. Everything else is that of the optimizer inside.

    Its first update raises WorkersDiffer if workers have different optimizers or settings, and a
    later one if one worker changes something that another does not. Optimizers are numbered by
    their first updates, which all workers have to make in one order.
    """

    #: Those of this process that have updated something.
    _used = 0

    def __init__(self, optimizer: Any) -> None:
        _process.worker()
        _has_parameters("DistributedOptimizer")
        self._begin(optimizer)

    def _begin(self, optimizer: Any) -> None:
        # Not through __setattr__, which sets what is inside.
        object.__setattr__(self, "inner", optimizer)
        # What workers have said of it; a copy is another one.
        object.__setattr__(self, "_compared", None)
        # What was updated since it was compared last.
        object.__setattr__(self, "_updated", set())

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "_compared", "_updated"):
            # Asked for by copy and pickle, before there is one.
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)

    def __getstate__(self) -> Dict[str, Any]:
        return {"inner": self.inner}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._begin(state["inner"])

    def create_state(self, index: Any, weight: Any) -> Any:
        """As the optimizer inside."""
        return self.inner.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """As the optimizer inside."""
        return self.inner.create_state_multi_precision(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Averages, then updates."""
        self._average(index, grad)
        self.inner.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Averages, then updates."""
        self._average(index, grad)
        self.inner.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        """As the optimizer inside. All workers have to make the same changes."""
        self.inner.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """As the optimizer inside."""
        self.inner.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """As the optimizer inside."""
        self.inner.set_wd_mult(args_wd_mult)

    def _average(self, index: Any, grad: Any) -> None:
        if not isinstance(index, (list, tuple)):
            index, grad = [index], [grad]
        self._compare(index)
        _sum([(f"gradient {number}", [each]) for number, each in zip(index, grad)])
        for each in grad:
            each /= size()

    def _compare(self, index: List[Any]) -> None:
        """Once for each step: one begins with what was updated already. (A look at all settings for
        each parameter would cost more for each the more there are.)"""
        begins = self._compared is None or not self._updated.isdisjoint(index)
        if begins:
            self._updated.clear()
        self._updated.update(index)
        if self._compared is None:
            DistributedOptimizer._used += 1
            called = f"DistributedOptimizer {DistributedOptimizer._used}"
            object.__setattr__(self, "_compared", _Compared(called, self.inner, {}))
        elif begins:
            self._compared.tell_changes(self.inner)
