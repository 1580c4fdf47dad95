//! The typed form of everything that travels between two nodes.
//!
//! Plain data: no I/O, no encoding (see [`super::encode`] and [`super::decode`]), no policy. Every
//! integer keeps the width and the "unset" value of the wire, because the values of stock peers
//! must survive a round trip.

use std::net::IpAddr;

use super::ids::{EMPTY, NodeId, id_to_rank};
use super::payload::Payload;
use super::word::Word;
use bytes::Bytes;
use smallvec::SmallVec;

/// What a node does in the job. The numbers are those of the wire (message.h:69).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum Role {
    /// Holds parameters.
    Server = 0,
    /// Computes gradients.
    Worker = 1,
    /// Introduces the others to each other.
    Scheduler = 2,
}

impl Role {
    /// The role behind a number of the wire.
    #[must_use]
    pub const fn from_wire(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::Server),
            1 => Some(Self::Worker),
            2 => Some(Self::Scheduler),
            _ => None,
        }
    }

    /// The name that `DMLC_ROLE` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
        }
    }
}

/// What a control message asks for. The numbers are those of the wire (message.h:123).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Command {
    /// End of the receiving thread; a node sends it to itself only.
    Terminate = 1,
    /// A registration, or the scheduler's list of nodes.
    AddNode = 2,
    /// Entry into a barrier, or its release.
    Barrier = 3,
    /// Receipt of one message, when resending is on.
    Ack = 4,
    /// A sign of life; also the carrier of our own notices, which stock peers ignore.
    Heartbeat = 5,
    /// BytePS: the barrier of every node where a process has several ([`Self::Barrier`]: one of
    /// each process). The commands between are for transports that need hardware.
    InstanceBarrier = 9,
}

impl Command {
    /// The command behind a number of the wire; `None` for 0 (no control) and unknown ones.
    #[must_use]
    pub const fn from_wire(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Terminate),
            2 => Some(Self::AddNode),
            3 => Some(Self::Barrier),
            4 => Some(Self::Ack),
            5 => Some(Self::Heartbeat),
            9 => Some(Self::InstanceBarrier),
            _ => None,
        }
    }
}

/// Element types as stock numbers them (message.h:13-59). Receivers never check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DataType {
    /// `int32_t`: the lens of a message.
    Int32 = 3,
    /// `uint64_t`: the keys of a message.
    UInt64 = 8,
    /// `float`.
    Float = 9,
    /// `double`.
    Double = 10,
    /// Everything else; `char`, and so all of MXNet's values, is here.
    Other = 11,
}

/// Where an array lies: a kind of device (0 unknown, 1 CPU, 2 GPU) and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The kind, as BytePS's ps-lite numbers them.
    pub kind: i32,
    /// Which of them; -1: none.
    pub id: i32,
}

/// Where the values of a message lie at its sender, and where its sender wants them to lie at its
/// receiver. For applications: no byte moves to a device by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Devices {
    /// At the sender.
    pub source: Device,
    /// At the receiver.
    pub target: Device,
}

impl Devices {
    /// What an array has of which nothing else was said.
    pub const CPU: Self = Self::both(Device { kind: 1, id: 0 });
    /// What a message without arrays has.
    pub const NONE: Self = Self::both(Device { kind: 0, id: -1 });

    const fn both(device: Device) -> Self {
        Self { source: device, target: device }
    }

    /// Unless they say no more than a message without them.
    #[must_use]
    pub fn if_told(self) -> Option<Self> {
        (self != Self::CPU && self != Self::NONE).then_some(self)
    }
}

/// Abilities that a node of ours advertises (extension field 100 of `PBNode`); stock peers
/// neither send nor keep them, so 0 means stock.
pub mod ability {
    /// The node is ours: it understands notices, barrier groups and failed responses.
    pub const PSLITE: u64 = 1;
    /// The node sends signs of life to the scheduler: its silence means something from the start.
    pub const SIGNS_OF_LIFE: u64 = 2;
    /// The node follows pieces that move (`docs/elastic.md`).
    pub const ELASTIC: u64 = 4;
    /// A server that registers to join a job that runs.
    pub const JOINS: u64 = 8;
    /// A scheduler that keeps a journal: if it is lost, another one may go on with the job.
    pub const JOURNAL: u64 = 16;
    /// The node goes on without workers that die, and takes them back (`docs/elastic.md`,
    /// "Workers").
    pub const ELASTIC_WORKERS: u64 = 32;
    /// The node sums what goes through it, and passes values on (`docs/trees.md`).
    pub const TREES: u64 = 64;
    /// The node can train while deltas travel (`docs/nbsync.md`).
    pub const EXCHANGES: u64 = 1 << 7;
    /// A server whose store keeps the keys of a customer apart that has its own; a worker that puts
    /// such keys where they lie (`docs/design.md`, "Customers with keys of their own").
    pub const OWN_KEYS: u64 = 1 << 10;
    /// A scheduler that shows what all nodes have counted: they tell it (`docs/metrics.md`).
    pub const SHOWS_METRICS: u64 = 1 << 11;
}

