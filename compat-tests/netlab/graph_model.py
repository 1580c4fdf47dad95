"""How long a round takes on a graph without trees: what the links alone allow. Pure arithmetic.

Every worker pushes each tensor to the server that has it, and pulls it from there. All go the ways
of the graph's routes, and share links with all others that cross them. `round_seconds` is a fluid
model of that:

- A connection leads from a worker to a server, or back. What is in it comes out in the order in
  which it was put in. Nothing else is on the links.
- Connections with something in them share links fairly: rates are max-min (Bertsekas and Gallager,
  Data Networks, 6.5.2), as long connections of TCP have them, about; or in proportion to weights
  (`unequal`). 0.955 of a rate is payload (model.GOODPUT). There is no delay, and nobody computes.
- A worker puts the pushes of all tensors into its connections at once, in their order. A server
  answers the pushes of a tensor when all workers' have come, since the round is synchronous
  (MXNet's `dist_sync`). A worker asks for a tensor when its pushes are answered. The server then
  sends it.
- Questions and answers without values are small. In a connection they wait for what is before them
  all the same (`in_order`): ps-lite's worker has one connection to each server, into which it has
  put everything before the first answer comes. So its round is about all pushes and then all pulls.
  With `in_order=False` they pass by: pushes and pulls overlap.

Sites are names; sizes are bytes; rates are Mbit/s; results are seconds.
"""

import random
from collections import deque
from math import inf
from statistics import mean
from typing import NamedTuple

from .graph import way
from .model import GOODPUT

# Of a tensor's part: what is in a connection. Values: push, data. Without: answer, question.
PUSH, ANSWER, QUESTION, DATA = range(4)
# Bytes: less than that is nothing (rounding).
NOTHING = 1e-3
# Of `unequal`: a connection's weight is between 1 / SPREAD and SPREAD; how often it is drawn. In a
# trace of five connections of stock on one link the fastest had 2.5 times the slowest one's rate.
SPREAD, DRAWS = 2.0, 12


class Connection:
    """What goes from one process to another; the first in `waiting` is under way. Of a full link
    it gets a part in proportion to its weight."""

    def __init__(self, links, weight=1.0):
        self.links = links
        self.weight = weight
        self.waiting = deque()
        self.left = 0.0
        self.rate = 0.0

    def put(self, size, what):
        self.waiting.append((size, what))
        if len(self.waiting) == 1:
            self.left = size

    def next(self):
        """Takes out what has arrived."""
        _, what = self.waiting.popleft()
        self.left = self.waiting[0][0] if self.waiting else 0.0
        return what


def share(graph, connections):
    """Sets the rates of connections, in Mbit/s, max-min: the link that gives each of its
    connections the least, by weight, decides for these; then the next one, with what is left."""
    free = {link: rate for link, rate in graph.rates.items() if rate is not None}
    users = {link: [] for link in free}
    for one in connections:
        one.rate = inf
        for link in one.links:
            if link in users:
                users[link].append(one)
    users = {link: found for link, found in users.items() if found}
    while users:
        each = {link: free[link] / sum(one.weight for one in found)
                for link, found in users.items()}
        tight = min(each, key=each.get)
        for one in users[tight]:
            one.rate = each[tight] * one.weight
            for link in one.links:
                if link in free:
                    free[link] = max(0.0, free[link] - one.rate)
        users = {link: [one for one in found if one.rate == inf] for link, found in users.items()}
        users = {link: found for link, found in users.items() if found}


