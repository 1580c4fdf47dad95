//! What an operator asks of what happened in a job, beside its status: the question travels in
//! [`Word::Status`](super::word::Word::Status). Values only.

/// What a reader asks for: what it does not know yet. The numbers are those of the answer before;
/// at first they are 0.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ChronicleQuestion {
    /// Events with a larger number.
    #[prost(uint64, tag = "1")]
    pub after_event: u64,
    /// Round points that are later, in milliseconds since the scheduler began.
    #[prost(uint64, tag = "2")]
    pub after_point: u64,
}
