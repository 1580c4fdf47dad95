"""Which wheels of MXNet the library serves: tries each, prints a table.

    .cache/venv/bin/python compat-tests/wheels.py                     all that are listed below
    .cache/venv/bin/python compat-tests/wheels.py 1.8.0.post0 1.9.0   these
    --folder F    where wheels are kept and unpacked; default .cache/wheels (needs 2 GB)
    --verbose     also the whole output of runs that did not end well

Not part of the test run: it downloads 50 MB for each version (`pip download`) and takes minutes. No
environment is made for a wheel: it is unpacked, and stands before the installed one in PYTHONPATH.
A version is looked at in three ways: the marks that ffi/mxnet/cpp/guard.cc asks for; jobs on the
wheel alone and the same jobs with the library preloaded (1 scheduler, 2 servers, 2 workers), up to
the first that fails; and whether the Python package would preload anything at all. Environment: as
compat-tests/harness.py. Exit code 1 if something ended neither well nor in a refusal.
"""

import argparse
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
import harness  # noqa: E402
from cases import CASES  # noqa: E402
from harness import OURS, STOCK  # noqa: E402

VERSIONS = ("1.6.0", "1.7.0.post1", "1.7.0.post2", "1.8.0", "1.8.0.post0", "1.9.0", "1.9.1",
            "2.0.0b1")
# Of these the first is what every version can be expected to run.
JOBS = ("server_sgd_momentum", "row_sparse", "dist_sync", "trainer_server")
GUARD = harness.ROOT / "ffi/mxnet/cpp/guard.cc"
# Seconds for a job; a healthy one takes 5 to 10.
LIMIT = 45


