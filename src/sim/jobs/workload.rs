//! What the workers of a simulated job push and pull: tensors of every kind that MXNet
//! sends, with gradients that say whose they are. Pure functions of worker, tensor and round; the
//! bytes are those that MXNet's workers send (docs/mxnet.md).

use bytes::Bytes;
use half::f16;

use pslite_core::random::mix;
use pslite_core::values::kind::{RequestKind, command_of};
use pslite_core::values::spaces::space_begin;
use pslite_core::values::{Dtype, KeyRange, KvPairs, SHARED, SPACE_KEYS, Space, key_at};
use pslite_core::wire::Key;

/// Numbers that one worker's pushes are counted in, in the value of an asynchronous job: a float32
/// counts without error up to 2^24.
pub(super) const COUNT_BASE: f32 = 64.0;
/// Workers that an asynchronous job can tell apart: 64^4 is 2^24.
pub(super) const COUNTED_WORKERS_MAX: usize = 4;
/// Elements of a word of a compressed push.
const WORD_ELEMENTS: u64 = 16;

/// How a tensor is stored and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// All of it with each push.
    Dense,
    /// As dense, in float16.
    Halves,
    /// As dense, in 2 bits for each element.
    TwoBit,
    /// Some rows of so many elements with each push.
    Rows {
        /// Elements of a row.
        row_len: u64,
    },
}

/// The part of a tensor that lies under one wire key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSlice {
    /// The rank in whose range it lies.
    pub rank: usize,
    /// The wire key.
    pub key: Key,
    /// Elements, or rows.
    pub length: u64,
}

/// One tensor of the application.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// How it is stored.
    pub kind: TensorKind,
    /// Where MXNet puts it: one slice, or one for each rank if it is large.
    pub slices: Vec<TensorSlice>,
    /// It is pushed and pulled in one request.
    pub both: bool,
    /// A push of some of its rows may have none at all.
    pub empty_pushes: bool,
    /// Pushes of it that a worker may have under way at a time.
    pub window: u64,
    /// Whose it is: one of customer 1 lies in a space of its own, where keys count from 0 again.
    pub customer: Space,
}

/// Whose gradient, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushOf {
    /// The worker's rank.
    pub worker: usize,
    /// Counted from 1; 0 is the push that makes the tensor.
    pub round: u64,
    /// What it adds in an asynchronous job is a count of pushes; in a synchronous one it is as good
    /// as random.
    pub counts: bool,
}

impl Tensor {
    /// The command of its pushes and pulls (`GetCommandType`). The first push of a compressed
    /// tensor is not compressed.
    #[must_use]
    pub const fn head(&self, init: bool) -> i32 {
        let kind = match self.kind {
            TensorKind::TwoBit if !init => RequestKind::Compressed,
            TensorKind::Rows { .. } => RequestKind::RowSparse,
            _ => RequestKind::Default,
        };
        command_of(kind, self.dtype())
    }

    /// The type of its elements.
    const fn dtype(&self) -> Dtype {
        if matches!(self.kind, TensorKind::Halves) { Dtype::F16 } else { Dtype::F32 }
    }

    /// The frames of a push of the whole tensor.
    #[must_use]
    pub fn push(&self, push: PushOf, ranges: &[KeyRange]) -> KvPairs {
        let parts: Vec<KvPairs> =
            self.slices.iter().map(|slice| self.push_slice(slice, push, ranges)).collect();
        join(&parts)
    }

    /// The frames of a push of one slice.
    #[must_use]
    pub fn push_slice(&self, slice: &TensorSlice, push: PushOf, ranges: &[KeyRange]) -> KvPairs {
        match self.kind {
            TensorKind::TwoBit if push.round > 0 => compressed(slice, push, ranges),
            TensorKind::Dense | TensorKind::TwoBit => {
                let values: Vec<f32> =
                    (0..slice.length).map(|at| gradient(slice.key, at, push)).collect();
                pairs(&[slice.key], &values, &[self.bytes(slice) as i32])
            }
            TensorKind::Halves => {
                let half = |at| f16::from_f32(gradient(slice.key, at, push));
                let values: Vec<f16> = (0..slice.length).map(half).collect();
                pairs(&[slice.key], &values, &[self.bytes(slice) as i32])
            }
            TensorKind::Rows { row_len } => {
                let rows = self.pushed_rows(slice, push);
                let elements = rows.iter().flat_map(|row| row * row_len..(row + 1) * row_len);
                let values: Vec<f32> = elements.map(|at| gradient(slice.key, at, push)).collect();
                let mut lens =
                    vec![(row_len as usize * self.dtype().size()) as i32; rows.len() + 1];
                lens[0] = 0;
                pairs(&row_keys(slice.key, &rows), &values, &lens)
            }
        }
    }

