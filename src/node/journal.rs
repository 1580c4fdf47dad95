//! The scheduler's journal as a file of this host (`docs/elastic.md`; the records are
//! `cluster::journal`'s): a record is on the disk before anybody acts on it. May touch that file
//! and nothing else.
//!
//! The file is locked, so that two schedulers cannot go on with one job. It is written anew when it
//! has grown to a few times what it adds up to.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::error::{NodeError, Result};
use crate::files::{open_regular, read_at_most};
use pslite_core::cluster::journal::frames::{self, MAGIC};
use pslite_core::cluster::journal::{Change, Record, State};
use pslite_observe::log::{self, Level};

/// A journal is not written anew before it has that many bytes.
const REWRITE_AT: u64 = 256 << 10;
/// It is written anew when it is that many times as long as what it adds up to.
const REWRITE_TIMES: u64 = 4;
/// A longer file is no journal.
const FILE_MAX: u64 = 1 << 30;

/// See the module.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Flock<File>,
    state: State,
    length: u64,
    /// How long it was when it was written anew.
    written: u64,
    /// It could not be written: then it is not used any more.
    failed: bool,
}

impl Journal {
    /// Opens the file, or makes it. The state is that of a job that has not ended, if there is one
    /// in it.
    ///
    /// # Errors
    /// It cannot be read or written, another scheduler has it, it is something else, or it is
    /// damaged. The text names it and what to do.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<State>)> {
        let fail =
            |text: String| NodeError::Config(format!("PSLITE_JOURNAL={}: {text}", path.display()));
        let io = |error: io::Error| {
            fail(format!("{error}; choose a file that this process may make, read and write"))
        };
        let file = open(path).map_err(io)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, _)| fail("another scheduler uses it".to_owned()))?;
        if file.metadata().map_err(io)?.len() > FILE_MAX {
            return Err(fail("it is too long to be a journal".to_owned()));
        }
        let bytes = read_at_most(&mut file, FILE_MAX).map_err(io)?;
        let read = frames::read(&bytes).ok_or_else(|| fail("it is no journal".to_owned()))?;
        if read.damaged {
            let at = read.sound;
            return Err(fail(format!(
                "it is damaged at byte {at}; remove it, and start the job again"
            )));
        }
        let cut_off = bytes.len() - read.sound;
        if cut_off > 0 && read.sound > 0 {
            let text = format!("{}: the last {cut_off} bytes are cut off", path.display());
            log::write(Level::Warning, &text);
        }
        let state = read.state.filter(|state| !state.ended);
        let sound = if state.is_some() { read.sound } else { 0 };
        let mut journal = Self {
            path: path.to_owned(),
            file,
            state: state.clone().unwrap_or_default(),
            length: sound as u64,
            written: sound as u64,
            failed: false,
        };
        journal.begin_at(sound).map_err(io)?;
        Ok((journal, state))
    }

    /// Cuts off what is behind the sound records.
    fn begin_at(&mut self, sound: usize) -> io::Result<()> {
        self.file.set_len(sound as u64)?;
        self.file.seek(SeekFrom::End(0))?;
        if sound == 0 {
            self.file.write_all(MAGIC)?;
            self.length = MAGIC.len() as u64;
            sync_folder(&self.path)?;
        }
        self.file.sync_all()
    }

    /// Writes a record; it is on the disk when this returns. If it cannot be, the journal is
    /// emptied: a scheduler that went on with an old one would do harm. Then it returns what people
    /// are to be told, once.
    pub(super) fn append(&mut self, record: &Record) -> Option<String> {
        if self.failed {
            return None;
        }
        self.state.apply(record);
        let error = self.write(record).err()?;
        self.failed = true;
        let _ = self.file.set_len(0);
        Some(format!(
            "PSLITE_JOURNAL={}: cannot be written ({error}); the job goes on, but if this \
             scheduler is lost it ends",
            self.path.display()
        ))
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let bytes = frames::frame(record);
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.length += bytes.len() as u64;
        if self.length > REWRITE_AT.max(self.written.saturating_mul(REWRITE_TIMES)) {
            self.rewrite()?;
        }
        Ok(())
    }

    /// Puts a file with nothing but the state in its place.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Locked before it has the name by which others find it.
        let file = Flock::lock(open(&new)?, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        let mut file = file;
        let record = Record::new(Change::Job(Box::new(self.state.clone())));
        let bytes = [MAGIC.as_slice(), &frames::frame(&record)].concat();
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        sync_folder(&self.path)?;
        self.file = file;
        self.length = bytes.len() as u64;
        self.written = self.length;
        Ok(())
    }
}

/// It holds the job's token: nobody else is to read it.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    open_regular(path, &mut options)
}

/// A new name is safe once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for each test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("pslite-journal-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("job.journal")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn job() -> Record {
        let state = State { address: "h:1".to_owned(), workers: 2, ..State::default() };
        Record::new(Change::Job(Box::new(state)))
    }

    fn epoch(epoch: u64) -> Record {
        Record::new(Change::Epoch(epoch))
    }

    fn reopened(folder: &Folder) -> (Journal, Option<State>) {
        Journal::open(&folder.file()).unwrap()
    }

    #[test]
    fn what_was_written_is_there_again() {
        let folder = Folder::new("again");
        let (mut journal, former) = reopened(&folder);
        assert_eq!(former, None);
        journal.append(&job());
        journal.append(&epoch(7));
        drop(journal);
        let (mut journal, former) = reopened(&folder);
        assert_eq!(former.map(|state| (state.workers, state.epoch)), Some((2, 7)));
        journal.append(&epoch(8));
        drop(journal);
        assert_eq!(reopened(&folder).1.map(|state| state.epoch), Some(8));
    }

    #[test]
    fn a_job_that_ended_is_forgotten() {
        let folder = Folder::new("ended");
        let (mut journal, _) = reopened(&folder);
        journal.append(&job());
        journal.append(&Record::new(Change::Ended(true)));
        drop(journal);
        let (mut journal, former) = reopened(&folder);
        assert_eq!(former, None);
        journal.append(&job());
        drop(journal);
        assert!(reopened(&folder).1.is_some(), "the next one is not mixed up with it");
    }

    #[test]
    fn two_schedulers_cannot_have_it() {
        let folder = Folder::new("two");
        let (mut journal, _) = reopened(&folder);
        let refused = || Journal::open(&folder.file()).unwrap_err().to_string();
        assert!(refused().contains("another scheduler"), "{}", refused());
        journal.append(&job());
        journal.rewrite().unwrap();
        assert!(refused().contains("another scheduler"), "after it was written anew");
    }

    #[test]
    fn a_torn_tail_is_cut_off_and_damage_is_refused() {
        let folder = Folder::new("torn");
        let (mut journal, _) = reopened(&folder);
        journal.append(&job());
        journal.append(&epoch(3));
        drop(journal);
        let sound = std::fs::read(folder.file()).unwrap();
        let torn = [sound.as_slice(), &frames::frame(&epoch(4))[..5]].concat();
        std::fs::write(folder.file(), &torn).unwrap();
        assert_eq!(reopened(&folder).1.map(|state| state.epoch), Some(3));
        assert_eq!(std::fs::read(folder.file()).unwrap(), sound);
        let mut damaged = sound;
        damaged[MAGIC.len() + 9] ^= 4;
        std::fs::write(folder.file(), &damaged).unwrap();
        let error = Journal::open(&folder.file()).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains("job.journal"), "{error}");
        assert_eq!(std::fs::read(folder.file()).unwrap(), damaged, "nothing was changed");
    }

    /// Otherwise a scheduler would read for ever, or wait for a writer.
    #[test]
    fn what_is_no_regular_file_is_refused() {
        let folder = Folder::new("odd");
        nix::unistd::mkfifo(&folder.file(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for odd in [folder.file(), PathBuf::from("/dev/full"), PathBuf::from("/dev/zero")] {
            let error = Journal::open(&odd).unwrap_err().to_string();
            let named = error.contains(&odd.display().to_string());
            assert!(named && error.contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn it_stays_short() {
        let folder = Folder::new("short");
        let (mut journal, _) = reopened(&folder);
        journal.append(&job());
        let about = |id| pslite_core::cluster::journal::About { id, text: "x".repeat(60_000) };
        for i in 0..40 {
            journal.append(&Record::new(Change::Lost(about(8 + i % 2))));
        }
        let length = std::fs::metadata(folder.file()).unwrap().len();
        assert!(length <= REWRITE_TIMES * 125_000 + REWRITE_AT, "{length} bytes");
        assert_eq!(length, journal.length);
        let state = journal.state.clone();
        drop(journal);
        assert_eq!(reopened(&folder).1, Some(state));
    }
}
