"""The status page in a browser (docs/watch.md): of jobs that train, and of one that was made up,
for what no job has at the same time (page_served.py)."""

import json
import re
import signal
import time

import pytest

import harness
import page_served
from elastic_job import pslite, stop
from harness import NATIVE, OURS, Cluster
from page_served import WIDTHS, look, opened, served, shown
from raw_http import get, listens

#: Most of the time passes in waiting (pytest.ini).
pytestmark = [pytest.mark.waits, pytest.mark.long,
              pytest.mark.skipif(bool(page_served.missing()), reason=page_served.missing())]

#: The contrast of each text that is seen with what is behind it: the least, and where it is.
CONTRAST = """
function light(colour) {
  const parts = colour.match(/[\\d.]+/g).map(Number);
  const [r, g, b] = parts.slice(0, 3).map(part => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
}
const found = [];
for (const element of document.querySelectorAll('body, body *')) {
  const has = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const box = element.getBoundingClientRect();
  if (!has || !box.width || !box.height) continue;
  const style = getComputedStyle(element);
  const colour = element instanceof SVGElement ? style.fill : style.color;
  const [high, low] = [light(colour), light(ground(element))].sort((a, b) => b - a);
  found.push([(high + 0.05) / (low + 0.05), element.textContent.slice(0, 40), colour]);
}
return found.sort((a, b) => a[0] - b[0]);
"""


@pytest.fixture(scope="module")
def driver():
    with page_served.browser() as found:
        yield found


def console(driver):
    """What the browser complained of since it was asked last."""
    return [entry["message"] for entry in driver.get_log("browser")]


def rows(driver, section):
    """The table of a section: the first words of each cell, by the names of the columns."""
    return driver.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(row => "
        "Object.fromEntries([...row.cells].map(cell => "
        "[cell.dataset.name, cell.innerText.trim()])))", section)