    /// The frames of a pull of the whole tensor: all rows, if it has rows.
    #[must_use]
    pub fn pull(&self) -> KvPairs {
        let keys = |slice: &TensorSlice| match self.kind {
            TensorKind::Rows { .. } => {
                row_keys(slice.key, &(0..slice.length).collect::<Vec<u64>>())
            }
            _ => vec![slice.key],
        };
        let keys: Vec<Key> = self.slices.iter().flat_map(keys).collect();
        KvPairs { keys: frame(&keys), ..KvPairs::default() }
    }

    /// The rows of a push: all of the first one, and where pushes are counted; else about half of
    /// them.
    fn pushed_rows(&self, slice: &TensorSlice, push: PushOf) -> Vec<u64> {
        let all = push.round == 0 || push.counts;
        let drawn =
            |row: &u64| all || draw(slice.key, *row, push.worker as u64, push.round) & 16 == 0;
        let rows: Vec<u64> = (0..slice.length).filter(drawn).collect();
        if rows.is_empty() && !self.empty_pushes { vec![0] } else { rows }
    }

    /// Its keys as its customer knows them, of keys where they lie.
    #[must_use]
    pub fn as_the_customer_knows(&self, kv: KvPairs) -> KvPairs {
        if self.customer == SHARED {
            return kv;
        }
        let begin = u64::from(self.customer) * SPACE_KEYS;
        let keys: Vec<Key> =
            (0..kv.key_count()).filter_map(|at| key_at(&kv.keys, at)).map(|k| k - begin).collect();
        KvPairs { keys: frame(&keys), ..kv }
    }

    /// Bytes of a slice's value.
    #[must_use]
    pub const fn bytes(&self, slice: &TensorSlice) -> usize {
        let row_len = match self.kind {
            TensorKind::Rows { row_len } => row_len,
            _ => 1,
        };
        (slice.length * row_len) as usize * self.dtype().size()
    }

    /// Elements between two places where a piece of it can end.
    #[must_use]
    pub const fn align(&self, slice: &TensorSlice) -> u64 {
        match self.kind {
            TensorKind::Rows { .. } => slice.length,
            _ => WORD_ELEMENTS,
        }
    }
}

/// One element of a push.
fn gradient(key: Key, at: u64, push: PushOf) -> f32 {
    match (push.counts, push.round) {
        (true, 0) => 0.0,
        (true, _) => COUNT_BASE.powi(push.worker as i32),
        (false, round) => {
            // Whole and small: sums of a few are exact in whatever order. Never zero: each push
            // shows.
            let drawn = draw(key, at, push.worker as u64, round);
            let size = 1.0 + (drawn >> 1 & 7) as f32;
            if drawn & 1 == 0 { size } else { -size }
        }
    }
}

fn draw(key: Key, at: u64, worker: u64, round: u64) -> u64 {
    mix(mix(mix(key ^ round << 40) ^ at << 8) ^ worker)
}

/// `kCompressedPushPull`: two bits for each element, behind a key that says how many there are.
fn compressed(slice: &TensorSlice, push: PushOf, ranges: &[KeyRange]) -> KvPairs {
    const CODES: [u8; 4] = [0b00, 0b10, 0b11, 0b11];
    let code = |at: u64| {
        let drawn = draw(slice.key, at, push.worker as u64, push.round);
        if at < slice.length { CODES[(drawn & 3) as usize] } else { 0 }
    };
    let bytes = 0..slice.length.div_ceil(WORD_ELEMENTS) * 4;
    let values: Vec<u8> =
        bytes.map(|byte| (0..4).fold(0, |bits, at| bits << 2 | code(byte * 4 + at))).collect();
    let range = ranges.get(slice.rank).map_or(0, |range| range.begin);
    let first = space_begin(slice.key, range);
    let lens = [0, values.len() as i32];
    pairs(&[first + slice.length, slice.key], &values, &lens)
}

