"""scripts/lab --graph: links, routes and cuts of a lab of sites are what they are said to be, and
nothing stays.

What needs namespaces is skipped where they cannot be made, with the reason.
"""

import json
import random
import re
import signal
import subprocess
import time
from itertools import combinations

import pytest

import harness
from harness import OURS, STOCK
from netlab import (FREE, Lab, LabError, Mesh, Misuse, Rates, changes, graph, graph_model, links,
                    model, open_lab)
from netlab.cluster import Sites
from netlab.delays import NONE, Delay, Delays
from netlab.tools import run
from test_lab import PORT, Ear, lab, left, near, needs_lab, python, receiver, round_trips
from test_lab_program import alive, start

# As in test_lab.py.
pytestmark = pytest.mark.alone

# A square and one diagonal: from b to d there are two ways of two links.
SQUARE = graph.parse("a b 40/25, b c 30, c d 20/35, a d 28/22, a c 24/32")


# ---- texts and numbers: without a lab

def test_graphs_are_read():
    read = graph.parse("site10 site2 5/7  # a comment\n\nsite2 site1 free, site10 site1 3")
    # Numbers in names count as numbers, whatever the order of the text.
    assert read.sites == ["site1", "site2", "site10"]
    assert [link[:3] for link in read.links] == [
        ("site1", "site2", FREE), ("site1", "site10", (3, 3)), ("site2", "site10", (7, 5))]
    assert read.rates["site10", "site2"] == 5 and read.rates["site2", "site10"] == 7


def test_rates_are_drawn_by_seed():
    drawn = graph.named("netstorm", 7)
    assert len(drawn.sites) == 9 and len(drawn.links) == 13
    assert all(20 * 0.25 <= rate <= 155 * 0.25 for rate in drawn.rates.values())
    # Python promises the same numbers in every version (random, "Notes on Reproducibility").
    numbers = random.Random(7)
    assert [rate for link in drawn.links for rate in link.rates] == [
        numbers.uniform(20, 155) * 0.25 for _ in range(26)]
    assert graph.named("netstorm", 8).rates != drawn.rates
    assert graph.named("netstorm", 7, 1.0).rates == {
        link: pytest.approx(4 * rate) for link, rate in drawn.rates.items()}
    # A rate of its own leaves the others as they are.
    some = graph.parse("a b 1/2, c b, a c", 7)
    assert some.rates["a", "b"] == 1
    assert some.links[1:] == graph.parse("a b, a c, b c", 7).links[1:]


def test_graphs_say_delays():
    read = graph.parse("b a 5 delay=20/30 loss=0.1, b c jitter=2, a c 7")
    assert read.delayed and not graph.parse("a b 5").delayed
    assert read.links[0].delays == Delays(Delay(30, 0, 0.1), Delay(20, 0, 0.1))
    assert [link.delays for link in read.links[1:]] == [None, NONE.replaced("jitter", (2, 2))]
    all_ = read.with_delays(NONE.replaced("delay", (9, 9)))
    assert all_.links[1].delays.up.delay == 9 and all_.links[0] == read.links[0]
    # They take no part in what is drawn.
    assert [link.rates for link in graph.parse("a b delay=1, b c", 4).links] == [
        link.rates for link in graph.parse("a b, b c", 4).links]


@pytest.mark.parametrize("text, said", [
    ("a b 5 delay=x", "delay=x is not"), ("a b delay=1 5", "is not SITE SITE"),
    ("a b 5 late=3", "late is none of"), ("a delay=3", "is not SITE SITE"),
    ("a b loss=60", "loss=60 is not"), ("wire b", "cannot be the name"),
    ("", "a graph of 0 sites"), ("a", "is not SITE SITE"), ("a b 1 2", "is not SITE SITE"),
    ("a b 0.1", "too slow"), ("a b x", "no rate"), ("a b -1", "no rate"), ("a b nan", "no rate"),
    ("a b 1, b a 2", "a second link"), ("a a", "a link from a to itself"),
    ("a b, c d", "no way from a to c, d"), ("A b", "cannot be the name"),
    ("switch b", "cannot be the name"), ("a-b c, a b-c, a c", "the name of two links"),
    (", ".join(f"s{number} s{number + 1}" for number in range(200)), "a graph of 201 sites")])
