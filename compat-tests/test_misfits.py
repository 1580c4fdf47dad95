"""Arrays that are not what their key was made as, and keys that an optimizer can never update.

Stock's server ends with a CHECK, or its workers wait for ever. Here all workers are told the same,
whoever is first: what the key is, what was pushed, and what to do.
"""

import re

import pytest

import harness
from cases import SMALL_BOUND
from harness import NATIVE, OURS, STOCK

MODES = {
    "preload": (OURS, {}),
    "native": ({"scheduler": NATIVE, "server": NATIVE, "worker": OURS}, {}),
    "elastic": (OURS, {"PSLITE_ELASTIC": "1"}),
}
TO_DENSE = ("key 0 was made as a dense array: a dense weight over a dist kvstore cannot take "
            "row_sparse gradients; make the weight stype='row_sparse', or drop sparse_grad=True")
TO_ROWS = ("key 0 was made as a row_sparse array: a row_sparse weight over a dist kvstore cannot "
           "take dense gradients; make the gradients row_sparse")
ALIKE = "all workers must make a key, push to it and pull it with arrays of one shape and dtype"
TEXTS = {
    "gluon": TO_DENSE,
    "rows to dense": TO_DENSE,
    "all rows to dense": TO_DENSE,
    "rows of one to dense": TO_DENSE,
    "rows to large dense": TO_DENSE,
    "dense to rows": TO_ROWS,
    "dense of one to rows": TO_ROWS,
    "dense to large rows": TO_ROWS,
    "lengths": f"key 0 has 72 bytes on this server where the push of worker 1 has 60: {ALIKE}",
    "types": f"key 0 holds float32, the request of worker 1 says float16: {ALIKE}",
}


def errors(program, *args, mode):
    library, env = MODES[mode]
    cluster = harness.Cluster(program, args=args, library=library, env={**SMALL_BOUND, **env},
                              timeout=60, whole=program == "unfit_optimizer.py").run()
    assert not any(node.hung for node in cluster.nodes.values()), cluster.describe()
    assert all(cluster.results), cluster.describe()
    return cluster


#: MXNet's worker keeps one layout for a key, and a trainer's push of rows and its pull of the whole
#: key write it on two threads. Seldom they meet: then MXNet's own check fails, or it hands over
#: fewer keys than lengths, and the server is never asked.
MET = re.compile(r"pskv\.size\) == pskv_size|\d+ lens for \d+ keys")


def gluon_errors(mode):
    """The same of a trainer; a run in which MXNet's worker met itself says nothing of ours."""
    for _ in range(3):
        cluster = errors("misfits.py", "gluon", mode=mode)
        if not any(MET.search(result["error"] or "") for result in cluster.results):
            break
    return cluster


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", TEXTS)
def test_all_workers_are_told_the_same(case, mode):
    cluster = gluon_errors(mode) if case == "gluon" else errors("misfits.py", case, mode=mode)
    for result in cluster.results:
        said = f"pslite: an earlier request failed: {TEXTS[case]}"
        assert (result["error"] or "").startswith(said), cluster.describe()


def test_in_dist_async_who_pushes_it_is_told():
    cluster = errors("misfits.py", "rows of one to dense", "async", mode="native")
    told = {result["rank"]: result["error"] for result in cluster.results}
    assert told[0] is None and TO_DENSE in told[1], cluster.describe()


UNFIT = {
    "AdaGrad rows": "AdaGrad cannot update the row_sparse key 0 here: with a weight decay",
    "GroupAdaGrad rows":
        "GroupAdaGrad cannot update the row_sparse key 0 here: with a weight decay",
    "GroupAdaGrad dense": "GroupAdaGrad cannot update the dense key 0 here",
}


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("case", UNFIT)
def test_a_server_without_mxnet_refuses_before_the_first_push(case, when):
    cluster = errors("unfit_optimizer.py", case, when, mode="native")
    told = [result for result in cluster.results if UNFIT[case] in (result["error"] or "")]
    assert told and all(result["place"] != "push" for result in told), cluster.describe()
    place = "key" if when == "late" else "optimizer"
    assert {result["place"] for result in told} == {place}, cluster.describe()


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("case", ["AdaGrad rows", "GroupAdaGrad dense"])
def test_a_preloaded_server_leaves_it_to_mxnet_whose_exception_workers_hear(case, when):
    cluster = errors("unfit_optimizer.py", case, when, mode="preload")
    for result in cluster.results:
        assert "failed, in Python: " in (result["error"] or ""), cluster.describe()
        assert result["place"] == "after", cluster.describe()


@pytest.mark.parametrize("mode", MODES)
def test_what_keeps_float32_updates_float16_weights_by_a_float32_copy(mode):
    """As with multi_precision=True, which stock's server has by chance: its flag is never
    initialised."""
    library, env = MODES[mode]
    stock = harness.run("narrow_weights.py", "multi_precision", library=STOCK)
    ours = harness.run("narrow_weights.py", library=library, env=env)
    assert ours.digests == stock.digests and len(set(ours.digests.values())) == 1, ours.describe()
