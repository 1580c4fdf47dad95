//! Arrays as a file that `numpy.load` reads: a zip archive (APPNOTE 6.3.9) of files in numpy's
//! format .npy, version 3 (numpy/lib/format.py), stored as they are. All sizes are zip64's, so none
//! is too large.

use std::io::{Result, Write};

use pslite::store::saved::SavedArray;
use pslite::values::Dtype;

/// Zip 4.5: sizes of 64 bits.
const VERSION: u16 = 45;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
/// A date that every zip has: the first of January 1980.
const DATE: u16 = 1 << 5 | 1;
const MAX: u32 = u32::MAX;

/// A file of the archive.
struct NpzEntry {
    name: String,
    crc: u32,
    size: u64,
    at: u64,
}

/// Writes the archive.
///
/// # Errors
/// What the writer says.
pub(crate) fn write(out: &mut impl Write, arrays: &[SavedArray]) -> Result<()> {
    let (mut at, mut entries) = (0, Vec::with_capacity(arrays.len()));
    for array in arrays {
        let (name, header) = (format!("{}.npy", array.name), header(array));
        let size = (header.len() + array.values.len()) as u64;
        let crc = !crc(crc(MAX, &header), &array.values);
        let entry = NpzEntry { name, crc, size, at };
        let local = entry.local();
        for part in [&local, &header, &array.values] {
            out.write_all(part)?;
        }
        at += local.len() as u64 + size;
        entries.push(entry);
    }
    let directory: Vec<u8> = entries.iter().flat_map(NpzEntry::central).collect();
    out.write_all(&directory)?;
    out.write_all(&end(at, directory.len() as u64, entries.len() as u64))
}

impl NpzEntry {
    /// In front of the file.
    fn local(&self) -> Vec<u8> {
        let mut out = b"PK\x03\x04".to_vec();
        self.common(&mut out, 20);
        self.named(&mut out, &[], &[self.size, self.size]);
        out
    }

    /// In the directory.
    fn central(&self) -> Vec<u8> {
        let mut out = b"PK\x01\x02".to_vec();
        out.extend(VERSION.to_le_bytes());
        self.common(&mut out, 28);
        // No comment, disk 0, no attributes; where it begins is in the extra field.
        let more = [[0; 10].as_slice(), &MAX.to_le_bytes()].concat();
        self.named(&mut out, &more, &[self.size, self.size, self.at]);
        out
    }

    fn common(&self, out: &mut Vec<u8>, extra: u16) {
        for number in [VERSION, UTF8, 0, 0, DATE] {
            out.extend(number.to_le_bytes());
        }
        for number in [self.crc, MAX, MAX] {
            out.extend(number.to_le_bytes());
        }
        out.extend((self.name.len() as u16).to_le_bytes());
        out.extend(extra.to_le_bytes());
    }

    fn named(&self, out: &mut Vec<u8>, more: &[u8], sizes: &[u64]) {
        out.extend(more);
        out.extend(self.name.as_bytes());
        out.extend(1_u16.to_le_bytes());
        out.extend((8 * sizes.len() as u16).to_le_bytes());
        sizes.iter().for_each(|size| out.extend(size.to_le_bytes()));
    }
}

/// Behind the directory: its place, twice, as zip64 has it and as older readers look for it.
fn end(at: u64, size: u64, count: u64) -> Vec<u8> {
    let mut out = b"PK\x06\x06".to_vec();
    out.extend(44_u64.to_le_bytes());
    out.extend([VERSION.to_le_bytes(), VERSION.to_le_bytes()].concat());
    out.extend([0; 8]);
    [count, count, size, at].iter().for_each(|number| out.extend(number.to_le_bytes()));
    out.extend(b"PK\x06\x07\0\0\0\0");
    out.extend((at + size).to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    out.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
    out.extend([0xff; 8]);
    out.extend([0; 2]);
    out
}

/// What .npy has in front of the values.
fn header(array: &SavedArray) -> Vec<u8> {
    let kind = match array.dtype {
        Dtype::F16 | Dtype::F32 | Dtype::F64 => "<f",
        Dtype::I8 => "|i",
        Dtype::U8 => "|u",
        Dtype::I32 | Dtype::I64 => "<i",
    };
    let sizes: String = array.shape.iter().map(|size| format!("{size}, ")).collect();
    let size = array.dtype.size();
    let mut text =
        format!("{{'descr': '{kind}{size}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Magic, version and length before it, a line's end behind: values begin at a multiple of 64.
    let rest = (text.len() + 13).next_multiple_of(64) - 13;
    text = format!("{text:rest$}\n");
    let mut out = b"\x93NUMPY\x03\x00".to_vec();
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
    out
}

/// CRC-32 of zip, of one more part; it begins and ends with all bits inverted.
fn crc(before: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let (mut table, mut at) = ([0; 256], 0);
        while at < 256 {
            let (mut value, mut bit) = (at as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| TABLE[(crc as u8 ^ byte) as usize] ^ (crc >> 8);
    bytes.iter().fold(before, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_zips() {
        assert_eq!(!crc(crc(MAX, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn values_begin_where_numpy_wants_them() {
        for shape in [vec![], vec![3], vec![2, 3], vec![1_000_000, 3, 224, 224]] {
            let array =
                SavedArray { name: "w".to_owned(), shape, dtype: Dtype::F16, values: Vec::new() };
            let header = header(&array);
            assert!(header.len().is_multiple_of(64) && header.ends_with(b"\n"));
            let text = String::from_utf8_lossy(&header[12..]).into_owned();
            assert!(
                text.starts_with("{'descr': '<f2', 'fortran_order': False, 'shape': ("),
                "{text}"
            );
        }
    }
}