def test_nonsense_is_no_graph(text, said):
    with pytest.raises(Misuse, match=said):
        graph.parse(text)


def test_routes_are_the_shortest():
    """On graphs drawn at random: as many links as the breadth-first distance, over links that there
    are; and of the ways of that length none takes less time a bit."""
    numbers = random.Random(3)
    for _ in range(30):
        sites = [f"s{number}" for number in range(numbers.randint(2, 8))]
        pairs = [pair for pair in combinations(sites, 2)
                 if sites.index(pair[1]) == sites.index(pair[0]) + 1 or numbers.random() < 0.3]
        one = graph.parse(",".join(f"{a} {b}" for a, b in pairs), numbers.randrange(1000))
        hops = graph.next_hops(one)
        for source in sites:
            for target in sites:
                found = graph.way(hops, source, target)
                assert [link[0] for link in found] + [target] == [source] + [
                    link[1] for link in found]
                assert cost(one, found) == cheapest(one, source, target)


def cost(one, found):
    return len(found), pytest.approx(sum(1 / one.rates[link] for link in found))


def cheapest(one, source, target):
    """By trying all ways (Bellman and Ford)."""
    best = {source: (0, 0.0)}
    for _ in one.sites:
        for (a, b), rate in one.rates.items():
            if a in best:
                new = (best[a][0] + 1, best[a][1] + 1 / rate)
                best[b] = min(best.get(b, new), new)
    return best[target]


def test_ties_go_over_the_earlier_site():
    hops = graph.next_hops(graph.parse("a b 10, b d 10, a c 10, c d 10"))
    assert hops["a"]["d"] == "b" and hops["d"]["a"] == "b"
    # Unless the other way is faster, in that direction.
    hops = graph.next_hops(graph.parse("a b 10, b d 10, a c 11/10, c d 10"))
    assert hops["a"]["d"] == "c" and hops["d"]["a"] == "b"


# ---- the model of a round

def seconds(text, tensors, workers, **how):
    one = graph.parse(text)
    return graph_model.round_seconds(one, graph.next_hops(one), tensors, workers, **how)


def test_rounds_by_hand():
    size = 1e6
    up, down = model.seconds(size, 10), model.seconds(size, 40)
    one = [[("a", size)]]
    # One tensor: nothing overlaps, however one asks. The worker beside the server takes no time.
    for in_order in (True, False):
        assert seconds("a b 40/10", one, ["b"], in_order=in_order) == pytest.approx(up + down)
        assert seconds("a b 40/10", one, ["a", "b"], in_order=in_order) == pytest.approx(up + down)
        assert seconds("a b free", one, ["a", "b"], in_order=in_order) == 0
    # Two links, and two workers that share the first one.
    assert seconds("a b 40/10, b c 100", one, ["b", "c"]) == pytest.approx(2 * (up + down))
    # The second link is slower than its share of the first: the other worker has the rest.
    shared = max(model.seconds(size, 2), 2 * up) + 2 * down
    assert seconds("a b 40/10, b c 100/2", one, ["b", "c"]) == pytest.approx(shared)
    # Many tensors: all pushes, then all pulls; if questions pass by, only the last pull is alone.
    many = [[("a", size / 100)]] * 100
    assert seconds("a b 10", many, ["b"]) == pytest.approx(2 * up)
    assert seconds("a b 10", many, ["b"], in_order=False) == pytest.approx(1.01 * up)
    # A tensor in two parts: both servers must answer.
    parts = [[("a", size / 2), ("c", size / 2)]]
    assert seconds("a b 40/10, b c 10/40", parts, ["b"]) == pytest.approx((up + down) / 2)
    # Nobody asks while a tensor lacks a push.
    late = max(model.seconds(size, 5), up) + model.seconds(size, 5)
    assert seconds("a b 10, a c 5", one, ["b", "c"], in_order=False) == pytest.approx(late)


