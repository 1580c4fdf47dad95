//! The memory of one message while it is received: metadata and data frames in aligned memory of
//! the pool, or one of the frames in memory that the receiver's owner offered.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::pool::{Pool, Pooled};
use super::types::Place;
use pslite_core::wire::native::{GRANULE, Head, Lengths};

/// Frames begin at multiples of this many bytes.
const ALIGN: usize = 16;

/// Pieces of memory, in the order of the bytes that belong there.
pub(super) type SlicesMut<'a> = SmallVec<[&'a mut [u8]; 4]>;

/// See the module.
pub(super) struct Landing {
    pooled: Pooled,
    meta_len: usize,
    lengths: Lengths,
    /// Where in `pooled` each frame begins.
    starts: SmallVec<[usize; 4]>,
    placed: Option<Place>,
    /// Which frames are lent: what arrives is where they are.
    lent: u16,
    total: u64,
    arrived: u64,
    /// Which granules have arrived, or are on the way: a bit for each.
    granules: SmallVec<[u64; 2]>,
}

impl Landing {
    /// Memory for the message with that head and metadata. `None` if it is too large for this
    /// machine.
    pub(super) fn new(
        pool: &Arc<Pool>,
        head: &Head,
        meta: &[u8],
        place: Option<Place>,
    ) -> Option<Self> {
        let lengths = head.lengths.clone();
        let placed = place.filter(|place| {
            lengths.get(place.frame).is_some_and(|len| *len == place.memory.size() as u64)
        });
        let mut at = meta.len();
        let mut starts = SmallVec::new();
        for (number, length) in lengths.iter().enumerate() {
            at = at.checked_next_multiple_of(ALIGN)?;
            starts.push(at);
            if placed.as_ref().is_none_or(|placed| placed.frame != number) {
                at = at.checked_add(usize::try_from(*length).ok()?)?;
            }
        }
        let mut pooled = pool.take(at);
        pooled.bytes_mut()[..meta.len()].copy_from_slice(meta);
        let granules = head.total.div_ceil(GRANULE as u64);
        Some(Self {
            pooled,
            meta_len: meta.len(),
            lengths,
            starts,
            placed,
            lent: head.header.lent,
            total: head.total,
            arrived: 0,
            granules: SmallVec::from_elem(0, usize::try_from(granules.div_ceil(64)).ok()?),
        })
    }

    /// True if that head belongs to this message.
    pub(super) fn fits(&self, head: &Head) -> bool {
        self.lengths == head.lengths
            && self.lent == head.header.lent
            && self.meta_len == head.header.meta_len as usize
    }

    /// Notes that a fragment is on the way; false if any of it came before.
    pub(super) fn begin_fragment(&mut self, offset: u64, length: u64) -> bool {
        let granule = GRANULE as u64;
        let range = offset / granule..(offset + length).div_ceil(granule);
        let taken = |bits: &[u64], n: u64| {
            bits.get((n / 64) as usize).is_none_or(|word| word >> (n % 64) & 1 != 0)
        };
        if range.clone().any(|n| taken(&self.granules, n)) {
            return false;
        }
        range.for_each(|n| self.granules[(n / 64) as usize] |= 1 << (n % 64));
        true
    }

    /// Counts bytes that arrived; true if the message is complete.
    pub(super) fn arrived(&mut self, bytes: u64) -> bool {
        self.arrived += bytes;
        self.arrived >= self.total
    }

    /// Calls `write` with the memory for the `length` bytes of data from `offset` on, or fewer if
    /// there are not so many. An offered place is written in here only, because its owner may take
    /// it back at any other time. Then the rest goes to other memory, so that the message is
    /// complete nevertheless, although nobody wants it any more.
    pub(super) fn with_slices<T>(
        &mut self,
        offset: u64,
        length: u64,
        mut write: impl FnMut(SlicesMut<'_>) -> T,
    ) -> T {
        let Some(Place { frame, mut memory }) = self.placed.take() else {
            return write(self.slices(offset, length, None));
        };
        let mut out = None;
        let lent = memory.with(&mut |bytes| {
            out = Some(write(self.slices(offset, length, Some((frame, bytes)))));
        });
        if !lent {
            memory = Box::new(vec![0; memory.size()]);
        }
        self.placed = Some(Place { frame, memory });
        match out {
            Some(out) => out,
            // Nobody takes this one back.
            None => self.with_slices(offset, length, write),
        }
    }

    fn slices<'a>(
        &'a mut self,
        offset: u64,
        length: u64,
        mut placed: Option<(usize, &'a mut [u8])>,
    ) -> SlicesMut<'a> {
        let mut out = SlicesMut::new();
        let end = offset.saturating_add(length);
        let mut rest = self.pooled.bytes_mut();
        let mut cut = 0;
        let mut begin = 0_u64;
        for (number, frame_len) in self.lengths.iter().enumerate() {
            let (low, high) = (offset.max(begin), end.min(begin + frame_len));
            if low < high {
                let range = (low - begin) as usize..(high - begin) as usize;
                let slice = if placed.as_ref().is_some_and(|(frame, _)| *frame == number) {
                    placed.take().and_then(|(_, memory)| memory.get_mut(range))
                } else {
                    let start = self.starts[number] + range.start - cut;
                    let after = std::mem::take(&mut rest).split_at_mut(start).1;
                    let (slice, after) = after.split_at_mut(range.len());
                    cut = self.starts[number] + range.end;
                    rest = after;
                    Some(slice)
                };
                let Some(slice) = slice else { break };
                out.push(slice);
            }
            begin += frame_len;
        }
        out
    }

    /// Copies bytes of the data to where they go; false if there is no room for them.
    pub(super) fn write(&mut self, offset: u64, mut bytes: &[u8]) -> bool {
        self.with_slices(offset, bytes.len() as u64, |slices| {
            for slice in slices {
                let (now, later) = bytes.split_at(slice.len());
                slice.copy_from_slice(now);
                bytes = later;
            }
            bytes.is_empty()
        })
    }

    /// Which data frames are lent: bit n for frame n.
    pub(super) const fn lent(&self) -> u16 {
        self.lent
    }

    /// True if a frame is in the memory of who asked for it.
    pub(super) const fn is_placed(&self) -> bool {
        self.placed.is_some()
    }

