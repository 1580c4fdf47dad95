"""The guide for source trees (docs/relink.md) as its readers follow it: its indented blocks, run as
they are written.

Tests that do what a block says take the words from here, so that the guide cannot drift from what
was run.
"""

import re
import shlex
import subprocess

from harness import ROOT

GUIDE = ROOT / "docs/relink.md"


def block(section, part):
    """The one block of a section that contains `part`, without its indent."""
    text = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", GUIDE.read_text(),
                     re.M | re.S)[1]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M)
    found = [re.sub(r"^    ", "", each, flags=re.M).strip("\n") + "\n"
             for each in blocks if part in each]
    assert len(found) == 1, f"{GUIDE.name}, section {section}: {len(found)} blocks contain {part!r}"
    return found[0]


def option(beginning):
    """The one word of the guide's running text that begins so: what it says to give to a
    command."""
    found = set(re.findall(rf"`({re.escape(beginning)}[^`]*)`", GUIDE.read_text()))
    assert len(found) == 1, f"{GUIDE.name}: {found} begin with {beginning!r}"
    return found.pop()


def exports(section, part):
    """The variables that a block exports."""
    words = [shlex.split(line, comments=True) for line in block(section, part).splitlines()]
    return dict(word.split("=", 1) for line in words if line[:1] == ["export"] for word in line[1:])


def run(text, folder, pslite=ROOT, prefix="/opt/pslite", timeout=500):
    """Runs a block in a folder, each line after the other, with those two paths as they are here.
    What it said."""
    script = text.replace("/path/to/pslite", str(pslite)).replace("/opt/pslite", str(prefix))
    done = subprocess.run(["bash", "-euo", "pipefail"], input=script, cwd=folder, timeout=timeout,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout
