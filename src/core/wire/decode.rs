//! Bytes to typed metadata: a reader of protobuf's `PBMeta` that trusts nothing. Unknown fields are
//! skipped, absent ones get stock's values (van.cc:517-557), and every length has a limit.

use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use super::flat_transfer::FlatTransfer;
use super::flat_word::FlatWord;
use super::ids::EMPTY;
use super::message::{
    Command, Control, Device, Devices, Meta, Node, Notice, NoticeKind, Role, Setting,
};
use super::payload::FlatPayload;

/// The longest metadata that is looked at, in bytes.
pub const META_BYTES_MAX: usize = 16 << 20;
/// The most nodes in one list.
pub const NODES_MAX: usize = 200_000;
/// The longest host name, in bytes.
pub const HOSTNAME_BYTES_MAX: usize = 255;
/// The longest text of a notice or an error, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The most settings in a registration.
pub const SETTINGS_MAX: usize = 64;
/// The longest name, or value, of a setting, in bytes.
pub const SETTING_BYTES_MAX: usize = 255;
/// The most data types in one message.
pub const DATA_TYPES_MAX: usize = 16;

/// Why bytes are no metadata.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("the metadata is cut off")]
    Truncated,
    /// A field has a wire type that it must not have.
    #[error("field {0} of the metadata has wire type {1}")]
    WireType(u32, u32),
    /// A number has more than ten bytes, or a field no number.
    #[error("the metadata is no protobuf")]
    Malformed,
    /// A length is above its limit.
    #[error("{0} of the metadata is too long")]
    TooLong(&'static str),
    /// A field that must be there is not.
    #[error("{0} is missing in the metadata")]
    Missing(&'static str),
    /// A control command that nobody knows.
    #[error("unknown control command {0}")]
    UnknownCommand(i32),
    /// A role that nobody knows.
    #[error("unknown role {0}")]
    UnknownRole(i32),
    /// C structs whose counts do not add up to what came.
    #[error("the metadata has {0} bytes, and {1} by its own counts")]
    OtherSize(usize, usize),
    /// A host name that is no text.
    #[error("a host name of the metadata is no text")]
    HostName,
}

type Result<T> = std::result::Result<T, DecodeError>;

/// Reads metadata. `sender` and `recver` are not in the bytes and stay [`EMPTY`].
///
/// # Errors
/// The bytes are not what a node sends; nothing was changed by them.
pub fn decode_meta(bytes: &[u8]) -> Result<Meta> {
    if bytes.len() > META_BYTES_MAX {
        return Err(DecodeError::TooLong("the whole"));
    }
    let mut meta = Meta { head: 0, customer_id: 0, ..Meta::default() };
    let mut flat = FlatPayload::default();
    let mut reader = FieldReader(bytes);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => meta.head = field.int32()?,
            2 => meta.body = Bytes::copy_from_slice(field.bytes()?),
            3 => flat.control = control(field.bytes()?)?.map(Box::new),
            4 => meta.request = field.flag()?,
            5 => meta.push = field.flag()?,
            6 => meta.simple_app = field.flag()?,
            7 => meta.app_id = field.int32()?,
            8 => meta.timestamp = field.int32()?,
            9 => data_types(&field, &mut meta.data_type)?,
            10 => meta.customer_id = field.int32()?,
            12 => meta.pull = field.flag()?,
            13 => meta.priority = field.int32()?,
            100 => meta.sequence = field.varint()?,
            101 => meta.error = text(field.bytes()?, TEXT_BYTES_MAX, "the error")?,
            102 => flat.part = Some(field.bytes()?),
            103 => flat.transfer = Some(Box::new(elastic::<FlatTransfer>(field.bytes()?)?.into())),
            104 => meta.devices = devices(field.bytes()?)?.if_told(),
            105 => flat.hop = Some(Box::new(elastic(field.bytes()?)?)),
            110 => meta.own_keys = field.varint()? != 0,
            _ => {}
        }
    }
    meta.payload = flat.read(meta.request)?;
    Ok(meta)
}

