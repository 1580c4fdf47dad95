//! What one push brings to a sum (an addend), and the sum of several.

use bytes::Bytes;
use pslite_elements::kernels::KernelError;
use pslite_elements::{kernels, precision};

use super::value::Value;
use super::{Allocator, Buffer, Dtype};
use crate::wire::NodeId;

/// Why addends cannot be summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SumError {
    /// Dense addends and rows.
    Mixed,
    /// Dense addends of different lengths.
    Unequal,
    /// Elements that cannot be divided.
    Undivided(Dtype),
    /// The elements cannot be added.
    Kernel(KernelError),
}

impl From<KernelError> for SumError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

/// The values that one push brings. `E`: why a push is refused.
#[derive(Clone, Debug)]
pub(crate) enum Addend<E> {
    /// All elements; the bytes may be unaligned.
    Dense(Bytes),
    /// Some rows, in ascending order, each once; their values one after the other.
    Rows { rows: Vec<i64>, values: Bytes },
    /// A push that does not fit: it counts as its worker's, and its round fails for all.
    Refused(Box<E>),
}

/// The sum of addends. Two dense addends are kept as they came. So the usual round, of one or two
/// workers, is summed right where the result goes, without memory in between.
#[derive(Debug, Default)]
pub(crate) enum Sum<E> {
    #[default]
    Nothing,
    One(Addend<E>),
    Two(Bytes, Bytes),
    Dense(Buffer),
    /// Another server gets the same memory.
    Shared(Value),
    Rows {
        rows: Vec<i64>,
        values: Buffer,
    },
    /// All addends, by worker: they are summed in that order when all are here.
    Ordered(Vec<(NodeId, Addend<E>)>),
    /// What was wrong with a push; of several, with that of the worker with the lowest id.
    Refused(NodeId, Box<E>),
}

impl<E: From<SumError>> Sum<E> {
    /// Adds an addend of the same kind and size as the ones before. `like`: the value that the sum
    /// may become.
    pub(crate) fn add(
        &mut self,
        from: NodeId,
        addend: Addend<E>,
        dtype: Dtype,
        keeps_order: bool,
        like: &Buffer,
    ) -> Result<(), E> {
        *self = match (std::mem::take(self), addend) {
            (Self::Refused(first, error), Addend::Refused(_)) if first <= from => {
                Self::Refused(first, error)
            }
            (_, Addend::Refused(error)) => Self::Refused(from, error),
            (Self::Refused(first, error), _) => Self::Refused(first, error),
            (Self::Nothing, addend) if keeps_order => Self::Ordered(vec![(from, addend)]),
            (Self::Nothing, addend) => Self::One(addend),
            (Self::Ordered(mut addends), addend) => {
                let at = addends.partition_point(|(worker, _)| *worker <= from);
                addends.insert(at, (from, addend));
                Self::Ordered(addends)
            }
            (Self::One(Addend::Dense(a)), Addend::Dense(b)) => Self::Two(a, b),
            (Self::Two(a, b), Addend::Dense(more)) => {
                let mut sum =
                    if like.len() == a.len() { like.another() } else { Buffer::zeroed(a.len()) };
                add_two(&a, &b, dtype, &mut sum)?;
                kernels::add(dtype, sum.bytes_mut(), &more).map_err(SumError::from)?;
                Self::Dense(sum)
            }
            (Self::Dense(mut sum), Addend::Dense(more)) => {
                kernels::add(dtype, sum.bytes_mut(), &more).map_err(SumError::from)?;
                Self::Dense(sum)
            }
            (
                Self::One(Addend::Rows { rows: a, values: x }),
                Addend::Rows { rows: b, values: y },
            ) => {
                let first = RowValues { rows: &a, values: &x };
                first.merge(RowValues { rows: &b, values: &y }, dtype)?
            }
            (Self::Rows { rows, values }, Addend::Rows { rows: more, values: other }) => {
                let first = RowValues { rows: &rows, values: values.bytes() };
                first.merge(RowValues { rows: &more, values: &other }, dtype)?
            }
            _ => return Err(SumError::Mixed.into()),
        };
        Ok(())
    }

    /// The sum, unless a push of the round was refused.
    pub(crate) fn accepted(self) -> Result<Self, E> {
        match self {
            Self::Refused(_, error) => Err(*error),
            sum => Ok(sum),
        }
    }

