//! What whoever runs a node says of it to those who look. Values only.

/// One thing that happened in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEvent {
    /// Numbers grow. The first one is 1.
    pub number: u64,
    /// The event as one JSON object on one line.
    pub json: String,
}

/// How long rounds took at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPoint {
    /// When, in milliseconds since the job's scheduler began. Later points have more.
    pub millis: u64,
    /// The point as one JSON object.
    pub json: String,
}

/// A node, as those see it who ask over HTTP. Each method is called on the thread `pslite-http`, at
/// most twice a second for all who ask, and should return soon: all of them wait meanwhile.
pub trait Shown: Send + Sync {
    /// How the job is, as one JSON object on one line; `None` if this node does not know it: then
    /// it has no page.
    fn status(&self) -> Option<String>;

    /// What happened after the event of that number (0: from the beginning), the oldest first, and
    /// `most` of it at most. What is kept no more is left out.
    fn events_since(&self, number: u64, most: usize) -> Vec<ShownEvent>;

    /// How long rounds took, as far as that is kept, the oldest first.
    fn points(&self) -> Vec<ShownPoint> {
        Vec::new()
    }

    /// All that is counted, as OpenMetrics text; `None` if this node has none to show.
    fn metrics(&self) -> Option<String> {
        None
    }

    /// Whether the node is alive.
    ///
    /// # Errors
    /// It is not; the line says why.
    fn health(&self) -> Result<(), String>;

    /// Whether the node does its work in a complete job.
    ///
    /// # Errors
    /// Not yet, or no more; the line says why.
    fn ready(&self) -> Result<(), String>;
}
