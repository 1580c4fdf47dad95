"""pslite.lbbsp without a job: which batches a pass gives, what is given again, when a wait is
hopeless, and what is counted. Time is an argument or a fake."""

import sys
import threading
from types import SimpleNamespace

import pytest

from test_python_kv import PACKAGE

sys.path.insert(0, str(PACKAGE))

from pslite import errors  # noqa: E402
from pslite.lbbsp import _missing, _order, _settings, _state  # noqa: E402
from pslite.lbbsp._batch import Batch  # noqa: E402
from pslite.lbbsp._rows import Rows, fits  # noqa: E402
from pslite.lbbsp._session import Session  # noqa: E402
from pslite.lbbsp._taken import Taken  # noqa: E402

PER_EPOCH = 5


class Library:
    """Lends a session of one worker as many batches as its lookahead allows."""

    def __init__(self, prefetch=0, dealt=0):
        self.lookahead, self.dealt = prefetch + 1, dealt
        self.next = self.reported = 0
        #: Batches that were computed, whose gradients have not come to the library.
        self.late = 0
        self.lines, self.orders = [], []

    def pslite_session_next(self, handle, limit, found):
        found = found._obj
        if self.dealt and self.next == self.dealt:
            if self.reported < self.next:
                return self.wait("all is dealt; rank 0 to report")
            found.size = 0
            return 0
        most = self.reported + self.lookahead + (self.reported == 0)
        if not self.dealt and self.next >= most:
            return self.wait("rank 0 to report")
        epoch, within = divmod(self.next, PER_EPOCH)
        found.iteration, found.epoch, found.place = self.next, epoch, 4 * within
        found.size, found.workers = 4, 1
        self.next += 1
        return 0

    def wait(self, text):
        self.text = text
        return 1

    def pslite_session_progress(self, handle, taken, reported):
        taken._obj.value, reported._obj.value = self.next, self.reported
        return 0

    def pslite_session_report(self, handle, iteration, seconds, cpu, memory):
        self.reported = max(self.reported, iteration + 1)
        return 0

    def pslite_session_settle(self, handle):
        self.reported, self.late = self.reported + self.late, 0
        return 0

    def pslite_session_skip(self, handle, iteration):
        self.reported = max(self.reported, iteration)
        self.next = max(self.next, iteration)
        return 0

    def pslite_session_ordered(self, handle, epoch, found):
        self.orders.append((epoch, found))
        return 0

    def pslite_session_open_at(self, node, settings, start, handle):
        self.start = start._obj
        self.next = self.reported = self.start.first
        handle._obj.value = 1
        return 0

    def pslite_log(self, level, text):
        self.lines.append(text.decode())

    def pslite_session_close(self, handle):
        pass


@pytest.fixture
def opened(monkeypatch):
    """Opens a session with a fake library, whose waits have no length."""
    now = [0.0]

    def make(prefetch=0, dealt=0, measure="reports", **options):
        library = Library(prefetch, dealt)
        node = SimpleNamespace(rank=0, num_workers=1, num_servers=0, handle=None, _customers=[],
                               _library=library)
        from pslite import _library
        monkeypatch.setattr(_library, "check", lambda status: None)

        def error_of(status):
            now[0] += 0.05
            return errors.Timeout(library.text)

        monkeypatch.setattr(_library, "error_of", error_of)
        monkeypatch.setattr(_missing.time, "monotonic", lambda: now[0])
        rule = "dealt" if dealt else "fixed"
        session = Session(node, length=20, total=4, prefetch=prefetch, measure=measure, rule=rule,
                          **options)
        session.library, session.now = library, now
        return session

    return make


def loader(session, workers):
    """Takes as many batches ahead as loaders of torch and gluon do, then one for each that it
    hands out."""
    batches, ready = iter(session.batches()), []

    def pull():
        ready.extend(each for each in [next(batches, None)] if each is not None)

    for _ in range(workers):
        pull()
    while True:
        pull()
        if not ready:
            return
        yield ready.pop(0)


