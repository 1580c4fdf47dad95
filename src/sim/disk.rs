//! What outlives the processes of a job: the scheduler's journal.

/// Records, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    journal: Vec<Vec<u8>>,
}

impl Disk {
    /// Writes a record behind the others.
    pub(super) fn write(&mut self, record: Vec<u8>) {
        self.journal.push(record);
    }

    /// All records.
    pub(super) fn journal(&self) -> &[Vec<u8>] {
        &self.journal
    }
}