    /// The message: metadata, then data.
    pub(super) fn into_frames(self) -> SmallVec<[Bytes; 4]> {
        let mut frames = SmallVec::new();
        let memory = Bytes::from_owner(self.pooled);
        frames.push(memory.slice(..self.meta_len));
        let mut placed = self.placed;
        for (number, (start, length)) in self.starts.iter().zip(&self.lengths).enumerate() {
            match placed.take_if(|place| place.frame == number) {
                Some(place) => frames.push(place.memory.into_frame()),
                None => frames.push(memory.slice(*start..start + *length as usize)),
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::native::{Header, Kind};

    fn head(lengths: &[u64], meta: &[u8]) -> Head {
        let header = Header {
            frames: lengths.len() as u8,
            meta_len: meta.len() as u32,
            ..Header::new(Kind::Message)
        };
        let total = lengths.iter().sum();
        Head { header, lengths: lengths.iter().copied().collect(), total, size: 0 }
    }

    fn numbered(length: usize) -> Vec<u8> {
        (0..length).map(|n| n as u8).collect()
    }

    #[test]
    fn bytes_land_in_their_frames_however_they_are_cut() {
        let pool = Pool::new(1 << 20);
        let all = numbered(160);
        for step in 1..=160 {
            let head = head(&[8, 0, 150, 2], b"abc");
            let mut landing = Landing::new(&pool, &head, b"abc", None).unwrap();
            for (number, bytes) in all.chunks(step).enumerate() {
                assert!(landing.write((number * step) as u64, bytes));
            }
            let frames = landing.into_frames();
            let expected: [&[u8]; 5] = [b"abc", &all[..8], &[], &all[8..158], &all[158..]];
            assert_eq!(frames.len(), 5);
            for (frame, expected) in frames.iter().zip(expected) {
                assert_eq!(frame, expected);
                assert!(frame.is_empty() || frame.as_ptr().align_offset(8) == 0);
            }
        }
    }

    #[test]
    fn a_frame_lands_in_the_memory_of_who_asked() {
        let pool = Pool::new(1 << 20);
        let head = head(&[8, 100, 4], b"m");
        let memory = vec![0_u8; 100];
        let address = memory.as_ptr();
        let place = Place { frame: 1, memory: Box::new(memory) };
        let mut landing = Landing::new(&pool, &head, b"m", Some(place)).unwrap();
        assert!(landing.write(0, &numbered(112)));
        let frames = landing.into_frames();
        assert_eq!(frames[2].as_ptr(), address);
        assert_eq!(
            (&frames[2][..], &frames[3][..]),
            (&numbered(108)[8..], &[108, 109, 110, 111][..])
        );
        // One that does not fit is not used.
        let place = Place { frame: 1, memory: Box::new(vec![0_u8; 99]) };
        let mut landing = Landing::new(&pool, &head, b"m", Some(place)).unwrap();
        assert!(landing.write(0, &numbered(112)));
        assert_eq!(landing.into_frames()[2].len(), 100);
    }

    /// Memory that its owner takes back after it was written to so many times.
    struct Fickle(Vec<u8>, u32);

    impl crate::native::types::Memory for Fickle {
        fn size(&self) -> usize {
            self.0.len()
        }

        fn with(&mut self, write: &mut dyn FnMut(&mut [u8])) -> bool {
            let lent = self.1 > 0;
            if lent {
                self.1 -= 1;
                write(&mut self.0);
            }
            lent
        }

        fn into_frame(self: Box<Self>) -> Bytes {
            panic!("it was taken back")
        }
    }

    #[test]
    fn a_message_is_complete_though_its_place_is_taken_back() {
        let pool = Pool::new(1 << 20);
        for writes in 0..3 {
            let head = head(&[8, 100, 4], b"m");
            let place = Place { frame: 1, memory: Box::new(Fickle(vec![0; 100], writes)) };
            let mut landing = Landing::new(&pool, &head, b"m", Some(place)).unwrap();
            for (number, bytes) in numbered(112).chunks(28).enumerate() {
                assert!(landing.write(number as u64 * 28, bytes));
            }
            assert!(landing.is_placed());
            let frames = landing.into_frames();
            assert_eq!(
                (&frames[1][..], &frames[3][..]),
                (&numbered(8)[..], &[108, 109, 110, 111][..])
            );
            // What came before it was taken back is where nobody asks for it any more.
            let lost = (28 * writes as usize).saturating_sub(8);
            assert_eq!(frames[2][lost..], numbered(108)[8 + lost..]);
        }
    }

    #[test]
    fn a_fragment_that_came_before_is_seen() {
        let granule = GRANULE as u64;
        let head = head(&[100 * granule + 1], b"");
        let mut landing = Landing::new(&Pool::new(0), &head, b"", None).unwrap();
        assert!(landing.begin_fragment(granule, 64 * granule));
        assert!(!landing.begin_fragment(64 * granule, granule));
        assert!(!landing.begin_fragment(0, 2 * granule));
        assert!(landing.begin_fragment(0, granule));
        assert!(landing.begin_fragment(65 * granule, 35 * granule + 1));
        assert!(!landing.begin_fragment(100 * granule, 1));
        assert!(!landing.begin_fragment(200 * granule, 1), "beyond the end");
        assert!(!landing.arrived(100 * granule) && landing.arrived(1));
    }
}
