//! The frames of the native data plane: no bytes may make their readers panic; what is read is
//! within its bounds, and is written as the same bytes. The first byte says what the others are.

use pslite_core::wire::native::{
    FRAMES_MAX, GRANULE, HEADER, Header, Hello, Info, Kind, LENT, Lent, META_MAX, Parsed,
    WINDOW_MAX, Welcome, parse,
};

/// The most data that a message may have here: lengths on both sides of it are tried.
const DATA_MAX: u64 = 1 << 31;

/// Whether the bytes were read, and not refused.
pub(crate) fn check(data: &[u8]) -> bool {
    let Some((choice, bytes)) = data.split_first() else { return false };
    match choice {
        0 => stream(bytes) > 0,
        1 => {
            let Ok(hello) = Hello::decode(bytes) else { return false };
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            true
        }
        2 => {
            let Ok(welcome) = Welcome::decode(bytes) else { return false };
            assert!(welcome.beyond.len() as u64 <= WINDOW_MAX);
            assert_eq!(welcome.encode(), bytes);
            true
        }
        3 => {
            let Ok(info) = Info::decode(bytes) else { return false };
            assert_eq!(info.encode(), bytes);
            true
        }
        _ => {
            let Some(bytes) = bytes.first_chunk::<LENT>() else { return false };
            let Some(lent) = Lent::decode(bytes) else { return false };
            assert_eq!(lent.encode(), *bytes);
            true
        }
    }
}

/// Reads one frame after the other, as a connection brings them: how many heads were whole.
fn stream(mut bytes: &[u8]) -> usize {
    let mut heads = 0;
    loop {
        let head = match parse(bytes, DATA_MAX) {
            Err(_) => return heads,
            Ok(Parsed::Need(need)) => {
                assert!(need > bytes.len() && need <= HEADER + FRAMES_MAX * 8 + META_MAX);
                return heads;
            }
            Ok(Parsed::Head(head)) => head,
        };
        heads += 1;
        let header = head.header;
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        assert_eq!(head.lengths.len(), usize::from(header.frames));
        assert!(head.total <= DATA_MAX && head.size <= bytes.len());
        assert_eq!(head.meta().len(), header.meta_len as usize);
        assert!(head.meta().end <= head.size);
        let fragment = u64::from(header.fragment_len);
        match header.kind {
            Kind::Message => {
                assert!(header.offset + fragment <= head.total);
                assert!(header.offset.is_multiple_of(GRANULE as u64));
            }
            Kind::Probe => {
                assert_eq!((fragment, header.meta_len, head.total), (GRANULE as u64, 0, 0));
            }
            _ => assert_eq!(fragment, 0),
        }
        let end = head.size.saturating_add(header.fragment_len as usize);
        let Some(rest) = bytes.get(end..) else { return heads };
        bytes = rest;
    }
}
