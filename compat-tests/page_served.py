"""The files of the status page (src/web/page), served with a job that was made up: for what no job
of a test has at the same time, and for names that no node of ours would take. And the browser.

    python compat-tests/page_served.py    draws the pictures of docs/watch.md
"""

import contextlib
import copy
import http.server
import io
import json
import math
import shutil
import threading
import time

import harness

PAGE = harness.ROOT / "src/web/page"
FILES = {"/": ("index.html", "text/html"), "/page.css": ("page.css", "text/css"),
         "/draw.js": ("draw.js", "text/javascript"),
         "/page.js": ("page.js", "text/javascript"), "/icon.svg": ("icon.svg", "image/svg+xml")}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
          "img-src 'self'")
#: Nothing else gives a page a colour scheme and a width below 500.
WIDTHS = (360, 800, 1600)


def node(role, rank, state="live", **more):
    place = rank + (1 if role == "server" else 11)
    about = {"role": role, "rank": rank, "id": (8 if role == "server" else 9) + 2 * rank,
             "address": f"10.0.0.{place}:{40000 + 97 * place}", "state": state, "pieces": 0,
             "bytes": 0, "state_bytes": 0, "computes": None, "waits": None}
    return {**about, **more}


SITES = ("berlin", "lyon", "oslo", "porto")


def link(start, end, mbit, measured=True):
    return {"from": start, "to": end, "mbit": mbit, "measured": measured}


#: Of 4 sites that have 5 links, one of which is cut.
LINKS = [link("berlin", "lyon", 84.1), link("lyon", "berlin", 79.6),
         link("berlin", "oslo", 31.5), link("oslo", "berlin", 0.0),
         link("berlin", "porto", 12.2), link("porto", "berlin", 11.9),
         link("lyon", "porto", 55.0, False), link("porto", "lyon", 55.0, False),
         link("oslo", "porto", 8.4), link("porto", "oslo", 8.8)]


def status():
    """How a job is that has something of everything."""
    servers = [node("server", rank, state, pieces=pieces, bytes=size, state_bytes=2 * size)
               for rank, (state, pieces, size) in enumerate([
                   ("live", 41, 44_120_000), ("live", 37, 38_410_000), ("draining", 3, 2_560_000)])]
    workers = [node("worker", rank, state, computes=computes, waits=waits)
               for rank, (state, computes, waits) in enumerate([
                   ("live", 0.412, 0.206), ("live", 0.405, 0.213), ("live", 0.598, 0.020),
                   ("dead", None, None), ("back", 0.420, 0.198)])]
    return {
        "scheduler": "10.0.0.1:9091", "phase": "running", "workers": 5, "servers": 3,
        "elastic": True, "epoch": 7, "replicas": 1, "nodes": [*servers, *workers],
        "predicted": 0.198, "measured": 0.213, "iteration": 0.618, "bound": 0.184, "eta": 0.864,
        "limit": "worker 2 holds the others up: it computes 0.190 s longer than the others",
        "no_plan": "rounds are as short as can be", "advice": "", "note": "",
        "waits": ["round 812 of key 3 at server 0 has waited 12 s for worker 3 (id 15, "
                  "10.0.0.14:41358)"],
        "sessions": [{"name": "train", "rule": "cpu-mean", "members": 5, "present": 4,
                      "iteration": 812, "smallest": 48, "largest": 72, "spread": 0.06,
                      "gain": 1.18, "epoch": 0, "dealt": 0.0}],
        "trees": {"topology": "auto", "overlay": 4, "why": "", "links": LINKS, "trees": [
            {"share": 0.62, "root": "berlin", "up": "berlin(lyon(porto) oslo)",
             "down": "berlin(lyon(porto) oslo)"},
            {"share": 0.38, "root": "lyon", "up": "lyon(berlin(oslo) porto)",
             "down": "lyon(berlin(oslo) porto)"}]},
        "exchange": None, "exchanges": [], "exchange_advice": "", "uncopied": 0, "settings": [],
        "age": 4975.0, "rounds": 1199,
    }


def rounds(count=1200):
    """Round points of the last hour."""
    def point(number):
        at = 3.0 * number
        slow = 0.45 * math.exp(-((number - 420) / 60) ** 2)
        noise = 0.012 * math.sin(number * 1.7) + 0.008 * math.sin(number * 0.31)
        predicted = 0.31 if number < 450 else 0.198
        return {"at": at, "round": number, "measured": predicted + 0.02 + slow + noise,
                "predicted": predicted, "bound": 0.184}
    return [point(number) for number in range(count)]


