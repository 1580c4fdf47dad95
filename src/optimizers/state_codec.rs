//! What an optimizer keeps for a piece, as it travels from server to server: numbers in protobuf,
//! tensors in frames. Read only by an optimizer of the same generation, which knows what to expect;
//! whatever else comes is an error. Pure: must not trust a length.

use bytes::Bytes;
use pslite_elements::{Allocator, Buffer, Dtype};

use super::attributes::MOST_UPDATES;
use super::rule::NUMBERS;
use super::schedule::ScheduleProgress;
use super::{Optimizer, OptimizerError, State};

/// All of a state but its tensors.
#[derive(Clone, PartialEq, prost::Message)]
struct Numbers {
    /// The type of the tensors' elements.
    #[prost(int32, tag = "1")]
    dtype: i32,
    /// Names of the tensors, in the order of their frames.
    #[prost(string, repeated, tag = "2")]
    names: Vec<String>,
    /// One frame more than names: the master copy.
    #[prost(bool, tag = "3")]
    has_master: bool,
    #[prost(double, repeated, tag = "4")]
    numbers: Vec<f64>,
    #[prost(int64, tag = "5")]
    count: i64,
    #[prost(message, optional, tag = "6")]
    progress: Option<RateProgress>,
}

/// How far a schedule of learning rates is.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct RateProgress {
    #[prost(double, tag = "1")]
    base: f64,
    #[prost(int64, tag = "2")]
    count: i64,
    #[prost(uint64, tag = "3")]
    steps_done: u64,
}

impl State {
    /// The numbers, and the tensors in the order in which [`Optimizer::read_state`] wants them.
    pub fn write(&self) -> (Bytes, impl Iterator<Item = &Buffer>) {
        let numbers = Numbers {
            dtype: self.dtype as i32,
            names: self.names.iter().map(ToString::to_string).collect(),
            has_master: self.master.is_some(),
            numbers: self.numbers.to_vec(),
            count: self.count,
            progress: self.progress.map(|progress| RateProgress {
                base: progress.base,
                count: progress.count,
                steps_done: progress.steps_done as u64,
            }),
        };
        let bytes = prost::Message::encode_to_vec(&numbers).into();
        (bytes, self.tensors.iter().chain(&self.master))
    }

    /// The same, for who needs the state no more.
    pub fn into_written(self) -> (Bytes, Vec<Buffer>) {
        let (numbers, _) = self.write();
        (numbers, self.tensors.into_iter().chain(self.master).collect())
    }
}

impl Optimizer {
    /// Reads the state of `elements` elements of type `dtype`.
    ///
    /// # Errors
    /// It is malformed, or none that this optimizer would have written.
    pub fn read_state(
        &self,
        dtype: Dtype,
        elements: usize,
        numbers: &[u8],
        tensors: &[Bytes],
        maker: Option<&dyn Allocator>,
    ) -> Result<State, OptimizerError> {
        let malformed = |problem| OptimizerError::Travelled { class: self.class, problem };
        let numbers = <Numbers as prost::Message>::decode(numbers)
            .map_err(|_| malformed("its numbers are no protobuf"))?;
        let has_master = self.has_master(dtype);
        let computed = if has_master { Dtype::F32 } else { dtype };
        let names = self.method.tensors();
        if numbers.names != names || numbers.has_master != has_master {
            return Err(OptimizerError::State { expected: names.into(), found: numbers.names });
        }
        if numbers.dtype != computed as i32 {
            return Err(malformed("its tensors are of another type"));
        }
        if tensors.len() != names.len() + usize::from(has_master) {
            return Err(malformed("tensors are missing"));
        }
        let bytes = elements.checked_mul(computed.size());
        if tensors.iter().any(|tensor| Some(tensor.len()) != bytes) {
            return Err(malformed("a tensor has another length than the value"));
        }
        let kept: [f64; NUMBERS] =
            numbers.numbers[..].try_into().map_err(|_| malformed("numbers are missing"))?;
        if !(0..=MOST_UPDATES).contains(&numbers.count) {
            return Err(malformed("it has no possible number of updates"));
        }
        let progress = numbers.progress.map(read_progress).transpose().map_err(malformed)?;
        if progress.is_some() != self.common.progress(0, 0).is_some() {
            return Err(malformed("its learning rate has no schedule, or too much of one"));
        }
        let copy = |tensor: &Bytes| Buffer::copy_in(maker, tensor);
        let (own, master) = tensors.split_at(names.len());
        Ok(State {
            names,
            dtype: computed,
            tensors: own.iter().map(copy).collect(),
            master: master.first().map(copy),
            numbers: kept,
            count: numbers.count,
            progress,
        })
    }
}

/// A schedule catches up from its count, so that must be a possible one.
fn read_progress(progress: RateProgress) -> Result<ScheduleProgress, &'static str> {
    if progress.base.is_nan() || !(0..=MOST_UPDATES).contains(&progress.count) {
        return Err("the progress of its learning rate is impossible");
    }
    let steps_done =
        usize::try_from(progress.steps_done).map_err(|_| "its schedule has too many steps")?;
    Ok(ScheduleProgress { base: progress.base, count: progress.count, steps_done })
}