    /// The sum divided by a number of workers: their mean. One that is divided by 1 stays as it is.
    pub(crate) fn divided(
        self,
        dtype: Dtype,
        by: usize,
        maker: Option<&dyn Allocator>,
    ) -> Result<Self, E> {
        let mut sum = match self.in_order(dtype, &Buffer::default())? {
            Self::One(Addend::Dense(one)) => Buffer::copy_in(maker, &one),
            Self::Two(a, b) => {
                let mut sum = Buffer::new_in(maker, a.len());
                add_two(&a, &b, dtype, &mut sum)?;
                sum
            }
            Self::Dense(sum) => sum,
            Self::Refused(_, error) | Self::One(Addend::Refused(error)) => return Err(*error),
            _ => return Err(SumError::Mixed.into()),
        };
        divide(dtype, &mut sum, by)?;
        Ok(Self::Dense(sum))
    }

    /// The sum, if it is one in memory of its own.
    pub(crate) const fn dense(&self) -> Option<&Buffer> {
        match self {
            Self::Dense(sum) => Some(sum),
            _ => None,
        }
    }

    /// Sums in the order of workers, if that was to wait.
    fn in_order(self, dtype: Dtype, like: &Buffer) -> Result<Self, E> {
        let Self::Ordered(addends) = self else { return Ok(self) };
        let mut sum = Self::Nothing;
        for (from, addend) in addends {
            sum.add(from, addend, dtype, false, like)?;
        }
        Ok(sum)
    }

    /// The sum in memory that another server can get too, and that server's share of it: the rows,
    /// if there are any, and the values. What one push brought is passed on as it came.
    pub(crate) fn share(
        self,
        dtype: Dtype,
        maker: Option<&dyn Allocator>,
    ) -> Result<(Self, Vec<i64>, Bytes), E> {
        let share = |sum: Buffer| {
            let sum = Value::new(sum);
            let lent = sum.lend();
            Ok((Self::Shared(sum), Vec::new(), lent))
        };
        match self.in_order(dtype, &Buffer::default())? {
            Self::One(Addend::Dense(one)) => {
                Ok((Self::One(Addend::Dense(one.clone())), Vec::new(), one))
            }
            Self::Two(a, b) => {
                let mut sum = Buffer::new_in(maker, a.len());
                add_two(&a, &b, dtype, &mut sum)?;
                share(sum)
            }
            Self::Dense(sum) => share(sum),
            Self::One(Addend::Rows { rows, values }) => {
                let addend = Addend::Rows { rows: rows.clone(), values: values.clone() };
                Ok((Self::One(addend), rows, values))
            }
            Self::Rows { rows, values } => {
                let values = values.into_bytes();
                let addend = Addend::Rows { rows: rows.clone(), values: values.clone() };
                Ok((Self::One(addend), rows, values))
            }
            Self::One(Addend::Refused(error)) | Self::Refused(_, error) => Err(*error),
            Self::Nothing | Self::Shared(_) | Self::Ordered(_) => Err(SumError::Mixed.into()),
        }
    }

    /// Writes the sum of dense addends.
    pub(crate) fn write(self, dtype: Dtype, into: &mut Buffer) -> Result<(), E> {
        match self.in_order(dtype, &Buffer::default())? {
            Self::One(Addend::Dense(one)) => Ok(copy(&one, into)?),
            Self::Two(a, b) => Ok(add_two(&a, &b, dtype, into)?),
            Self::Dense(sum) => Ok(copy(sum.bytes(), into)?),
            Self::Shared(sum) => Ok(copy(sum.buffer().bytes(), into)?),
            _ => Err(SumError::Mixed.into()),
        }
    }

    /// The sum of rows.
    pub(crate) fn rows(self, dtype: Dtype) -> Result<(Vec<i64>, Buffer), E> {
        match self.in_order(dtype, &Buffer::default())? {
            Self::One(Addend::Rows { rows, values }) => Ok((rows, Buffer::copy_of(&values))),
            Self::Rows { rows, values } => Ok((rows, values)),
            _ => Err(SumError::Mixed.into()),
        }
    }
}

fn copy(from: &[u8], into: &mut Buffer) -> Result<(), SumError> {
    if from.len() != into.len() {
        return Err(SumError::Unequal);
    }
    into.bytes_mut().copy_from_slice(from);
    Ok(())
}

fn divide(dtype: Dtype, sum: &mut Buffer, by: usize) -> Result<(), SumError> {
    match (dtype, by) {
        (_, 1) => {}
        (Dtype::F32, by) => sum.elements_mut::<f32>().iter_mut().for_each(|x| *x /= by as f32),
        (Dtype::F64, by) => sum.elements_mut::<f64>().iter_mut().for_each(|x| *x /= by as f64),
        (dtype, _) => return Err(SumError::Undivided(dtype)),
    }
    Ok(())
}

fn add_two(a: &[u8], b: &[u8], dtype: Dtype, into: &mut Buffer) -> Result<(), SumError> {
    if a.len() != into.len() || b.len() != into.len() {
        return Err(SumError::Unequal);
    }
    Ok(kernels::add_pair(dtype, into.bytes_mut(), a, b)?)
}

impl<E> Addend<E> {
    /// What a push brings, or why it does not fit.
    pub(crate) fn of(addend: Result<Self, E>) -> Self {
        addend.unwrap_or_else(|error| Self::Refused(Box::new(error)))
    }

    /// The same values as float32.
    pub(crate) fn into_f32(self, dtype: Dtype) -> Self {
        match self {
            Self::Dense(bytes) => Self::Dense(precision::to_f32(dtype, &bytes).into_bytes()),
            Self::Rows { rows, values } => {
                Self::Rows { rows, values: precision::to_f32(dtype, &values).into_bytes() }
            }
            refused @ Self::Refused(_) => refused,
        }
    }
}

/// Some rows of a matrix.
#[derive(Clone, Copy)]
struct RowValues<'a> {
    /// Their numbers, in ascending order, each once.
    rows: &'a [i64],
    /// Their values, one after the other.
    values: &'a [u8],
}

