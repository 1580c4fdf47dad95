"""The methods as a worker does them in a real job: each is a function of one worker, what it sends
it sends by one of the ways below, and what it computes with are the rules of the model.

It may use digits, job, outer, peers and pslite; it knows no clock but the trainer's.
"""

import threading
from queue import SimpleQueue

import numpy as np

from . import outer
from .job import steps_by_speed
from .peers import cut

# Arrays of which the weights are parts, and float32 of all of them together: a network whose
# exchange takes long enough for a link's rate to be held.
ARRAYS, ELEMENTS = 8, 262_144


class Pieces:
    """A vector of weights as parts of so many arrays of equal size, in their order. What is beyond
    a part is zero and travels with it."""

    def __init__(self, weights, count=ARRAYS, elements=ELEMENTS, more=0):
        self.parts = cut(weights, count)
        longest = max(part.stop - part.start for part in self.parts) + more
        self.arrays = [np.zeros(max(longest, elements // count), np.float32) for _ in self.parts]

    def write(self, vector):
        for part, array in zip(self.parts, self.arrays):
            array[:part.stop - part.start] = vector[part]

    def read(self):
        return np.concatenate([array[:part.stop - part.start]
                               for part, array in zip(self.parts, self.arrays)])


# ---- sums in rounds -----------------------------------------------------------------------------

class Flight:
    """A sum that is under way."""

    def __init__(self):
        self._over, self._sum, self._came = threading.Event(), None, None

    def ends(self, sum_, came):
        self._sum, self._came = sum_, came
        self._over.set()

    def wait(self):
        """The sum, and when it came."""
        self._over.wait()
        if isinstance(self._sum, BaseException):
            raise self._sum
        return self._sum, self._came


class Sums:
    """Sums of all workers on a pslite.store.Store, of a model in so many fragments. clock: when
    something came."""

    def __init__(self, store, weights, clock, fragments=1):
        self._store, self._clock, self._sent = store, clock, SimpleQueue()
        self._fragments = []
        each = -(-ARRAYS // fragments)
        for number, part in enumerate(cut(weights, fragments)):
            pieces = Pieces(part.stop - part.start, each, ELEMENTS // fragments)
            names = [f"fragment {number}, array {place}" for place in range(each)]
            for name, array in zip(names, pieces.arrays):
                store.init(name, array)
            self._fragments.append((names, pieces))
        threading.Thread(target=self._look, daemon=True).start()

    def send(self, values, fragment=0):
        """A Flight. The one before of this fragment must be over."""
        names, pieces = self._fragments[fragment]
        pieces.write(values)
        flight = Flight()
        handles = [self._store.push_pull(name, array)
                   for name, array in zip(names, pieces.arrays)]
        self._sent.put((flight, handles, pieces))
        return flight

    def _look(self):
        while True:
            flight, handles, pieces = self._sent.get()
            try:
                for handle in handles:
                    handle.wait()
                flight.ends(pieces.read(), self._clock())
            except Exception as error:  # The worker raises it.
                flight.ends(error, None)


def co2(trainer, sums, setting):
    """peers.co2: the sum of the round before is applied when a stretch is over."""
    model, rule = trainer.start.copy(), outer.of(setting, len(trainer.start))
    before = None
    while True:
        local = model.copy()
        trainer.steps(local, setting["steps"])
        delta = local - model
        if before is not None:
            total, _ = before.wait()
            rule.update(model, total / np.float32(trainer.workers))
            yield trainer.now(), model
        before = sums.send(delta)


def eager(trainer, sums, setting):
    """peers.eager: the worker's own newest delta at once, those of the others of the round
    before. What it yields is its own model; the mean of all workers' is the method's."""
    count = np.float32(trainer.workers)
    model, rule = trainer.start.copy(), outer.of(setting, len(trainer.start))
    old, before = np.zeros_like(model), None
    while True:
        local = model.copy()
        trainer.steps(local, setting["steps"])
        new = local - model
        total = np.zeros_like(model) if before is None else before.wait()[0]
        before = sums.send(new)
        rule.update(model, total / count + (new - old) / count)
        old = new
        yield trainer.now(), model


def streaming(trainer, sums, setting):
    """peers.streaming: a fragment every so many steps, taken `delay` steps after its send."""
    model, rule = trainer.start.copy(), outer.of(setting, len(trainer.start))
    fragments = setting["fragments"]
    gap, own = max(1, setting["steps"] // fragments), np.float32(setting["own"])
    parts = cut(len(model), fragments)
    local, flights, step, turn = model.copy(), [], 0, 0
    while True:
        ahead = gap - step % gap
        if flights:
            ahead = min(ahead, flights[0][0] - step)
        trainer.steps(local, ahead)
        step += ahead
        while flights and (flights[0][0] == step or len(flights) == fragments):
            _, part, flight = flights.pop(0)
            total, came = flight.wait()
            rule.update(model, total / np.float32(trainer.workers), part)
            local[part] = own * local[part] + (1 - own) * model[part]
            yield came, model
        if step % gap == 0:
            at = turn % fragments
            turn += 1
            flights.append((step + setting["delay"], parts[at],
                            sums.send(local[parts[at]] - model[parts[at]], at)))


class Turn:
    """The workers' places in a row, on the store: worker j may send when all have summed up the
    array of its turn, which the one before does last. number: this worker's."""

    def __init__(self, store, number, workers):
        self._store, self._number = store, number
        self._turns = [np.zeros(1, np.float32) for _ in range(workers)]
        for place, array in enumerate(self._turns):
            store.init(f"turn {place}", array)
        self._handles = []

    def wait(self):
        """A new row, and until it is this worker's turn."""
        self._handles = [self._next(place) for place in range(len(self._turns))
                         if place != self._number + 1]
        self._handles[self._number].wait()

    def is_over(self):
        """What this worker has to send is on its way; the next one's turn goes behind it."""
        if self._number + 1 < len(self._turns):
            self._handles.append(self._next(self._number + 1))

    def ends(self):
        """All have had their turn."""
        for handle in self._handles:
            handle.wait()

    def _next(self, place):
        self._turns[place][:] = 0
        return self._store.push_pull(f"turn {place}", self._turns[place])


class InTurn:
    """A worker that sends when it is its turn, and computes meanwhile."""

    def __init__(self, start, turn, sums):
        self.value, self.sent = start.copy(), start.copy()
        self._turn, self._sums = turn, sums
        self._lock, self._ready, self._came = threading.Lock(), threading.Event(), SimpleQueue()
        threading.Thread(target=self._send, daemon=True).start()

    def stepped(self, value):
        with self._lock:
            self.value = value

    def is_ready(self):
        """It has computed with the newest model, or was about to."""
        self._ready.set()

    def came(self):
        """What `Flight.wait` gives, if a round is over; else None."""
        if self._came.empty():
            return None
        found = self._came.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def swap(self, model):
        with self._lock:
            self.value = model + (self.value - self.sent)
            self.sent = model.copy()

    def _send(self):
        try:
            while True:
                self._turn.wait()
                self._ready.wait()
                self._ready.clear()
                with self._lock:
                    delta, self.sent = self.value - self.sent, self.value.copy()
                flight = self._sums.send(delta)
                self._turn.is_over()
                self._turn.ends()
                self._came.put(flight.wait())
        except Exception as error:  # The worker raises it.
            self._came.put(error)


def hsp(trainer, own):
    """hsp.hsp: own is an InTurn."""
    model = trainer.start.copy()
    is_first = True
    while True:
        value = own.value.copy()
        trainer.steps(value, 1)
        own.stepped(value)
        if is_first:
            own.is_ready()
            is_first = False
        if (found := own.came()) is not None:
            total, came = found
            model += total / np.float32(trainer.workers)
            own.swap(model)
            own.is_ready()
            yield came, model


# ---- a server with a rule of its own ------------------------------------------------------------

class Mixed:
    """A model at a server that has a rule of its own (real_server.py): a worker sends values and
    gets the model. Behind each part is its version."""

    def __init__(self, worker, start):
        self._worker, self._pieces = worker, Pieces(len(start), more=1)

    def exchange(self, values):
        """A new array."""
        pieces = self._pieces
        pieces.write(values)
        handles = [self._worker.push_pull([key], array)
                   for key, array in enumerate(pieces.arrays)]
        for handle in handles:
            handle.wait()
        return pieces.read()


def fedasync(trainer, mixed, setting):
    """peers.fedasync: the worker's part."""
    model = trainer.start.copy()
    while True:
        trainer.steps(model, setting["steps"])
        model = mixed.exchange(model)
        yield trainer.now(), model


def asynchronous(trainer, mixed, setting):
    """peers.asynchronous: the worker's part."""
    model = trainer.start.copy()
    steps = steps_by_speed(setting["steps"], trainer.speeds)[trainer.number]
    while True:
        local = model.copy()
        trainer.steps(local, steps)
        model = mixed.exchange(local - model)
        yield trainer.now(), model


# ---- our own exchange ---------------------------------------------------------------------------

class Seen:
    """What a worker knows of the global model: it follows from what a swap made of its values."""

    def __init__(self, start, sections, keep):
        self._parts, self._keep = cut(len(start), sections), keep
        self._sent, self._done = start.copy(), 0
        self.model = start.copy()

    def begins(self, done):
        """So many rounds were over before."""
        self._done = done

    def swapped(self, before, after, done):
        """A step is over: its values before and after it, and the rounds that are over so far. True
        if the model is newer."""
        sections = len(self._parts)
        rounds = range(self._done, done)
        for number in rounds:
            part = self._parts[number % sections]
            own = before[part] - self._sent[part] if self._keep else 0
            self.model[part] = after[part] - own
        self._done = done
        return len(rounds) > 0

    def sends(self, after, first, last):
        """So many rounds were sent in that step."""
        for number in range(first, last):
            part = self._parts[number % len(self._parts)]
            self._sent[part] = after[part]


def exchange(trainer, exchanged, pieces, setting):
    """A worker of pslite.sync. setting: `sections`, `keep`, and `waits` where values are the global
    ones when a step returns."""
    vector = pieces.read()
    seen = Seen(vector, setting.get("sections", 1), setting.get("keep", False))
    sent, steps = exchanged.counts.sent, 0
    seen.begins(exchanged.counts.done)
    while True:
        trainer.steps(vector, 1)
        pieces.write(vector)
        exchanged.step()
        after, counts = pieces.read(), exchanged.counts
        steps += 1
        if counts.sent > sent:
            trainer.note = {"steps": steps, "flights": counts.sent - counts.done}
            steps = 0
        if setting.get("waits"):
            if counts.sent > sent:
                yield trainer.now(), after
        elif seen.swapped(vector, after, counts.done):
            yield trainer.now(), seen.model
        seen.sends(after, sent, counts.sent)
        sent, vector = counts.sent, after
