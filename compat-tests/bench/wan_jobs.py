"""Clusters over sites joined by links, for wan.py and wan_changes.py: a worker at each site,
servers where it is said."""

import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Optional

import wan_paper
from cluster import TCP, Cluster
from harness import PROGRAM, PYTHON
from netlab.cluster import Sites
from netlab.layout import sites
from netlab.tools import LabError
from parts import HERE

#: By what the tensors of each model (mxkv.py) are smaller than ResNet-50's.
DIVISORS = {"quarter": 4, "fifth": 5, "fiftieth": 50}
#: Elements: tensors as large are cut, a part to each server (kvstore_dist.h, bigarray_bound_).
BIGARRAY = 1_000_000
# Seconds after which a cluster ends itself, whatever happens.
LIMIT = 3600
# Seconds for a scheduler's answer.
ANSWERS = 30
# Rounds of ours before those that count.
SETTLE = 2


def ours(stack, mesh, options, topology, servers):
    """A cluster of ours along the trees of a topology, with the rates that are set now."""
    links = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pslite-wan-"))) / "links"
    links.write_text(wan_paper.links_text(
        mesh.graph(), {name: host.address for name, host in mesh.hosts.items()}))
    return start(stack, mesh, options, servers, TCP,
                 {"PSLITE_TOPOLOGY": topology, "PSLITE_LINKS": str(links), **options.set})


def start(stack, mesh, options, servers, kind, settings=None):
    """A cluster with servers at those sites, the scheduler beside the first one, and a worker at
    each site."""
    workers = list(mesh.hosts)
    return stack.enter_context(Cluster(
        [PYTHON, "-u", str(HERE / "mxkv.py"), str(LIMIT)], len(workers), len(servers), kind,
        place=Sites(mesh, servers[0], servers, workers),
        settings={"PS_VERBOSE": "1", **(settings or {}),
                  "MXNET_KVSTORE_BIGARRAY_BOUND": str(BIGARRAY // DIVISORS[options.model])}))


def one_round(cluster, options):
    """Seconds, of each worker."""
    return [answer["seconds"] for answer in cluster.ask(f"{options.model} 1")]


def owned(cluster, mesh, scheduler):
    """Bytes that the servers of each site own, of a job of ours. scheduler: its site."""
    host = mesh.host(scheduler)
    words = [str(PROGRAM), "status", "--json", "--scheduler", f"{host.address}:{cluster.port}"]
    try:
        asked = subprocess.run(host.command(words), capture_output=True, text=True,
                               timeout=ANSWERS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"{' '.join(words)}: {error}") from None
    return owned_at(json.loads(asked.stdout), mesh)


def owned_at(status, mesh):
    """The same, from the scheduler's answer."""
    site = {host.address: name for name, host in mesh.hosts.items()}
    found = Counter()
    for node in status["nodes"]:
        if node["role"] == "server" and node["bytes"]:
            found[site[node["address"].rpartition(":")[0]]] += node["bytes"]
    return dict(found)


def settle(cluster, options):
    """Rounds of ours that are not counted: the first goes straight to the servers, whose pieces are
    cut with its end, and the second too, for most of it."""
    return [max(one_round(cluster, options)) for _ in range(SETTLE)]


class Contender(NamedTuple):
    """One of --topologies. at: the sites of its servers; None: where stock's are."""

    name: str
    topology: str
    at: Optional[str]

    @classmethod
    def read(cls, text):
        topology, _, at = text.partition("@")
        return cls(text, topology, at or None)

    def servers(self, graph, placement):
        return sites(self.at or placement, graph, "--topologies", graph.sites)
