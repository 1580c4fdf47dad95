//! Reads the dynamic symbols of a library on disk. Nothing is loaded; every length in the file is
//! checked before use.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// A dynamic symbol that the library defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// What we want to know of a library.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) defined: Vec<Symbol>,
    /// The newest glibc that it asks for, as (major, minor).
    pub(crate) glibc: Option<(u32, u32)>,
}

impl Library {
    /// The size of a symbol that the library defines.
    pub(crate) fn size_of(&self, name: &str) -> Option<u64> {
        self.defined.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.size)
    }
}

const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
/// Section type of the dynamic symbol table.
const SHT_DYNSYM: u32 = 11;
const EM_X86_64: u16 = 62;
/// libmxnet.so has 65 000 symbols in 1.5 MB and 8 MB of names.
const MAX_TABLE: u64 = 256 << 20;

/// Reads a library.
///
/// # Errors
/// The file cannot be read, or is no shared library for this machine.
pub(crate) fn read(path: &Path) -> Result<Library> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).context("too short for a library")?;
    ensure!(header.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit library");
    ensure!(u16_at(&header, 18) == Some(EM_X86_64), "not for x86-64");
    let offset = u64_at(&header, 40).unwrap_or(0);
    let count = usize::from(u16_at(&header, 60).unwrap_or(0));
    let mut sections = vec![0; count * SECTION];
    file.read_exact_at(&mut sections, offset).context("its section table is cut off")?;
    let section = |index: usize| sections.get(index * SECTION..(index + 1) * SECTION);
    let dynsym = (0..count).filter_map(section).find(|entry| u32_at(entry, 4) == Some(SHT_DYNSYM));
    let Some(dynsym) = dynsym else { bail!("no dynamic symbols") };
    let names = section(u32_at(dynsym, 40).unwrap_or(0) as usize).context("no symbol names")?;
    let (symbols, names) = (load(&file, dynsym)?, load(&file, names)?);
    Ok(Library { defined: defined(&symbols, &names), glibc: newest_glibc(&names) })
}

fn load(file: &File, section: &[u8]) -> Result<Vec<u8>> {
    let (offset, size) = (u64_at(section, 24).unwrap_or(0), u64_at(section, 32).unwrap_or(0));
    let end = offset.checked_add(size).context("a section has no end")?;
    ensure!(
        size <= MAX_TABLE && end <= file.metadata()?.len(),
        "a section is longer than the file"
    );
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn defined(symbols: &[u8], names: &[u8]) -> Vec<Symbol> {
    let entries =
        symbols.chunks_exact(SYMBOL).filter(|entry| u16_at(entry, 6).is_some_and(|s| s != 0));
    entries
        .filter_map(|entry| {
            let name = text_at(names, u32_at(entry, 0)? as usize)?;
            Some(Symbol { name, size: u64_at(entry, 16)? })
        })
        .collect()
}

fn newest_glibc(names: &[u8]) -> Option<(u32, u32)> {
    names
        .split(|byte| *byte == 0)
        .filter_map(|name| parse_version(std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?))
        .max()
}

/// The first two numbers of a version.
pub(crate) fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn text_at(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok().map(str::to_owned)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library of this very process.
    fn libc() -> std::path::PathBuf {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .filter_map(|l| l.find('/').map(|at| l[at..].into()))
            .find(|p: &std::path::PathBuf| {
                p.file_name().unwrap().to_string_lossy().starts_with("libc")
            })
            .unwrap()
    }

    #[test]
    fn the_c_library_has_the_symbols_that_it_has() {
        let library = read(&libc()).unwrap();
        assert!(library.size_of("malloc").is_some_and(|size| size > 0));
        assert_eq!(library.size_of("no_such_function"), None);
        assert!(library.glibc.is_some_and(|version| version >= (2, 17)));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let whole = std::fs::read(libc()).unwrap();
        let path = std::env::temp_dir().join(format!("pslite-elf-{}", std::process::id()));
        for length in [0, 3, 63, 64, 1000, whole.len() / 2] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(read(&path).is_err(), "cut at {length}");
        }
        for at in 0..HEADER {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            std::fs::write(&path, &bytes).unwrap();
            let _ = read(&path);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