def test_no_round_is_shorter_than_its_slowest_link():
    """On the nine sites: what must cross a link needs its time; and what is asked for in order
    takes at least as long, at most twice."""
    sizes = [1e5, 3e4, 2e5, 1e4, 1e5]
    for seed in range(6):
        one = graph.named("netstorm", seed)
        hops = graph.next_hops(one)
        numbers = random.Random(seed)
        tensors = [[(numbers.choice(one.sites), size)] for size in sizes]
        load = dict.fromkeys(one.rates, 0)
        for (site, size), in tensors:
            for worker in one.sites:
                for link in graph.way(hops, worker, site) + graph.way(hops, site, worker):
                    load[link] += size
        least = max(model.seconds(load[link], rate) for link, rate in one.rates.items())
        overlapped, in_order = (graph_model.round_seconds(one, hops, tensors, one.sites, each)
                                for each in (False, True))
        assert least * (1 - 1e-6) <= overlapped <= in_order * (1 + 1e-6) <= 2.5 * overlapped


def test_links_are_shared_max_min():
    """The textbook's property: each connection has a full link on which none has more."""
    numbers = random.Random(5)
    one = graph.named("netstorm", 1)
    hops = graph.next_hops(one)
    ends = [numbers.sample(one.sites, 2) for _ in range(40)]
    found = [graph_model.Connection(graph.way(hops, *pair)) for pair in ends]
    graph_model.share(one, found)
    used = {link: [each.rate for each in found if link in each.links] for link in one.rates}
    full = {link for link, rates in used.items()
            if sum(rates) == pytest.approx(one.rates[link], rel=1e-9)}
    assert all(sum(rates) <= one.rates[link] * (1 + 1e-9) for link, rates in used.items())
    for each in found:
        assert any(link in full and each.rate >= max(used[link]) * (1 - 1e-9)
                   for link in each.links)


def test_unequal_shares():
    one = graph.parse("a b 30")
    found = [graph_model.Connection([("a", "b")], weight) for weight in (2, 1)]
    graph_model.share(one, found)
    assert [each.rate for each in found] == [pytest.approx(20), pytest.approx(10)]
    # By hand: two workers push 100 tensors each over a link of 10. As equals they are through
    # together, after 2, and pull together. If one has three quarters of the link, it is through
    # after 4/3, and has pulled two thirds when the other one is through, after 2. They share the
    # link back until 8/3, and the other one pulls what it lacks, two thirds, alone.
    up = model.seconds(1e6, 10)
    many = [[("a", 1e4)]] * 100
    weights = iter([3, 1, 1, 1])  # up and down of each worker
    equal = seconds("a b 10, b c 1000", many, ["b", "c"])
    ahead = seconds("a b 10, b c 1000", many, ["b", "c"], weigh=lambda: next(weights))
    assert (equal, ahead) == (pytest.approx(4 * up), pytest.approx(10 / 3 * up, rel=0.02))


def test_the_best_site():
    one = graph.parse("a b 10, b c 10, b d 10, d e 10")
    assert graph_model.best_site(one, graph.next_hops(one), one.sites) == "b"
    assert graph_model.best_site(one, graph.next_hops(one), ["d", "e"]) == "d"
    # What crosses the slow link is for one worker, in place of two.
    one = graph.parse("a b 10, b c 10, b d 1, d e 10")
    assert graph_model.best_site(one, graph.next_hops(one), ["a", "d", "e"]) == "d"


# ---- links and routes

def both_ways(mesh):
    """What arrives over each direction of each link, all full at once: Mbit/s in half seconds."""
    into, port = {}, PORT
    for link in mesh.links:
        for one, other in ((link.one, link.other), (link.other, link.one)):
            port += 1
            process = python(other, "serve", other.address, port, 1, 4, 0.5)
            assert process.stdout.readline() == "ready\n"
            into[one.name, other.name] = process
            python(one, "send", port, other.address)
    return {way: json.loads(process.communicate(timeout=30)[0])["mbit"]
            for way, process in into.items()}


def a_change(mesh):
    """What arrives from a at b, of which the rate is lowered after three seconds."""
    process = receiver(mesh.host("b"), 1, 6, 0.5)
    python(mesh.host("a"), "send", PORT, mesh.host("b").address)
    time.sleep(3)
    for change in changes.parse("b-a=25/10"):
        change.apply(mesh)
    return json.loads(process.communicate(timeout=30)[0])["mbit"]


