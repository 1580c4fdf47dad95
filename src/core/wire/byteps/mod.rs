//! Metadata as bytedance's ps-lite writes it: C structs as they lie in the memory of an x86-64,
//! padding included (`src/meta.h` and `Van::PackMeta` of the ps-lite in BytePS's source archive
//! 0.2.5.post15; `docs/wire.md`).
//!
//! One frame is `RawMeta | body | int32 data types | RawNode of each node`, without alignment
//! between them. There is no magic number and no version. But the sizes must add up to the frame's,
//! which tells one generation from the other and both from anything else.
//!
//! What a field that nobody reads over this transport holds is chance at stock: `key`, `addr`,
//! `val_len`, `option` and `sid`. Ours writes the first key and zeros, and reads none of them.

mod layout;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::decode::{
    DATA_TYPES_MAX, DecodeError, META_BYTES_MAX, NODES_MAX, check_data_types, check_nodes,
};
use super::ids::EMPTY;
use super::message::{Command, Control, Device, Devices, Meta, Node, Role};
use super::payload::Payload;
use layout::{FieldOffsets, HOSTNAME};
pub(super) use layout::{GITHUB, PYPI};

/// The longest name of a host that fits into a node, in bytes; stock writes beyond its struct if it
/// is longer.
pub const HOSTNAME_BYTES: usize = HOSTNAME - 1;

// ---- writing ------------------------------------------------------------------------------------

pub(super) fn encode(layout: &FieldOffsets, meta: &Meta, data: &[Bytes], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + layout.meta_bytes, 0);
    let raw = &mut out[start..];
    let is_control = meta.control().is_some();
    // In data these count through the value that means "not set" elsewhere.
    let number = |value| if is_control { to_wire(layout, value) } else { value };
    put(raw, layout.head, number(meta.head));
    put(raw, layout.body_size, count(meta.body.len()));
    put(raw, layout.app_id, to_wire(layout, meta.app_id));
    put(raw, layout.timestamp, number(meta.timestamp));
    put(raw, layout.data_types, count(meta.data_type.len()));
    put(raw, layout.customer_id, number(meta.customer_id));
    raw[layout.request] = u8::from(meta.request);
    raw[layout.push] = u8::from(meta.push);
    raw[layout.simple_app] = u8::from(meta.simple_app);
    put(raw, layout.data_size, count(data.iter().map(Bytes::len).sum()));
    let key = data.first().and_then(|keys| keys.first_chunk::<8>()).copied();
    raw[layout.key..layout.key + 8].copy_from_slice(&key.unwrap_or_default());
    if let Some(devices) = layout.devices {
        let otherwise = if data.is_empty() { Devices::NONE } else { Devices::CPU };
        let Devices { source, target } = meta.devices.unwrap_or(otherwise);
        let fields = [source.kind, source.id, target.kind, target.id];
        for (field, value) in fields.into_iter().enumerate() {
            put(raw, devices + 4 * field, value);
        }
    }
    if let Some(control) = meta.control() {
        put(raw, layout.command, control.command as i32);
        put(raw, layout.nodes, count(control.nodes.len()));
        if matches!(control.command, Command::Barrier | Command::InstanceBarrier) {
            put(raw, layout.barrier_group, control.barrier_group);
        }
        if control.command == Command::Ack {
            let signature = control.signature.to_le_bytes();
            raw[layout.signature..layout.signature + 8].copy_from_slice(&signature);
        }
    }
    out.extend_from_slice(&meta.body);
    meta.data_type.iter().for_each(|kind| out.extend_from_slice(&kind.to_le_bytes()));
    for node in meta.control().into_iter().flat_map(|control| &control.nodes) {
        encode_node(layout, node, out);
    }
}

fn encode_node(layout: &FieldOffsets, node: &Node, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + layout.node_bytes, 0);
    let raw = &mut out[start..];
    put(raw, layout.role, node.role as i32);
    put(raw, layout.id, to_wire(layout, node.id));
    let name = node.hostname.as_bytes();
    let length = name.len().min(HOSTNAME_BYTES);
    raw[layout.hostname..layout.hostname + length].copy_from_slice(&name[..length]);
    // A port is what it is, also if it is the number that means "not set".
    put(raw, layout.port, node.port);
    if let Some(ports) = &layout.ports {
        put(raw, ports.count, 1);
        put(raw, ports.ports, node.port);
        // Of a node's own device only the scheduler says something there; the others' are 0.
        let is_scheduler = node.role == Role::Scheduler;
        put(raw, ports.kinds, if is_scheduler { Devices::CPU.source.kind } else { 0 });
    }
    raw[layout.is_recovery] = u8::from(node.is_recovery);
    put(raw, layout.node_customer, to_wire(layout, node.customer_id));
    put(raw, layout.aux_id, node.wished_rank.map_or(-1, |rank| rank as i32));
}

