//! Finds the library to preload and puts it into LD_PRELOAD.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::elf;

/// The file that replaces the ps-lite inside MXNet's wheel.
pub(crate) const FILE_NAME: &str = "libpslite_mxnet.so";

/// What it must define: a function that MXNet calls, and one of the C ABI. `libps.so` has the
/// latter alone, and would replace nothing.
const DEFINES: [&str; 2] = ["_ZN2ps10Postoffice5StartEiPKcb", "pslite_start"];

/// The library: as told, as `PSLITE_LIBRARY` says, beside this program, or in `../lib`.
///
/// # Errors
/// There is none, it is none, or the path cannot stand in LD_PRELOAD.
pub(crate) fn find(told: Option<&Path>) -> Result<PathBuf> {
    let named = told.map(Path::to_path_buf).or_else(|| {
        std::env::var_os("PSLITE_LIBRARY").filter(|value| !value.is_empty()).map(PathBuf::from)
    });
    let candidates = named.map_or_else(beside_program, |path| vec![path]);
    for candidate in &candidates {
        if candidate.is_file() {
            let path = preloadable(&candidate.canonicalize()?)?;
            let unfit = || format!("{} cannot be preloaded", path.display());
            replacing(&path).with_context(unfit)?;
            return Ok(path);
        }
    }
    let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
    bail!(
        "there is no library to preload at {}; build it (cargo build --release), name it with \
         --library \
         or PSLITE_LIBRARY, or use --stock",
        tried.join(" or ")
    )
}

fn beside_program() -> Vec<PathBuf> {
    let Some(folder) = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.canonicalize().ok()?.parent().map(Path::to_path_buf))
    else {
        return vec![PathBuf::from(FILE_NAME)];
    };
    vec![folder.join(FILE_NAME), folder.join("../lib").join(FILE_NAME)]
}

/// Reads a library that is to replace MXNet's ps-lite.
///
/// # Errors
/// It would replace nothing. ld.so would say so in a line, if at all, and the job would run on the
/// ps-lite inside the program.
pub(crate) fn replacing(path: &Path) -> Result<elf::Library> {
    let found = elf::read(path)?;
    for name in DEFINES {
        ensure!(
            found.size_of(name).is_some(),
            "it does not define {name}, so it is no {FILE_NAME} of pslite"
        );
    }
    Ok(found)
}

/// ld.so takes spaces and colons as separators and knows no escape.
fn preloadable(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        bail!("{} cannot be preloaded: its path contains a space or a colon", path.display());
    }
    Ok(path.to_path_buf())
}

/// `existing` with the library in front.
pub(crate) fn with_library(existing: Option<&OsStr>, library: &Path) -> OsString {
    let mut value = library.as_os_str().to_owned();
    let rest = without_library(existing);
    if !rest.is_empty() {
        value.push(":");
        value.push(rest);
    }
    value
}

/// `existing` without our library, however it got there.
pub(crate) fn without_library(existing: Option<&OsStr>) -> OsString {
    let mut value = OsString::new();
    let entries =
        existing.map_or(&[][..], OsStrExt::as_bytes).split(|byte| matches!(byte, b' ' | b':'));
    for entry in entries.map(OsStr::from_bytes).filter(|entry| !entry.is_empty()) {
        if Path::new(entry).file_name() == Some(OsStr::new(FILE_NAME)) {
            continue;
        }
        if !value.is_empty() {
            value.push(":");
        }
        value.push(entry);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_first_and_only_once() {
        let existing = OsString::from("/a/libother.so /old/libpslite_mxnet.so:/b/libmore.so");
        let value = with_library(Some(&existing), Path::new("/new/libpslite_mxnet.so"));
        assert_eq!(value, "/new/libpslite_mxnet.so:/a/libother.so:/b/libmore.so");
        assert_eq!(with_library(None, Path::new("/x.so")), "/x.so");
    }

    #[test]
    fn stock_runs_without_ours() {
        let existing = OsString::from("/old/libpslite_mxnet.so");
        assert_eq!(without_library(Some(&existing)), "");
    }

    #[test]
    fn a_path_that_ld_so_would_split_is_refused() {
        assert!(preloadable(Path::new("/my libs/x.so")).is_err());
        assert!(preloadable(Path::new("/libs/x.so")).is_ok());
    }
}