/// The key of a matrix, then one key for each row (`EncodeRowSparseKey`).
fn row_keys(key: Key, rows: &[u64]) -> Vec<Key> {
    std::iter::once(key).chain(rows.iter().map(|row| key + row)).collect()
}

fn frame<T: bytemuck::NoUninit>(values: &[T]) -> Bytes {
    Bytes::copy_from_slice(bytemuck::cast_slice(values))
}

fn pairs<T: bytemuck::NoUninit>(keys: &[Key], values: &[T], lens: &[i32]) -> KvPairs {
    KvPairs { keys: frame(keys), vals: frame(values), lens: frame(lens) }
}

fn join(parts: &[KvPairs]) -> KvPairs {
    let all = |frame: fn(&KvPairs) -> &Bytes| -> Bytes {
        parts.iter().flat_map(|part| frame(part).iter().copied()).collect::<Vec<u8>>().into()
    };
    KvPairs { keys: all(|p| &p.keys), vals: all(|p| &p.vals), lens: all(|p| &p.lens) }
}

/// How the tensors of a job are to be.
#[derive(Clone, Debug)]
pub struct Tensors {
    /// Elements of each dense tensor, in turn.
    pub dense: Vec<u64>,
    /// Elements of a tensor that MXNet cuts into one slice for each rank; none: there is none.
    pub cut: Option<u64>,
    /// Elements of one in float16: only where pushes are not counted.
    pub halves: Option<u64>,
    /// Elements of a compressed one.
    pub two_bit: Option<u64>,
    /// Rows and elements of each, of a row_sparse one.
    pub rows: Option<(u64, u64)>,
    /// A push of some rows may have none: in an asynchronous job that is no round.
    pub empty_pushes: bool,
    /// Every second one is pushed and pulled in one request.
    pub both: bool,
    /// Every third one has two pushes under way.
    pub pipelined: bool,
}

impl Tensors {
    /// The tensors of a job with servers of these ranges, for each of so many customers.
    #[must_use]
    pub fn make(&self, ranges: &[KeyRange], customers: Space) -> Vec<Tensor> {
        (0..customers).flat_map(|customer| self.make_for(customer, ranges)).collect()
    }

    fn make_for(&self, customer: Space, ranges: &[KeyRange]) -> Vec<Tensor> {
        let mut all: Vec<(TensorKind, Vec<u64>)> =
            self.dense.iter().map(|length| (TensorKind::Dense, vec![*length])).collect();
        all.extend(self.halves.map(|length| (TensorKind::Halves, vec![length])));
        all.extend(self.two_bit.map(|length| (TensorKind::TwoBit, vec![length])));
        all.extend(self.rows.map(|(rows, row_len)| (TensorKind::Rows { row_len }, vec![rows])));
        all.extend(self.cut.map(|length| (TensorKind::Dense, cut_evenly(length, ranges.len()))));
        let tensors = all.into_iter().enumerate();
        tensors
            .map(|(index, (kind, lengths))| self.place(customer, index, kind, &lengths, ranges))
            .collect()
    }

    /// A whole tensor goes where MXNet's hash says, a cut one to all ranks (kvstore_dist.h,
    /// EncodeDefaultKey).
    fn place(
        &self,
        customer: Space,
        index: usize,
        kind: TensorKind,
        lengths: &[u64],
        ranges: &[KeyRange],
    ) -> Tensor {
        let slice = |rank: usize, length: &u64| {
            let begin = ranges.get(rank).map_or(0, |range| range.begin);
            let begin = begin + u64::from(customer) * SPACE_KEYS;
            TensorSlice { rank, key: begin + index as Key, length: *length }
        };
        let slices = match lengths {
            [length] => vec![slice(index * 9973 % ranges.len().max(1), length)],
            _ => lengths.iter().enumerate().map(|(rank, length)| slice(rank, length)).collect(),
        };
        let rows = matches!(kind, TensorKind::Rows { .. });
        let both = self.both && index % 2 == 1 && kind == TensorKind::Dense;
        let window = if self.pipelined && index.is_multiple_of(3) && !rows { 2 } else { 1 };
        Tensor { kind, slices, both, empty_pushes: self.empty_pushes, window, customer }
    }
}

fn cut_evenly(length: u64, ranks: usize) -> Vec<u64> {
    let ranks = ranks.max(1) as u64;
    let border = |rank: u64| length * rank / ranks;
    (0..ranks).map(|rank| border(rank + 1) - border(rank)).collect()
}