def symbol_table():
    path = str(harness.ROOT / "scripts/symbol-table")
    loader = importlib.machinery.SourceFileLoader("symbol_table", path)
    spec = importlib.util.spec_from_loader("symbol_table", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


table = symbol_table()


def unpacked(version, folder):
    """The folder with the unpacked wheel; downloads it if need be."""
    target = folder / version
    if (target / "mxnet/libmxnet.so").exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    wheels = list(folder.glob(f"mxnet-{version}-*.whl"))
    if not wheels:
        subprocess.run([harness.PYTHON, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--dest", str(folder), f"mxnet=={version}"], check=True, timeout=900)
        wheels = list(folder.glob(f"mxnet-{version}-*.whl"))
    # Under another name until it is complete.
    part = folder / f"{version}.part"
    shutil.rmtree(part, ignore_errors=True)
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(part)
    return part.rename(target)


def missing_openblas(version, folder):
    """Environment for the wheel of 1.8.0, which wants a libopenblas.so.0 that it does not bring:
    what 1.8.0.post0 was made for."""
    if version != "1.8.0":
        return {}
    links = folder / "openblas"
    links.mkdir(exist_ok=True)
    for name in ("libopenblas.so.0", "libgfortran.so.3"):
        (links / name).unlink(missing_ok=True)
        (links / name).symlink_to(unpacked("1.8.0.post0", folder) / "mxnet" / name)
    return {"LD_LIBRARY_PATH": str(links)}


def marks(path, env):
    """What guard.cc would say of a libmxnet.so: "fit", or what is not as it must be."""
    wanted = re.findall(r'\{"(_Z\w+)",\s*(\d+),\s*"([^"]+)"\}', GUARD.read_text())
    assert len(wanted) > 10, "guard.cc has changed its form"
    packed = False
    try:
        sizes = {s.name: s.size for s in table.Elf(path).symbols if s.section}
    except (IndexError, KeyError, ValueError):
        # Readable only when it has unpacked itself in memory; sizes are not asked for then.
        packed = b"UPX!" in path.read_bytes()
        sizes = dict.fromkeys(loaded(path, [name for name, _, _ in wanted], env), None)
    lacks = [meaning for name, _, meaning in wanted if name not in sizes]
    if len(lacks) == len(wanted):
        return "exports nothing of ps-lite" + (", packed with UPX" if packed else "")
    other = [f"{meaning} has {sizes[name]} bytes, not {size}" for name, size, meaning in wanted
             if int(size) and sizes.get(name) not in (None, int(size))]
    if lacks:
        other.insert(0, f"lacks {lacks[0]}" + f" and {len(lacks) - 1} more" * (len(lacks) > 1))
    return "; ".join(other) or "fit"


def loaded(path, names, env):
    """Which of the names a library exports, asked in a process of its own."""
    code = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); "
            "print(*[name for name in sys.argv[2:] if hasattr(library, name)])")
    return subprocess.run([harness.PYTHON, "-c", code, str(path), *names], check=True, text=True,
                          env={**os.environ, **env}, timeout=60,
                          stdout=subprocess.PIPE).stdout.split()


def by_package(env):
    """What `import pslite.preload` does with this wheel."""
    path = f"{env['PYTHONPATH']}:{harness.ROOT / 'ffi/python'}"
    done = subprocess.run([harness.PYTHON, "-c", "import pslite.preload"], text=True, timeout=60,
                          env={**os.environ, **env, "PYTHONPATH": path,
                               "PSLITE_LIBRARY": str(harness.LIBRARY)}, stderr=subprocess.PIPE)
    if done.returncode == 0:
        return "accepts it"
    return ("refuses it" if "ImportError: pslite.preload has no effect on" in done.stderr
            else "FAILED")


def run(job, library, env):
    chosen = CASES[job]
    return harness.Cluster(chosen.script, chosen.args, library=library, timeout=LIMIT, whole=True,
                           env={**chosen.env, **env}).run()


def ended_well(cluster):
    return (all(not n.hung and n.returncode == 0 for n in cluster.nodes.values())
            and all(cluster.results))


def why_failed(cluster):
    """The first thing that looks like a cause."""
    for node in cluster.nodes.values():
        for line in node.output.splitlines():
            if re.match(r"(OSError|\w*Error|.*MXNetError)\b", line):
                return f"{node.name}: {line.strip()}"
    return ", ".join(f"{n.name} {'hung' if n.hung else n.returncode}"
                     for n in cluster.nodes.values())


def refusals(cluster):
    """True for each process that ended with an error and our refusal, without a signal."""
    return [not n.hung and n.returncode is not None and n.returncode > 0
            and "is not a build of MXNet that this library knows" in n.output
            for n in cluster.nodes.values()]


def outcome(stock, ours):
    """What the library did, and whether it is one of the things that it may do."""
    if not ended_well(stock):
        return f"not comparable: the wheel alone fails ({why_failed(stock)})", True
    # With PS_VERBOSE every node of ours writes lines that begin so.
    served = [bool(re.search(r"^\[\d\d:\d\d:\d\d\] pslite: ", n.err, re.M))
              for n in ours.nodes.values()]
    if all(refusals(ours)):
        return "refused by every process with a message", True
    if not ended_well(ours):
        return f"FAILED ({why_failed(ours)})", False
    if ours.digests != stock.digests:
        return "FAILED: other results than the wheel alone", False
    if all(served):
        return "works: results equal", True
    if not any(served):
        return "without effect: the wheel's own ps-lite serves", True
    return "FAILED: serves some processes and others not", False


def try_version(version, folder, verbose):
    """(version, marks, {job: outcome}, what the package does, whether all is well)."""
    overlay = unpacked(version, folder)
    env = {"PYTHONPATH": f"{harness.PROGRAMS}:{overlay}", "PS_VERBOSE": "1",
           **missing_openblas(version, folder)}
    said = marks(overlay / "mxnet/libmxnet.so", env)
    outcomes, well = dict.fromkeys(JOBS, "not run"), True
    for job in JOBS:
        if not well:
            break
        stock = run(job, STOCK, env)
        ours = run(job, OURS, env) if ended_well(stock) else None
        outcomes[job], well = outcome(stock, ours)
        print(f"{version} {job}: {outcomes[job]}", file=sys.stderr, flush=True)
        if verbose and not (well and ours and ended_well(ours)):
            print((ours or stock).describe(), file=sys.stderr)
    package = by_package(env)
    return version, said, outcomes, package, well and package != "FAILED"


def report(rows):
    lines = ["| mxnet | marks | jobs with `LD_PRELOAD` | `import pslite.preload` |",
             "|---|---|---|---|"]
    for version, said, outcomes, package, _ in rows:
        by_outcome = {}
        for job, text in outcomes.items():
            by_outcome.setdefault(text, []).append(job)
        jobs = "; ".join(f"{', '.join(names)}: {text}" for text, names in by_outcome.items())
        if len(by_outcome) == 1:
            jobs = f"all {len(outcomes)}: {text}"
        lines.append(f"| {version} | {said} | {jobs} | {package} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--folder", type=Path, default=harness.ROOT / ".cache/wheels")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if not harness.available():
        raise SystemExit(f"{harness.LIBRARY} is missing: run cargo build --release")
    os.nice(5)
    rows = [try_version(v, options.folder.resolve(), options.verbose) for v in options.versions]
    print(report(rows))
    raise SystemExit(0 if all(row[-1] for row in rows) else 1)


if __name__ == "__main__":
    main()