impl RowValues<'_> {
    /// Bytes of one row; 0 if there are none.
    fn row_size(self) -> usize {
        self.values.len().checked_div(self.rows.len()).unwrap_or(0)
    }

    /// Which row stands there, as a number.
    fn row_at(self, at: usize) -> Option<i64> {
        self.rows.get(at).copied()
    }

    /// The rows that either has, ascending; those that both have are added, the own one first.
    fn merge<E>(self, other: RowValues<'_>, dtype: Dtype) -> Result<Sum<E>, SumError> {
        let size = self.row_size().max(other.row_size());
        let mut rows: Vec<i64> = self.rows.iter().chain(other.rows).copied().collect();
        rows.sort_unstable();
        rows.dedup();
        let mut values = Buffer::zeroed(rows.len() * size);
        let row_of = |bytes: &[u8], at: usize| at * size..((at + 1) * size).min(bytes.len());
        let (mut i, mut j) = (0, 0);
        for (at, row) in rows.iter().enumerate() {
            let target = at * size..(at + 1) * size;
            let is_own = self.row_at(i) == Some(*row);
            let is_others = other.row_at(j) == Some(*row);
            if is_own {
                let from = &self.values[row_of(self.values, i)];
                values.bytes_mut()[target.clone()].copy_from_slice(from);
                i += 1;
            }
            if is_others {
                let from = &other.values[row_of(other.values, j)];
                if is_own {
                    kernels::add(dtype, &mut values.bytes_mut()[target], from)?;
                } else {
                    values.bytes_mut()[target].copy_from_slice(from);
                }
                j += 1;
            }
        }
        Ok(Sum::Rows { rows, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Addend = super::Addend<SumError>;
    type Sum = super::Sum<SumError>;

    fn bytes(values: &[f32]) -> Bytes {
        Bytes::copy_from_slice(bytemuck::cast_slice(values))
    }

    fn dense(values: &[f32]) -> Addend {
        Addend::Dense(bytes(values))
    }

    fn rows(rows: &[i64], values: &[f32]) -> Addend {
        Addend::Rows { rows: rows.to_vec(), values: bytes(values) }
    }

    fn total(addends: Vec<(NodeId, Addend)>, keeps_order: bool) -> (Vec<i64>, Vec<f32>) {
        let mut sum = Sum::default();
        let len = match &addends[0].1 {
            Addend::Dense(bytes) | Addend::Rows { values: bytes, .. } => bytes.len(),
            Addend::Refused(error) => panic!("{error:?}"),
        };
        for (from, addend) in addends {
            sum.add(from, addend, Dtype::F32, keeps_order, &Buffer::default()).unwrap();
        }
        match &sum {
            Sum::One(Addend::Dense(_)) | Sum::Two(..) | Sum::Dense(_) => {}
            Sum::Ordered(addends) if matches!(addends[0].1, Addend::Dense(_)) => {}
            _ => {
                let (rows, values) = sum.rows(Dtype::F32).unwrap();
                return (rows, values.elements::<f32>().to_vec());
            }
        }
        let mut into = Buffer::zeroed(len);
        sum.write(Dtype::F32, &mut into).unwrap();
        (Vec::new(), into.elements::<f32>().to_vec())
    }

    #[test]
    fn dense_addends_add_up() {
        let addends = |count: usize| {
            (0..count).map(|i| (9 + 2 * i as i32, dense(&[1.0, i as f32]))).collect::<Vec<_>>()
        };
        assert_eq!(total(addends(1), false).1, [1.0, 0.0]);
        assert_eq!(total(addends(2), false).1, [2.0, 1.0]);
        assert_eq!(total(addends(5), false).1, [5.0, 10.0]);
        assert_eq!(total(addends(5), true).1, [5.0, 10.0]);
    }

    #[test]
    fn in_order_of_ranks_the_sum_is_always_the_same() {
        let values = [(9, 1e8_f32), (11, 1.0), (13, -1e8)];
        let sum = |order: [usize; 3]| {
            let addends = order.map(|i| (values[i].0, dense(&[values[i].1])));
            total(addends.into(), true).1[0]
        };
        let first = sum([0, 1, 2]);
        assert_eq!(first, (1e8 + 1.0) - 1e8);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(sum(order), first);
        }
        assert_ne!(
            total(vec![(9, dense(&[1e8])), (13, dense(&[-1e8])), (11, dense(&[1.0]))], false).1[0],
            first
        );
    }

    #[test]
    fn rows_of_either_are_rows_of_the_sum() {
        let addends = vec![
            (9, rows(&[1, 4], &[1.0, 1.5, 4.0, 4.5])),
            (11, rows(&[0, 4, 7], &[0.5, 0.5, 1.0, 1.0, 7.0, 7.0])),
            (13, rows(&[], &[])),
        ];
        let expected = (vec![0, 1, 4, 7], vec![0.5, 0.5, 1.0, 1.5, 5.0, 5.5, 7.0, 7.0]);
        assert_eq!(total(addends.clone(), false), expected);
        assert_eq!(total(addends, true), expected);
        assert_eq!(total(vec![(9, rows(&[], &[])), (11, rows(&[], &[]))], false), (vec![], vec![]));
    }

    #[test]
    fn a_mean_is_the_sum_divided() {
        let mean = |workers: usize, by: usize| {
            let mut sum = Sum::default();
            for i in 0..workers {
                let addend = dense(&[i as f32, -3.0]);
                sum.add(9, addend, Dtype::F32, false, &Buffer::default()).unwrap();
            }
            sum.divided(Dtype::F32, by, None).unwrap().dense().unwrap().elements::<f32>().to_vec()
        };
        assert_eq!(mean(1, 1), [0.0, -3.0]);
        assert_eq!(mean(1, 2), [0.0, -1.5]);
        assert_eq!(mean(2, 2), [0.5, -3.0]);
        assert_eq!(mean(3, 4), [0.75, -2.25]);
        let mut whole = Sum::default();
        let addend = Addend::Dense(Bytes::copy_from_slice(&[0; 8]));
        whole.add(9, addend, Dtype::I32, false, &Buffer::default()).unwrap();
        assert!(matches!(whole.divided(Dtype::I32, 3, None), Err(SumError::Undivided(Dtype::I32))));
        let mut apart = Sum::default();
        apart.add(9, rows(&[0], &[1.0]), Dtype::F32, false, &Buffer::default()).unwrap();
        assert!(apart.divided(Dtype::F32, 2, None).is_err());
    }

    #[test]
    fn dense_and_rows_do_not_mix() {
        let mut sum = Sum::default();
        sum.add(9, dense(&[1.0]), Dtype::F32, false, &Buffer::default()).unwrap();
        let mixed = sum.add(11, rows(&[0], &[1.0]), Dtype::F32, false, &Buffer::default());
        assert!(mixed.is_err());
    }
}
