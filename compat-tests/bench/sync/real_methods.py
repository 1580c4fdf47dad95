"""The methods that train for real, how each of them runs, and its best settings: what the model's
search found (`cells.measure`), or the tables of docs/benchmarks.md. It runs nothing.
"""

import json
import re
from dataclasses import dataclass

from harness import ROOT

from . import hsp, tables
from .digits import CACHE
from .methods import ALL, DEFAULT, NAMED, Method, ssgd

EXCHANGES, ALPHAS = (1.0, 4.0), (None, 0.3)
# Seconds in which a job that measures itself does so.
WARM = 8
# A method that only this part has, and its best settings: `search.best` at Case(G, alpha).
HSP = Method("HSP-like", hsp.hsp, ssgd, ("rate", "own_momentum"))
HSP_BEST = {(1.0, None): {"rate": 0.123, "own_momentum": 0.9},
            (4.0, None): {"rate": 0.4, "own_momentum": 0.5},
            (1.0, 0.3): {"rate": 0.32, "own_momentum": 0.8},
            (4.0, 0.3): {"rate": 0.4, "own_momentum": 0.5}}


@dataclass(frozen=True)
class Way:
    """How a method runs. way, program: of real_program.py. sync: PSLITE_SYNC of a setting."""

    way: str
    program: str = ""
    sync: object = None
    warm: float = 0


def rule(setting):
    return (f"momentum={setting.get('momentum', 0):g},rate={setting.get('outer', 1):g},"
            f"nesterov={int(setting.get('nesterov', True))}")


WAYS = {
    "FedAvg": Way("exchange", sync=lambda setting: f"fedavg:steps={setting['steps']}"),
    "FedAsync": Way("mixing", "fedasync"),
    "ESync": Way("exchange", sync=lambda setting: f"esync:steps={setting['steps']}", warm=WARM),
    "DiLoCo": Way("exchange",
                  sync=lambda setting: f"diloco:steps={setting['steps']},{rule(setting)}"),
    HSP.name: Way("turns"),
    "Streaming": Way("sums", "streaming"),
    "CO2": Way("sums", "co2"),
    "eager": Way("sums", "eager"),
    "asynchronous": Way("mixing", "asynchronous"),
    "published": Way("exchange", sync=lambda _: "nbsync:published"),
    "default": Way("exchange", sync=lambda _: "nbsync", warm=WARM),
}
WAITS = ("FedAvg", "ESync", "DiLoCo")


def form_of(method):
    """That of the model."""
    return {**NAMED, "default": NAMED["sections"], HSP.name: HSP}[method]


# ---- settings -----------------------------------------------------------------------------------

def settings():
    """{(method, exchange, alpha): setting}, the best that the search found."""
    path = CACHE / "sync.json"
    if path.is_file():
        found = json.loads(path.read_text())
        best = {(one["method"], one["case"][0], one["case"][1]): one["setting"]
                for one in found["tuned"] if not one["case"][2]}
        default = found["setting"]
    else:
        best, default = written((ROOT / "docs/benchmarks.md").read_text())
    for exchange in EXCHANGES:
        for alpha in ALPHAS:
            best["default", exchange, alpha] = {**DEFAULT, **default}
            best[HSP.name, exchange, alpha] = HSP_BEST[exchange, alpha]
    return best


def written(page):
    """The same of the page's tables: of each method and case the first row, which has the momentum
    of the workers' own optimizer tuned; the default form's setting."""
    best = {}
    names = "|".join(re.escape(method.name) for method in ALL)
    row = re.compile(rf"^\| ({names}) \| (iid|non-iid) (\d+) \| ([^|]*) \|", re.M)
    for method, kind, exchange, words in row.findall(page):
        alpha = None if kind == "iid" else ALPHAS[1]
        best.setdefault((method, float(exchange), alpha), read(words))
    own = re.search(r"The default form's one setting \(([^;)]*)", page)
    return best, read(" ".join(own[1].split()))


def read(words):
    """The opposite of `tables.setting`."""
    found, keys = {}, {word: name for name, word in tables.WORDS.items()}
    for part in words.split(", "):
        if part in ("Nesterov", "heavy ball"):
            found["nesterov"] = part == "Nesterov"
        elif part == "window fits":
            found["window"] = 0
        else:
            word, _, value = part.rpartition(" ")
            whole = keys[word] in ("steps", "fragments", "delay", "sections", "window")
            found[keys[word]] = int(value) if whole else float(value)
    return found
