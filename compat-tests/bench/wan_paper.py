"""What `pslite sim --graph` says of sites joined by links: what no round can beat, how long a round
along a topology's trees takes, and the trees."""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from harness import PROGRAM
from netlab.tools import LabError
from tensors import FLOAT, part

# Along trees a job's model is in so many parts, and none has fewer bytes (src/core/trees).
PARTS, SHORTEST = 400, 64 << 10
# Mbit/s of a link without a limit: far more than a lab on one machine carries.
FREE = 1e5
# Seconds: a plan of 32 sites takes less than one.
LIMIT = 60
PLAN = re.compile(r"^T\* ([0-9.]+) s; .*: a round ([0-9.]+) s, ", re.MULTILINE)
TREE = re.compile(r"^ +([0-9.]+) %  up (\S.*)\n +down (\S.*)$", re.MULTILINE)


class Tree(NamedTuple):
    """share: of the model. up, down: its edges, from who sends to who receives."""

    share: float
    up: list
    down: list


class Paper(NamedTuple):
    """Seconds: bound is T*, whoever owns what; predicted is a round along the trees."""

    bound: float
    predicted: float
    trees: list

    def carried(self):
        """How many models each link carries in a round, in each direction."""
        found = Counter()
        for tree in self.trees:
            for edge in tree.up + tree.down:
                found[edge] += tree.share
        return found


def links_text(graph, names=None):
    """The links as PSLITE_LINKS and `pslite sim --graph` have them. names: of the sites."""
    def mbit(one, other):
        rate = graph.rates[one, other]
        return FREE if rate is None else rate

    def named(site):
        return names[site] if names else site
    return "".join(f"link {named(link.one)} {named(link.other)} {mbit(link.one, link.other)} "
                   f"{mbit(link.other, link.one)}\n" for link in graph.links)


def model_bytes(divisor):
    return FLOAT * sum(part(divisor))


def paper(graph, topology, owners, size):
    """For servers at the sites `owners`, in equal shares or, if they are a mapping, in those, and a
    model of so many bytes, in the parts that a job makes of it."""
    shares = ([f"{site}={share}" for site, share in owners.items()] if isinstance(owners, dict)
              else dict.fromkeys(owners))
    with tempfile.NamedTemporaryFile("w", prefix="pslite-links-") as file:
        file.write(links_text(graph))
        file.flush()
        words = [str(PROGRAM), "sim", "--graph", file.name, "--topology", topology, "--owners",
                 ",".join(shares), "--model", f"{size / 1e6:.6f}", "--part",
                 f"{max(size / PARTS, SHORTEST) / 1e3:.6f}"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"{' '.join(words)}: {error}") from None
    return read(done.stdout, done.stderr)


def read(text, complaint=""):
    """What the program says."""
    plan = PLAN.search(text)
    trees = [Tree(float(share) / 100, edges(up), [edge[::-1] for edge in edges(down)])
             for share, up, down in TREE.findall(text)]
    if not plan or not trees:
        raise LabError(f"{Path(PROGRAM).name} sim --graph: {complaint or text}")
    return Paper(float(plan[1]), float(plan[2]), trees)


def edges(drawing):
    """(child, parent) of a tree as it is drawn: `1(2(3) 4)` has 2 and 4 below 1, and 3 below 2."""
    found, above, last = [], [], None
    for word in re.findall(r"[()]|[^() ]+", drawing):
        if word == "(":
            above.append(last)
        elif word == ")":
            above.pop()
        else:
            last = word
            if above:
                found.append((word, above[-1]))
    return found
