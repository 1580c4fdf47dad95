"""Makes flow_lp.txt: graphs, and what a program of flows says of them, by another solver.

    pip install numpy scipy
    python src/core/placement/graph/tests/flow_lp.py > src/core/placement/graph/tests/flow_lp.txt

The graphs are NetStorm's with the rates of eight seeds, and forty random ones of nine sites. The
program is the one of docs/algorithms.md 1: for each root, flows from it to every site and from
every site to it, within capacities that add up to at most the rate of each link. It has no trees,
so it shares nothing with what it checks. Rates are in Mbit/s; so are the answers: the model per
second with any owners (free), with nine equal owners (nine), and with site 1 alone (one).
"""

import random

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

SITES = 9
LINKS = [(0, 1), (0, 2), (1, 2), (1, 4), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6), (5, 7), (5, 8),
         (6, 7), (7, 8)]


def netstorm(seed):
    draw = random.Random(seed)
    return [(a, b, draw.uniform(20, 155), draw.uniform(20, 155)) for a, b in LINKS]


def connected(links):
    reached, size = {0}, 0
    while size < len(reached):
        size = len(reached)
        for a, b in links:
            if a in reached or b in reached:
                reached |= {a, b}
    return len(reached) == SITES


def drawn(seed):
    draw = random.Random(1000 + seed)
    pairs = [(a, b) for a in range(SITES) for b in range(a + 1, SITES)]
    while True:
        links = draw.sample(pairs, draw.randint(10, 18))
        if connected(links):
            return [(a, b, draw.uniform(20, 155), draw.uniform(20, 155)) for a, b in links]


def most(links, shares):
    """The largest rate of the model; shares by site, or None if any will do."""
    edges = [(a, b, there) for a, b, there, _ in links]
    edges += [(b, a, back) for a, b, _, back in links]
    count, roots = len(edges), range(SITES)
    pairs = [(r, v) for r in roots for v in roots if v != r]
    # Variables: the rate of each root, the capacity of each root, side and edge, the flow of each
    # side, pair and edge.
    first_flow = SITES + 2 * SITES * count
    size = first_flow + 2 * len(pairs) * count

    def capacity(side, root, edge):
        return SITES + (side * SITES + root) * count + edge

    def flow(side, pair, edge):
        return first_flow + (side * len(pairs) + pair) * count + edge

    upper = lil_matrix((count + 2 * len(pairs) * count, size))
    limits = np.zeros(upper.shape[0])
    for e, (_, _, rate) in enumerate(edges):
        limits[e] = rate
        for side in (0, 1):
            for root in roots:
                upper[e, capacity(side, root, e)] = 1
    equal = lil_matrix((2 * len(pairs) * SITES + SITES, size))
    row, line = count, 0
    for side in (0, 1):
        for pair, (root, site) in enumerate(pairs):
            source, sink = (root, site) if side == 0 else (site, root)
            for e in range(count):
                upper[row, flow(side, pair, e)] = 1
                upper[row, capacity(side, root, e)] = -1
                row += 1
            for node in roots:
                for e, (a, b, _) in enumerate(edges):
                    if node in (a, b):
                        equal[line, flow(side, pair, e)] = 1 if node == a else -1
                if node == source:
                    equal[line, root] = -1
                if node == sink:
                    equal[line, root] = 1
                line += 1
    if shares is not None:
        for root in roots:
            equal[line, :SITES] = -shares[root]
            equal[line, root] += 1
            line += 1
    gain = np.zeros(size)
    gain[:SITES] = -1
    found = linprog(gain, A_ub=upper.tocsr(), b_ub=limits, A_eq=equal.tocsr(),
                    b_eq=np.zeros(equal.shape[0]), method="highs")
    if not found.success:
        raise ValueError(found.message)
    return -found.fun


def main():
    graphs = [("netstorm", seed, netstorm(seed)) for seed in range(8)]
    graphs += [("random", seed, drawn(seed)) for seed in range(40)]
    for kind, seed, links in graphs:
        print(kind, seed)
        for a, b, there, back in links:
            print("link", a, b, f"{there:.17g}", f"{back:.17g}")
        print("free", f"{most(links, None):.9g}")
        print("nine", f"{most(links, [1 / SITES] * SITES):.9g}")
        print("one", f"{most(links, [1] + [0] * (SITES - 1)):.9g}")


if __name__ == "__main__":
    main()
