//! What a worker of `pslite.store` says to servers of what it makes, and what they answer: the body
//! of command 100 and of its answer. This module turns bytes into types and back; `store/agreement`
//! says what they mean. The Python package writes and reads the same bytes
//! (`ffi/python/pslite/_agreement.py`).
//!
//! A server that does not know the command answers without a body. Lists are bounded by the message
//! that carries them; whoever reads them checks their lengths.

/// One thing that all workers have to say alike, such as the type and shape of an array.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Fact {
    /// What it is about, for people: `array 'weight'`.
    #[prost(string, tag = "1")]
    pub subject: String,
    /// What is said of it, for people: `float32 of shape (4,)`.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// What a worker says. All workers say the same step by step.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Agree {
    /// Which step it is, counted from 1. Of a worker that came back: 0 if it only asks whether the
    /// others have said that.
    #[prost(uint64, tag = "1")]
    pub step: u64,
    /// What is said.
    #[prost(message, repeated, tag = "2")]
    pub facts: Vec<Fact>,
    /// The worker took the place of one that died: it says what others have said before.
    #[prost(bool, tag = "3")]
    pub back: bool,
    /// It was said before, and `facts` are left out.
    #[prost(bool, tag = "4")]
    pub repeated: bool,
    /// The worker closes its store: there is no further step.
    #[prost(bool, tag = "5")]
    pub closes: bool,
    /// The worker has done this step, and waits for a round.
    #[prost(bool, tag = "6")]
    pub stands: bool,
    /// Between servers: whose customer it is.
    #[prost(int32, tag = "7")]
    pub customer: i32,
    /// The step makes arrays: it is not done before the worker of rank 0 has come to it, who sends
    /// the values first.
    #[prost(bool, tag = "8")]
    pub makes: bool,
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AgreeState {
    /// This version does not know the state.
    Unknown = 0,
    /// All workers have said the same.
    Agreed = 1,
    /// Some have not said it yet; ask again.
    Waits = 2,
    /// Somebody says something else.
    Differs = 3,
    /// The server does not know what was said before: say all of it.
    Again = 4,
}

/// The body of the answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Agreed {
    /// What came of it.
    #[prost(enumeration = "AgreeState", tag = "1")]
    pub state: i32,
    /// For people: for whom it waits, or who differs in what.
    #[prost(string, tag = "2")]
    pub text: String,
    /// The first push of each key by this worker makes the key, and counts nowhere: the worker came
    /// back to a job that goes on without the dead (docs/elastic.md, "Workers").
    #[prost(bool, tag = "3")]
    pub makes_keys: bool,
}
