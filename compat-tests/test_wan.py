"""scripts/bench wan: what it takes from MXNet, from its scheduler and from `pslite sim`, which link
it cuts, and what its tables say."""

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import STOCK
from netlab import Misuse, graph

sys.path.insert(0, str(Path(__file__).parent / "bench"))
import tensors  # noqa: E402
import wan  # noqa: E402
import wan_changes  # noqa: E402
import wan_cut_report  # noqa: E402
import wan_jobs  # noqa: E402
import wan_paper  # noqa: E402
import wan_redraw_report  # noqa: E402
import wan_report  # noqa: E402

SITES = [f"site{number}" for number in range(9)]


@pytest.mark.parametrize("divisor", wan.DIVISORS.values())
@pytest.mark.parametrize("count", [1, 2, 9])
def test_every_byte_has_a_server(divisor, count):
    placed = wan.placed(divisor, SITES[:count])
    assert [sum(size for _, size in parts) for parts in placed] == [
        4 * size for size in tensors.part(divisor)]
    # MXNet cuts from a million numbers on, here a million by the divisor: of ResNet-50 the last
    # stage's 9 large convolutions and the classifier.
    cut = [parts for parts in placed if len(parts) > 1]
    assert len(cut) == (0 if count == 1 else 10) and {len(parts) for parts in cut} <= {count}
    for parts in cut:
        assert [site for site, _ in parts] == SITES[:count]
        assert max(size for _, size in parts) - min(size for _, size in parts) <= 4
    # (key * 9973) % servers: with nine, 9973 leaves 1.
    assert count != 9 or all(parts[0][0] == SITES[key % 9] for key, parts in enumerate(placed)
                             if len(parts) == 1)


def test_ranks_are_read_from_what_the_scheduler_says(tmp_path):
    said = tmp_path / "0.err"
    said.write_text("".join(
        f"[01:55:54] ../3rdparty/ps-lite/src/van.cc:70: assign rank={number} to node role={role}, "
        f"ip=10.77.0.{host}, port=4{number}, is_recovery=0\n"
        for number, role, host in ((9, "worker", 3), (12, "server", 1), (8, "server", 2),
                                   (10, "server", 2))))
    cluster = SimpleNamespace(logs=lambda: [said])
    hosts = {name: SimpleNamespace(address=f"10.77.0.{number}")
             for number, name in enumerate("abc", 1)}
    assert wan.by_rank(cluster, SimpleNamespace(hosts=hosts)) == ["b", "b", "a"]


def test_shares_are_read_from_what_the_scheduler_says():
    hosts = {name: SimpleNamespace(address=f"10.77.0.{number}")
             for number, name in enumerate("abc", 1)}
    nodes = [{"role": role, "address": f"10.77.0.{host}:4{number}", "bytes": size}
             for number, (role, host, size) in enumerate(
                 (("server", 1, 500), ("worker", 2, 0), ("server", 3, 200), ("server", 3, 100),
                  ("server", 2, 0)))]
    assert wan_jobs.owned_at({"nodes": nodes}, SimpleNamespace(hosts=hosts)) == {"a": 500, "c": 300}


def found(took):
    one = {"placement": "best", "servers": ["site8"], "rounds": {STOCK: [took, took + 2]},
           "model": 100.0, "overlapped": 70.0, "unequal": (90.0, 94.0, 97.0), "ours": {}}
    wire = [{"link": "a to b", "set": 10.0, "mbit": 9.5}, {"link": "b to a", "set": 5.0,
                                                         "mbit": 4.0},
            {"link": "b to c", "set": None, "mbit": 900.0}]
    links = [(("site1", "site2"), 10.0, 5.0), (("site2", "site8"), None, None)]
    return [{"seed": 3, "wire": wire, "links": links, "placements": [one]}]


def add(measured, name, servers, rounds):
    """Ours, whose T* is 9 s and whose predicted round 10 s."""
    for one in measured[0]["placements"]:
        one["rounds"][name] = rounds
        one["ours"][name] = {"topology": name.partition("@")[0], "servers": servers, "bound": 9.0,
                             "predicted": 10.0, "trees": 4}