def wide(driver, section, name):
    """How wide the bars of a column are, in percent of the widest that there may be."""
    return driver.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} .bar`)].map(bar => "
        "100 * bar.firstChild.getBoundingClientRect().width / bar.getBoundingClientRect().width)",
        section, name)


def training(env=None, workers=2, **more):
    """A job that trains, with a page; and where it is."""
    port = harness.free_port()
    flags = {"PSLITE_ELASTIC": 1, "PSLITE_ELASTIC_WORKERS": 1, "PSLITE_STALL_REPORT": 2,
             "PS_VERBOSE": 1}
    library = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}
    job = Cluster("elastic.py", ("dist_sync", "sgd", 3000, 0.05, "small"), workers=workers,
                  library=library, env={**flags, **(env or {})},
                  node_env={"scheduler": {"PSLITE_HTTP": port}}, **more)
    return job, port


def begin(job, port):
    job.start()
    assert job.nodes["worker0"].wait_for("round 2\n", 90), job.describe()
    listens(port)


# ---- jobs that train


def test_the_page_shows_what_pslite_status_says(driver):
    job, port = training()
    with job:
        begin(job, port)
        console(driver)
        look(driver)
        opened(driver, f"http://127.0.0.1:{port}/")
        told = json.loads(pslite(job, "status", "--json").stdout)
        servers = [node for node in told["nodes"] if node["role"] == "server"]
        total = sum(node["bytes"] for node in servers)
        expected = [{"node": f"server {node['rank']}", "address": node["address"],
                     "state": node["state"], "pieces": str(node["pieces"]),
                     "share": f"{100 * node['bytes'] / total:.1f} %"} for node in servers]
        # Where keys are may change between the two looks.
        limit = harness.patient(20)
        found = None
        while time.monotonic() < limit:
            found = [{name: row[name] for name in expected[0]} for row in rows(driver, "servers")]
            if found == expected:
                break
            time.sleep(0.2)
        assert found == expected
        workers = [[row["node"], row["address"], row["state"]] for row in rows(driver, "workers")]
        assert workers == [[f"worker {node['rank']}", node["address"], node["state"]]
                           for node in told["nodes"] if node["role"] == "worker"]
        bars = wide(driver, "servers", "share")
        assert [round(bar) for bar in bars] == pytest.approx(
            [100 * node["bytes"] / total for node in servers], abs=2)
        text = driver.execute_script("return document.body.innerText")
        assert f"job at 127.0.0.1:{job.port}" in text and "running" in text and "live" in text
        # Nothing is from elsewhere, and nothing was refused.
        names = driver.execute_script(
            "return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert {name.partition("?")[0] for name in names} >= {
            f"http://127.0.0.1:{port}/{file}" for file in ("page.css", "draw.js", "page.js")}
        assert all(name.startswith(f"http://127.0.0.1:{port}/") for name in names), names
        assert console(driver) == []


def test_a_dead_and_a_stopped_worker_are_seen_and_so_is_the_end(driver):
    job, port = training(workers=3, env={"PSLITE_PEER_TIMEOUT": 3})
    with job:
        begin(job, port)
        opened(driver, f"http://127.0.0.1:{port}/")
        ranks = {re.search(r"this is worker (\d)", worker.output)[1]: worker
                 for worker in job.workers}
        stopped = ranks["1"]
        stop(stopped)
        waits = "document.querySelector('#waits').innerText"
        shown(driver, f"{waits}.includes('worker 1 (')", 15, what=waits)
        stopped.signal(signal.SIGCONT)
        shown(driver, f"{waits}.includes('nobody waits')", 30, what=waits)
        ranks["2"].signal(signal.SIGKILL)
        shown(driver, "[...document.querySelectorAll('#workers tr')].some(row => "
              "row.innerText.includes('worker 2') && row.innerText.includes('dead'))", 5)
        happened = driver.execute_script("return document.querySelector('#events').innerText")
        assert "worker 2" in happened, happened
        console(driver)
        job.nodes["scheduler"].signal(signal.SIGKILL)
        cut = "document.querySelector('#cut').innerText"
        shown(driver, f"{cut}.includes('Cut off from the scheduler')", 15, what=cut)
        said = driver.execute_script(f"return {cut}")
        assert re.search(r"What stands below is of \d\d:\d\d:\d\d", said), said
        fresh = driver.execute_script("return document.querySelector('#fresh').innerText")
        assert fresh.startswith("cut off"), fresh


def test_the_page_of_a_preloaded_scheduler_is_the_same():
    ports = [harness.free_port(), harness.free_port()]
    pages = []
    for port, library in zip(ports, (NATIVE, OURS)):
        with Cluster("nothing.py", roles=("scheduler",), library={"scheduler": library},
                     env={"PSLITE_HTTP": port}) as cluster:
            cluster.start()
            listens(port)
            pages.append([get(port, target) for target in page_served.FILES])
    assert pages[0] == pages[1]
    assert pages[0] == [(page_served.PAGE / name).read_text()
                        for name, _ in page_served.FILES.values()]


# ---- a job that was made up


@pytest.fixture(scope="module")
def server():
    with served(page_served.status(), page_served.events()) as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_at_every_width(driver, server, scheme):
    grounds = []
    for width in WIDTHS:
        look(driver, scheme, width)
        opened(driver, server.url)
        found = driver.execute_script(CONTRAST)
        assert len(found) > 60 and found[0][0] >= 4.5, found[:3]
        inside = driver.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth, "
            "...[...document.querySelectorAll('section')].map(one => one.scrollWidth - "
            "one.clientWidth)]")
        assert inside[0] <= inside[1] == width and max(inside[2:]) <= 0, (width, inside)
        grounds.append(driver.execute_script(
            "return getComputedStyle(document.body).backgroundColor"))
    assert len(set(grounds)) == 1
    is_dark = sum(map(int, re.findall(r"\d+", grounds[0])[:3])) < 200
    assert is_dark == (scheme == "dark"), grounds


def test_parts_stand_in_their_order_and_all_have_words(driver, server):
    console(driver)
    look(driver, width=600)
    opened(driver, server.url)
    heads = driver.execute_script(
        "return [...document.querySelectorAll('section')].filter(one => one.offsetParent)"
        ".map(one => one.querySelector('h2').firstChild.data.trim())")
    assert heads == ["Who waits for whom", "Rounds", "Servers", "Links and trees", "Workers",
                     "Batch sizes", "What happened"]
    assert [row["state"] for row in rows(driver, "workers")] == ["live", "live", "live", "dead",
                                                                 "back"]
    text = driver.execute_script("return document.body.innerText")
    for words in ("1:22:55", "worker 2 holds the others up", "12 s for worker 3", "0.86", "T*",
                  "1.18 times", "oslo to berlin carries nothing more"):
        assert words in text, words
    first = rows(driver, "events")[0]
    assert (first["kind"], first["what"]) == ("link", "oslo to berlin carries nothing more")
    shown(driver, "document.querySelectorAll('#chart path').length === 3")
    live = driver.execute_script("return document.querySelector('#waits').ariaLive")
    assert live == "polite" and console(driver) == []


def test_the_picture_has_a_line_for_each_link_and_marks_the_cut_one(driver, server):
    look(driver)
    opened(driver, server.url)
    lines = driver.execute_script(
        "return [...document.querySelectorAll('#picture line')].map(line => "
        "line.getAttribute('class'))")
    assert sorted(lines) == ["link", "link", "link", "link cut", "link told"]
    labels = driver.execute_script(
        "return [...document.querySelectorAll('#picture text')].map(text => text.textContent)")
    assert set(labels) >= {*page_served.SITES, "84.1 / 79.6", "31.5 / cut", "(55.0) / (55.0)"}


def test_names_from_outside_are_text(driver):
    told = json.loads(json.dumps(page_served.status()))
    evil = "<img src=x onerror=document.title='evil'>"

    def spoil(value, key=""):
        if isinstance(value, dict):
            return {name: spoil(inside, name) for name, inside in value.items()}
        if isinstance(value, list):
            return [spoil(inside) for inside in value]
        return evil if isinstance(value, str) and key != "role" else value

    happened = [{"number": 1, "at": 5, "kind": evil, "node": evil, "text": evil, "numbers": {}}]
    with served(spoil(told), happened) as server:
        console(driver)
        for width in WIDTHS:
            look(driver, width=width)
            opened(driver, server.url)
            assert driver.execute_script("return document.querySelectorAll('img').length") == 0
            assert evil in driver.execute_script("return document.body.innerText")
            assert driver.title != "evil"
            inside = driver.execute_script(
                "return [document.documentElement.scrollWidth, innerWidth]")
            assert inside[0] <= inside[1], inside
        assert console(driver) == []


def test_of_many_nodes_the_worst_are_shown_until_somebody_asks(driver):
    told = page_served.many(100)
    told["nodes"][77]["state"] = "dead"
    sites = [f"site{number:03}" for number in range(100)]
    told["trees"]["links"] = [page_served.link(one, other, 10.0 + number)
                              for number, (one, other) in enumerate(zip(sites, sites[1:]))]
    with served(told) as server:
        look(driver)
        opened(driver, server.url)
        for section in ("servers", "workers"):
            assert len(rows(driver, section)) == 64
        assert rows(driver, "servers")[0]["node"] == "server 77"
        assert driver.execute_script("return document.querySelectorAll('#picture line').length"
                                     ) == 0
        links = rows(driver, "links")
        assert len(links) == 64 and links[0]["there, Mbit/s"] == "10.0"
        driver.execute_script("document.querySelector('#servers .all').click()")
        assert [row["node"] for row in rows(driver, "servers")] == [
            f"server {rank}" for rank in range(100)]


def test_what_is_cut_off_is_old_and_comes_back_with_what_it_missed(driver):
    told = page_served.status()
    with served(told, page_served.events()[:3]) as server:
        look(driver)
        opened(driver, server.url)
        shown(driver, "document.querySelectorAll('#events tbody tr').length === 3")
        assert driver.execute_script("return document.querySelector('#cut').hidden")
        server.is_deaf = True
        shown(driver, "!document.querySelector('#cut').hidden")
        assert driver.execute_script("return document.body.classList.contains('old')")
        server.events = page_served.events()
        server.status = {**told, "phase": "changing"}
        server.is_deaf = False
        shown(driver, "document.querySelector('#cut').hidden")
        shown(driver, "document.querySelectorAll('#events tbody tr').length === 6")
        assert driver.execute_script(
            "return document.querySelector('#tiles').innerText").startswith("phase\nchanging")


def test_another_scheduler_counts_anew(driver):
    with served(page_served.status(), page_served.events()) as server:
        look(driver)
        opened(driver, server.url)
        shown(driver, "document.querySelectorAll('#events tbody tr').length === 6")
        server.is_deaf = True
        shown(driver, "!document.querySelector('#cut').hidden")
        server.life, server.events = "2", page_served.events()[:1]
        server.is_deaf = False
        shown(driver, "document.querySelectorAll('#events tbody tr').length === 1")
        shown(driver, "document.querySelector('#cut').hidden")


def test_a_job_that_forms_says_what_is_not_there(driver):
    told = {**page_served.status(), "phase": "forming", "nodes": [], "trees": None, "sessions": [],
            "waits": [], "measured": None, "predicted": None, "bound": None, "eta": None,
            "iteration": None, "limit": "", "no_plan": "", "rounds": None,
            "note": "the job is not complete: 0 of 5 workers are here"}
    del told["age"]
    with served(told) as server:
        look(driver)
        opened(driver, server.url)
        text = driver.execute_script("return document.body.innerText")
        for words in ("forming", "0 of 5 workers are here", "nobody waits for long",
                      "none was measured yet", "no server is here yet", "no worker is here yet",
                      "nothing yet", "watched for"):
            assert words in text, (words, text)
        assert driver.execute_script(
            "return [...document.querySelectorAll('#network, #sessions, #exchanges')]"
            ".every(one => one.hidden)")