@pytest.mark.full
@needs_lab
def test_rates_hold_on_each_direction_of_each_link():
    """And a change meets what is under way, in its direction alone. A machine that does other
    things beside may keep the measuring programs waiting: then once more, three times in all."""
    seen = []
    with Mesh(SQUARE) as mesh:
        assert open_lab(mesh.name).graph().rates == {
            way: pytest.approx(rate) for way, rate in SQUARE.rates.items()}
        for _ in range(3):
            wrong = {way: rates for way, rates in both_ways(mesh).items()
                     if not near(rates[-4:], SQUARE.rates[way])}
            changed = a_change(mesh)
            if not wrong and near(changed[1:3], 40) and near(changed[-3:], 10):
                assert mesh.shaped("a-b").rates == (pytest.approx(10), pytest.approx(25))
                return
            seen.append((wrong, changed))
            mesh.shaped("a-b").rates = SQUARE.links[0].rates
    pytest.fail(str(seen))


@needs_lab
def test_routes_are_those_of_the_graph():
    hops = graph.next_hops(SQUARE)
    with Mesh(SQUARE) as mesh:
        for source in mesh.hosts.values():
            for target in mesh.hosts.values():
                if source is target:
                    continue
                entry, = json.loads(run("ip", "-n", source.namespace, "-j", "route", "get",
                                        target.address))
                hop = mesh.host(hops[source.name][target.name])
                assert (entry["dev"], entry["prefsrc"]) == (source.device(hop), source.address)
                assert entry.get("gateway", target.address) == hop.address
        # From b to d the packets cross a (a bit takes 1/40 + 1/28 there, 1/30 + 1/20 over c).
        before = forwarded(mesh)
        assert Ear(mesh.host("d")).hears(mesh.host("b"), "over a")
        assert [name for name, count in forwarded(mesh).items() if count > before[name]] == ["a"]


def forwarded(mesh):
    """How many packets each site has forwarded."""
    found = {}
    for name, site in mesh.hosts.items():
        names, values = (line.split() for line in subprocess.run(
            site.command(["grep", "^Ip:", "/proc/net/snmp"]), capture_output=True, text=True,
            check=True).stdout.splitlines())
        found[name] = int(values[names.index("ForwDatagrams")])
    return found


@needs_lab
def test_cuts_of_links_are_silent_and_mend():
    with Mesh(SQUARE) as mesh:
        a, b, c, d = mesh.hosts.values()
        at_a, at_b, at_d = Ear(a), Ear(b), Ear(d)
        assert at_b.hears(a, "whole") and at_a.hears(b, "whole") and at_d.hears(b, "whole")
        mesh.cut("a", "b")
        assert not at_b.hears(a, "one way") and at_a.hears(b, "one way") and at_b.hears(c, "other")
        assert [site.unreachable() for site in (a, b, c, d)] == [["b"], [], [], []]
        # What others send over the cut link is lost, too: routes stay as they are.
        for change in changes.parse("cut a"):
            change.apply(mesh)
        assert not at_a.hears(b, "both ways") and not at_d.hears(b, "over a")
        assert at_d.hears(c, "others")
        assert [site.unreachable() for site in (a, b, c, d)] == [
            ["b", "c", "d"], ["a"], ["a"], ["a"]]
        for change in changes.parse("mend all"):
            change.apply(mesh)
        assert at_b.hears(a, "mended") and at_d.hears(b, "mended")
        for words in ("cut b and d", "mend d to b", "b-d=10", "a-x=10"):
            with pytest.raises(Misuse, match="no link"):
                for change in changes.parse(words):
                    change.check(mesh)


@needs_lab
def test_a_connection_survives_a_cut_link():
    with Mesh(graph.parse("a b 50, b c 50")) as mesh:
        process = receiver(mesh.host("c"), 1, 4, 0.25)
        sender = python(mesh.host("a"), "send", PORT, mesh.host("c").address)
        time.sleep(1.5)
        mesh.cut("b", "c")
        time.sleep(0.7)
        mesh.mend("b", "c")
        rates = json.loads(process.communicate(timeout=30)[0])["mbit"]
        assert min(rates) < 1 and near(rates[-3:], 50), rates
        assert sender.wait(10) == 0


