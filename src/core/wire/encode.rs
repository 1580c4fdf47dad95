//! Typed metadata to bytes: the protobuf `PBMeta`, field by field in ascending number, with
//! stock's presence rules (van.cc:477-515). Written by hand because it runs once per message;
//! a test holds it equal to prost.

use super::elastic;
use super::flat_transfer::FlatTransfer;
use super::flat_word::FlatWord;
use super::ids::EMPTY;
use super::message::{Command, Control, Devices, Meta, Node, Notice, Setting};

/// Appends the bytes of `meta` to `out`.
pub fn encode_meta(meta: &Meta, out: &mut Vec<u8>) {
    int32(out, 1, meta.head);
    if !meta.body.is_empty() {
        bytes(out, 2, &meta.body);
    }
    if let Some(control) = meta.control() {
        nested(out, 3, |out| encode_control(control, out));
    }
    flag(out, 4, meta.request);
    flag(out, 5, meta.push);
    flag(out, 6, meta.simple_app);
    if meta.app_id != EMPTY {
        int32(out, 7, meta.app_id);
    }
    if meta.timestamp != EMPTY {
        int32(out, 8, meta.timestamp);
    }
    if !meta.data_type.is_empty() {
        nested(out, 9, |out| {
            meta.data_type.iter().for_each(|kind| varint(out, sign_extend(*kind)))
        });
    }
    int32(out, 10, meta.customer_id);
    flag(out, 12, meta.pull);
    int32(out, 13, meta.priority);
    if meta.sequence != 0 {
        uint64(out, 100, meta.sequence);
    }
    if !meta.error.is_empty() {
        bytes(out, 101, meta.error.as_bytes());
    }
    if let Some(ask) = meta.ask() {
        tag(out, 102, 2);
        elastic::write(ask, out);
    }
    if let Some(reply) = meta.reply() {
        tag(out, 102, 2);
        elastic::write(reply, out);
    }
    if let Some(transfer) = meta.transfer() {
        tag(out, 103, 2);
        elastic::write(&FlatTransfer::from(transfer), out);
    }
    if let Some(devices) = &meta.devices {
        nested(out, 104, |out| encode_devices(devices, out));
    }
    if let Some(hop) = meta.hop() {
        tag(out, 105, 2);
        elastic::write(hop, out);
    }
    if meta.own_keys {
        uint64(out, 110, 1);
    }
}

fn encode_devices(devices: &Devices, out: &mut Vec<u8>) {
    int32(out, 1, devices.source.kind);
    int32(out, 2, devices.source.id);
    int32(out, 3, devices.target.kind);
    int32(out, 4, devices.target.id);
}

fn encode_control(control: &Control, out: &mut Vec<u8>) {
    int32(out, 1, control.command as i32);
    for node in &control.nodes {
        nested(out, 2, |out| encode_node(node, out));
    }
    if matches!(control.command, Command::Barrier | Command::InstanceBarrier) {
        int32(out, 3, control.barrier_group);
    }
    if control.command == Command::Ack {
        uint64(out, 4, control.signature);
    }
    if let Some(notice) = &control.notice {
        nested(out, 100, |out| encode_notice(notice, out));
    }
    if control.ack_sequence != 0 {
        uint64(out, 101, control.ack_sequence);
    }
    if let Some(word) = &control.word {
        tag(out, 102, 2);
        elastic::write(&FlatWord::from(&**word), out);
    }
    for setting in &control.settings {
        nested(out, 110, |out| encode_setting(setting, out));
    }
}

fn encode_setting(setting: &Setting, out: &mut Vec<u8>) {
    bytes(out, 1, setting.name.as_bytes());
    bytes(out, 2, setting.value.as_bytes());
}

fn encode_node(node: &Node, out: &mut Vec<u8>) {
    int32(out, 1, node.role as i32);
    int32(out, 2, node.id);
    bytes(out, 3, node.hostname.as_bytes());
    int32(out, 4, node.port);
    flag(out, 5, node.is_recovery);
    int32(out, 10, node.customer_id);
    if node.abilities != 0 {
        uint64(out, 100, node.abilities);
    }
    if node.incarnation != 0 {
        uint64(out, 101, node.incarnation);
    }
    if node.native_port != 0 {
        uint64(out, 102, u64::from(node.native_port));
    }
    if let Some(rank) = node.wished_rank {
        uint64(out, 103, u64::from(rank));
    }
    if let Some(number) = node.launched_as {
        uint64(out, 104, u64::from(number));
    }
}

fn encode_notice(notice: &Notice, out: &mut Vec<u8>) {
    int32(out, 1, notice.kind as i32);
    int32(out, 2, notice.node);
    int32(out, 3, notice.customer);
    bytes(out, 4, notice.text.as_bytes());
    if notice.incarnation != 0 {
        uint64(out, 5, notice.incarnation);
    }
}

/// protobuf writes a negative int32 as the 64-bit number of the same value.
const fn sign_extend(value: i32) -> u64 {
    value as i64 as u64
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn tag(out: &mut Vec<u8>, field: u32, kind: u32) {
    varint(out, u64::from(field << 3 | kind));
}

fn int32(out: &mut Vec<u8>, field: u32, value: i32) {
    tag(out, field, 0);
    varint(out, sign_extend(value));
}

fn uint64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, 0);
    varint(out, value);
}

fn flag(out: &mut Vec<u8>, field: u32, value: bool) {
    tag(out, field, 0);
    out.push(u8::from(value));
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Writes a nested message behind its length, which is known only afterwards: one byte is kept
/// for it and the content moves up in the rare case that more are needed.
fn nested(out: &mut Vec<u8>, field: u32, body: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, 2);
    let at = out.len();
    out.push(0);
    body(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - at - 1) as u64);
    out.splice(at..=at, length);
}
