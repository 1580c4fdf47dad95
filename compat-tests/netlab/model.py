"""The bound of a round's time: what no placement of the model can beat on links of given rates.

Pure arithmetic. Every worker pushes and pulls the whole model once; a server holds the share x of
it, takes that share from each worker and gives it to each; pushes and pulls overlap, as every link
carries both directions at once (docs/algorithms.md 1, the bound for pipelined push and pull):

    T = max( max_s W x_s M / min(up_s, down_s),  max_i M / min(up_i, down_i) )

The first term is smallest if all servers end together, x_s in proportion to min(up_s, down_s): then
it is W M / sum of min(up_s, down_s). No cap for a pair of hosts is in it: a lab has none.

A server that keeps a copy of another one's share receives that share once more, from the other one,
who sends it once more: with C copies of all, (W + C) stands in the place of W. It is a bound as
before: whether copies can be placed so that all servers end together is another question.

No round reaches it, as not all can overlap: a tensor is pulled when all of it was pushed, and
copied. `pipelined` is the shortest round with that; its placement is cut as finely as one likes, so
of each tensor every server has the share x_s.
"""

#: What of a rate on the wire arrives as payload of TCP: 1448 bytes of each frame of 1514.
#: docs/algorithms.md 1 has it.
GOODPUT = 0.955


def seconds(size, mbit):
    """How long `size` bytes take at a rate on the wire; None: no time."""
    return 0.0 if mbit is None else size * 8 / (mbit * 1e6 * GOODPUT)


def slower(rates):
    """A host's slower direction in Mbit/s; None: both are free."""
    given = [rate for rate in rates if rate is not None]
    return min(given, default=None)


def bound(size, workers, servers, copies=0):
    """T*, in seconds, of a round over a model of `size` bytes.

    workers, servers: the hosts' (up, down) in Mbit/s; None: no limit. copies: how many servers keep
    a copy of what a server holds.
    """
    by_worker = max(seconds(size, slower(rates)) for rates in workers)
    speeds = [slower(rates) for rates in servers]
    if None in speeds:  # it takes everything
        return by_worker
    return max(by_worker, (len(workers) + copies) * seconds(size, sum(speeds)))


def pipelined(sizes, workers, servers, copies=0):
    """The shortest round, in seconds, in which every tensor (bytes, in the order in which they are
    pushed) is pulled when all of it was pushed and copied; otherwise as `bound`.

    All servers are at the same place of the round at any moment, as one server with the rates of
    all. It receives without a pause, and sends the copies of what it has received; what is left of
    its rate is for the pulls of whole tensors.
    """
    least = bound(sum(sizes), workers, servers, copies)
    speeds = [slower(rates) for rates in servers]
    if None in speeds:
        return least
    rate, count = 1 / seconds(1, sum(speeds)), len(workers)
    received = waiting = 0.0
    for size in sizes:
        took = (count + copies) * size / rate
        sent = took * rate * count / (count + copies)
        received, waiting = received + took, max(0.0, waiting - sent) + count * size
    return max(least, received + waiting / rate)


def static(size, workers, servers, shares=None):
    """The same for given shares of the servers; None: equal ones, as MXNet's are, about."""
    shares = shares or [1 / len(servers)] * len(servers)
    by_worker = max(seconds(size, slower(rates)) for rates in workers)
    return max([by_worker] + [len(workers) * seconds(size * share, slower(rates))
                              for share, rates in zip(shares, servers)])