fn data_types(field: &Field<'_>, out: &mut SmallVec<[i32; 4]>) -> Result<()> {
    let FieldValue::Bytes(packed) = field.value else {
        out.push(field.int32()?);
        return check_data_types(out.len());
    };
    let mut reader = FieldReader(packed);
    while !reader.0.is_empty() {
        out.push(reader.varint()? as i32);
        check_data_types(out.len())?;
    }
    Ok(())
}

fn devices(bytes: &[u8]) -> Result<Devices> {
    let mut numbers = [0; 4];
    let mut reader = FieldReader(bytes);
    while let Some(field) = reader.field()? {
        if let number @ 1..=4 = field.number {
            numbers[number as usize - 1] = field.int32()?;
        }
    }
    let [kind, id, target_kind, target_id] = numbers;
    let target = Device { kind: target_kind, id: target_id };
    Ok(Devices { source: Device { kind, id }, target })
}

/// No message has more data types.
pub(super) const fn check_data_types(count: usize) -> Result<()> {
    if count > DATA_TYPES_MAX { Err(DecodeError::TooLong("the data types")) } else { Ok(()) }
}

/// No list has more nodes.
pub(super) const fn check_nodes(count: usize) -> Result<()> {
    if count > NODES_MAX { Err(DecodeError::TooLong("the list of nodes")) } else { Ok(()) }
}

/// No registration says more settings.
const fn check_settings(count: usize) -> Result<()> {
    if count > SETTINGS_MAX { Err(DecodeError::TooLong("the list of settings")) } else { Ok(()) }
}

/// A control part; none if its command is 0 (EMPTY).
fn control(bytes: &[u8]) -> Result<Option<Control>> {
    let mut number = None;
    let mut control = Control::new(Command::Terminate);
    let mut reader = FieldReader(bytes);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => number = Some(field.int32()?),
            2 => {
                check_nodes(control.nodes.len() + 1)?;
                control.nodes.push(node(field.bytes()?)?);
            }
            3 => control.barrier_group = field.int32()?,
            4 => control.signature = field.varint()?,
            100 => control.notice = notice(field.bytes()?)?,
            101 => control.ack_sequence = field.varint()?,
            102 => control.word = Some(Box::new(elastic::<FlatWord>(field.bytes()?)?.into())),
            110 => {
                check_settings(control.settings.len() + 1)?;
                control.settings.push(setting(field.bytes()?)?);
            }
            _ => {}
        }
    }
    match number {
        None => Err(DecodeError::Missing("the control command")),
        Some(0) => Ok(None),
        Some(number) => {
            control.command =
                Command::from_wire(number).ok_or(DecodeError::UnknownCommand(number))?;
            Ok(Some(control))
        }
    }
}

fn node(bytes: &[u8]) -> Result<Node> {
    let mut role = None;
    let mut node = Node {
        role: Role::Server,
        id: EMPTY,
        customer_id: 0,
        hostname: String::new(),
        port: 0,
        is_recovery: false,
        abilities: 0,
        incarnation: 0,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    };
    let mut reader = FieldReader(bytes);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => {
                let number = field.int32()?;
                role = Some(Role::from_wire(number).ok_or(DecodeError::UnknownRole(number))?);
            }
            2 => node.id = field.int32()?,
            3 => node.hostname = text(field.bytes()?, HOSTNAME_BYTES_MAX, "a host name")?,
            4 => node.port = field.int32()?,
            5 => node.is_recovery = field.flag()?,
            10 => node.customer_id = field.int32()?,
            100 => node.abilities = field.varint()?,
            101 => node.incarnation = field.varint()?,
            // Out of range: as if it had none.
            102 => node.native_port = u16::try_from(field.varint()?).unwrap_or(0),
            103 => node.wished_rank = u32::try_from(field.varint()?).ok(),
            104 => node.launched_as = u32::try_from(field.varint()?).ok(),
            _ => {}
        }
    }
    node.role = role.ok_or(DecodeError::Missing("the role of a node"))?;
    Ok(node)
}

