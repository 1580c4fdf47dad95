//! The global model, put together from what servers say of their pieces (`pslite save`): arrays
//! whole again, each with a name. Pieces come in any order, and more than once where they move
//! meanwhile. Pure.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::view::RankRanges;
use crate::keys::KeyName;
use crate::values::Dtype;
use crate::wire::Key;
use crate::wire::agreement::Fact;
use crate::wire::save::SavedPiece;

/// Numbers of arrays that are made of names (`ffi/python/pslite/store.py`), and how many there are.
const NAMED: u64 = 1 << 30;

/// Bytes of a wire key at most: `lens` of requests have 31 bits.
const KEY_BYTES_MAX: u64 = 1 << 31;

/// An array of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedArray {
    /// As the workers call it; else `key 3`, or `key 3 of customer 1`.
    pub name: String,
    /// How many elements it has in each dimension; one dimension, where nobody has said it.
    pub shape: Vec<u64>,
    /// Of its elements.
    pub dtype: Dtype,
    /// Its elements, in the order of C.
    pub values: Vec<u8>,
}

/// What has come so far.
#[derive(Debug, Default)]
pub struct SavedModel {
    keys: BTreeMap<Key, SavedKey>,
}

#[derive(Debug)]
struct SavedKey {
    dtype: Dtype,
    /// Elements of a row, at least one.
    row: u64,
    values: Vec<u8>,
    /// By first element, or row: the one behind the last of a piece, and its rounds.
    have: BTreeMap<u64, (u64, u64)>,
}

/// How the workers call an array.
struct Called {
    name: String,
    shape: Vec<u64>,
}

impl SavedModel {
    /// True if that place of a key is here; what its values are does not count.
    #[must_use]
    pub fn has(&self, piece: &SavedPiece) -> bool {
        let at = |key: &SavedKey| key.have.get(&piece.from).is_some_and(|(to, _)| *to == piece.to);
        self.keys.get(&piece.key).is_some_and(at)
    }

    /// Takes a piece. One that has more rounds in it takes the place of others.
    ///
    /// # Errors
    /// It is none, or does not fit what came before.
    pub fn add(&mut self, piece: &SavedPiece) -> Result<(), String> {
        let SavedPiece { key, from, to, length, version, row, ref values, .. } = *piece;
        let wrong = |what: &str| format!("wire key {key}: {what}");
        let dtype = Dtype::from_number(piece.dtype.into()).ok_or_else(|| wrong("no known type"))?;
        let row = row.max(1);
        let size = row.checked_mul(dtype.size() as u64).filter(|_| from < to && to <= length);
        let bytes = |count: u64| {
            let bytes = size?.checked_mul(count).filter(|bytes| *bytes <= KEY_BYTES_MAX)?;
            usize::try_from(bytes).ok()
        };
        let empty = length == 1 && values.is_empty();
        let fits = bytes(to - from.min(to)) == Some(values.len());
        let whole = if empty { Some(0) } else { bytes(length).filter(|_| fits) };
        let whole = whole.ok_or_else(|| wrong("a server says of a piece what cannot be"))?;
        let saved = self.keys.entry(key).or_insert_with(|| SavedKey {
            dtype,
            row,
            values: vec![0; whole],
            have: BTreeMap::new(),
        });
        if (saved.dtype, saved.row, saved.values.len()) != (dtype, row, whole) {
            return Err(wrong("servers say different things of it"));
        }
        let is_older = |(begin, (end, other)): (&u64, &(u64, u64))| {
            *begin < to && from < *end && *other > version
        };
        if saved.have.iter().any(is_older) {
            return Ok(());
        }
        if let Some(at) = bytes(from)
            && let Some(into) = saved.values.get_mut(at..at + values.len())
        {
            into.copy_from_slice(values);
        }
        saved.have.insert(from, (to, version));
        Ok(())
    }

    /// The arrays of a job of so many servers. `facts`: what workers have said of those with names.
    ///
    /// # Errors
    /// Some elements of an array have not come.
    pub fn arrays(self, servers: usize, facts: &[Fact]) -> Result<Vec<SavedArray>, String> {
        let view = RankRanges::new(servers);
        let called = called(facts);
        let mut whole = BTreeMap::<(u64, u64), SavedArray>::new();
        // A large array has a part in the range of each rank, and these are in order.
        for (key, saved) in self.keys {
            let name = view.name(key);
            saved.check_whole(name)?;
            let number = view.local(key).cast_unsigned();
            let array = whole.entry((u64::from(view.space(key)), number));
            let array = array.or_insert_with(|| SavedArray {
                name: format!("key {name}"),
                shape: vec![saved.row],
                dtype: saved.dtype,
                values: Vec::new(),
            });
            if array.dtype != saved.dtype {
                return Err(format!("the parts of key {name} are of different types"));
            }
            array.values.extend_from_slice(&saved.values);
        }
        for ((space, number), array) in &mut whole {
            let elements = (array.values.len() / array.dtype.size()) as u64;
            let row = array.shape[0].max(1);
            array.shape = if row > 1 { vec![elements / row, row] } else { vec![elements] };
            let known = called.get(number).filter(|_| *space == 0);
            if let Some(Called { name, shape }) = known {
                array.name.clone_from(name);
                if shape.iter().product::<u64>() == elements {
                    array.shape.clone_from(shape);
                }
            }
        }
        Ok(whole.into_values().collect())
    }
}

