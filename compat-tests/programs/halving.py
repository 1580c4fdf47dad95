"""An optimizer of the user's own: the server's store cannot know it, MXNet's server can run it."""

import mxnet as mx
# A server runs inside `import mxnet`, where `mx.nd` is not there yet.
from mxnet.ndarray import zeros


@mx.optimizer.register
class Halving(mx.optimizer.Optimizer):
    def create_state(self, index, weight):
        return zeros(weight.shape, weight.context, dtype=weight.dtype)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        state[:] = 0.5 * state + grad
        weight[:] = 0.5 * weight + state
