"""The scripts say at once where a checkout cannot work, and do not depend on what it is called.
What the code cites is in the checkout."""

import re
import shutil
import subprocess

import pytest

from harness import ROOT


@pytest.mark.parametrize("name", ["with blank", "with:colon"])
@pytest.mark.parametrize("script", ["test", "demo", "bench", "lab", "python-env"])
def test_a_path_that_cannot_be_preloaded_is_refused(tmp_path, name, script):
    place = tmp_path / name
    shutil.copytree(ROOT / "scripts", place / "scripts")
    run = subprocess.run([place / "scripts" / script], capture_output=True, text=True, timeout=30)
    assert run.returncode == 2, run
    assert f"{script}: the path of this checkout, '{place}', has a blank or a colon" in run.stderr
    assert run.stdout == "" and not (place / ".cache").exists()


def test_every_cited_section_of_the_algorithms_exists():
    titles = re.findall(r"^##+ ([\d.]+\d|\d+)\.? ", (ROOT / "docs/algorithms.md").read_text(), re.M)
    assert len(titles) == len(set(titles)) > 30, titles
    sections, cited = set(titles), 0
    code = [*(ROOT / "src").rglob("*.rs"), *(ROOT / "compat-tests/netlab").glob("*.py")]
    for file in code:
        for start in re.finditer(r"(\S*)algorithms\.md", text := file.read_text()):
            line = f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, start.start()) + 1}"
            number = r"(\d+(?:\.\d+)?)"
            # The number may stand in the next line of a comment.
            found = re.match(rf"\s+(?://[/!]? )?{number}(?: and {number})?", text[start.end():])
            assert start[1].endswith("docs/") and found, f"{line}: cite docs/algorithms.md N"
            missing = {number for number in found.groups() if number} - sections
            assert not missing, f"{line}: docs/algorithms.md has no section {missing}"
            cited += 1
    assert cited > 40, f"only {cited} citations were found"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "docs/design.md"])
def test_a_page_names_files_that_exist(page):
    roots = "compat-tests|docs|examples|ffi|fuzz|include|scripts|src|tests"
    names = re.findall(rf"`((?:{roots})/[\w./-]+)", (ROOT / page).read_text())
    assert len(names) >= 5, names
    assert not [name for name in names if not (ROOT / name).exists()]


def test_the_recipes_name_what_the_code_has():
    """The names of types, constants and macros in an item are in one of the files that it names."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    items = re.findall(r"^\d\. .*?(?=^\d\. |^Run |\Z)", text, re.M | re.S)
    checked = 0
    for item in items:
        files = re.findall(r"`((?:src|compat-tests)/[\w./]+\.(?:rs|py))`", item)
        code = "".join((ROOT / file).read_text() for file in files)
        for word in re.findall(r"`([A-Z]\w+|\w+!)`", item):
            if code and word != "Foo":
                assert word in code, f"{word} is in none of {files}"
                checked += 1
    assert checked > 10