@needs_lab
def test_new_routes_go_round_a_cut_link():
    with Mesh(SQUARE) as mesh:
        at_c = Ear(mesh.host("c"))
        mesh.cut("a", "c")
        assert not at_c.hears(mesh.host("a"), "over the old route")
        left = graph.Graph(link for link in SQUARE.links if (link.one, link.other) != ("a", "c"))
        mesh.reroute(graph.next_hops(left))
        assert at_c.hears(mesh.host("a"), "round it")


@needs_lab
def test_rates_are_redrawn_live():
    with Mesh(graph.parse("a b 10, b c 20, a c", 1)) as mesh:
        change, = changes.parse("redraw 7 0.5")
        change.check(mesh)
        change.apply(mesh)
        drawn = graph.parse("a b, b c, a c", 7, 0.5)
        assert mesh.graph().rates == {way: pytest.approx(rate)
                                      for way, rate in drawn.rates.items()}
        with pytest.raises(LabError, match="too slow"):
            mesh.shaped("a-b").rates = Rates.both(0.1)
    with Lab({"one": FREE}) as star, pytest.raises(Misuse, match="links of a graph"):
        change.check(star)


@needs_lab
@pytest.mark.parametrize("name", links.PREFERRED)
def test_both_ends_of_a_way_have_the_algorithm_of_the_lab(name):
    with Mesh(graph.parse("a b 50, b c 50"), name) as mesh:
        process = receiver(mesh.host("c"), 1, 1, 1)
        python(mesh.host("a"), "send", PORT, mesh.host("c").address)
        time.sleep(0.5)
        seen = [subprocess.run(mesh.host(site).command(["ss", "-tinH"]), capture_output=True,
                               text=True, check=True).stdout for site in ("a", "c")]
        process.communicate(timeout=30)
    assert all(name in text.split() for text in seen), seen


# ---- jobs

@pytest.mark.full
@needs_lab
def test_links_hold_back_what_passes():
    with Mesh(graph.parse("a b 50 delay=15/10, b c 50")) as mesh:
        a, _, c = mesh.hosts.values()
        # Over b, and back.
        assert round_trips(a, c, 5)[0] >= 0.025
        (change,) = changes.parse("c-b.delay=30/5")
        change.check(mesh)
        change.apply(mesh)
        assert mesh.shaped("b-c").delays == Delays(Delay(5), Delay(30))
        assert mesh.graph().links[1].delays == Delays(Delay(5), Delay(30))
        assert round_trips(a, c, 5)[0] >= 0.060
    assert not left(mesh.name)


@needs_lab
def test_stock_and_ours_train_over_sites():
    """The same sums, also where the way to a server crosses a third site. Ours takes TCP between
    sites and shared memory within one."""
    with Mesh(SQUARE) as mesh:
        place = Sites(mesh, "c", ["a", "b"], ["a", "d"])
        runs = {library: harness.run("push_pull.py", "dist_sync", library=library, place=place,
                                     env={"PS_VERBOSE": "1"} if library == OURS else None)
                for library in (STOCK, OURS)}
    assert runs[STOCK].digests == runs[OURS].digests and len(runs[OURS].digests) == 2
    said = [node.err for node in runs[OURS].workers]
    over_tcp = [len(re.findall(r"data to server \d.* go over TCP to 10\.77\.0\.", text))
                for text in said]
    within = [len(re.findall(r"data to server \d.* go through shared memory", text))
              for text in said]
    assert (over_tcp, within) == ([1, 2], [1, 0]), said


SAY = 'echo "$DMLC_ROLE $DMLC_NODE_HOST of $DMLC_PS_ROOT_URI: $DMLC_NUM_WORKER/$DMLC_NUM_SERVER"; '


