//! Rows of a matrix in a request: the key of the matrix, then for each row that key plus the row's
//! number (kvstore_dist.h, EncodeRowSparseKey).

use bytes::Bytes;

use crate::store::error::StoreError;
use crate::values::{Dtype, KEY_SIZE, key_at};
use crate::wire::Key;

/// The numbers of the rows that a request names, of the matrix with that key.
pub(super) fn rows(keys: &[u8], start: Key) -> Result<Vec<i64>, StoreError> {
    let wrong = || StoreError::Malformed("the key of a row is below that of its matrix");
    (1..keys.len() / KEY_SIZE)
        .map(|i| {
            let row = key_at(keys, i).and_then(|row| row.checked_sub(start));
            row.and_then(|row| i64::try_from(row).ok()).ok_or_else(wrong)
        })
        .collect()
}

/// Elements of a row, from the lengths of a push: the first is 0, the others are equal.
pub(super) fn row_len(
    lens: &[usize],
    rows: usize,
    bytes: usize,
    dtype: Dtype,
) -> Result<usize, StoreError> {
    let wrong = StoreError::Malformed("the lengths of rows do not fit their values");
    let Some((&0, of_rows)) = lens.split_first() else { return Err(wrong) };
    if of_rows.len() != rows {
        return Err(wrong);
    }
    let Some(&size) = of_rows.first() else {
        return if bytes == 0 { Ok(0) } else { Err(wrong) };
    };
    let equal = of_rows.iter().all(|len| *len == size);
    if !equal || size == 0 || size % dtype.size() != 0 || size.checked_mul(rows) != Some(bytes) {
        return Err(wrong);
    }
    Ok(size / dtype.size())
}

/// Rows and values in ascending order of rows; of a row that comes twice the last one counts.
pub(super) fn ascending(rows: Vec<i64>, values: &Bytes, size: usize) -> (Vec<i64>, Bytes) {
    if rows.windows(2).all(|pair| pair[0] < pair[1]) {
        return (rows, values.clone());
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|i| rows[*i]);
    let last_of_row: Vec<usize> = order
        .iter()
        .enumerate()
        .filter(|(at, i)| order.get(at + 1).is_none_or(|next| rows[*next] != rows[**i]))
        .map(|(_, i)| *i)
        .collect();
    let mut sorted = Vec::with_capacity(last_of_row.len() * size);
    for i in &last_of_row {
        sorted.extend_from_slice(&values[i * size..(i + 1) * size]);
    }
    (last_of_row.iter().map(|i| rows[*i]).collect(), sorted.into())
}

/// The rows of a matrix, one after the other.
///
/// # Errors
/// The first row that it does not have.
pub(super) fn gather(matrix: &[u8], rows: &[i64], size: usize) -> Result<Bytes, i64> {
    let mut values = Vec::with_capacity(rows.len().saturating_mul(size).min(matrix.len()));
    for row in rows {
        let from = usize::try_from(*row).ok().and_then(|row| row.checked_mul(size));
        let bytes = from.and_then(|from| matrix.get(from..from.checked_add(size)?));
        values.extend_from_slice(bytes.ok_or(*row)?);
    }
    Ok(values.into())
}

/// The frame of lengths of an answer: 0, then that of a row for each.
pub(super) fn lens(count: usize, row_len: usize) -> Bytes {
    let mut lens = vec![row_len as i32; count];
    if let Some(first) = lens.first_mut() {
        *first = 0;
    }
    bytemuck::cast_slice(&lens).to_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_from_the_key_of_the_matrix() {
        let keys: Vec<u8> = [107_u64, 107, 110].iter().flat_map(|key| key.to_ne_bytes()).collect();
        assert_eq!(rows(&keys, 107), Ok(vec![0, 3]));
        assert!(rows(&keys, 108).is_err());
        assert!(rows(&keys, u64::MAX).is_err());
    }

    #[test]
    fn lengths_must_fit() {
        assert_eq!(row_len(&[0, 8, 8], 2, 16, Dtype::F32), Ok(2));
        assert_eq!(row_len(&[0], 0, 0, Dtype::F32), Ok(0));
        let wrong: [(&[usize], usize, usize); 7] = [
            (&[], 0, 0),
            (&[4], 0, 0),
            (&[0, 8], 2, 16),
            (&[0, 8, 4], 2, 12),
            (&[0, 6], 1, 6),
            (&[0, 0], 1, 0),
            (&[0], 0, 4),
        ];
        for (lens, rows, bytes) in wrong {
            assert!(row_len(lens, rows, bytes, Dtype::F32).is_err(), "{lens:?}");
        }
    }

    #[test]
    fn rows_are_sorted_and_come_once() {
        let values = Bytes::from_static(b"aabbccdd");
        let (rows, sorted) = ascending(vec![5, 2, 5, 1], &values, 2);
        assert_eq!((rows, &sorted[..]), (vec![1, 2, 5], &b"ddbbcc"[..]));
    }

    #[test]
    fn rows_that_are_not_there_are_errors() {
        assert_eq!(gather(b"aabbcc", &[2, 0], 2), Ok(Bytes::from_static(b"ccaa")));
        assert_eq!(gather(b"aabbcc", &[0, 3], 2), Err(3));
        assert_eq!(gather(b"aabbcc", &[i64::MAX], 2), Err(i64::MAX));
    }
}