def trained(session, batches, most=99):
    """Each batch that comes is the one that the session believes to be computed."""
    found = []
    for number, indices in enumerate(batches):
        if number == most:
            break
        assert session.batch.indices == indices, (session.batch, indices)
        found.append(session.batch.iteration)
        session.report(0.1)
    return found


@pytest.mark.parametrize("ahead", (0, 4))
def test_what_was_looked_at_is_given_again(opened, ahead):
    session = opened(prefetch=4, shuffle=False)
    next(loader(session, ahead))
    kept = loader(session, ahead)
    next(kept)
    assert trained(session, loader(session, ahead)) == [0, 1, 2, 3, 4]
    assert trained(session, loader(session, ahead)) == [5, 6, 7, 8, 9]
    assert session.given_again == 2 * min(ahead + 1, PER_EPOCH) and session.skipped == 0
    # It is told once.
    assert len(session.library.lines) == 1 and "given again" in session.library.lines[0]


@pytest.mark.parametrize("ahead", (0, 2, 4))
def test_an_epoch_that_is_left_goes_on(opened, ahead):
    session = opened(prefetch=4, shuffle=False)
    found = [trained(session, loader(session, ahead), most) for most in (2, 0, 1, 99, 4, 99, 99)]
    assert found == [[0, 1], [], [2], [3, 4], [5, 6, 7, 8], [9], [10, 11, 12, 13, 14]]


def over_the_end(session, ahead):
    """A loop that reports the last batch of an epoch when it has the first one of the next epoch.
    Gives that first one."""
    found = []
    for indices in loader(session, ahead):
        found.append(indices)
        if len(found) < PER_EPOCH:
            session.report(0.1)
    assert len(found) == PER_EPOCH
    return next(loader(session, ahead))[0] // 4


@pytest.mark.parametrize("ahead", (0, 2))
def test_a_loop_that_takes_a_batch_ahead_over_the_end_of_an_epoch(opened, ahead):
    """Only a loader that takes as many batches ahead as the session's `prefetch` says shows by its
    last questions that it has handed out all of an epoch (docs/lbbsp.md, "three cases"). The loop
    would have one batch more than that."""
    with pytest.raises(errors.InvalidArgument, match="has not reported it"):
        over_the_end(opened(prefetch=ahead, shuffle=False), ahead)
    # With room for that batch (a torch loader without workers, one of gluon with fewer): the last
    # batch comes twice, and that is said.
    session = opened(prefetch=ahead + 1, shuffle=False)
    assert over_the_end(session, ahead) == PER_EPOCH - 1 and session.given_again == 1
    assert "are given again" in session.library.lines[-1]


def test_a_former_iterator_raises(opened):
    session = opened(prefetch=4, shuffle=False)
    first, second = loader(session, 1), loader(session, 1)
    next(first)
    next(second)
    with pytest.raises(errors.InvalidArgument, match="one iterator at a time"):
        next(first)
    session.report(0.1)  # What the second one has handed out.
    assert trained(session, second) == [1, 2, 3, 4]
    with pytest.raises(errors.InvalidArgument, match="one iterator at a time"):
        for _ in zip(loader(session, 1), loader(session, 1)):
            pass


def test_what_is_late_is_not_given_again(opened, monkeypatch):
    """MXNet's engine may not have pushed the gradients of the last batch when the next pass
    begins."""
    waited = []
    monkeypatch.setattr(_missing, "wait_for_mxnet", lambda: waited.append(True))
    session = opened(prefetch=4, shuffle=False, measure="pushes")
    for number, _ in enumerate(loader(session, 4)):
        if number == 2:
            break
        session.library.reported += number < 1
    session.library.late = 1
    assert next(iter(session)).iteration == 2 and waited == [True]


def test_who_feeds_another_thread_has_handed_out_what_it_took(opened):
    session = opened(prefetch=4, shuffle=False)
    session._reporters.add(-1)
    assert [batch.iteration for batch in session] == [0, 1, 2, 3, 4]
    assert next(iter(session)).iteration == 5
    with pytest.raises(errors.InvalidArgument, match="on the thread that trains"):
        next(iter(session))


