//! The frames of the native data plane: no bytes may make their readers panic; what is read is
//! within its bounds, and is written as the same bytes. The first byte says what the others are.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pslite_core::wire::native::{
    FRAMES_MAX, GRANULE, HEADER, Header, Hello, Info, Kind, LENT, Lent, META_MAX, Parsed,
    WINDOW_MAX, Welcome, parse,
};

/// The most data that a message may have here: lengths on both sides of it are tried.
const DATA_MAX: u64 = 1 << 31;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    match choice {
        0 => stream(bytes),
        1 => {
            if let Ok(hello) = Hello::decode(bytes) {
                assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            }
        }
        2 => {
            if let Ok(welcome) = Welcome::decode(bytes) {
                assert!(welcome.beyond.len() as u64 <= WINDOW_MAX);
                assert_eq!(welcome.encode(), bytes);
            }
        }
        3 => {
            if let Ok(info) = Info::decode(bytes) {
                assert_eq!(info.encode(), bytes);
            }
        }
        _ => {
            if let Some(Ok(bytes)) = bytes.get(..LENT).map(<&[u8; LENT]>::try_from)
                && let Some(lent) = Lent::decode(bytes)
            {
                assert_eq!(lent.encode(), *bytes);
            }
        }
    }
});

/// One frame after the other, as a connection brings them.
fn stream(mut bytes: &[u8]) {
    loop {
        let head = match parse(bytes, DATA_MAX) {
            Err(_) => return,
            Ok(Parsed::Need(need)) => {
                assert!(need > bytes.len() && need <= HEADER + FRAMES_MAX * 8 + META_MAX);
                return;
            }
            Ok(Parsed::Head(head)) => head,
        };
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
        let Some(rest) = bytes.get(end..) else { return };
        bytes = rest;
    }
}