def missed(measured):
    """The bars of trees that do not hold."""
    return [bar.text for bar in wan_report.bars(measured)[1:] if not bar.holds]


def test_the_table_marks_what_does_not_hold():
    good, bad = wan_report.text(found(110)), wan_report.text(found(118))
    row = "| 3 | best (site8) | 110.0, 112.0 | 100.0 | 1.11 | 90.0 to 97.0, mean 94.0 | 1.18 |"
    assert row + " 70.0 |" in good
    assert "| 3 | best (site8) | 118.0, 120.0 | 100.0 | 1.19, **does not hold** |" in bad
    assert "| 3 | 5.0 to 10.0 | 0.800 | b to a | 0.875 | 0.950 |" in good
    assert [bar.holds for each in (110, 118, 80, 86) for bar in wan_report.bars(found(each))] == [
        True, False, False, True]


def test_what_trees_gain_stands_beside_stock():
    measured = found(110)
    measured[0]["placements"][0].update(placement="site1", servers=["site1"])
    add(measured, "packed", ["site1"], [11.0, 12.0])
    row = ("| 3 | site1 | packed, site1 | 9.00 | 10.00 | 11.00, 12.00 | 1.15 | 0.78 | 110.0, 112.0 "
           "| 0.08 | **9.7** |")
    assert row in wan_report.text(measured)
    assert [(bar.wanted, bar.holds) for bar in wan_report.bars(measured)[1:]] == [
        ("at least 5", True), ("at least 9", True), ("at least 0.75", True), ("within 15%", True)]
    add(measured, "packed", ["site1"], [15.0])
    assert missed(measured) == ["servers at site1: stock by packed, mean of seeds",
                                "seed 3, servers at site1: packed, eta",
                                "seed 3, servers at site1: packed by what is predicted"]
    assert "| 1.50, **does not hold** | 0.60, **does not hold** |" in wan_report.text(measured)


def test_ours_stays_where_it_is_and_is_compared_with_fapt():
    measured = found(110)
    add(measured, "packed@site1", ["site1"], [10.0])
    add(measured, "fapt@all", ["site1", "site2", "site8"], [16.0, 18.0])
    text = wan_report.text(measured)
    assert "| 3 | best (site8) | packed, site1 | 9.00 |" in text
    assert "| 3 | best (site8) | fapt, 3 servers | 9.00 | 10.00 | 16.00, 18.00 | 1.70 |" in text
    what = "fapt with a server at each site by packed"
    by_fapt = [bar for bar in wan_report.bars(measured) if what in bar.text]
    assert [(bar.wanted, bar.value) for bar in by_fapt] == [("at least 1.15", 1.7),
                                                           ("at least 1.5", 1.7)]
    assert missed(measured) == []
    add(measured, "fapt@all", ["site1", "site2", "site8"], [12.0])
    assert missed(measured) == [f"{what}, mean of seeds"]
    # Not with a server at each site: another thing.
    add(measured, "fapt@all", ["site1"], [11.0])
    assert missed(measured) == []


def test_the_picture_has_the_links_and_the_rounds():
    measured = found(100)
    add(measured, "packed", ["site8"], [10.0, 10.2])
    text = wan_report.picture(measured)
    assert "  site1 - site2    10.0     5.0\n  site2 - site8    free    free\n" in text
    assert f"  packed          10.00  {'#' * 6}\n" in text
    assert f"  stock          102.00  {'#' * 60}\n" in text
    assert "stock's mean round by that of packed, site8: 10.0\n" in text
    assert "T* = 9.00 s: packed has eta 0.89, stock 0.09" in text


@pytest.mark.parametrize("ours", [False, True])
def test_the_page_gets_what_was_measured(ours):
    measured = found(110)
    if ours:
        add(measured, "packed", ["site8"], [11.0])
    page = "\n".join([wan_report.BEGIN, wan_report.END, *wan_report.TREES])
    stock, trees = wan_report.written(page, "how", measured).split(wan_report.END)
    assert ("| 110.0, 112.0 |" in stock, "| 110.0, 112.0 |" in trees) == (not ours, ours)


