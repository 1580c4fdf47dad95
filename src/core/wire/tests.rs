//! The bytes of every message kind, as captured from the stock build (docs/wire.md), and what the
//! reader does with bytes that nobody should send.

use bytes::Bytes;
use smallvec::smallvec;

use super::elastic::{PartAsk, PartReply};
use super::transfer::{PieceName, Transfer};
use super::trees::Hop;
use super::*;

fn hex(meta: &Meta) -> String {
    let mut out = Vec::new();
    encode_meta(meta, &mut out);
    out.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn node(role: Role, id: NodeId, customer_id: i32) -> Node {
    Node {
        role,
        id,
        customer_id,
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

fn control(control: Control, meta: Meta) -> Meta {
    Meta { payload: control.into(), ..meta }
}

fn van(command: Command, nodes: Vec<Node>) -> Meta {
    let control_part = Control { nodes, ..Control::new(command) };
    control(control_part, Meta { timestamp: 3, ..Meta::default() })
}

fn kv(push: bool, pull: bool, timestamp: i32) -> Meta {
    Meta {
        head: 0,
        app_id: 0,
        customer_id: 0,
        timestamp,
        request: true,
        push,
        pull,
        data_type: smallvec![8, 9],
        ..Meta::default()
    }
}

/// Every kind of message, with a name.
fn kinds() -> Vec<(&'static str, Meta)> {
    let barrier = Control { barrier_group: 7, ..Control::new(Command::Barrier) };
    let app =
        |request| Meta { app_id: 0, timestamp: 3, customer_id: 0, request, ..Meta::default() };
    let ack = Control { signature: 0x0000_0901_0000_0003, ..Control::new(Command::Ack) };
    let simple = Meta { head: 42, simple_app: true, data_type: smallvec![], ..kv(false, false, 4) };
    let response = |meta: Meta| Meta { request: false, ..meta };
    let list =
        vec![node(Role::Worker, 9, 0), node(Role::Server, 8, 0), node(Role::Scheduler, 1, 0)];
    vec![
        ("registration", van(Command::AddNode, vec![node(Role::Worker, EMPTY, 0)])),
        ("list of nodes", van(Command::AddNode, list)),
        ("barrier request", control(barrier.clone(), app(true))),
        ("barrier release", control(barrier, app(false))),
        ("heartbeat", van(Command::Heartbeat, vec![node(Role::Worker, 9, 0)])),
        ("heartbeat reply", van(Command::Heartbeat, vec![node(Role::Scheduler, 1, 0)])),
        (
            "terminate",
            control(
                Control::new(Command::Terminate),
                Meta { customer_id: 0, head: 0, ..Meta::default() },
            ),
        ),
        ("ack", control(ack, Meta::default())),
        ("push", Meta { data_type: smallvec![8, 9], ..kv(true, false, 0) }),
        ("push with lens", Meta { head: 7, data_type: smallvec![8, 9, 3], ..kv(true, false, 2) }),
        ("pull", kv(false, true, 1)),
        ("push-pull", Meta { head: 9, priority: 3, ..kv(true, true, 3) }),
        ("push response", Meta { data_type: smallvec![], ..response(kv(true, false, 0)) }),
        ("pull response", response(kv(false, true, 1))),
        ("simple request", Meta { body: Bytes::from_static(b"hello"), ..simple.clone() }),
        ("simple response", response(simple)),
        ("negative priority", Meta { priority: -1, ..kv(true, false, 0) }),
    ]
}

#[test]
fn the_bytes_of_every_kind_of_message() {
    let text: Vec<String> =
        kinds().iter().map(|(name, meta)| format!("{name:18}{}", hex(meta))).collect();
    insta::assert_snapshot!("kinds", text.join("\n"));
}

#[test]
fn the_bytes_are_those_captured_from_stock() {
    let kinds = kinds();
    let of =
        |name| kinds.iter().find(|(kind, _)| *kind == name).map(|(_, meta)| hex(meta)).unwrap();
    assert_eq!(of("push"), "0800200128013000380040004a020809500060006800");
    assert_eq!(of("push with lens"), "0807200128013000380040024a03080903500060006800");
    assert_eq!(of("pull"), "0800200128003000380040014a020809500060016800");
    assert_eq!(of("push-pull"), "0809200128013000380040034a020809500060016803");
    assert_eq!(of("push response"), "080020002801300038004000500060006800");
    assert_eq!(of("pull response"), "0800200028003000380040014a020809500060016800");
    assert_eq!(of("simple request"), "082a120568656c6c6f20012800300138004004500060006800");
    assert_eq!(of("simple response"), "082a20002800300138004004500060006800");
    assert_eq!(of("barrier request"), "08ffffffff071a040803180720012800300038004003500060006800");
    let registration = of("registration");
    assert!(
        registration
            .starts_with("08ffffffff071a1f0802121b080110ffffffff071a093132372e302e302e3120")
    );
    assert!(registration.ends_with("200028003000400350ffffffff0760006800"), "{registration}");
    assert_eq!(registration.len(), 57 * 2);
}

#[test]
fn what_is_written_is_read_back() {
    for (name, meta) in kinds() {
        let mut bytes = Vec::new();
        encode_meta(&meta, &mut bytes);
        assert_eq!(decode_meta(&bytes).as_ref(), Ok(&meta), "{name}");
    }
}

#[test]
fn how_a_message_is_sent_is_not_in_its_bytes() {
    for (name, meta) in kinds() {
        let (mut bytes, mut of_another_way) = (Vec::new(), Vec::new());
        encode_meta(&meta, &mut bytes);
        let sent = Meta { overtakes: true, background: true, ..meta };
        encode_meta(&sent, &mut of_another_way);
        assert_eq!(bytes, of_another_way, "{name}");
    }
}

#[test]
fn our_own_fields_come_back_and_are_above_99() {
    let mut list = van(
        Command::Heartbeat,
        vec![Node {
            abilities: 1,
            incarnation: 99,
            native_port: 7001,
            wished_rank: Some(0),
            launched_as: Some(3),
            ..node(Role::Worker, 9, 0)
        }],
    );
    if let Some(control) = list.control_mut() {
        control.ack_sequence = 7;
        control.settings = vec![Setting::new("DMLC_NUM_WORKER", "2"), Setting::new("", "")];
        control.notice = Some(Notice {
            kind: NoticeKind::JobFailed,
            node: 9,
            customer: 0,
            incarnation: 77,
            text: "lost worker 9".to_owned(),
        });
    }
    list.sequence = 1 << 40;
    list.error = "no".to_owned();
    list.own_keys = true;
    let mut bytes = Vec::new();
    encode_meta(&list, &mut bytes);
    assert_eq!(decode_meta(&bytes).as_ref(), Ok(&list));
}

#[test]
fn a_registration_has_so_many_settings_and_no_longer_ones() {
    let of = |settings| {
        let control_part = Control { settings, ..Control::new(Command::AddNode) };
        let mut bytes = Vec::new();
        encode_meta(&control(control_part, Meta::default()), &mut bytes);
        decode_meta(&bytes).map(|meta| meta.control().map_or(0, |control| control.settings.len()))
    };
    let all = |count, length: usize| vec![Setting::new(&"n".repeat(length), "1"); count];
    assert_eq!(of(all(64, 255)), Ok(64));
    assert_eq!(of(all(65, 1)), Err(DecodeError::TooLong("the list of settings")));
    assert_eq!(of(all(1, 256)), Err(DecodeError::TooLong("the name of a setting")));
}

fn bytes_of(payload: Payload, request: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_meta(&Meta { payload, request, ..Meta::default() }, &mut bytes);
    bytes
}

/// What nobody sends together, in both orders: of control nothing else counts, and of a transfer
/// nothing but that.
#[test]
fn a_message_is_one_thing() {
    let (ask, reply) = (PartAsk { from: 3, to: 7, ..PartAsk::default() }, PartReply::default());
    let transfer = Transfer::Drop(PieceName { key: 1, from: 0, to: 4, term: 2 });
    let hop = Box::new(Hop { key: 9, ..Hop::default() });
    for request in [true, false] {
        let part = if request { Payload::Ask(ask.clone()) } else { Payload::Reply(reply.clone()) };
        let along = Meta { payload: part.clone(), request, ..Meta::default() }.along(*hop.clone());
        let all = [
            Payload::from(Control::new(Command::Heartbeat)),
            Payload::Transfer(Box::new(transfer.clone())),
            along.payload,
            part,
            Payload::Plain,
        ];
        for (at, counts) in all.iter().enumerate() {
            for other in &all[at..] {
                let [one, more] = [counts, other].map(|payload| bytes_of(payload.clone(), request));
                for both in [[&one[..], &more].concat(), [&more[..], &one].concat()] {
                    let read = decode_meta(&both).unwrap();
                    assert_eq!(read.payload, *counts, "beside {other:?}");
                    assert_eq!(bytes_of(read.payload, request), one);
                }
            }
        }
    }
}

#[test]
fn what_goes_along_a_tree_says_which_part_it_is_about() {
    let hop = Hop { key: 9, ..Hop::default() };
    let mut bytes = bytes_of(Payload::Plain, true);
    bytes.extend([0xca, 0x06]);
    elastic::write(&hop, &mut bytes);
    let missing = DecodeError::Missing("the part that goes along a tree");
    assert_eq!(decode_meta(&bytes), Err(missing));
    bytes.extend([0xb2, 0x06, 0]);
    let about = Payload::Up(PartAsk::default(), Box::new(hop));
    assert_eq!(decode_meta(&bytes).map(|meta| meta.payload), Ok(about));
}

/// A request has no routes, and an answer does not say what was pushed before: what says so
/// nevertheless is left out. So a server of an earlier version is understood, which repeats in an
/// answer all that it was asked.
#[test]
fn whether_a_part_asks_or_answers_its_message_says() {
    let route = elastic::Route { from: 3, to: 7, term: 1, owner: 8 };
    let ask = PartAsk { from: 3, to: 7, after: 5, asks: true, ..PartAsk::default() };
    let reply = PartReply { from: 3, to: 7, routes: vec![route], ..PartReply::default() };
    // A message that follows itself says what both do.
    let read = |request| {
        let mut bytes = bytes_of(Payload::Plain, request);
        let mut both = prost::Message::encode_to_vec(&ask);
        prost::Message::encode(&reply, &mut both).unwrap();
        bytes.extend([0xb2, 0x06, both.len() as u8]);
        bytes.extend(both);
        decode_meta(&bytes).unwrap().payload
    };
    assert_eq!(read(true), Payload::Ask(ask.clone()));
    assert_eq!(read(false), Payload::Reply(reply.clone()));
}

#[test]
fn what_was_asked_becomes_what_is_answered_once() {
    let ask = PartAsk { slice: 1, from: 3, to: 7, term: 2, life: 4, ..PartAsk::default() };
    let ticket = Some(Box::default());
    let payload = Payload::Ask(PartAsk { after: 5, asks: true, ticket, overlay: 6, ..ask });
    let mut meta = Meta { payload, request: true, ..Meta::default() };
    let part = PartReply { slice: 1, from: 3, to: 7, term: 2, life: 4, ..PartReply::default() };
    let part = PartReply { overlay: 6, ..part };
    assert_eq!((meta.answered().as_ref(), meta.span()), (Some(&part), Some(3..7)));
    meta.answering().unwrap().again = true;
    let again = PartReply { again: true, ..part };
    assert_eq!((meta.answering().cloned(), meta.ask()), (Some(again.clone()), None));
    assert_eq!((meta.answered(), meta.span()), (Some(again), Some(3..7)));
    let mut sum = Meta { request: true, ..Meta::default() }.along(Hop::default());
    assert!(matches!(sum.payload, Payload::Up(..)) && sum.answering().is_some());
    assert!(matches!(sum.payload, Payload::Down(..)) && sum.hop().is_some());
    assert!(Meta::default().answering().is_none());
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let corpus: Vec<Vec<u8>> = kinds()
        .iter()
        .map(|(_, meta)| {
            let mut bytes = Vec::new();
            encode_meta(meta, &mut bytes);
            bytes
        })
        .collect();
    let mut refused = 0;
    for round in 0..60_000 {
        let mut bytes = corpus[round % corpus.len()].clone();
        for _ in 0..1 + random() % 4 {
            let at = (random() % bytes.len() as u64) as usize;
            bytes[at] = random() as u8;
        }
        bytes.truncate((random() % (bytes.len() as u64 + 1)) as usize);
        refused += usize::from(decode_meta(&bytes).is_err());
    }
    assert!(refused > 10_000, "only {refused} were refused");
}

#[test]
fn hostile_lengths_are_refused() {
    assert_eq!(decode_meta(&[0x12, 0xff, 0xff, 0xff, 0x7f]), Err(DecodeError::Truncated));
    assert_eq!(decode_meta(&[0x08]), Err(DecodeError::Truncated));
    assert_eq!(decode_meta(&[0x08; 1]), Err(DecodeError::Truncated));
    assert_eq!(decode_meta(&[0x0a, 0x00]), Err(DecodeError::WireType(1, 2)));
    // So begins a message of the later BytePS wire.
    assert_eq!(decode_meta(&[0xff, 0x7f, 0xff, 0x7f]), Err(DecodeError::WireType(2047, 7)));
    assert_eq!(decode_meta(&[0x1a, 0x02, 0x08, 0x63]), Err(DecodeError::UnknownCommand(99)));
    assert_eq!(decode_meta(&[0x00, 0x00]), Err(DecodeError::Malformed));
}
