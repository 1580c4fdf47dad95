//! Jobs of this user on this host: a small file for each, which the process that runs the scheduler
//! keeps while it lives, so that `pslite status` finds them without an address.
//!
//! The files are in `$XDG_RUNTIME_DIR/pslite`, or `/tmp/pslite-UID`: a folder that belongs to this
//! user and that nobody else may read or write; another one is not used. A file whose process is
//! gone is removed by whoever sees it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::scheduler_address::{Address, address};

/// Files that are looked at; more are not the work of people.
const FILES_MAX: usize = 1024;
/// The longest file that is read, in bytes.
const BYTES_MAX: u64 = 4096;

/// The file of a job, as long as this lives.
#[derive(Debug)]
pub(crate) struct Noted {
    path: PathBuf,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // Whoever finds it removes it.
    }
}

/// Notes that this process runs a scheduler there. `None` if it cannot: the job does without.
pub(crate) fn note(scheduler: &Address) -> Option<Noted> {
    note_in(&folder()?, scheduler)
}

/// The schedulers of this user's jobs on this host, oldest process number first.
pub(crate) fn find() -> Vec<Address> {
    folder().map_or_else(Vec::new, |folder| find_in(&folder))
}

fn note_in(folder: &Path, scheduler: &Address) -> Option<Noted> {
    // It may be there; what counts is whose it is.
    let _ = DirBuilder::new().mode(0o700).create(folder);
    if !is_ours(folder) {
        return None;
    }
    let pid = std::process::id();
    let path = folder.join(format!("{pid}.job"));
    let _ = std::fs::remove_file(&path); // Of an earlier process of that number.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
    let noted = Noted { path };
    let text = format!("{} {}:{}\n", began(pid)?, scheduler.host, scheduler.port);
    file.write_all(text.as_bytes()).ok()?;
    Some(noted)
}

fn find_in(folder: &Path) -> Vec<Address> {
    if !is_ours(folder) {
        return Vec::new();
    }
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = files.take(FILES_MAX).filter_map(|file| file.ok().map(|file| file.path()));
    let mut found: Vec<(u32, Address)> = paths.filter_map(|path| read(&path)).collect();
    found.sort_by_key(|(pid, _)| *pid);
    let mut all: Vec<Address> = Vec::new();
    for (_, address) in found {
        // A launcher and its scheduler may both have noted it.
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// What a file says, if its process lives; else it is removed.
fn read(path: &Path) -> Option<(u32, Address)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".job")?;
    let pid: u32 = name.parse().ok()?;
    let short = path.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() <= BYTES_MAX);
    let text = if short { std::fs::read_to_string(path).ok()? } else { String::new() };
    let (start, place) = text.trim_end().split_once(' ')?;
    // The number alone may be that of another process since.
    if began(pid).is_none_or(|began| began.to_string() != start) {
        let _ = std::fs::remove_file(path);
        return None;
    }
    Some((pid, address(place).ok()?))
}

/// When a process began, in ticks since the host did; `None` if there is none of that number.
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything; the state follows it, and 19 fields later the time.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn user() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|it| it.uid())
}

/// True for a folder of this user alone, and not a link to one.
fn is_ours(folder: &Path) -> bool {
    let found = folder.symlink_metadata().ok();
    found.is_some_and(|it| it.is_dir() && Some(it.uid()) == user() && it.mode() & 0o077 == 0)
}

fn folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|folder| folder.is_absolute() && folder.is_dir()) {
        Some(folder) => Some(folder.join("pslite")),
        None => Some(PathBuf::from(format!("/tmp/pslite-{}", user()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A folder of its own for each test, which is not made yet.
    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pslite-jobs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_job_is_found_while_its_process_keeps_it() {
        let folder = place("kept");
        let scheduler = address("127.0.0.1:9091").unwrap();
        let noted = note_in(&folder, &scheduler).unwrap();
        assert_eq!(find_in(&folder), [scheduler]);
        drop(noted);
        assert_eq!(find_in(&folder), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_of_the_dead_and_nonsense_are_no_jobs() {
        let folder = place("dead");
        drop(note_in(&folder, &address("127.0.0.1:1").unwrap()).unwrap());
        let of = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let gone = of("4194999.job", "5 127.0.0.1:2\n");
        let other = of(&format!("{}.job", std::process::id()), "5 127.0.0.1:3\n");
        of("note.txt", "5 127.0.0.1:4\n");
        of("1.job", "nonsense");
        assert_eq!(find_in(&folder), []);
        assert!(!gone.exists() && !other.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_use_is_not_used() {
        let folder = place("open");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(note_in(&folder, &address("127.0.0.1:9").unwrap()).is_none());
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        let link = place("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(note_in(&link, &address("127.0.0.1:9").unwrap()).is_none());
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