# ---- on paper

SAID = """\
4 sites, 8 edges; 2.0 MB in 31 parts of 66 KB
T* 0.360 s; packed, 2 trees: a round 0.424 s, 1.18 x T* (eta 0.85); 1 ms
T* with these owners 0.363 s; the star takes 3.366 s
   88.9 %  up a(b(c(d)))
         down a(b(c(d)))
   11.1 %  up a(c(b) d)
         down a(b c d)
"""


def test_what_the_program_says_is_read():
    said = wan_paper.read(SAID)
    assert (said.bound, said.predicted) == (0.36, 0.424)
    assert said.trees[1].up == [("c", "a"), ("b", "c"), ("d", "a")]
    assert said.trees[1].down == [("a", "b"), ("a", "c"), ("a", "d")]
    carried = said.carried()
    assert carried["a", "b"] == pytest.approx(1) and carried["b", "a"] == 0.889
    assert carried["a", "d"] == 0.111 and ("b", "d") not in carried
    with pytest.raises(wan_paper.LabError, match="no such thing"):
        wan_paper.read("", "no such thing")


def test_the_program_plans_for_a_graph():
    """A row of four: every link carries one model each way, whoever plans."""
    row = graph.parse("a b 40/25, b c 30, c d free")
    said = wan_paper.paper(row, "packed", ["a"], 2e6)
    assert said.carried() == {pair: pytest.approx(1) for pair in row.rates}
    # Up over 25 Mbit/s.
    assert said.bound == pytest.approx(2e6 * 8 / 25e6, abs=1e-3)
    assert said.bound <= said.predicted < 2 * said.bound
    with pytest.raises(wan_paper.LabError, match="no site x"):
        wan_paper.paper(row, "packed", ["x"], 2e6)
    # Three quarters at one end, one at the other: up and down alike.
    said = wan_paper.paper(row, "fapt", {"a": 3000, "d": 1000}, 2e6)
    assert {tree.share for tree in said.trees} == {0.75, 0.25}


# ---- links that change

def options(**more):
    return SimpleNamespace(**{"model": "fiftieth", "reroute": False, "routed": True, **more})


@pytest.mark.parametrize("seed", range(4))
def test_the_link_that_is_cut_is_on_no_route_to_the_server(seed):
    one = graph.named("netstorm", seed)
    hops = graph.next_hops(one)
    link = wan_changes.choose(one, "packed", ["site1"], options())
    routes = [pair for site in one.sites
              for pair in graph.way(hops, site, "site1") + graph.way(hops, "site1", site)]
    assert (link.one, link.other) not in routes and (link.other, link.one) not in routes
    assert len(wan_changes.without(one, link).links) == 12
    carried = wan_changes.bound(one, options(), "packed", ["site1"]).carried()
    assert carried[link.one, link.other] + carried[link.other, link.one] > 0.1


def test_with_new_routes_any_link_may_be_cut_that_is_no_bridge():
    square = graph.parse("a b 40, b c 40, a c 1, c d 40")
    with pytest.raises(Misuse, match="--reroute"):
        wan_changes.choose(square, "packed", ["b", "a"], options())
    link = wan_changes.choose(square, "packed", ["b", "a"], options(reroute=True))
    assert (link.one, link.other) in (("a", "b"), ("b", "c"))
    # Without c-d two parts would be left, of which one has no link.
    assert wan_changes.without(square, square.links[-1]) is None


def test_rounds_belong_to_the_rates_under_which_they_begin_and_end():
    rounds = [wan_changes.Round(*times) for times in
              ((0, 9, 8.5), (9, 12, 2.5), (12, 15, 3.5), (15, 22, 6.5), (22, 25, 2.75))]
    assert wan_changes.phases([0, 10, 20], rounds) == [
        {"across": [], "rounds": [8.5]}, {"across": [2.5], "rounds": [3.5]},
        {"across": [6.5], "rounds": [2.75]}]