@needs_lab
def test_run_starts_each_role_at_its_site(tmp_path):
    text = tmp_path / "square"
    text.write_text("a b 40/25\nb c 30\nc d 20/35\na d\n")
    done = lab("run", "--graph", text, "--servers-at", "b,d,d", "--workers-at", "a,c",
               "--scheduler-at", "c", "--library", "stock", "--change", "at=0.2 a-d=10/20",
               "--change", "at=0.3 cut a and d", "--", "sh", "-c", SAY + "sleep 0.6")
    assert done.returncode == 0, done
    assert sorted(done.stdout.splitlines()) == [
        "[scheduler] scheduler 10.77.0.3 of 10.77.0.3: 2/3",
        "[server0] server 10.77.0.2 of 10.77.0.3: 2/3",
        "[server1] server 10.77.0.4 of 10.77.0.3: 2/3",
        "[server2] server 10.77.0.4 of 10.77.0.3: 2/3",
        "[worker0] worker 10.77.0.1 of 10.77.0.3: 2/3",
        "[worker1] worker 10.77.0.3 of 10.77.0.3: 2/3"]
    assert "lab: scheduler at c; servers at b, d, d; workers at a, c\n" in done.stderr
    assert "lab: at 0.2 s: a-d=10/20\n" in done.stderr
    assert "lab: at 0.3 s: cut a and d\n" in done.stderr
    assert not left(re.search(r"lab: (\S+): 4 sites", done.stderr)[1])


def all_sleep(name, count):
    """The processes of a job, when all are there."""
    limit = time.monotonic() + 20
    while True:
        pids = [pid for site in open_lab(name).hosts.values() for pid in site.pids()]
        if len(pids) >= count:
            return pids
        assert time.monotonic() < limit, pids
        time.sleep(0.05)


RUN = ("run", "--graph", "a b 40/25, b c 30", "--library", "stock", "--", "sleep", "100")


@needs_lab
def test_ctrl_c_removes_all_sites():
    process, name = start(*RUN)
    pids = all_sleep(name, 5)
    listed = lab("list").stdout
    assert re.search(r"\n  a +10\.77\.0\.1 .*\n(.*\n)*  a-b +40 +25 +- +-\n", listed), listed
    there = lab("exec", "--lab", str(process.pid), "b", "--", "cat", "/proc/sys/kernel/hostname")
    assert (there.returncode, there.stdout) == (0, "b\n"), there
    for words, code in ((("b-a=20/35",), 0), (("cut", "b", "to", "c"), 0), (("a-c=5",), 2),
                        (("cut", "a", "and", "c"), 2), (("redraw", "x"), 2)):
        done = lab("change", "--lab", name, *words)
        assert (done.returncode, done.stderr.count("\n")) == (code, bool(code)), done
    listed = lab("list").stdout
    assert re.search(r"  a-b +35 +20 +- +-\n  b-c +30 +30 +- +b to c\n", listed), listed
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert not left(name) and not alive(pids)


@needs_lab
def test_clean_removes_what_a_killed_lab_of_sites_leaves():
    with Lab({"one": FREE}) as other:
        process, name = start(*RUN)
        pids = all_sleep(name, 5)
        process.kill()
        process.wait(10)
        done = lab("clean")
        assert (done.returncode, f"lab: removed {name}\n" in done.stderr) == (0, True), done
        assert not left(name) and left(other.name)
    assert not alive(pids)


@needs_lab
@pytest.mark.parametrize("words, said", [
    (["--graph", "nofile"], "nor a file"), (["--graph", ""], "a graph of 0 sites"),
    (["--graph", "a b, c d"], "no way from a to c, d"),
    (["--graph", "netstorm", "--servers", "100"], "--servers is for a lab without --graph"),
    (["--seed", "3"], "--seed is for a lab with --graph"),
    (["--graph", "netstorm", "--scale", "0"], "is no scale"),
    (["--graph", "netstorm", "--scale", "0.001"], "too slow"),
    (["--graph", "netstorm", "--servers-at", "site10"], "no site 'site10'"),
    (["--graph", "netstorm", "--workers-at", "best"], "no site 'best'"),
    (["--graph", "netstorm", "--scheduler-at", "all"], "takes one site"),
    (["--graph", "netstorm", "--change", "at=1 site1-site4=20/35"], "no link site1-site4"),
    (["--graph", "netstorm", "--change", "at=1 cut site1 and site4"], "no link joins"),
    (["--change", "at=1 redraw 3"], "links of a graph")])
def test_bad_graphs_and_placements_are_refused(words, said):
    done = lab("run", *words, "--library", "stock", "--", "true")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and said in last and last.startswith("lab: "), done
    if "--change" not in words:  # nothing was made before it was seen
        assert done.stderr.count("\n") == 1, done
