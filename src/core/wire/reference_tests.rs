//! The hand-written reader and writer against prost, an implementation of protobuf that is not
//! ours: the same bytes for every message that can be, and the same message for all bytes that
//! prost writes. The structs below are stock's `meta.proto` (docs/wire.md) with our own fields,
//! which have numbers from 100 up.

use bytes::{Buf, Bytes};
use proptest::prelude::*;
use prost::Message as _;
use prost::encoding::{WireType, decode_key, encode_key, encode_varint, skip_field};

use self::messages::{long, meta, number, valid_meta};
use self::pieces::{PbPart, PbSetting, hop, overlay, part, route, setting};
use super::decode::DATA_TYPES_MAX;
use super::flat_word::FlatWord;
use super::*;

#[path = "reference_messages.rs"]
mod messages;
#[path = "reference_pieces.rs"]
mod pieces;

#[derive(Clone, PartialEq, prost::Message)]
struct PbNode {
    #[prost(int32, required, tag = "1")]
    role: i32,
    #[prost(int32, optional, tag = "2")]
    id: Option<i32>,
    #[prost(string, optional, tag = "3")]
    hostname: Option<String>,
    #[prost(int32, optional, tag = "4")]
    port: Option<i32>,
    #[prost(bool, optional, tag = "5")]
    is_recovery: Option<bool>,
    #[prost(int32, optional, tag = "10")]
    customer_id: Option<i32>,
    #[prost(uint64, optional, tag = "100")]
    abilities: Option<u64>,
    #[prost(uint64, optional, tag = "101")]
    incarnation: Option<u64>,
    #[prost(uint64, optional, tag = "102")]
    native_port: Option<u64>,
    #[prost(uint64, optional, tag = "103")]
    wished_rank: Option<u64>,
    #[prost(uint64, optional, tag = "104")]
    launched_as: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PbNotice {
    #[prost(int32, optional, tag = "1")]
    kind: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    node: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    customer: Option<i32>,
    #[prost(string, optional, tag = "4")]
    text: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    incarnation: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PbControl {
    #[prost(int32, required, tag = "1")]
    cmd: i32,
    #[prost(message, repeated, tag = "2")]
    node: Vec<PbNode>,
    #[prost(int32, optional, tag = "3")]
    barrier_group: Option<i32>,
    #[prost(uint64, optional, tag = "4")]
    msg_sig: Option<u64>,
    #[prost(message, optional, tag = "100")]
    notice: Option<PbNotice>,
    #[prost(uint64, optional, tag = "101")]
    ack_sequence: Option<u64>,
    #[prost(message, optional, tag = "102")]
    word: Option<FlatWord>,
    #[prost(message, repeated, tag = "110")]
    settings: Vec<PbSetting>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PbMeta {
    #[prost(int32, optional, tag = "1")]
    head: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    body: Option<Vec<u8>>,
    #[prost(message, optional, tag = "3")]
    control: Option<PbControl>,
    #[prost(bool, optional, tag = "4")]
    request: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    push: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    simple_app: Option<bool>,
    #[prost(int32, optional, tag = "7")]
    app_id: Option<i32>,
    #[prost(int32, optional, tag = "8")]
    timestamp: Option<i32>,
    #[prost(int32, repeated, packed = "true", tag = "9")]
    data_type: Vec<i32>,
    #[prost(int32, optional, tag = "10")]
    customer_id: Option<i32>,
    #[prost(int32, optional, tag = "11")]
    data_size: Option<i32>,
    #[prost(bool, optional, tag = "12")]
    pull: Option<bool>,
    #[prost(int32, optional, tag = "13")]
    priority: Option<i32>,
    #[prost(uint64, optional, tag = "100")]
    sequence: Option<u64>,
    #[prost(string, optional, tag = "101")]
    error: Option<String>,
    #[prost(message, optional, tag = "102")]
    part: Option<PbPart>,
    #[prost(message, optional, tag = "103")]
    transfer: Option<FlatTransfer>,
    #[prost(message, optional, tag = "104")]
    devices: Option<PbDevices>,
    #[prost(message, optional, tag = "105")]
    hop: Option<trees::Hop>,
    #[prost(uint64, optional, tag = "110")]
    own_keys: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PbDevices {
    #[prost(int32, optional, tag = "1")]
    source_kind: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    source_id: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    target_kind: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    target_id: Option<i32>,
}

// ---- what is written when (van.cc:477-515; our own fields only if they say something) -----------

fn some<T>(value: T, present: bool) -> Option<T> {
    present.then_some(value)
}

fn pb_node(node: &Node) -> PbNode {
    PbNode {
        role: node.role as i32,
        id: Some(node.id),
        hostname: Some(node.hostname.clone()),
        port: Some(node.port),
        is_recovery: Some(node.is_recovery),
        customer_id: Some(node.customer_id),
        abilities: some(node.abilities, node.abilities != 0),
        incarnation: some(node.incarnation, node.incarnation != 0),
        native_port: some(u64::from(node.native_port), node.native_port != 0),
        wished_rank: node.wished_rank.map(u64::from),
        launched_as: node.launched_as.map(u64::from),
    }
}

fn pb_notice(notice: &Notice) -> PbNotice {
    PbNotice {
        kind: Some(notice.kind as i32),
        node: Some(notice.node),
        customer: Some(notice.customer),
        text: Some(notice.text.clone()),
        incarnation: (notice.incarnation != 0).then_some(notice.incarnation),
    }
}

fn is_barrier(command: Command) -> bool {
    matches!(command, Command::Barrier | Command::InstanceBarrier)
}

fn pb_control(control: &Control) -> PbControl {
    PbControl {
        cmd: control.command as i32,
        node: control.nodes.iter().map(pb_node).collect(),
        barrier_group: some(control.barrier_group, is_barrier(control.command)),
        msg_sig: some(control.signature, control.command == Command::Ack),
        notice: control.notice.as_ref().map(pb_notice),
        ack_sequence: some(control.ack_sequence, control.ack_sequence != 0),
        word: control.word.as_deref().map(FlatWord::from),
        settings: control.settings.iter().map(PbSetting::of).collect(),
    }
}

fn pb_meta(meta: &Meta) -> PbMeta {
    PbMeta {
        head: Some(meta.head),
        body: some(meta.body.to_vec(), !meta.body.is_empty()),
        control: meta.control().map(pb_control),
        request: Some(meta.request),
        push: Some(meta.push),
        simple_app: Some(meta.simple_app),
        app_id: some(meta.app_id, meta.app_id != EMPTY),
        timestamp: some(meta.timestamp, meta.timestamp != EMPTY),
        data_type: meta.data_type.to_vec(),
        customer_id: Some(meta.customer_id),
        data_size: None,
        pull: Some(meta.pull),
        priority: Some(meta.priority),
        sequence: some(meta.sequence, meta.sequence != 0),
        error: some(meta.error.clone(), !meta.error.is_empty()),
        part: PbPart::of(meta),
        transfer: meta.transfer().map(FlatTransfer::from),
        devices: meta.devices.map(|devices| PbDevices {
            source_kind: Some(devices.source.kind),
            source_id: Some(devices.source.id),
            target_kind: Some(devices.target.kind),
            target_id: Some(devices.target.id),
        }),
        hop: meta.hop().cloned(),
        own_keys: some(1, meta.own_keys),
    }
}

// ---- what absent fields mean (van.cc:517-557) ---------------------------------------------------

fn read_node(node: PbNode) -> Node {
    Node {
        role: Role::from_wire(node.role).unwrap(),
        id: node.id.unwrap_or(EMPTY),
        customer_id: node.customer_id.unwrap_or(0),
        hostname: node.hostname.unwrap_or_default(),
        port: node.port.unwrap_or(0),
        is_recovery: node.is_recovery.unwrap_or(false),
        abilities: node.abilities.unwrap_or(0),
        incarnation: node.incarnation.unwrap_or(0),
        native_port: u16::try_from(node.native_port.unwrap_or(0)).unwrap_or(0),
        wished_rank: node.wished_rank.and_then(|rank| u32::try_from(rank).ok()),
        launched_as: node.launched_as.and_then(|number| u32::try_from(number).ok()),
    }
}

fn read_notice(notice: PbNotice) -> Option<Notice> {
    Some(Notice {
        kind: NoticeKind::from_wire(notice.kind.unwrap_or(0))?,
        node: notice.node.unwrap_or(EMPTY),
        customer: notice.customer.unwrap_or(EMPTY),
        text: notice.text.unwrap_or_default(),
        incarnation: notice.incarnation.unwrap_or_default(),
    })
}

fn read_control(control: PbControl) -> Option<Box<Control>> {
    if control.cmd == 0 {
        return None;
    }
    Some(Box::new(Control {
        command: Command::from_wire(control.cmd).unwrap(),
        nodes: control.node.into_iter().map(read_node).collect(),
        barrier_group: control.barrier_group.unwrap_or(0),
        signature: control.msg_sig.unwrap_or(0),
        notice: control.notice.and_then(read_notice),
        ack_sequence: control.ack_sequence.unwrap_or(0),
        word: control.word.map(|word| Box::new(word.into())),
        settings: control.settings.into_iter().map(PbSetting::read).collect(),
        origin: None,
    }))
}

fn read_devices(devices: &PbDevices) -> Option<Devices> {
    let device = |kind: Option<i32>, id: Option<i32>| Device {
        kind: kind.unwrap_or(0),
        id: id.unwrap_or(0),
    };
    let source = device(devices.source_kind, devices.source_id);
    Devices { source, target: device(devices.target_kind, devices.target_id) }.if_told()
}

/// Of control nothing else counts, and of a transfer nothing but that.
fn read_payload(meta: &PbMeta) -> Result<Payload, DecodeError> {
    if let Some(control) = meta.control.clone().and_then(read_control) {
        return Ok(Payload::Control(control));
    }
    if let Some(flat) = meta.transfer.clone() {
        return Ok(Payload::Transfer(Box::new(flat.into())));
    }
    let asks = meta.request == Some(true);
    match (meta.part.clone(), meta.hop.clone().map(Box::new)) {
        (Some(part), Some(hop)) if asks => Ok(Payload::Up(part.ask(), hop)),
        (Some(part), Some(hop)) => Ok(Payload::Down(part.reply(), hop)),
        (None, Some(_)) => Err(DecodeError::Missing("the part that goes along a tree")),
        (Some(part), None) if asks => Ok(Payload::Ask(part.ask())),
        (Some(part), None) => Ok(Payload::Reply(part.reply())),
        (None, None) => Ok(Payload::Plain),
    }
}

fn read_meta(meta: PbMeta) -> Result<Meta, DecodeError> {
    Ok(Meta {
        payload: read_payload(&meta)?,
        head: meta.head.unwrap_or(0),
        app_id: meta.app_id.unwrap_or(EMPTY),
        customer_id: meta.customer_id.unwrap_or(0),
        timestamp: meta.timestamp.unwrap_or(EMPTY),
        sender: EMPTY,
        recver: EMPTY,
        overtakes: false,
        background: false,
        request: meta.request.unwrap_or(false),
        push: meta.push.unwrap_or(false),
        pull: meta.pull.unwrap_or(false),
        simple_app: meta.simple_app.unwrap_or(false),
        body: meta.body.unwrap_or_default().into(),
        data_type: meta.data_type.into_iter().collect(),
        value_type: DataType::Other as i32,
        devices: meta.devices.as_ref().and_then(read_devices),
        priority: meta.priority.unwrap_or(0),
        sequence: meta.sequence.unwrap_or(0),
        error: meta.error.unwrap_or_default(),
        own_keys: meta.own_keys.unwrap_or(0) != 0,
    })
}

// ---- unknown fields -----------------------------------------------------------------------------

/// A field that neither stock nor we have at any place: in the gaps of the numbers that are in use,
/// or above our own. 11 is stock's `data_size`, which the zmq van never sends or reads.
fn unknown_field() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![Just(11_u32), 14..100_u32, 111..200_u32, 111..536_870_912_u32];
    let content = proptest::collection::vec(any::<u8>(), 0..200);
    (number, 0..4_u8, any::<u64>(), content).prop_map(|(number, kind, value, content)| {
        let mut out = Vec::new();
        match kind {
            0 => {
                encode_key(number, WireType::Varint, &mut out);
                encode_varint(value, &mut out);
            }
            1 => {
                encode_key(number, WireType::SixtyFourBit, &mut out);
                out.extend(value.to_le_bytes());
            }
            2 => {
                encode_key(number, WireType::LengthDelimited, &mut out);
                encode_varint(content.len() as u64, &mut out);
                out.extend(content);
            }
            _ => {
                encode_key(number, WireType::ThirtyTwoBit, &mut out);
                out.extend((value as u32).to_le_bytes());
            }
        }
        out
    })
}

/// What a message is, to know which of its fields are messages again.
#[derive(Clone, Copy)]
enum Level {
    Meta,
    Control,
    Node,
    Notice,
}

impl Level {
    fn below(self, number: u32) -> Option<Self> {
        match (self, number) {
            (Self::Meta, 3) => Some(Self::Control),
            (Self::Control, 2) => Some(Self::Node),
            (Self::Control, 100) => Some(Self::Notice),
            _ => None,
        }
    }
}

/// Puts unknown fields between all fields, in nested messages too.
fn sprinkle(bytes: &[u8], level: Level, unknown: &mut impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = unknown.next().unwrap();
    let mut rest = bytes;
    while rest.has_remaining() {
        let field = rest;
        let (number, kind) = decode_key(&mut rest).unwrap();
        let content = rest;
        skip_field(kind, number, &mut rest, prost::encoding::DecodeContext::default()).unwrap();
        if let Some(below) = level.below(number) {
            let mut content = &content[..content.len() - rest.len()];
            let length = prost::encoding::decode_varint(&mut content).unwrap();
            assert_eq!(length, content.len() as u64);
            let content = sprinkle(content, below, unknown);
            encode_key(number, WireType::LengthDelimited, &mut out);
            encode_varint(content.len() as u64, &mut out);
            out.extend(content);
        } else {
            out.extend(&field[..field.len() - rest.len()]);
        }
        out.extend(unknown.next().unwrap());
    }
    out
}

fn encoded(meta: &Meta) -> Vec<u8> {
    let mut out = Vec::new();
    encode_meta(meta, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn we_write_what_prost_writes(meta in valid_meta()) {
        let (bytes, reference) = (encoded(&meta), pb_meta(&meta));
        prop_assert_eq!(&bytes, &reference.encode_to_vec());
        prop_assert_eq!(PbMeta::decode(&bytes[..]).unwrap(), reference);
        prop_assert_eq!(decode_meta(&bytes), Ok(meta));
    }

    /// Whatever fields are there or not.
    #[test]
    fn we_read_what_prost_writes(reference in meta()) {
        let bytes = reference.encode_to_vec();
        prop_assert_eq!(decode_meta(&bytes), read_meta(reference));
    }

    #[test]
    fn unknown_fields_are_skipped(
        meta in valid_meta(),
        unknown in proptest::collection::vec(unknown_field(), 1..8),
    ) {
        let bytes = encoded(&meta);
        let more = sprinkle(&bytes, Level::Meta, &mut unknown.into_iter().cycle());
        prop_assert!(more.len() > bytes.len());
        prop_assert_eq!(decode_meta(&more), Ok(meta));
    }
}

/// The tests above are not blind: one bit less and they would see it.
#[test]
fn the_reference_tells_messages_apart() {
    let meta = Meta { app_id: 0, priority: -1, ..Meta::default() };
    let other = Meta { pull: true, ..meta.clone() };
    assert_ne!(encoded(&meta), pb_meta(&other).encode_to_vec());
    let unset = Meta { body: Bytes::new(), app_id: EMPTY, ..meta.clone() };
    assert_eq!(encoded(&meta).len(), encoded(&unset).len() + 2);
}
