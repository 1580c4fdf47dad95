//! Where the fields of bytedance's structs are: offsets in bytes, as gcc lays them out on x86-64.
//! Data alone.

/// Bytes of `hostname` in a node.
pub(super) const HOSTNAME: usize = 64;

/// The offsets of one generation.
#[derive(Debug)]
pub(crate) struct FieldOffsets {
    /// `Meta::kEmpty`, `Node::kEmpty` (customer.cc).
    pub(super) empty: i32,
    /// `sizeof(RawMeta)`.
    pub(super) meta_bytes: usize,
    pub(super) head: usize,
    pub(super) body_size: usize,
    pub(super) command: usize,
    pub(super) nodes: usize,
    pub(super) barrier_group: usize,
    pub(super) signature: usize,
    pub(super) request: usize,
    pub(super) app_id: usize,
    pub(super) timestamp: usize,
    pub(super) data_types: usize,
    /// Kind and number of the sending device, then of the receiving one.
    pub(super) devices: Option<usize>,
    pub(super) customer_id: usize,
    pub(super) push: usize,
    pub(super) simple_app: usize,
    pub(super) data_size: usize,
    pub(super) key: usize,
    /// `sizeof(RawNode)`.
    pub(super) node_bytes: usize,
    pub(super) role: usize,
    pub(super) id: usize,
    pub(super) hostname: usize,
    pub(super) ports: Option<Ports>,
    pub(super) port: usize,
    pub(super) is_recovery: usize,
    pub(super) node_customer: usize,
    pub(super) aux_id: usize,
}

/// A node that may have several ports: arrays of 32.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) count: usize,
    pub(super) ports: usize,
    pub(super) kinds: usize,
}

/// BytePS 0.2.5.post15 of PyPI.
pub(crate) const PYPI: FieldOffsets = FieldOffsets {
    empty: i32::MAX,
    meta_bytes: 88,
    head: 0,
    body_size: 4,
    command: 8,
    nodes: 12,
    barrier_group: 16,
    signature: 24,
    request: 32,
    app_id: 36,
    timestamp: 40,
    data_types: 44,
    devices: None,
    customer_id: 48,
    push: 52,
    simple_app: 53,
    data_size: 56,
    key: 64,
    node_bytes: 168,
    role: 0,
    id: 4,
    hostname: 8,
    ports: None,
    port: 72,
    is_recovery: 76,
    node_customer: 80,
    aux_id: 160,
};

/// BytePS's repository since 2021.
pub(crate) const GITHUB: FieldOffsets = FieldOffsets {
    empty: i16::MAX as i32,
    meta_bytes: 112,
    devices: Some(48),
    customer_id: 64,
    push: 68,
    simple_app: 69,
    data_size: 72,
    key: 80,
    node_bytes: 552,
    ports: Some(Ports { count: 72, ports: 76, kinds: 208 }),
    port: 204,
    is_recovery: 464,
    node_customer: 468,
    aux_id: 544,
    ..PYPI
};