fn put(raw: &mut [u8], at: usize, value: i32) {
    raw[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Stock counts in an `int`. Of more than it can hold (2 GB of data) nobody reads the count.
fn count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

const fn to_wire(layout: &FieldOffsets, value: i32) -> i32 {
    if value == EMPTY { layout.empty } else { value }
}

// ---- reading ------------------------------------------------------------------------------------

pub(super) fn decode(layout: &FieldOffsets, bytes: &[u8]) -> Result<Meta, DecodeError> {
    if bytes.len() > META_BYTES_MAX {
        return Err(DecodeError::TooLong("the whole"));
    }
    let (raw, rest) = bytes.split_at_checked(layout.meta_bytes).ok_or(DecodeError::Truncated)?;
    let body = length(raw, layout.body_size)?;
    let types = length(raw, layout.data_types)?;
    let nodes = length(raw, layout.nodes)?;
    check_data_types(types)?;
    check_nodes(nodes)?;
    let wanted = body.saturating_add(4 * types + layout.node_bytes * nodes);
    if wanted != rest.len() {
        return Err(DecodeError::OtherSize(bytes.len(), layout.meta_bytes.saturating_add(wanted)));
    }
    let (body, rest) = rest.split_at(body);
    let (types, rest) = rest.split_at(4 * types);
    let control = control(layout, raw, rest)?;
    let number = |value| if control.is_some() { from_wire(layout, value) } else { value };
    let counts = !matches!(
        control.as_ref().map(|control| control.command),
        Some(Command::Ack | Command::Terminate)
    );
    let timestamp = int(raw, layout.timestamp);
    let push = raw[layout.push] != 0;
    let simple_app = raw[layout.simple_app] != 0;
    Ok(Meta {
        head: number(int(raw, layout.head)),
        app_id: from_wire(layout, int(raw, layout.app_id)),
        customer_id: number(int(raw, layout.customer_id)),
        timestamp: match (counts, control.is_some()) {
            // A number that nobody counts to is written as the one that is not set, which may be
            // counted to.
            (true, true) if timestamp == EMPTY => layout.empty,
            (true, _) => timestamp,
            (false, _) => from_wire(layout, timestamp),
        },
        request: raw[layout.request] != 0,
        push,
        // There is no flag for it: what is no push is a pull.
        pull: control.is_none() && !simple_app && !push,
        simple_app,
        body: Bytes::copy_from_slice(body),
        data_type: types.chunks_exact(4).map(|kind| int(kind, 0)).collect(),
        devices: layout.devices.and_then(|at| devices(raw, at).if_told()),
        payload: control.map_or(Payload::Plain, Payload::from),
        ..Meta::default()
    })
}

fn devices(raw: &[u8], at: usize) -> Devices {
    let device = |at| Device { kind: int(raw, at), id: int(raw, at + 4) };
    Devices { source: device(at), target: device(at + 8) }
}

/// A control part; none if its command is 0 (EMPTY).
fn control(
    layout: &FieldOffsets,
    raw: &[u8],
    nodes: &[u8],
) -> Result<Option<Control>, DecodeError> {
    let number = int(raw, layout.command);
    if number == 0 {
        return Ok(None);
    }
    let command = Command::from_wire(number).ok_or(DecodeError::UnknownCommand(number))?;
    let mut control = Control::new(command);
    match command {
        Command::Barrier | Command::InstanceBarrier => {
            control.barrier_group = int(raw, layout.barrier_group);
        }
        Command::Ack => control.signature = u64::from_le_bytes(chunk(raw, layout.signature)),
        _ => {}
    }
    let each = nodes.chunks_exact(layout.node_bytes).map(|raw| decode_node(layout, raw));
    control.nodes = each.collect::<Result<_, _>>()?;
    Ok(Some(control))
}

fn decode_node(layout: &FieldOffsets, raw: &[u8]) -> Result<Node, DecodeError> {
    let number = int(raw, layout.role);
    let field = &raw[layout.hostname..layout.hostname + HOSTNAME];
    let end =
        field.iter().position(|byte| *byte == 0).ok_or(DecodeError::TooLong("a host name"))?;
    let hostname = std::str::from_utf8(&field[..end]).map_err(|_| DecodeError::HostName)?;
    Ok(Node {
        role: Role::from_wire(number).ok_or(DecodeError::UnknownRole(number))?,
        id: from_wire(layout, int(raw, layout.id)),
        customer_id: from_wire(layout, int(raw, layout.node_customer)),
        hostname: hostname.to_owned(),
        port: int(raw, layout.port),
        is_recovery: raw[layout.is_recovery] != 0,
        abilities: 0,
        incarnation: 0,
        native_port: 0,
        // -1, and at nodes that have not set it, anything.
        wished_rank: u32::try_from(int(raw, layout.aux_id)).ok(),
        launched_as: None,
    })
}

/// A count of the sender's; its caller holds it against what is there.
fn length(raw: &[u8], at: usize) -> Result<usize, DecodeError> {
    usize::try_from(int(raw, at)).map_err(|_| DecodeError::Truncated)
}

fn int(raw: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(chunk(raw, at))
}

/// `N` bytes at a place of the layout; zeros if there are fewer, which the callers' checks exclude.
fn chunk<const N: usize>(raw: &[u8], at: usize) -> [u8; N] {
    raw.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

const fn from_wire(layout: &FieldOffsets, value: i32) -> i32 {
    if value == layout.empty { EMPTY } else { value }
}

// The products in `decode` are far from the end of a usize.
const _: () = assert!(NODES_MAX < 1 << 20 && DATA_TYPES_MAX < 1 << 20);