def events():
    now = 1_796_000_000
    told = [("phase", None, "the job is running: 5 workers, 3 servers"),
            ("move", 8, "4.1 MB of key 3 go from server 2 to server 0: a round of 0.310 s "
                                "becomes one of 0.204 s"),
            ("node", 15, "worker 3 is lost: no sign of life for 3.0 s"),
            ("policy", None, "policy 7 is in force: lost worker 3"),
            ("operator", 12, "server 2 is to be emptied, as an operator asked"),
            ("link", None, "oslo to berlin carries nothing more")]
    return [{"number": number, "at": 61.0 * number, "time": now + 61.0 * number, "kind": kind,
             "node": about, "text": text, "numbers": {}}
            for number, (kind, about, text) in enumerate(told, 1)]


class Served(http.server.ThreadingHTTPServer):
    """Serves the page; `status`, `events` and `points` are what it tells, and may be
    changed. While `is_deaf`, streams end and none begins."""

    daemon_threads = True

    def __init__(self, status, events=()):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.events, self.is_deaf = status, list(events), False
        self.points = rounds() if status["measured"] else []
        self.life = "1"
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def begin(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()

    def do_GET(self):  # noqa: N802 (the name is http.server's)
        path = self.path.partition("?")[0]
        if path in FILES:
            name, kind = FILES[path]
            self.begin(kind)
            self.wfile.write((PAGE / name).read_bytes())
        elif path == "/api/rounds":
            after = int(self.path.rpartition("=")[2]) / 1000
            self.begin("application/json")
            new = [point for point in self.server.points if point["at"] > after]
            self.wfile.write(json.dumps(new).encode())
        elif path == "/api/live" and not self.server.is_deaf:
            self.begin("text/event-stream")
            with contextlib.suppress(OSError):
                self.live(int(self.path.rpartition("=")[2]))
        else:
            self.send_error(404)

    def say(self, kind, data):
        self.wfile.write(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())

    def live(self, since):
        self.say("life", {"life": self.server.life})
        last = None
        while not self.server.is_deaf:
            for event in self.server.events:
                if event["number"] > since:
                    since = event["number"]
                    self.say("event", event)
            text = json.dumps(self.server.status)
            if text != last:
                last = text
                self.say("status", json.loads(text))
            self.wfile.write(b":\n\n")
            time.sleep(0.1)


@contextlib.contextmanager
def served(told=None, happened=()):
    server = Served(status() if told is None else told, happened)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.is_deaf = True
        server.shutdown()
        server.server_close()


def missing():
    """Why there is no browser; empty if there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (scripts/python-env)"
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "chromium and chromium-driver are not installed (scripts/test)"
    return ""


@contextlib.contextmanager
def browser():
    """A headless Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    options = Options()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--lang=en", "--no-proxy-server"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def look(driver, scheme="light", width=1600, height=1000):
    """Sets the colour scheme and the size of the window."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


def shown(driver, condition, seconds=10, what="document.body.innerText"):
    """Waits until an expression of the page is true; returns what it is."""
    limit = harness.patient(seconds)
    while time.monotonic() < limit:
        found = driver.execute_script(f"return {condition}")
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError((condition, driver.execute_script(f"return {what}")))


def opened(driver, url):
    """Opens a page, and waits until it shows a job."""
    driver.get(url)
    shown(driver, "document.body.dataset.shown === 'yes'", 20)


def pictures(folder):
    """Draws those of docs/watch.md; Pillow makes them small, by fewer colours."""
    from PIL import Image
    told = status()
    with served(told, events()) as server, browser() as driver:
        for scheme in ("light", "dark"):
            for name, width in (("wide", 1400), ("narrow", 400)):
                look(driver, scheme, width, 900)
                opened(driver, server.url)
                time.sleep(0.5)
                height = driver.execute_script("return document.documentElement.scrollHeight")
                look(driver, scheme, width, min(height, 2200))
                time.sleep(0.3)
                path = folder / f"watch-{scheme}-{name}.png"
                picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
                few = picture.quantize(160, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                few.save(path, optimize=True)
                print(path, path.stat().st_size)


def many(count):
    """A job of so many servers and as many workers."""
    told = copy.deepcopy(status())
    told["nodes"] = [node("server", rank, bytes=1000 + rank, pieces=1) for rank in range(count)]
    told["nodes"] += [node("worker", rank, computes=0.1, waits=0.1) for rank in range(count)]
    return told


if __name__ == "__main__":
    pictures(harness.ROOT / "docs")
