//! Versions: glibc, our library, and the MXNet that the job's Python would load.
//!
//! MXNet is imported in a process of its own that knows nothing of the job: in role server or
//! scheduler the import would never return.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Finding;
use super::job::JobVariables;
use crate::elf;
use crate::run::library;

const TOPIC: &str = "versions";

/// How long Python may take to import MXNet.
const PYTHON_LIMIT: Duration = Duration::from_secs(60);
/// More output than that is not read.
const MAX_OUTPUT: u64 = 64 * 1024;
/// Where MXNet is, without loading it; then whether it loads.
const PROBE: &str = "\
import importlib.util, os, platform, sys
print('python', platform.python_version(), flush=True)
found = importlib.util.find_spec('mxnet')
if found is None: sys.exit(0)
print('path', os.path.dirname(found.origin), flush=True)
try:
    import mxnet
    print('mxnet', mxnet.__version__, flush=True)
except BaseException as error:
    print('error', type(error).__name__, ' '.join(str(error).split())[:300], flush=True)
";
/// The version on which everything is tested.
const TESTED: &str = "1.9.1";

pub(super) fn check(job: &JobVariables, python: Option<&str>, told: Option<&Path>) -> Vec<Finding> {
    let python = python.or(job.python.as_deref()).unwrap_or("python3");
    let mut findings = vec![preload(job, told)];
    findings.extend(mxnet(python));
    findings
}

fn preload(job: &JobVariables, told: Option<&Path>) -> Finding {
    let named = job.preload.as_deref().and_then(|value| {
        value.split([' ', ':']).find(|entry| entry.ends_with(library::FILE_NAME))
    });
    let path = match (named, library::find(told)) {
        (Some(named), _) => PathBuf::from(named),
        (None, Ok(path)) if job.is_absent() => path,
        (None, Ok(path)) => {
            return Finding::warning(
                TOPIC,
                "LD_PRELOAD does not name the library, so this job runs on the ps-lite inside the \
                 program",
                format!("use `pslite run`, or set LD_PRELOAD={}", path.display()),
            );
        }
        (None, Err(error)) => {
            return Finding::warning(TOPIC, format!("{error:#}"), "see docs/start.md");
        }
    };
    match glibc_fits(&path) {
        Ok(text) => Finding::ok(TOPIC, text),
        Err(error) => Finding::fail(
            TOPIC,
            format!("{} cannot be preloaded: {error:#}", path.display()),
            "build it on this machine (cargo build --release), or correct the path",
        ),
    }
}

/// A library that asks for a newer glibc than there is would end every process that preloads it.
fn glibc_fits(path: &Path) -> Result<String> {
    let wanted = library::replacing(path)?.glibc;
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else {
        return Ok(format!("{} (the version of glibc is unknown: no getconf)", path.display()));
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(here) = text.trim().strip_prefix("glibc ").and_then(elf::parse_version) else {
        bail!("this system's C library is not glibc");
    };
    let show = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let needs = wanted.map_or_else(String::new, |wanted| format!(", needs {}", show(wanted)));
    if wanted.is_some_and(|wanted| wanted > here) {
        bail!("glibc is {}{needs}", show(here));
    }
    Ok(format!("{} (glibc {}{needs})", path.display(), show(here)))
}

fn mxnet(python: &str) -> Vec<Finding> {
    let output = match probe(python) {
        Ok(output) => output,
        Err(error) => {
            return vec![Finding::warning(
                TOPIC,
                format!("{python}: {error:#}"),
                "name the job's Python with --python or PYTHON",
            )];
        }
    };
    let field =
        |name: &str| output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let version = field("python").unwrap_or("?");
    let Some(folder) = field("path") else {
        return vec![Finding::warning(
            TOPIC,
            format!("{python} ({version}) has no mxnet"),
            "pip install mxnet==1.9.1, or name another Python with --python; C++ programs need \
             none",
        )];
    };
    let import = match (field("mxnet"), field("error")) {
        (Some(TESTED), _) => Finding::ok(TOPIC, format!("mxnet {TESTED} on Python {version}")),
        (Some(other), _) => Finding::warning(
            TOPIC,
            format!("mxnet {other} on Python {version} is not the tested {TESTED}"),
            "see docs/mxnet-wheels.md",
        ),
        (None, error) => Finding::fail(
            TOPIC,
            format!("mxnet does not import: {}", error.unwrap_or("the import ended Python")),
            "mxnet 1.9.1 wants numpy below 1.24 and the system's libgomp; see docs/mxnet.md",
        ),
    };
    vec![import, layout(&Path::new(folder).join("libmxnet.so"))]
}

/// The marks by which the layouts that we rely on are known: a build by a newer compiler has a
/// larger Postoffice (592) and other names for strings.
fn layout(path: &Path) -> Finding {
    const MARKS: [(&str, Option<u64>); 3] = [
        ("_ZZN2ps10Postoffice3GetEvE1e", Some(560)),
        ("_ZTVN2ps8KVWorkerIcEE", Some(88)),
        ("_ZN2ps3Van6CreateERKSs", None),
    ];
    let refuse = |why: String| {
        Finding::fail(
            TOPIC,
            format!("{}: {why}", path.display()),
            "preloading would be refused; use the wheel of PyPI, or build MXNet against pslite",
        )
    };
    let symbols = match elf::read(path) {
        Ok(library) => library,
        Err(error) => return refuse(format!("{error:#}")),
    };
    for (name, wanted) in MARKS {
        match (symbols.size_of(name), wanted) {
            (None, _) => {
                return refuse(format!(
                    "no symbol {name}: no ps-lite inside, or of another compiler"
                ));
            }
            (Some(size), Some(wanted)) if size != wanted => {
                return refuse(format!(
                    "{name} has {size} bytes, not {wanted}: another compiler or version"
                ));
            }
            _ => {}
        }
    }
    Finding::ok(TOPIC, format!("the ps-lite inside {} can be replaced", path.display()))
}

/// Runs Python apart from the job.
fn probe(python: &str) -> Result<String> {
    let mut command = Command::new(python);
    command.args(["-c", PROBE]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if is_of_job(&name) {
            command.env_remove(&name);
        }
    }
    let mut child = command.spawn().context("cannot be run")?;
    let ended = wait(&mut child);
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_OUTPUT).read_to_string(&mut output).context("its output cannot be read")?;
    }
    ended?;
    Ok(output)
}

fn is_of_job(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "LD_PRELOAD" || ["DMLC_", "PS_", "PSLITE_"].iter().any(|start| name.starts_with(start))
}

/// The probe prints less than a pipe holds, so it can end without being read.
fn wait(child: &mut Child) -> Result<()> {
    let until = Instant::now() + PYTHON_LIMIT;
    loop {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            bail!("importing mxnet took more than {} s", PYTHON_LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
