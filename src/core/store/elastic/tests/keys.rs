//! Keys of the tests, and what workers push to them.

use bytes::Bytes;
use half::f16;

use crate::random::Random;
use crate::values::compression::TwoBit;
use crate::values::kind::{RequestKind, command_of};
use crate::values::{Dtype, server_key_ranges};
use crate::wire::Key;

pub(super) const THRESHOLD: f32 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dense(Dtype),
    Compressed,
    Rows { row_len: usize },
}

/// A key, with its number of elements or rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySpec {
    pub(super) rank: usize,
    pub(super) wire: Key,
    pub(super) begin: Key,
    pub(super) kind: Kind,
    pub(super) length: usize,
}

/// A push, before it is cut: of a row_sparse key all frames, of others the value alone.
#[derive(Clone, Debug)]
pub(super) enum Load {
    Dense(Vec<u8>),
    Compressed(Vec<u8>),
    Rows(Vec<Bytes>),
}

fn frame<T: bytemuck::NoUninit>(values: &[T]) -> Bytes {
    Bytes::copy_from_slice(bytemuck::cast_slice(values))
}

impl KeySpec {
    pub(super) fn new(servers: usize, rank: usize, local: u64, kind: Kind, length: usize) -> Self {
        let begin = server_key_ranges(servers)[rank].begin;
        Self { rank, wire: begin + local, begin, kind, length }
    }

    /// The same key as the first server's of a job of one.
    pub(super) fn alone(&self) -> Self {
        Self { wire: self.wire - self.begin, begin: 0, ..*self }
    }

    pub(super) const fn dtype(&self) -> Dtype {
        match self.kind {
            Kind::Dense(dtype) => dtype,
            Kind::Compressed | Kind::Rows { .. } => Dtype::F32,
        }
    }

    /// The command of a push, or of a pull.
    pub(super) const fn head(&self, push: bool) -> i32 {
        match self.kind {
            Kind::Compressed if push => command_of(RequestKind::Compressed, Dtype::F32),
            Kind::Dense(_) | Kind::Compressed => command_of(RequestKind::Default, self.dtype()),
            Kind::Rows { .. } => command_of(RequestKind::RowSparse, Dtype::F32),
        }
    }

    pub(super) const fn is_divisible(&self) -> bool {
        !matches!(self.kind, Kind::Rows { .. })
    }

    /// What a worker pushes, the same whenever it is asked for. `exact`: whole numbers, whose sums
    /// are the same in any order.
    pub(super) fn gradient(&self, worker: i32, round: u64, exact: bool) -> Load {
        let seed = self.wire ^ (worker as u64) << 40 ^ round << 20;
        let mut random = Random::new(seed);
        let mut number = || match exact {
            true => random.below(17) as f32 - 8.0,
            false => (random.below(2001) as f32 - 1000.0) / 777.0,
        };
        match self.kind {
            Kind::Dense(_) => Load::Dense(self.dense(&mut number)),
            Kind::Compressed => {
                let gradient: Vec<f32> = (0..self.length).map(|_| number()).collect();
                let mut words = vec![0; TwoBit::compressed_bytes(self.length)];
                let compression = TwoBit::new(THRESHOLD).unwrap();
                compression.compress(&gradient, &mut vec![0.0; self.length], &mut words).unwrap();
                Load::Compressed(words)
            }
            Kind::Rows { row_len } => {
                let chosen = (0..self.length as u64).filter(|row| (row + round) % 3 != 1);
                self.rows(&chosen.collect::<Vec<_>>(), row_len, &mut number)
            }
        }
    }

    /// The first value.
    pub(super) fn init(&self) -> Load {
        let mut random = Random::new(self.wire);
        let mut number = || random.below(9) as f32;
        match self.kind {
            Kind::Rows { row_len } => {
                let all: Vec<u64> = (0..self.length as u64).collect();
                self.rows(&all, row_len, &mut number)
            }
            _ => Load::Dense(self.dense(&mut number)),
        }
    }

    fn dense(&self, number: &mut impl FnMut() -> f32) -> Vec<u8> {
        let numbers = (0..self.length).map(|_| number());
        match self.dtype() {
            Dtype::F16 => {
                let halves: Vec<f16> = numbers.map(f16::from_f32).collect();
                bytemuck::cast_slice(&halves).to_vec()
            }
            _ => bytemuck::cast_slice(&numbers.collect::<Vec<f32>>()).to_vec(),
        }
    }

    fn rows(&self, rows: &[u64], row_len: usize, number: &mut impl FnMut() -> f32) -> Load {
        let keys: Vec<u64> =
            std::iter::once(self.wire).chain(rows.iter().map(|row| self.wire + row)).collect();
        let values: Vec<f32> = (0..rows.len() * row_len).map(|_| number()).collect();
        let mut lens = vec![(row_len * 4) as i32; rows.len() + 1];
        lens[0] = 0;
        Load::Rows(vec![frame(&keys), frame(&values), frame(&lens)])
    }

    /// The frames of a push of the elements from `from` up to `to`.
    pub(super) fn push(&self, load: &Load, (from, to): (usize, usize)) -> Vec<Bytes> {
        match load {
            Load::Dense(value) => {
                let size = self.dtype().size();
                let part = &value[from * size..to * size];
                vec![frame(&[self.wire]), frame(part), frame(&[part.len() as i32])]
            }
            Load::Compressed(words) => {
                assert_eq!(from % 16, 0, "a cut within a word");
                let part = &words[from / 4..(to.div_ceil(16) * 4)];
                let keys = [self.begin + (to - from) as u64, self.wire];
                vec![frame(&keys), frame(part), frame(&[0, part.len() as i32])]
            }
            Load::Rows(frames) => frames.clone(),
        }
    }

    /// The frames of a pull of a part.
    pub(super) fn pull(&self) -> Vec<Bytes> {
        match self.kind {
            Kind::Rows { .. } => {
                let rows = (0..self.length as u64).map(|row| self.wire + row);
                let keys: Vec<u64> = std::iter::once(self.wire).chain(rows).collect();
                vec![frame(&keys), Bytes::new(), Bytes::new()]
            }
            _ => vec![frame(&[self.wire]), Bytes::new(), Bytes::new()],
        }
    }

    /// Bytes of an element, or of a row.
    pub(super) const fn unit(&self) -> usize {
        match self.kind {
            Kind::Rows { row_len } => row_len * 4,
            _ => self.dtype().size(),
        }
    }
}
