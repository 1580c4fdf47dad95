use proptest::prelude::*;

use super::*;

const DATA_MAX: u64 = 1 << 40;

fn message() -> Header {
    Header { frames: 2, meta_len: 3, fragment_len: 10, sequence: 7, ..Header::new(Kind::Message) }
}

fn bytes_of(header: &Header, lengths: &[u64], meta: &[u8]) -> Vec<u8> {
    let mut bytes = header.encode().to_vec();
    lengths.iter().for_each(|length| bytes.extend_from_slice(&length.to_le_bytes()));
    bytes.extend_from_slice(meta);
    bytes
}

#[test]
fn the_bytes_of_a_head_are_these() {
    let header = Header { after: 6, ack: 300, ack_channel: 2, ..message() };
    let bytes = bytes_of(&header, &[8, 2], b"abc");
    let mut expected = b"PSN1\x05\x02\0\0\x03\0\0\0\x0a\0\0\0".to_vec();
    for number in [7_u64, 6, 0, 300] {
        expected.extend_from_slice(&number.to_le_bytes());
    }
    expected.extend_from_slice(b"\x02\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0abc");
    assert_eq!(bytes, expected);
    let Ok(Parsed::Head(head)) = parse(&bytes, DATA_MAX) else { panic!() };
    assert_eq!((head.header, &head.lengths[..], head.total), (header, &[8, 2][..], 10));
    assert_eq!(&bytes[head.meta()], b"abc");
}

#[test]
fn two_bits_say_what_comes_before_and_after() {
    for (more, follows, byte) in
        [(false, false, 0), (true, false, 1), (false, true, 2), (true, true, 3)]
    {
        let header = Header { more, follows, ..message() };
        let mut bytes = header.encode();
        assert_eq!((bytes[52], Header::decode(&bytes)), (byte, Ok(header)));
        bytes[52] |= 4;
        let wrong = FrameError::Inconsistent("a reserved field is not zero");
        assert_eq!(Header::decode(&bytes), Err(wrong));
    }
}

