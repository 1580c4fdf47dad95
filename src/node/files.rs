//! Files that settings name. Only a regular file will do: a pipe without a writer, or a terminal,
//! would keep its reader for ever, and a device has no end. Nothing that is longer than its limit
//! is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// The longest file with links: hundreds of hosts, each with a link to each.
const LINKS_MAX: u64 = 64 << 20;

/// Opens a file. Does not wait for whoever has the other end of a pipe.
///
/// # Errors
/// The system's, or it is no regular file.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is no regular file, but a folder, a pipe or a device"))
}

/// Reads it to its end.
///
/// # Errors
/// The system's, or it is longer than that.
pub(crate) fn read_at_most(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.by_ref().take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it has more than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// The text of a file with links (`PSLITE_LINKS`, `pslite sim --graph`).
///
/// # Errors
/// The system's; it is no regular file, too long, or no text.
pub fn read_links(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path, OpenOptions::new().read(true))?;
    String::from_utf8(read_at_most(&mut file, LINKS_MAX)?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn only_regular_files_are_read_and_not_without_end() {
        let folder = std::env::temp_dir().join(format!("pslite-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, file) = (folder.join("pipe"), folder.join("file"));
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for odd in [pipe.as_path(), Path::new("/dev/full"), Path::new("/dev/zero"), &folder] {
            let text = read_links(odd).unwrap_err().to_string();
            assert!(text.contains("no regular file"), "{odd:?}: {text}");
        }
        std::fs::write(&file, "link a b\n").unwrap();
        assert_eq!(read_links(&file).unwrap(), "link a b\n");
        let mut open = File::open(&file).unwrap();
        assert!(read_at_most(&mut open, 8).unwrap_err().to_string().contains("more than 8"));
        std::fs::write(&file, b"\xff").unwrap();
        assert!(read_links(&file).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
