//! How the workers of a job train while deltas travel, as the scheduler's policy says it to all. It
//! travels in a [`Policy`](super::word::Policy), and is in the scheduler's journal. This module
//! turns bytes into types and back, and describes them to people; `docs/nbsync.md` says what the
//! fields mean, `training/exchange` what a worker makes of them, `store/exchange` what a server
//! does.
//!
//! Numbers with a fraction are in millionths, so that every node has the same one to the bit, and
//! two specs can be compared.

pub mod status;
pub mod word;

/// One, in the fields that are in millionths.
pub const MILLION: u32 = 1_000_000;

/// By which name an exchange was asked for. Its other fields say all that it does, but for
/// [`Self::Esync`], where the scheduler's word sets each worker's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ExchangeMode {
    /// This version does not know the mode.
    Unknown = 0,
    /// NBSync: workers compute while deltas travel.
    Nbsync = 1,
    /// Workers take the same number of steps, send what these changed, and wait for the mean.
    Fedavg = 2,
    /// The same with Nesterov's momentum at the servers.
    Diloco = 3,
    /// The same, where a faster worker takes more steps.
    Esync = 4,
}

/// What servers do with the mean of the deltas of a round.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OuterRule {
    /// Momentum, in millionths: at least 0, below 1.
    #[prost(uint32, tag = "1")]
    pub momentum: u32,
    /// The momentum is Nesterov's; else it is the heavy ball's.
    #[prost(bool, tag = "2")]
    pub nesterov: bool,
    /// The rate, in millionths: above 0.
    #[prost(uint32, tag = "3")]
    pub rate: u32,
}

/// All that workers and servers have to know.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ExchangeSpec {
    /// Its name.
    #[prost(enumeration = "ExchangeMode", tag = "1")]
    pub mode: i32,
    /// A worker takes that many steps between two sends at least; at least 1.
    #[prost(uint32, tag = "2")]
    pub steps: u32,
    /// A worker that takes a new global model keeps what it has changed since it sent.
    #[prost(bool, tag = "3")]
    pub keep: bool,
    /// Into how many sections the tensors are cut that are exchanged in turn; at least 1.
    #[prost(uint32, tag = "4")]
    pub sections: u32,
    /// How many rounds may be in flight; 0: as the scheduler says, by what it measures.
    #[prost(uint32, tag = "5")]
    pub window: u32,
    /// What servers do.
    #[prost(message, required, tag = "6")]
    pub outer: OuterRule,
    /// All workers align at each such iteration; 0: never.
    #[prost(uint64, tag = "7")]
    pub every: u64,
    /// A worker's gradients are multiplied by the number of workers.
    #[prost(bool, tag = "8")]
    pub scale: bool,
    /// A worker does not compute from its send until the global model is here.
    #[prost(bool, tag = "9")]
    pub waits: bool,
}

impl ExchangeSpec {
    /// What an exchange does, for people: `nbsync, 8 sections, nesterov 0.5 x 1`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mode = ExchangeMode::try_from(self.mode).unwrap_or(ExchangeMode::Unknown);
        let mut text = match mode {
            ExchangeMode::Unknown => "an unknown exchange",
            ExchangeMode::Nbsync => "nbsync",
            ExchangeMode::Fedavg => "fedavg",
            ExchangeMode::Diloco => "diloco",
            ExchangeMode::Esync => "esync",
        }
        .to_owned();
        let mut add = |more: String| text.push_str(&format!(", {more}"));
        let plural =
            |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        if self.steps > 1 || self.waits {
            add(plural(self.steps.into(), "step"));
        }
        if !self.waits {
            add(plural(self.sections.into(), "section"));
            if !self.keep {
                add("nothing kept at a swap".to_owned());
            }
        }
        let OuterRule { momentum, nesterov, rate } = self.outer;
        let part = |millionths: u32| f64::from(millionths) / f64::from(MILLION);
        if momentum > 0 {
            let which = if nesterov { "nesterov" } else { "momentum" };
            add(format!("{which} {} x {}", part(momentum), part(rate)));
        } else if rate != MILLION {
            add(format!("rate {}", part(rate)));
        }
        if self.every > 0 {
            add(format!("aligned every {} iterations", self.every));
        }
        if !self.scale {
            add("gradients not scaled".to_owned());
        }
        text
    }
}