/// One node as the wire describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it does.
    pub role: Role,
    /// Its id, or [`EMPTY`] before the scheduler gave it one.
    pub id: NodeId,
    /// The customer that registers; meaningful in a registration only.
    pub customer_id: i32,
    /// Where others connect to.
    pub hostname: String,
    /// The port there.
    pub port: i32,
    /// The node took the place of one that died.
    pub is_recovery: bool,
    /// Extension 100: see [`ability`]; 0 for a stock node.
    pub abilities: u64,
    /// Extension 101: drawn anew by each process, so that a restart on the same address shows;
    /// 0 for a stock node.
    pub incarnation: u64,
    /// Extension 102: the port of the native data plane; 0 if it has none.
    pub native_port: u16,
    /// Extension 103, and BytePS's `aux_id`: the rank that it wants, in a registration.
    pub wished_rank: Option<u32>,
    /// Extension 104: the number by which its launcher knows it among the nodes of its role, in a
    /// registration. Ranks follow these numbers if they can.
    pub launched_as: Option<u32>,
}

impl Node {
    /// True if this node advertises that it is ours.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        self.abilities & ability::PSLITE != 0
    }

    /// True if this node advertises that it sends signs of life.
    #[must_use]
    pub const fn sends_signs_of_life(&self) -> bool {
        self.is_ours() && self.abilities & ability::SIGNS_OF_LIFE != 0
    }

    /// True if this node follows pieces that move.
    #[must_use]
    pub const fn is_elastic(&self) -> bool {
        self.is_ours() && self.abilities & ability::ELASTIC != 0
    }

    /// True if this node goes on without workers that die, and takes them back.
    #[must_use]
    pub const fn has_elastic_workers(&self) -> bool {
        self.is_elastic() && self.abilities & ability::ELASTIC_WORKERS != 0
    }

    /// True if this node can train while deltas travel.
    #[must_use]
    pub const fn can_exchange(&self) -> bool {
        self.is_elastic() && self.abilities & ability::EXCHANGES != 0
    }

    /// True if this node keeps apart the keys of customers that have their own.
    #[must_use]
    pub const fn keeps_keys_apart(&self) -> bool {
        self.is_ours() && self.abilities & ability::OWN_KEYS != 0
    }

    /// True if this scheduler wants to be told what others count.
    #[must_use]
    pub const fn shows_metrics(&self) -> bool {
        self.is_ours() && self.abilities & ability::SHOWS_METRICS != 0
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.hostname, self.port)
    }

    /// The name people see in logs and errors: `worker 0 (id 9, 10.0.0.3:4711)`, with the rank that
    /// the application knows.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.id == EMPTY {
            format!("{} without id ({})", self.role.name(), self.address())
        } else if self.role == Role::Scheduler {
            format!("scheduler ({})", self.address())
        } else {
            let (role, rank) = (self.role.name(), id_to_rank(self.id));
            format!("{role} {rank} (id {}, {})", self.id, self.address())
        }
    }
}

/// What a notice says. Notices ride in extension 100 of `PBControl` inside a heartbeat, so that a
/// stock peer sees a heartbeat and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum NoticeKind {
    /// Scheduler to those who wait: who is here and what is missing (`text`).
    Progress = 1,
    /// A node was lost and the job cannot go on: `node` is the lost one, `text` the reason.
    JobFailed = 2,
    /// The sender's customer `customer` sends no more requests.
    Leaving = 3,
    /// A node reports to the scheduler that it lost `node`.
    NodeLost = 4,
}

impl NoticeKind {
    /// The kind behind a number of the wire.
    #[must_use]
    pub const fn from_wire(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Progress),
            2 => Some(Self::JobFailed),
            3 => Some(Self::Leaving),
            4 => Some(Self::NodeLost),
            _ => None,
        }
    }
}

/// A word between our own nodes; see [`NoticeKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it says.
    pub kind: NoticeKind,
    /// The node it is about, or [`EMPTY`].
    pub node: NodeId,
    /// The customer it is about, or [`EMPTY`].
    pub customer: i32,
    /// The process of the node that it is about ([`Node::incarnation`]); 0: whichever has the id
    /// now.
    pub incarnation: u64,
    /// For people.
    pub text: String,
}

/// A setting that nodes of a job must have alike, as one of them was told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The variable's name, for people too.
    pub name: String,
    /// What it means at that node; the default if it is not set.
    pub value: String,
}

impl Setting {
    /// That value of that setting.
    #[must_use]
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The network address.
    pub address: IpAddr,
    /// It is one of the receiver's own host.
    pub is_here: bool,
}

