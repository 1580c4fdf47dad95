"""Training while the network works (docs/nbsync.md): for programs that know of it.

    PSLITE_SYNC=nbsync pslite run -n 4 -s 2 -- python train.py

In such a job workers differ between swaps. `finish` makes them equal, so that what is evaluated or
saved is the global model:

    for epoch in range(epochs):
        train(net, trainer)
    sync.finish(trainer)
    net.save_parameters("weights.params")

mxnet is not imported at import.
"""

import sys
from ctypes import byref, c_int32
from typing import Any, Optional

from . import errors
from .node import Node, current

__all__ = ["finish"]


def finish(of: Any = None, *, node: Optional[Node] = None) -> bool:
    """Waits until all workers have come here, and all that they have changed is at the servers.
    What each pulls next is equal to the bit at all of them. Every kvstore of this process has part
    in it.

    of: a gluon Trainer or a Module, whose parameters are then pulled; or a kvstore, and the program
    pulls what it wants. node: the worker; None: that of this process (`pslite.node.current`).

    A worker that has ended is not awaited. One that took the place of a dead one is not awaited
    either, since rounds do not wait for it; it waits until what it has changed is at the servers.

    Returns False in a job without an exchange: nothing is done there.

    Raises NotStarted, PeerLost, RemoteError (what was changed cannot be sent: the training has
    diverged), and InvalidArgument for what has no parameters to pull.
    """
    pull = _pull_of(of)
    mxnet = sys.modules.get("mxnet")
    if mxnet is not None:
        mxnet.nd.waitall()  # Its pushes and pulls go on in threads of its own.
    worker = node if node is not None else current()
    handle, exchanges = worker.handle, c_int32()
    worker._block(lambda: worker._library.pslite_exchange_finish(handle, byref(exchanges)))
    if exchanges.value:
        pull()
        if mxnet is not None:
            mxnet.nd.waitall()
    return bool(exchanges.value)


def _pull_of(of: Any) -> Any:
    """Pulls all parameters of that."""
    if of is None or hasattr(of, "pull"):
        return lambda: None
    if hasattr(of, "allreduce_grads"):
        return lambda: _pull_trainer(of)
    if hasattr(of, "update_metric"):
        return lambda: _pull_module(of)
    raise errors.InvalidArgument(
        f"{type(of).__name__}: finish() takes a gluon Trainer, a Module or a kvstore")


def _pull_trainer(trainer: Any) -> None:
    kvstore = trainer._kvstore
    if kvstore is None or not trainer._update_on_kvstore:
        return  # It has not stepped yet, or is none of the exchange's.
    for number, parameter in enumerate(trainer._params):
        if parameter.grad_req != "null":
            kvstore.pull(number, parameter.list_data(), priority=-number)


def _pull_module(module: Any) -> None:
    kvstore = module._kvstore
    if kvstore is None or not module._update_on_kvstore:
        return
    group = module._exec_group
    for name, arrays in zip(group.param_names, group.param_arrays):
        kvstore.pull(name, arrays)
    # The copies on the host are those of the devices again when somebody asks for them.
    module._params_dirty = True