def test_set_epoch_and_states(opened):
    session = opened(prefetch=4, shuffle=False)
    assert trained(session, loader(session, 2), 2) == [0, 1]
    session.set_epoch(0)
    session.set_epoch(1)
    assert session.skipped == 3 and "skips the iterations from 2 to 4" in session.library.lines[-1]
    assert trained(session, loader(session, 2)) == [5, 6, 7, 8, 9]
    session.set_epoch(2)
    assert session.skipped == 3
    assert trained(session, loader(session, 2), 1) == [10]
    state = session.state_dict()
    assert (state["iteration"], state["epoch"]) == (11, 2)
    with pytest.raises(errors.InvalidArgument, match="epoch 1 is over"):
        session.set_epoch(1)
    with pytest.raises(errors.InvalidArgument, match="iteration 3 is over"):
        session.load_state_dict({**state, "iteration": 3})
    for other in (opened(state=state, shuffle=False), opened(epoch=2, iteration=1, shuffle=False)):
        assert other.library.start.first == 11
        assert trained(other, loader(other, 0)) == [11, 12, 13, 14]
    other = opened(shuffle=False)
    other.batches().load_state_dict(session.batches().state_dict())
    assert trained(other, loader(other, 0)) == [11, 12, 13, 14]
    with pytest.raises(errors.InvalidArgument, match="had shuffle=False, this one has True"):
        opened(state=state)
    with pytest.raises(errors.InvalidArgument, match="no state_dict"):
        opened(state={})
    with pytest.raises(errors.InvalidArgument, match="an epoch has 5 iterations"):
        opened(iteration=5)
    with pytest.raises(errors.InvalidArgument, match="either `state`"):
        opened(state=state, epoch=1, shuffle=False)


def test_where_batches_are_dealt_only_the_epoch_is_said(opened):
    session = opened(dealt=12, epoch=3)
    assert session.library.start.first == 3
    for refused in (lambda: session.set_epoch(4), session.state_dict,
                    lambda: opened(dealt=12, iteration=1)):
        with pytest.raises(errors.InvalidArgument, match="dealt"):
            refused()


def test_batches_that_nobody_reports(opened):
    """The main thread waits for itself."""
    session = opened(prefetch=1, shuffle=False, name="mine")
    session.report(0.1, iteration=next(iter(session)).iteration)
    with pytest.raises(errors.InvalidArgument) as error:
        for _ in session:
            pass
    text = str(error.value)
    for part in ("session 'mine': rank 0 took Batch 1 of epoch 0", "2 batches were taken",
                 "the script has to report them"):
        assert part in text, text
    assert session.now[0] < 1, "the thread is known to report"
    # Nobody has reported before: after a while.
    session = opened(prefetch=1, shuffle=False)
    with pytest.raises(errors.InvalidArgument, match="give the session `prefetch`"):
        list(session)
    assert session.now[0] > 10
    # Another thread may report.
    session, found = opened(shuffle=False), []

    def wait():
        try:
            session._next(1.0)
            session._next(1.0)
            session._next(0.2)
        except errors.PsliteError as error:
            found.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(20)
    assert found == [errors.Timeout]


def test_what_is_dealt_and_not_reported(opened):
    session = opened(dealt=3)
    session._reporters.add(threading.get_ident())
    with pytest.raises(errors.InvalidArgument, match="Call session.report"):
        list(session)
    # A loader has the last ones: its epoch ends, and the next one finds that all are reported.
    session = opened(prefetch=2, dealt=3, shuffle=False)
    assert len(trained(session, loader(session, 2))) == 3
    assert trained(session, loader(session, 2)) == [] and session._ended


def test_texts_where_no_batch_is_computed(opened):
    session = opened(shuffle=False)
    with pytest.raises(errors.InvalidArgument, match="take one first"):
        session.report(1.0)
    next(iter(session))
    session.report(1.0)
    with pytest.raises(errors.InvalidArgument, match="Batch 0 was reported"):
        session.report(1.0)