def test_the_job_goes_on_when_links_never_stand_still_again():
    looks = [(0, 0), (1, 100), (2, 200), (3, 200), (4, 300), (5, 300), (6, 400), (7, 400)]
    assert wan_changes.goes_on(looks, 1.5, 6.5, 50) == 3.5
    assert wan_changes.goes_on(looks, 1.5, 4.5, 50) == 1.5
    assert wan_changes.goes_on(looks, 3.0, 4.5, 50) == 0
    # What is before the cut, or after the round, says nothing.
    assert wan_changes.goes_on(looks, 5.0, 6.5, 50) == 0


def test_who_does_not_answer_is_not_waited_for():
    waiting = threading.Event()
    assert wan_changes.within(0.05, waiting.wait) == (None, "no end after 0.05 s")
    waiting.set()
    assert wan_changes.within(10, lambda: 7) == (7, None)

    def fails():
        raise wan.Failed("a worker ended")
    assert wan_changes.within(10, fails) == (None, "a worker ended")


def test_switches_that_are_not_followed_do_not_pass():
    phases = [{"seed": number, "bound": 6.5, "across": [12.0], "rounds": [20.0, took]}
              for number, took in ((0, 8.0), (1, 9.0), (2, 11.0))]
    found = [{"seed": 0, "topology": "packed", "servers": ["site1"], "before": [80.0],
              "phases": phases}]
    text = wan_redraw_report.text(found)
    assert "| 1 | 6.50 | 12.00 | 20.00, 9.00 | 0.33, 0.72 | 2 |  |" in text
    assert "| 2 | 6.50 | 12.00 | 20.00, 11.00 | 0.33, 0.59 | - |  |" in text
    assert [(bar.value, bar.holds) for bar in wan_redraw_report.bars(found)] == [(1, False)]
    phases.pop()
    assert [bar.holds for bar in wan_redraw_report.bars(found)] == [True]


def test_a_job_that_does_not_go_on_does_not_pass():
    one = {"seed": 0, "topology": "packed", "servers": ["site1"], "link": "site6-site8",
           "rerouted": False, "tunnels": False, "rounds": [7.0], "across": 9.0, "goes_on": 2.1,
           "wrong": None, "after": [70.0, 60.0, 10.0, 9.0], "bound": 5.6, "left": 6.65}
    row = ("| 0 | site6-site8 | 5.60 | 7.00 | 9.00 | 2.1 | 6.65 | 70.00, 60.00, 10.00, 9.00 | "
           "0.10, 0.11, 0.67, 0.74 |")
    assert row in wan_cut_report.text([one])
    assert [(round(bar.value, 6), bar.holds) for bar in wan_cut_report.bars([one])] == [
        (2.1, True), (0.7, True)]
    one.update(goes_on=None, across=None, after=[], wrong="no end after 300 s")
    assert "| 7.00 | - | - | 6.65 | - | - | **no end after 300 s** |" in wan_cut_report.text([one])
    assert not any(bar.holds for bar in wan_cut_report.bars([one]))
    one.update(wrong="tcp: a worker ended\n    [08:40:13] pslite: error: lost worker 2: gone\n")
    assert "| **the job failed: lost worker 2: gone** |" in wan_cut_report.text([one])
    assert not any(bar.holds for bar in wan_cut_report.bars([one]))


@pytest.mark.parametrize("words, said", [
    (["--seeds", "x"], "numbers with commas"), (["--rounds", "0"], "at least 1"),
    (["--set", "X"], "NAME=VALUE"), (["--graph", "nofile"], "nor a file"),
    (["--scale", "0"], "no scale"), (["--placements", "site10"], "no site 'site10'"),
    (["--redraw", "5"], "for ours alone"), (["--switches", "2"], "for --redraw"),
    (["--reroute"], "for --cut"), (["--picture"], "stock and ours")])
def test_bad_options_are_refused(words, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["wan", "--stock-only", *words])
    monkeypatch.setattr(wan, "raise_on_signals", lambda: None)
    try:
        code = wan.main()
    except SystemExit as left:
        code = left.code
    assert code == 2 and said in capsys.readouterr().err
