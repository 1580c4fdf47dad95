//! Every message that prost can write and that keeps our limits, for the tests next door.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// Small and large numbers, negative ones and stock's "unset".
pub(super) fn number() -> impl Strategy<Value = i32> {
    prop_oneof![4 => -2..300_i32, 2 => any::<i32>(), 1 => Just(EMPTY), 1 => Just(i32::MIN)]
}

pub(super) fn long() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0..300_u64, 2 => any::<u64>(), 1 => Just(u64::MAX)]
}

/// Up to 250 bytes, so that lengths of one and of two bytes occur; some letters have two.
pub(super) fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9.]{0,20}", "[a-zäß]{0,125}"]
}

pub(super) fn node() -> impl Strategy<Value = PbNode> {
    use proptest::option::of;
    let stock =
        (0..3_i32, of(number()), of(words()), of(number()), of(any::<bool>()), of(number()));
    let ours = (of(long()), of(long()), of(long()), of(long()), of(long()));
    (stock, ours).prop_map(|(stock, ours)| {
        let (abilities, incarnation, native_port, wished_rank, launched_as) = ours;
        let (role, id, hostname, port, is_recovery, customer_id) = stock;
        PbNode {
            role,
            id,
            hostname,
            port,
            is_recovery,
            customer_id,
            abilities,
            incarnation,
            native_port,
            wished_rank,
            launched_as,
        }
    })
}

pub(super) fn notice() -> impl Strategy<Value = PbNotice> {
    use proptest::option::of;
    // Kinds 0 and 5 are unknown: the notice is left out, the rest of the message counts.
    (of(0..6_i32), of(number()), of(number()), of(words()), of(long())).prop_map(
        |(kind, node, customer, text, incarnation)| PbNotice {
            kind,
            node,
            customer,
            text,
            incarnation,
        },
    )
}

pub(super) fn transfer() -> impl Strategy<Value = FlatTransfer> {
    use proptest::collection::vec;
    let mark = (number(), number(), number());
    let mark = mark.prop_map(|(worker, customer, timestamp)| elastic::Mark {
        worker,
        customer,
        timestamp,
        life: u64::from(customer > 0),
    });
    let numbers = (long(), prop_oneof![Just(0), long()], 0..3_u64);
    let lists = (vec(mark, 0..4), vec(long(), 0..4), vec(long(), 0..2), vec(any::<i64>(), 0..4));
    (0..12_i32, numbers, lists, 0..2_i32).prop_map(
        |(kind, (key, to, number), (marks, cuts, gone, rows), head)| FlatTransfer {
            kind,
            key,
            to,
            number,
            marks,
            cuts,
            gone,
            rows,
            head,
            state: (kind > 6).then(|| Bytes::from_static(b"state")),
            agreed: (kind == 9).then(agreed).into_iter().collect(),
            ..FlatTransfer::default()
        },
    )
}

pub(super) fn agreed() -> agreement::Agree {
    let fact = agreement::Fact { subject: "array 'w'".to_owned(), value: "int8".to_owned() };
    agreement::Agree { step: 3, facts: vec![fact], customer: 1, ..agreement::Agree::default() }
}

pub(super) fn word() -> impl Strategy<Value = FlatWord> {
    use proptest::collection::vec;
    let route = (long(), route()).prop_map(|(key, route)| elastic::KeyRoute { key, route });
    // Those of all words, of topics that are known and are not, and unknown ones.
    let kind = prop_oneof![9 => 0..22_i32, 1 => 40..42_i32, 1 => 64..66_i32, 1 => 320..322_i32];
    (kind, long(), vec(number(), 0..4), vec(route, 0..4), words()).prop_map(
        |(kind, epoch, servers, routes, text)| FlatWord {
            kind,
            epoch,
            live: servers
                .iter()
                .map(|node| elastic::LiveWorker {
                    node: *node,
                    since: epoch,
                    customers: vec![0, 1],
                    incarnation: epoch ^ 1,
                })
                .collect(),
            node: servers.len() as i32,
            servers,
            number: routes.len() as u64,
            routes,
            told: text.clone().into(),
            text,
            overlay: (kind == 14).then(|| overlay(epoch)),
            exchange: (kind == 1).then(|| pieces::exchange(epoch)),
            chronicle: (kind == 7).then_some(chronicle::ChronicleQuestion {
                after_event: epoch,
                after_point: epoch ^ 1,
            }),
            stalled: (kind == 20)
                .then(|| elastic::StalledRound { round: 3, ..elastic::StalledRound::default() }),
            ..FlatWord::default()
        },
    )
}

pub(super) fn control() -> impl Strategy<Value = PbControl> {
    use proptest::collection::vec;
    use proptest::option::of;
    let own = (of(notice()), of(long()), of(word()), vec(setting(), 0..3));
    (0..6_i32, vec(node(), 0..4), of(number()), of(long()), own).prop_map(
        |(cmd, node, barrier_group, msg_sig, (notice, ack_sequence, word, settings))| PbControl {
            cmd,
            node,
            barrier_group,
            msg_sig,
            notice,
            ack_sequence,
            word,
            settings,
        },
    )
}

pub(super) fn meta() -> impl Strategy<Value = PbMeta> {
    use proptest::collection::vec;
    use proptest::option::of;
    let flag = || of(any::<bool>());
    let numbers = (of(number()), of(number()), of(number()), of(number()), of(number()));
    let flags = (flag(), flag(), flag(), flag());
    let rest = (of(vec(any::<u8>(), 0..200)), of(control()), vec(number(), 0..=DATA_TYPES_MAX));
    let devices = (of(number()), of(-1..3_i32), of(number()), of(number())).prop_map(
        |(source_kind, source_id, target_kind, target_id)| PbDevices {
            source_kind,
            source_id,
            target_kind,
            target_id,
        },
    );
    let ours = (of(part()), of(transfer()), of(devices), of(hop()), of(long()));
    let own = (of(long()), of(words()), of(number()), ours);
    (numbers, flags, rest, own).prop_map(|(numbers, flags, rest, own)| {
        let (head, app_id, timestamp, customer_id, priority) = numbers;
        let (request, push, simple_app, pull) = flags;
        let (body, control, data_type) = rest;
        let (sequence, error, data_size, (part, transfer, devices, hop, own_keys)) = own;
        PbMeta {
            head,
            body,
            control,
            request,
            push,
            simple_app,
            app_id,
            timestamp,
            data_type,
            customer_id,
            data_size,
            pull,
            priority,
            sequence,
            error,
            part,
            transfer,
            devices,
            hop,
            own_keys,
        }
    })
}

/// A message as our own code makes it: fields of another command are not set.
pub(super) fn valid_meta() -> impl Strategy<Value = Meta> {
    meta().prop_filter_map("it goes along a tree without a part", |meta| {
        let mut meta = read_meta(meta).ok()?;
        if let Some(control) = meta.control_mut() {
            if control.command != Command::Barrier {
                control.barrier_group = 0;
            }
            if control.command != Command::Ack {
                control.signature = 0;
            }
        }
        Some(meta)
    })
}