#[test]
fn a_head_says_how_much_it_needs() {
    let bytes = bytes_of(&message(), &[8, 2], b"abc");
    for length in 0..HEADER {
        assert_eq!(parse(&bytes[..length], DATA_MAX), Ok(Parsed::Need(HEADER)));
    }
    for length in HEADER..bytes.len() {
        assert_eq!(parse(&bytes[..length], DATA_MAX), Ok(Parsed::Need(HEADER + 16 + 3)));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let granule = GRANULE as u64;
    let refused: [(Header, [u64; 2]); 11] = [
        (Header { sequence: 0, ..message() }, [8, 2]),
        (Header { after: 7, ..message() }, [8, 2]),
        (Header { offset: 1, fragment_len: 9, ..message() }, [8, 2]),
        (Header { offset: granule, ..message() }, [8, 2]),
        (Header { fragment_len: 11, ..message() }, [8, 2]),
        (Header { fragment_len: 9, ..message() }, [8, 2]),
        (Header { fragment_len: 0, ..message() }, [8, 2]),
        (message(), [u64::MAX, 11]),
        (Header { kind: Kind::Ack, ..message() }, [8, 2]),
        (Header { lent: 1, ..message() }, [24, 2]),
        (Header { lent: 2, fragment_len: 32, ..message() }, [8, 2]),
    ];
    for (header, lengths) in refused {
        assert!(parse(&bytes_of(&header, &lengths, b"abc"), DATA_MAX).is_err(), "{header:?}");
    }
    assert_eq!(
        parse(&bytes_of(&message(), &[8, 2], b"abc"), 9),
        Err(FrameError::TooLong { what: "the data of a message", length: 10 })
    );
    let sound = message().encode();
    let spoilt = [(0, 1), (4, 11), (4, 0), (5, 16), (6, 4), (7, 1), (55, 1), (11, 0xff)];
    for (at, value) in spoilt {
        let mut bytes = sound;
        bytes[at] = value;
        assert!(parse(&bytes, DATA_MAX).is_err(), "byte {at}");
    }
}

/// Padding is as long as it says, and no longer than a probe has it.
#[test]
fn probes_are_padding_of_one_length() {
    let probe = Header {
        fragment_len: GRANULE as u32,
        offset: PROBE_BYTES - GRANULE as u64,
        more: true,
        ..Header::new(Kind::Probe)
    };
    let Ok(Parsed::Head(head)) = parse(&probe.encode(), 0) else { panic!("{probe:?}") };
    assert_eq!((head.header, head.total, head.size), (probe, 0, HEADER));
    for header in [
        Header { fragment_len: 0, ..probe },
        Header { fragment_len: u32::MAX, ..probe },
        Header { fragment_len: GRANULE as u32 + 1, ..probe },
        Header { offset: 1, ..probe },
        Header { offset: PROBE_BYTES, ..probe },
        Header { offset: u64::MAX - u64::MAX % GRANULE as u64, ..probe },
        Header { frames: 1, ..probe },
        Header { meta_len: 1, ..probe },
        Header { sequence: 1, ..probe },
    ] {
        assert!(Header::decode(&header.encode()).is_err(), "{header:?}");
    }
}

#[test]
fn fragments_of_a_large_message_are_read() {
    let total = 3 * GRANULE as u64 + 5;
    let cuts = [(0, 2 * GRANULE as u32), (2 * GRANULE as u64, GRANULE as u32 + 5)];
    for (offset, fragment_len) in cuts {
        let header = Header { frames: 1, meta_len: 0, offset, fragment_len, ..message() };
        let Ok(Parsed::Head(head)) = parse(&bytes_of(&header, &[total], b""), DATA_MAX) else {
            panic!("{header:?}")
        };
        assert_eq!((head.total, head.header.offset), (total, offset));
    }
}

fn hello() -> Hello {
    Hello {
        version: VERSION,
        query: true,
        shared_memory: false,
        node: Some(-9),
        incarnation: u64::MAX - 3,
        token: *b"0123456789abcdef",
        channel: 3,
        attempt: 4,
        stripe: 5,
    }
}

#[test]
fn greetings_are_read_as_written() {
    for hello in [hello(), Hello { node: None, query: false, shared_memory: true, ..hello() }] {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    let welcome = Welcome { incarnation: 5, received: 77, beyond: vec![79, 90] };
    assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    let text = |text: &str| text.to_owned();
    let info =
        Info { incarnation: 1, boot: text("b"), abstract_name: text(""), path: text("/p/ü") };
    assert_eq!(Info::decode(&info.encode()), Ok(info));
}

#[test]
fn greetings_that_are_cut_or_longer_are_refused() {
    type Reads = fn(&[u8]) -> bool;
    let greetings: [(Vec<u8>, Reads); 3] = [
        (hello().encode(), |bytes| Hello::decode(bytes).is_ok()),
        (Welcome { incarnation: 5, received: 7, beyond: vec![9] }.encode(), |bytes| {
            Welcome::decode(bytes).is_ok()
        }),
        (
            Info { incarnation: 1, boot: "b".into(), abstract_name: "a".into(), path: "p".into() }
                .encode(),
            |bytes| Info::decode(bytes).is_ok(),
        ),
    ];
    for (mut bytes, reads) in greetings {
        for length in 0..bytes.len() {
            assert!(!reads(&bytes[..length]));
        }
        assert!(reads(&bytes));
        bytes.push(0);
        assert!(!reads(&bytes));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Hello::decode(&bytes);
        let _ = Welcome::decode(&bytes);
        let _ = Info::decode(&bytes);
        let _ = parse(&bytes, DATA_MAX);
    }

    /// A sound head with some bytes spoilt: what is still read keeps to the limits.
    #[test]
    fn spoilt_heads_keep_to_the_limits(
        spoilt in proptest::collection::vec((0_usize..HEADER + 19, any::<u8>()), 0..4),
    ) {
        let mut bytes = bytes_of(&message(), &[8, 2], b"abc");
        for (at, value) in spoilt {
            bytes[at] = value;
        }
        if let Ok(Parsed::Head(head)) = parse(&bytes, DATA_MAX) {
            prop_assert!(head.total <= DATA_MAX && head.size <= bytes.len());
            let header = head.header;
            if header.kind == Kind::Message {
                prop_assert!(header.offset + u64::from(header.fragment_len) <= head.total);
            }
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }
}