/// The control part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// What is asked for.
    pub command: Command,
    /// The nodes of a registration, of a list, or the sender of a heartbeat.
    pub nodes: Vec<Node>,
    /// The group of a barrier. Stock sends uninitialised memory here in the release.
    pub barrier_group: i32,
    /// The signature that an ACK confirms (resender.h:95).
    pub signature: u64,
    /// Extension 100.
    pub notice: Option<Notice>,
    /// Extension 101: the sequence number that an ACK between our nodes confirms; 0 if none.
    pub ack_sequence: u64,
    /// Extension 102: what the scheduler says to a node, or that to it.
    pub word: Option<Box<Word>>,
    /// Extension 110: in a registration: what its sender was told of settings that nodes of a job
    /// must have alike.
    pub settings: Vec<Setting>,
    /// Not in the bytes: where it came from, as its receiver's transport says; none if that says
    /// nothing.
    pub origin: Option<Origin>,
}

impl Control {
    /// A control part with nothing but its command.
    #[must_use]
    pub const fn new(command: Command) -> Self {
        Self {
            command,
            nodes: Vec::new(),
            barrier_group: 0,
            signature: 0,
            notice: None,
            ack_sequence: 0,
            word: None,
            settings: Vec::new(),
            origin: None,
        }
    }

    /// A heartbeat that says something.
    #[must_use]
    pub fn saying(word: Word) -> Self {
        Self { word: Some(Box::new(word)), ..Self::new(Command::Heartbeat) }
    }
}

/// Everything about a message but its data frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The application's command; echoed in responses. [`EMPTY`] in control messages.
    pub head: i32,
    /// The application, or [`EMPTY`].
    pub app_id: i32,
    /// The customer that asks, echoed in responses; [`EMPTY`] where none is meant.
    pub customer_id: i32,
    /// The index of the request at its customer, or of the message at its van; or [`EMPTY`].
    pub timestamp: i32,
    /// Who sent it: not in the bytes; known from the connection. [`EMPTY`] if anonymous.
    pub sender: NodeId,
    /// Who is to receive it: not in the bytes.
    pub recver: NodeId,
    /// Not in the bytes: it may overtake what waits for the same receiver.
    pub overtakes: bool,
    /// Not in the bytes: its sender must not wait for room in the connection. Where there is none,
    /// it is sent later.
    pub background: bool,
    /// A request, not a response.
    pub request: bool,
    /// It carries values to the server (or answers such a one).
    pub push: bool,
    /// It asks for values (or brings them).
    pub pull: bool,
    /// It belongs to a SimpleApp.
    pub simple_app: bool,
    /// The text of a SimpleApp message.
    pub body: Bytes,
    /// One [`DataType`] number for each data frame.
    pub data_type: SmallVec<[i32; 4]>,
    /// Not in the bytes: the number that the frame of values gets when data are added.
    pub value_type: i32,
    /// Extension 104, and in BytePS's later generation: where the values lie, if that is anywhere
    /// but at CPU 0.
    pub devices: Option<Devices>,
    /// What it is, beyond what stock says.
    pub payload: Payload,
    /// Higher goes first.
    pub priority: i32,
    /// Extension 100: number of this message on its channel, from 1; 0 if not numbered.
    pub sequence: u64,
    /// Extension 101: the request failed at the server, with this reason. Empty if it did not.
    pub error: String,
    /// Extension 110: the keys of its customer are its own, and lie apart from those of others
    /// (`values::spaces`).
    pub own_keys: bool,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            head: EMPTY,
            app_id: EMPTY,
            customer_id: EMPTY,
            timestamp: EMPTY,
            sender: EMPTY,
            recver: EMPTY,
            overtakes: false,
            background: false,
            request: false,
            push: false,
            pull: false,
            simple_app: false,
            body: Bytes::new(),
            data_type: SmallVec::new(),
            value_type: DataType::Other as i32,
            devices: None,
            payload: Payload::Plain,
            priority: 0,
            sequence: 0,
            error: String::new(),
            own_keys: false,
        }
    }
}

/// The data frames of a message; keys, values and, if any, lens.
pub type Frames = SmallVec<[Bytes; 3]>;

/// A message: its metadata and its data frames. Frames are reference counted; cloning a message
/// copies no payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Everything but the data.
    pub meta: Meta,
    /// Keys, values and, if any, lens; empty for control and SimpleApp messages.
    pub data: Frames,
}

impl Message {
    /// A control message with the default metadata (head, app, customer all unset).
    #[must_use]
    pub fn control(control: Control) -> Self {
        Self { meta: Meta { payload: control.into(), ..Meta::default() }, ..Self::default() }
    }

    /// The sum of the sizes of the data frames, in bytes.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
}