class _Round:
    """The state of a round. tensors: of each, its parts as (site of its server, bytes)."""

    def __init__(self, graph, hops, tensors, workers, in_order, weigh):
        self.graph = graph
        self.tensors = tensors
        self.workers = workers
        self.in_order = in_order
        servers = sorted({site for parts in tensors for site, _ in parts})
        self.up, self.down = {}, {}
        for worker, site in enumerate(workers):
            for server in servers:
                self.up[worker, server] = Connection(way(hops, site, server), weigh())
                self.down[worker, server] = Connection(way(hops, server, site), weigh())
        self.connections = [*self.up.values(), *self.down.values()]
        # What a part lacks: pushes; what a worker lacks of a tensor: answers, and values.
        self.pushes = {(tensor, part): len(workers) for tensor, parts in enumerate(tensors)
                       for part in range(len(parts))}
        self.answers = {(worker, tensor): len(parts) for tensor, parts in enumerate(tensors)
                        for worker in range(len(workers))}
        self.missing = sum(self.answers.values())
        self._arrived = deque()

    def _put(self, kind, worker, tensor, part):
        site, size = self.tensors[tensor][part]
        connection = (self.up if kind in (PUSH, QUESTION) else self.down)[worker, site]
        what = (kind, worker, tensor, part)
        if not connection.links or (kind in (ANSWER, QUESTION) and not self.in_order):
            self._arrived.append(what)
        else:
            connection.put(size if kind in (PUSH, DATA) else 0, what)

    def _arrive(self, kind, worker, tensor, part):
        if kind == PUSH:
            self.pushes[tensor, part] -= 1
            if not self.pushes[tensor, part]:
                for other in range(len(self.workers)):
                    self._put(ANSWER, other, tensor, part)
        elif kind == ANSWER:
            self.answers[worker, tensor] -= 1
            if not self.answers[worker, tensor]:
                for other in range(len(self.tensors[tensor])):
                    self._put(QUESTION, worker, tensor, other)
        elif kind == QUESTION:
            self._put(DATA, worker, tensor, part)
        else:
            self.missing -= 1

    def _settle(self):
        """Everything that takes no time."""
        while True:
            for one in self.connections:
                while one.waiting and (one.left <= NOTHING or one.rate == inf):
                    self._arrived.append(one.next())
            if not self._arrived:
                return
            while self._arrived:
                self._arrive(*self._arrived.popleft())

    def run(self):
        for worker in range(len(self.workers)):
            for tensor, parts in enumerate(self.tensors):
                for part in range(len(parts)):
                    self._put(PUSH, worker, tensor, part)
        now, shared = 0.0, None
        self._settle()
        while self.missing:
            active = [one for one in self.connections if one.waiting]
            if active != shared:
                share(self.graph, active)
                shared = active
                self._settle()
                if shared != [one for one in self.connections if one.waiting]:
                    continue
            # Mbit/s on the wire to bytes of payload.
            speed = 1e6 * GOODPUT / 8
            step = min(one.left / (one.rate * speed) for one in active)
            now += step
            for one in active:
                one.left -= step * one.rate * speed
            self._settle()
        return now


def round_seconds(graph, hops, tensors, workers, in_order=True, weigh=lambda: 1.0):
    """Seconds until the last worker has pulled everything.

    tensors: in the order in which they are pushed, each a list of parts (site of the server,
    bytes). workers: their sites. weigh: gives the weight of each connection.
    """
    return _Round(graph, hops, tensors, workers, in_order, weigh).run()


class Spread(NamedTuple):
    """Seconds, of several draws."""

    least: float
    mean: float
    most: float


def unequal(graph, hops, tensors, workers, seed=1):
    """Rounds in which connections do not share links as equals, as those of TCP with other ways:
    weights are drawn. Who is ahead gets values while others still push. So such rounds are mostly
    shorter than that of equals, in which all are through with their pushes at once."""
    numbers = random.Random(seed)
    drawn = [round_seconds(graph, hops, tensors, workers,
                           weigh=lambda: SPREAD ** numbers.uniform(-1, 1)) for _ in range(DRAWS)]
    return Spread(min(drawn), mean(drawn), max(drawn))


def best_site(graph, hops, workers):
    """Where one server for these workers takes the least time; of several such sites, the
    first."""
    return min(graph.sites,
               key=lambda site: round_seconds(graph, hops, [[(site, 1e6)]], workers))
