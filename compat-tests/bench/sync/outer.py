"""What a server does with the mean delta of a round: the outer rule of docs/nbsync.md."""

import numpy as np


class Outer:
    """SGD or NAG, of one job. rate 1, momentum 0: the mean is added."""

    def __init__(self, weights, rate=1.0, momentum=0.0, nesterov=True):
        self._rate, self._momentum = np.float32(rate), np.float32(momentum)
        self._nesterov = nesterov
        self._speed = np.zeros(weights, np.float32)

    def update(self, model, mean, part=slice(None)):
        """Changes a part of the global model in place, by the mean delta of that part."""
        before = self._speed[part].copy()
        speed = self._momentum * before + self._rate * mean
        self._speed[part] = speed
        if self._nesterov:
            model[part] += (1 + self._momentum) * speed - self._momentum * before
        else:
            model[part] += speed


def of(setting, weights):
    """That of a method's setting."""
    return Outer(weights, setting.get("outer", 1.0), setting.get("momentum", 0.0),
                 setting.get("nesterov", True))
