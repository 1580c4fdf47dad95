//! The bytes of bytedance's ps-lite: those of PyPI's generation as its own `Van::PackMeta` wrote
//! them (gcc 12, the fields that it leaves to chance set to 0), those of the later one as a
//! snapshot; and what the reader does with bytes that nobody should send.

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::wire::{Dialect, Frames, NodeId};

const BOTH: [Dialect; 2] = [Dialect::Byteps025, Dialect::Byteps];

fn node(role: Role, id: NodeId) -> Node {
    Node {
        role,
        id,
        customer_id: 0,
        hostname: "127.0.0.1".to_owned(),
        port: 50_000,
        is_recovery: false,
        abilities: 0,
        incarnation: 0,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    }
}

fn bytes(dialect: Dialect, (meta, data): &(Meta, Frames)) -> Vec<u8> {
    let mut out = Vec::new();
    dialect.encode(meta, data, &mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn control(control: Control, meta: Meta) -> (Meta, Frames) {
    (Meta { payload: control.into(), ..meta }, Frames::new())
}

/// The messages that were captured, in their order.
fn kinds() -> Vec<(&'static str, (Meta, Frames))> {
    let app = Meta { app_id: 0, customer_id: 0, request: true, ..Meta::default() };
    let list = |nodes| Control { nodes, ..Control::new(Command::AddNode) };
    let barrier = Control { barrier_group: 7, ..Control::new(Command::Barrier) };
    let ack = Control { signature: 0x0000_0901_0000_0003, ..Control::new(Command::Ack) };
    let frame = |bytes: &'static [u8]| Bytes::from_static(bytes);
    let keys = Bytes::copy_from_slice(&0x1122_3344_5566_7788_u64.to_le_bytes());
    let push = Meta { head: 7, timestamp: 2, push: true, ..app.clone() };
    let five = Bytes::copy_from_slice(&5_u64.to_le_bytes());
    let pull = Meta { head: 0, timestamp: 1, pull: true, ..app.clone() };
    let simple = Meta { head: 42, timestamp: 4, simple_app: true, ..app.clone() };
    vec![
        (
            "registration",
            control(
                list(vec![node(Role::Worker, EMPTY)]),
                Meta { timestamp: 3, ..Meta::default() },
            ),
        ),
        ("barrier", control(barrier, Meta { timestamp: 3, ..app })),
        ("ack", control(ack, Meta::default())),
        (
            "push",
            (
                Meta { data_type: smallvec![8, 11, 3], ..push },
                smallvec![keys, frame(b"value"), frame(&[5, 0, 0, 0])],
            ),
        ),
        ("pull", (Meta { data_type: smallvec![8, 11], ..pull }, smallvec![five, frame(b"")])),
        ("simple", (Meta { body: frame(b"hello"), ..simple }, Frames::new())),
    ]
}

#[test]
fn the_bytes_are_those_of_pypis_own_ps_lite() {
    let captured: Vec<(&str, &str)> =
        include_str!("captured.txt").lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(captured.len(), kinds().len());
    for ((name, hexed), (kind, message)) in captured.into_iter().zip(kinds()) {
        assert_eq!(name, kind);
        assert_eq!(hex(&bytes(Dialect::Byteps025, &message)), hexed, "{name}");
    }
}

#[test]
fn the_bytes_of_the_later_generation() {
    let instance = Control { barrier_group: 7, ..Control::new(Command::InstanceBarrier) };
    let mut kinds = kinds();
    kinds.push(("instance barrier", control(instance, Meta::default())));
    // Rows of 16 bytes; those of zeros alone are left out.
    let rows = |bytes: &[u8]| {
        let rows = bytes.chunks(16).enumerate().filter(|(_, row)| row.iter().any(|b| *b != 0));
        rows.map(|(i, row)| format!("  {:3} {}", i * 16, hex(row))).collect::<Vec<_>>().join("\n")
    };
    let text = kinds.iter().map(|(name, message)| {
        let bytes = bytes(Dialect::Byteps, message);
        format!("{name}, {} bytes\n{}", bytes.len(), rows(&bytes))
    });
    insta::assert_snapshot!("byteps", text.collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_is_written_is_read_back() {
    for dialect in BOTH {
        for (name, message) in kinds() {
            let read = dialect.decode(&bytes(dialect, &message));
            assert_eq!(read.as_ref(), Ok(&message.0), "{name} of {}", dialect.name());
        }
    }
}

#[test]
fn one_generation_refuses_the_other_and_mxnets() {
    for (_, message) in kinds() {
        let bytes = |dialect| bytes(dialect, &message);
        assert!(Dialect::Byteps.decode(&bytes(Dialect::Byteps025)).is_err());
        assert!(Dialect::Byteps025.decode(&bytes(Dialect::Byteps)).is_err());
        for dialect in BOTH {
            assert!(dialect.decode(&bytes(Dialect::Mxnet)).is_err());
            assert!(Dialect::Mxnet.decode(&bytes(dialect)).is_err());
        }
    }
}

fn devices((source, target): ((i32, i32), (i32, i32))) -> Devices {
    let device = |(kind, id)| Device { kind, id };
    Devices { source: device(source), target: device(target) }
}

#[test]
fn devices_come_back_where_the_wire_has_room_for_them() {
    let (mut meta, data) = kinds().remove(3).1;
    let read = |dialect: Dialect, meta: &Meta| {
        dialect.decode(&bytes(dialect, &(meta.clone(), data.clone()))).unwrap().devices
    };
    let gpu = devices(((2, 3), (1, 7)));
    meta.devices = Some(gpu);
    assert_eq!(read(Dialect::Byteps, &meta), Some(gpu));
    assert_eq!(read(Dialect::Mxnet, &meta), Some(gpu));
    assert_eq!(read(Dialect::Byteps025, &meta), None);
    // What nothing was said of is CPU 0, and reads as such.
    meta.devices = None;
    let raw = bytes(Dialect::Byteps, &(meta.clone(), data.clone()));
    let at = GITHUB.devices.unwrap();
    assert_eq!([0, 4, 8, 12].map(|field| int(&raw, at + field)), [1, 0, 1, 0]);
    assert_eq!(read(Dialect::Byteps, &meta), None);
    // Any numbers are only numbers.
    meta.devices = Some(devices(((-7, i32::MIN), (99, i32::MAX))));
    assert_eq!(read(Dialect::Byteps, &meta), meta.devices);
    assert_eq!(read(Dialect::Mxnet, &meta), meta.devices);
}

/// Of the devices of nodes the scheduler names its own alone, as the peer does.
#[test]
fn only_the_scheduler_has_a_device() {
    for (role, kind) in [(Role::Scheduler, 1), (Role::Server, 0), (Role::Worker, 0)] {
        let list = Control { nodes: vec![node(role, 9)], ..Control::new(Command::AddNode) };
        let raw = bytes(Dialect::Byteps, &control(list, Meta::default()));
        let ports = GITHUB.ports.as_ref().unwrap();
        assert_eq!(int(&raw, GITHUB.meta_bytes + ports.kinds), kind, "{}", role.name());
    }
}

/// Requests are counted through 32767, which means "not set" elsewhere.
#[test]
fn the_request_of_the_empty_number_is_a_request_like_others() {
    let (mut meta, data) = kinds().remove(3).1;
    for number in [32_766, 32_767, 32_768] {
        meta.timestamp = number;
        let bytes = bytes(Dialect::Byteps, &(meta.clone(), data.clone()));
        assert_eq!(Dialect::Byteps.decode(&bytes).map(|meta| meta.timestamp), Ok(number));
    }
}

#[test]
fn hostile_counts_are_refused() {
    for (dialect, layout) in [(Dialect::Byteps025, &PYPI), (Dialect::Byteps, &GITHUB)] {
        let with = |at: usize, value: i32| {
            let mut bytes = bytes(dialect, &kinds()[0].1);
            put(&mut bytes, at, value);
            dialect.decode(&bytes)
        };
        let cut = &bytes(dialect, &kinds()[0].1)[..layout.meta_bytes - 1];
        assert_eq!(dialect.decode(cut), Err(DecodeError::Truncated));
        assert_eq!(with(layout.body_size, -1), Err(DecodeError::Truncated));
        let total = layout.meta_bytes + layout.node_bytes;
        let counted = total + i32::MAX as usize;
        assert_eq!(with(layout.body_size, i32::MAX), Err(DecodeError::OtherSize(total, counted)));
        assert!(matches!(with(layout.nodes, 2), Err(DecodeError::OtherSize(..))));
        assert_eq!(with(layout.nodes, i32::MAX), Err(DecodeError::TooLong("the list of nodes")));
        assert_eq!(with(layout.data_types, 17), Err(DecodeError::TooLong("the data types")));
        assert_eq!(with(layout.command, 6), Err(DecodeError::UnknownCommand(6)));
        let in_node = |at: usize| layout.meta_bytes + at;
        assert_eq!(with(in_node(layout.role), 3), Err(DecodeError::UnknownRole(3)));
        assert_eq!(with(in_node(layout.hostname), -1), Err(DecodeError::HostName));
        let mut full = bytes(dialect, &kinds()[0].1);
        full[in_node(layout.hostname)..][..HOSTNAME].fill(b'x');
        assert_eq!(dialect.decode(&full), Err(DecodeError::TooLong("a host name")));
    }
}

#[test]
fn a_name_that_is_too_long_does_not_spoil_what_follows() {
    for dialect in BOTH {
        let long = Node { hostname: "h".repeat(100), ..node(Role::Server, 8) };
        let list = Control { nodes: vec![long], ..Control::new(Command::AddNode) };
        let read = dialect.decode(&bytes(dialect, &control(list, Meta::default())));
        let node = read.unwrap().control_mut().unwrap().nodes.remove(0);
        assert_eq!((node.hostname.len(), node.port), (HOSTNAME_BYTES, 50_000));
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    let role = prop_oneof![Just(Role::Server), Just(Role::Worker), Just(Role::Scheduler)];
    let id = prop_oneof![Just(EMPTY), 1..1000_i32];
    let wished = prop::option::of(0..1000_u32);
    (role, id, "[a-z0-9.:-]{0,63}", 1..65_536_i32, any::<bool>(), wished).prop_map(
        |(role, id, hostname, port, is_recovery, wished_rank)| Node {
            role,
            id,
            hostname,
            port,
            is_recovery,
            wished_rank,
            launched_as: None,
            ..node(Role::Server, 0)
        },
    )
}

proptest! {
    #[test]
    fn every_list_comes_back(
        nodes in prop::collection::vec(any_node(), 0..5),
        timestamp in 0..i32::MAX,
    ) {
        for dialect in BOTH {
            let list = Control { nodes: nodes.clone(), ..Control::new(Command::AddNode) };
            let message = control(list, Meta { timestamp, ..Meta::default() });
            prop_assert_eq!(dialect.decode(&bytes(dialect, &message)), Ok(message.0));
        }
    }

    #[test]
    fn every_data_message_comes_back(
        numbers in prop::array::uniform3(any::<i32>()),
        app_id in 0..1000_i32,
        (request, push, simple_app) in any::<(bool, bool, bool)>(),
        body in prop::collection::vec(any::<u8>(), 0..40),
        data_type in prop::collection::vec(0..12_i32, 0..4),
    ) {
        for dialect in BOTH {
            let meta = Meta {
                head: numbers[0],
                customer_id: numbers[1],
                timestamp: numbers[2],
                app_id,
                request,
                push,
                pull: !push && !simple_app,
                simple_app,
                body: Bytes::from(body.clone()),
                data_type: data_type.iter().copied().collect(),
                ..Meta::default()
            };
            let bytes = bytes(dialect, &(meta.clone(), Frames::new()));
            prop_assert_eq!(dialect.decode(&bytes), Ok(meta));
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        which in 0..6_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        for dialect in BOTH {
            let mut bytes = bytes(dialect, &kinds()[which].1);
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            // What is read can be written, and reads as the same again.
            if let Ok(meta) = dialect.decode(&bytes) {
                let mut again = Vec::new();
                dialect.encode(&meta, &[], &mut again);
                prop_assert_eq!(dialect.decode(&again), Ok(meta));
            }
        }
    }
}
