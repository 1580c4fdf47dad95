//! What stands in a message for a frame that stays in the sender's memory.

/// Its bytes.
pub const LENT: usize = 24;

/// Which data frames may be lent, a bit for each: the values alone, the second frame of a request.
/// Keys and lengths are checked before they are used, so nobody may be able to change them in
/// between.
pub const LENDABLE: u16 = 1 << 1;

/// Where a frame is that is lent. Offsets in bytes: the place 0, the length 8, the slot 16, zero
/// 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The word of the ring that says when the receiver is done.
    pub slot: u32,
    /// Where in the sender's memory it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl Lent {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LENT] {
        let mut bytes = [0; LENT];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slot.to_le_bytes());
        bytes
    }

    /// Reads it; `None` if the reserved bytes are not zero.
    #[must_use]
    pub fn decode(bytes: &[u8; LENT]) -> Option<Self> {
        let (numbers, rest) = bytes.split_at(16);
        let [offset, length] = *numbers.as_chunks::<8>().0 else { return None };
        let [slot, zero] = *rest.as_chunks::<4>().0 else { return None };
        (zero == [0; 4]).then(|| Self {
            slot: u32::from_le_bytes(slot),
            offset: u64::from_le_bytes(offset),
            length: u64::from_le_bytes(length),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        let lent = Lent { slot: 70, offset: 1 << 40, length: 5 };
        let mut bytes = lent.encode();
        assert_eq!(Lent::decode(&bytes), Some(lent));
        bytes[23] = 1;
        assert_eq!(Lent::decode(&bytes), None);
    }
}
