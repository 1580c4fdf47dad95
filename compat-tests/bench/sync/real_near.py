"""What the model says of a job whose exchanges differ: by how much chance decides. No process, no
clock.
"""

import math
import random

from . import search
from .job import Case, Job
from .real_heard import Arrival
from .real_methods import form_of

# By that part each exchange takes longer or shorter, and how often the model is asked.
SHAKEN, DRAWS = 0.1, 10


class Shaken(Job):
    """A job of the model each of whose exchanges takes another time, longer or shorter by up to
    SHAKEN."""

    def __init__(self, case, seed, setting, draw):
        self._draw, self._exchange = random.Random(draw), case.exchange
        super().__init__(case, seed, setting["rate"], setting.get("own_momentum", 0.0))

    @property
    def exchange(self):
        return self._exchange * (1 + self._draw.uniform(-SHAKEN, SHAKEN))

    @exchange.setter
    def exchange(self, seconds):
        self._exchange = seconds


def nearby(one, speeds):
    """What the model says where exchanges take a little less or more, in so many draws: by how much
    chance the order of events decides."""
    return [shaken(one, speeds, draw) for draw in range(DRAWS)]


def shaken(one, speeds, draw):
    case = Case(one["exchange"], one["alpha"], speeds)
    job, arrival = Shaken(case, one["seed"], one["setting"], draw), Arrival()
    for number, (now, model) in enumerate(form_of(one["method"]).run(job, one["setting"])):
        arrival.takes(now, number, model)
        if arrival.seconds is not None or now > search.REPORTED:
            return arrival.seconds or math.inf
    raise AssertionError("a method has ended")
