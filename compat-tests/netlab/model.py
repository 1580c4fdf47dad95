"""The bound of a round's time: what no placement of the model can beat on links of given rates.

Pure arithmetic. Every worker pushes and pulls the whole model once; a server holds the share x of
it, takes that share from each worker and gives it to each; pushes and pulls overlap, as every link
carries both directions at once (docs/algorithms.md 1, the bound for pipelined push and pull):

    T = max( max_s W x_s M / min(up_s, down_s),  max_i M / min(up_i, down_i) )

The first term is smallest if all servers end together, x_s in proportion to min(up_s, down_s): then
it is W M / sum of min(up_s, down_s). No cap for a pair of hosts is in it: a lab has none.

A server that keeps a copy of another one's share receives that share once more, from the other one,
who sends it once more: with a copy of all, server s sends (W + 1) x_s and receives W x_s + y_s,
where y_s is what it keeps of the others, at most 1 - x_s. If no server has more than half of the
rates, all end together with y_s = x_s, and (W + 1) stands in the place of W. If one has more, the
others cannot let it have its part of the copies, since it keeps none of its own share.

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

    workers, servers: the hosts' (up, down) in Mbit/s; None: no limit. copies: 0 or 1, how
    many servers keep a copy of what a server holds.
    """
    by_worker = max(seconds(size, slower(rates)) for rates in workers)
    speeds = [slower(rates) for rates in servers]
    if None in speeds:  # it takes everything
        return by_worker
    return max(by_worker, _by_servers(size, len(workers), speeds, copies))


def _by_servers(size, workers, speeds, copies):
    """The servers' part of T*."""
    least = (workers + copies) * seconds(size, sum(speeds))
    if not copies or len(speeds) < 2 or max(speeds) <= sum(speeds) / 2:
        return least
    # Shares are parts of the model; in so many seconds each server can take and give `can` of it.
    low, high = least, (workers + copies) * seconds(size, min(speeds)) * len(speeds)
    for _ in range(60):
        time = (low + high) / 2
        can = [time / seconds(size, speed) for speed in speeds]
        low, high = (low, time) if _copies_fit(can, workers) else (time, high)
    return high


def _copies_fit(can, workers):
    """True if shares of 1 together, and copies of 1, fit into what each server can take and give.

    What a server keeps for others is min(1 - x, can - workers x). Up to the share at which both are
    equal, a share costs room for as much of a copy, beyond that `workers` times as much: first all
    get what is cheap.
    """
    most = [min(1, each / (workers + 1)) for each in can]
    if sum(most) < 1:
        return False

    def cheap(each, limit):
        if workers == 1:
            return limit if each >= 1 else 0
        return min(limit, max(0, (each - 1) / (workers - 1)))
    dear = max(0, 1 - sum(map(cheap, can, most)))
    return sum(min(1, each) for each in can) - (1 - dear) - workers * dear >= 1


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
    count = len(workers)
    rate = (count + copies) * sum(sizes) / _by_servers(sum(sizes), count, speeds, copies)
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