def test_orders_are_checked_and_compared(opened):
    numpy = pytest.importorskip("numpy")
    session = opened(order=lambda epoch: list(range(20))[::-1 if epoch else 1])
    assert session.library.start.order == _order.OWN
    assert session.library.start.order_hash == _order.digest(range(20), 20, 0)
    for _ in range(2):
        trained(session, loader(session, 0))
    assert session.library.orders == [(1, _order.digest(range(19, -1, -1), 20, 1))]
    assert opened(shuffle=False).library.start.order == _order.STORED
    assert opened().library.start.order == _order.SHUFFLED
    same = [_order.digest(order, 3, 0) for order in
            ([2, 0, 1], (2, 0, 1), numpy.array([2, 0, 1], "int32"), numpy.array([2, 0, 1]))]
    assert len(set(same)) == 1 and same[0] != _order.digest([0, 1, 2], 3, 0)
    for order, text in ((range(19), "has 19 samples"), ([0.5] * 20, "no number of a sample"),
                        (range(1, 21), "has the sample 20"), (range(-1, 19), "the sample -1")):
        with pytest.raises(errors.InvalidArgument, match=text):
            opened(order=lambda epoch, order=order: order)


def test_numbers_of_numpy(opened):
    numpy = pytest.importorskip("numpy")
    session = opened(prefetch=1, seed=numpy.int64(5), shuffle=numpy.bool_(False),
                     min=numpy.int32(1), epoch=numpy.uint8(1))
    session.report(numpy.float32(0.5), iteration=numpy.int64(next(iter(session)).iteration))
    assert session.library.reported == 6
    for call, text in ((lambda: opened(seed=0.5), "seed=0.5 is no whole number"),
                       (lambda: opened(min="a"), "min='a' is no whole number"),
                       (lambda: session.report("a", iteration=5), "seconds='a' is no number"),
                       (lambda: session.report(float("nan"), iteration=5), "no finite number"),
                       (lambda: session.next("a"), "timeout='a' is no number")):
        with pytest.raises(errors.InvalidArgument, match=text):
            call()
    assert _settings.some(None, "max") == 0 and _settings.number(numpy.int8(3), "min") == 3


def test_states_say_what_differs():
    session = SimpleNamespace(rule="fixed", length=20, total=4, _last=0, _shuffle=True, _seed=3,
                              _order=None, _per_epoch=5)
    state = _state.write(session, 7)
    assert _state.read(session, state) == 7 and state["epoch"] == 1
    session._seed = 4
    with pytest.raises(errors.InvalidArgument, match="had seed=3, this one has 4"):
        _state.read(session, state)


def test_passes_of_a_model_fit_a_batch():
    # Whole, in parts, twice, and after a pass without gradients.
    for seen in ([8], [3, 5], [8, 8], [4, 4, 4, 4], [99, 8], [8, 3, 5]):
        assert fits(seen, 8), seen
    for seen in ([], [7], [16], [12, 4], [3, 4], [8, 0]):
        assert not fits(seen, 8), seen


def test_exchanges_are_checked():
    session = SimpleNamespace(name="a", rank=1)
    batch = SimpleNamespace(size=8)
    rows = Rows(None)
    rows.saw(8)
    rows.check(session, batch, False)
    with pytest.raises(errors.InvalidArgument, match="second time after one forward pass"):
        rows.check(session, batch, False)
    rows.check(session, batch, True)
    rows.saw(9)
    with pytest.raises(errors.InvalidArgument, match="has computed 9 samples"):
        rows.check(session, batch, False)
    rows.saw(8)
    with pytest.raises(errors.InvalidArgument, match="a batch that was reported"):
        rows.check(session, None, False)


def test_taken_batches():
    taken = Taken()
    batches = [Batch(SimpleNamespace(), SimpleNamespace(iteration=i, epoch=0, place=0, size=1,
                                                        workers=1)) for i in range(4)]
    for batch in batches[:3]:
        taken.add(batch)
    assert taken.oldest() is batches[0] and taken.oldest(2) is batches[2]
    assert taken.rewind() == 3 and taken.oldest() is None and taken.again() is batches[0]
    taken.forget(2)
    assert len(taken) == 1 and taken.again() is batches[2] and taken.again() is None
    taken.add(batches[3])
    taken.give_back()
    assert taken.oldest() is batches[2] and taken.again() is batches[3]