/// A notice; none if a later version sends a kind that this one does not know.
fn notice(bytes: &[u8]) -> Result<Option<Notice>> {
    let mut kind = 0;
    let (mut about, mut customer, mut words) = (EMPTY, EMPTY, String::new());
    let mut incarnation = 0;
    let mut reader = FieldReader(bytes);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => kind = field.int32()?,
            2 => about = field.int32()?,
            3 => customer = field.int32()?,
            4 => words = text(field.bytes()?, TEXT_BYTES_MAX, "a notice")?,
            5 => incarnation = field.varint()?,
            _ => {}
        }
    }
    let notice = |kind| Notice { kind, node: about, customer, incarnation, text: words };
    Ok(NoticeKind::from_wire(kind).map(notice))
}

fn setting(bytes: &[u8]) -> Result<Setting> {
    let mut setting = Setting { name: String::new(), value: String::new() };
    let mut reader = FieldReader(bytes);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => setting.name = text(field.bytes()?, SETTING_BYTES_MAX, "the name of a setting")?,
            2 => setting.value = text(field.bytes()?, SETTING_BYTES_MAX, "a setting")?,
            _ => {}
        }
    }
    Ok(setting)
}

/// What our own nodes say, in prost.
pub(super) fn elastic<T: prost::Message + Default>(bytes: &[u8]) -> Result<T> {
    super::elastic::read(bytes).ok_or(DecodeError::Malformed)
}

fn text(bytes: &[u8], limit: usize, what: &'static str) -> Result<String> {
    if bytes.len() > limit {
        return Err(DecodeError::TooLong(what));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// What is left to read.
struct FieldReader<'a>(&'a [u8]);

/// One field.
struct Field<'a> {
    number: u32,
    value: FieldValue<'a>,
}

/// The content of a field.
enum FieldValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Fixed 32 or 64 bits: no field of ours, so only skipped.
    Fixed(u32),
}

impl<'a> FieldReader<'a> {
    fn field(&mut self) -> Result<Option<Field<'a>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| DecodeError::Malformed)?;
        if number == 0 {
            return Err(DecodeError::Malformed);
        }
        let kind = (tag & 7) as u32;
        let value = match kind {
            0 => FieldValue::Varint(self.varint()?),
            2 => {
                let length = self.varint()?;
                FieldValue::Bytes(
                    self.take(usize::try_from(length).map_err(|_| DecodeError::Truncated)?)?,
                )
            }
            1 => self.take(8).map(|_| FieldValue::Fixed(1))?,
            5 => self.take(4).map(|_| FieldValue::Fixed(5))?,
            _ => return Err(DecodeError::WireType(number, kind)),
        };
        Ok(Some(Field { number, value }))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift * 7).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed)
    }
}

impl<'a> Field<'a> {
    const fn varint(&self) -> Result<u64> {
        match self.value {
            FieldValue::Varint(value) => Ok(value),
            FieldValue::Bytes(_) => Err(DecodeError::WireType(self.number, 2)),
            FieldValue::Fixed(kind) => Err(DecodeError::WireType(self.number, kind)),
        }
    }

    /// protobuf keeps the low 32 bits, as every implementation does.
    fn int32(&self) -> Result<i32> {
        self.varint().map(|value| value as i32)
    }

    fn flag(&self) -> Result<bool> {
        self.varint().map(|value| value != 0)
    }

    const fn bytes(&self) -> Result<&'a [u8]> {
        match self.value {
            FieldValue::Bytes(bytes) => Ok(bytes),
            FieldValue::Varint(_) => Err(DecodeError::WireType(self.number, 0)),
            FieldValue::Fixed(kind) => Err(DecodeError::WireType(self.number, kind)),
        }
    }
}