impl SavedKey {
    fn check_whole(&self, name: KeyName) -> Result<(), String> {
        let mut until = 0;
        for (from, (to, _)) in &self.have {
            if *from > until {
                break;
            }
            until = until.max(*to);
        }
        let elements = (self.values.len() / self.dtype.size()) as u64 / self.row;
        if until < elements {
            return Err(format!("key {name}: nobody says what its element {until} is"));
        }
        Ok(())
    }
}

/// The arrays with names, by number.
fn called(facts: &[Fact]) -> BTreeMap<u64, Called> {
    let named = facts.iter().filter_map(|fact| {
        let name = unquoted(fact.subject.strip_prefix("array ")?)?;
        let (_, rest) = fact.value.split_once(" of shape (")?;
        let (shape, rest) = rest.split_once(')')?;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape = sizes.map(|size| size.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let number = match rest.strip_prefix(", number ") {
            Some(number) => number.parse().ok()?,
            None => number_of(&name),
        };
        Some((number, Called { name, shape }))
    });
    named.collect()
}

/// The number of an array of that name, as the Python package makes it.
fn number_of(name: &str) -> u64 {
    let hash = Sha256::digest(name.as_bytes());
    let first = hash.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
    NAMED + first % NAMED
}

/// A text that Python quotes. One with escapes is none that is read here.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inside.contains('\\')).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::values::server_key_ranges;

    fn piece(
        key: Key,
        (from, to, length): (u64, u64, u64),
        version: u64,
        value: f32,
    ) -> SavedPiece {
        let values = std::iter::repeat_n(value.to_ne_bytes(), (to - from) as usize);
        let values: Bytes = values.flatten().collect();
        let dtype = Dtype::F32 as u32;
        SavedPiece { key, from, to, length, version, dtype, row: 0, values }
    }

    fn fact(subject: &str, value: &str) -> Fact {
        Fact { subject: subject.to_owned(), value: value.to_owned() }
    }

    fn floats(array: &SavedArray) -> Vec<f32> {
        let each = array.values.chunks(4);
        each.map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
    }

    #[test]
    fn pieces_and_parts_become_arrays() {
        let second = server_key_ranges(2)[1].begin;
        let mut model = SavedModel::default();
        model.add(&piece(second + 3, (0, 1, 1), 1, 5.0)).unwrap();
        model.add(&piece(3, (2, 4, 4), 1, 2.0)).unwrap();
        model.add(&piece(3, (0, 2, 4), 1, 1.0)).unwrap();
        model.add(&piece(7, (0, 1, 1), 1, 9.0)).unwrap();
        let arrays = model.arrays(2, &[]).unwrap();
        assert_eq!(arrays.len(), 2);
        assert_eq!((arrays[0].name.as_str(), &arrays[0].shape), ("key 3", &vec![5]));
        assert_eq!(floats(&arrays[0]), [1.0, 1.0, 2.0, 2.0, 5.0]);
        assert_eq!(floats(&arrays[1]), [9.0]);
    }

    #[test]
    fn of_a_piece_that_has_moved_the_newest_counts() {
        let mut model = SavedModel::default();
        model.add(&piece(3, (0, 4, 4), 2, 2.0)).unwrap();
        model.add(&piece(3, (0, 2, 4), 1, 1.0)).unwrap();
        model.add(&piece(3, (2, 4, 4), 3, 3.0)).unwrap();
        assert!(
            model.has(&piece(3, (2, 4, 4), 9, 0.0)) && !model.has(&piece(3, (1, 4, 4), 0, 0.0))
        );
        assert_eq!(floats(&model.arrays(1, &[]).unwrap()[0]), [2.0, 2.0, 3.0, 3.0]);
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_said() {
        let mut model = SavedModel::default();
        model.add(&piece(3, (2, 4, 4), 1, 2.0)).unwrap();
        assert!(model.add(&piece(3, (0, 2, 5), 1, 2.0)).unwrap_err().contains("different things"));
        let mut short = piece(3, (0, 2, 4), 1, 2.0);
        short.values = Bytes::new();
        assert!(model.add(&short).unwrap_err().contains("wire key 3"));
        assert!(
            model.arrays(1, &[]).unwrap_err().contains("key 3: nobody says what its element 0")
        );
    }

    #[test]
    fn arrays_with_names_have_them_and_their_shapes() {
        // As `pslite.store` counts: int.from_bytes(sha256(b"w").digest()[:8], "little") % 2**30.
        let number = number_of("layer.weight");
        assert_eq!(number, 1_583_315_432);
        let mut model = SavedModel::default();
        model.add(&piece(number, (0, 6, 6), 1, 1.0)).unwrap();
        model.add(&piece(4, (0, 6, 6), 1, 4.0)).unwrap();
        model.add(&piece(number_of("it's"), (0, 1, 1), 1, 3.0)).unwrap();
        let facts = [
            fact("array 'layer.weight'", "float32 of shape (2, 3)"),
            fact("array 'key 4'", "float32 of shape (6,), number 4"),
            fact("array \"it's\"", "float32 of shape ()"),
            fact("the mode", "sync=True"),
        ];
        let mut arrays = model.arrays(1, &facts).unwrap();
        arrays.sort_by(|a, b| a.name.cmp(&b.name));
        let found: Vec<_> = arrays.iter().map(|it| (it.name.as_str(), it.shape.clone())).collect();
        assert_eq!(found, [("it's", vec![]), ("key 4", vec![6]), ("layer.weight", vec![2, 3])]);
    }
}
