"""LB-BSP: workers of one training share each iteration's samples so that all take the same time.

    from pslite import lbbsp

    session = lbbsp.Session(node, length=len(dataset), total=256)
    for _ in range(epochs):
        for batch in session:                      # one epoch; the sizes follow the workers' speeds
            with session.compute():                # measures, and reports
                gradient = step(data[batch.indices]) * batch.scale
            ...

The scheduler of the node's job says how many samples each worker takes. Which samples an iteration
has does not depend on that, so a training takes the same course as with equal batches.
docs/lbbsp.md says when it pays. `BatchSampler` is for loaders of gluon and torch, `DataIter` for
mxnet's Module, `attach` for torch's DistributedDataParallel.

Neither numpy nor torch nor mxnet is imported at import.
"""

from ._batch import Batch
from ._passes import BatchSampler
from ._session import Session
from .mxnet import DataIter
from .torch import attach

__all__ = ["Batch", "BatchSampler", "DataIter", "Session", "attach"]
