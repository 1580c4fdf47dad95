//! An operator: asks the scheduler of a job from outside (`pslite status`, `pslite drain`). It has
//! no place in the job; it listens on a port of its own, and says in its question where.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::address;
use crate::error::{NodeError, Result};
use pslite_core::cluster::Status;
use pslite_core::wire::elastic::{SchedulerMessage, SchedulerMessageKind};
use pslite_core::wire::{self, Command, Control, Message, NodeId, SCHEDULER};
use pslite_transport::address as net;
use pslite_transport::zmq::{Answers, Endpoint, Incoming, SendMode, ZmqOptions, ZmqTransport};

/// The largest frame that is taken: the answer has a line for each node.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Messages that wait in a socket.
const QUEUE: i32 = 100;

/// How an operator reaches the scheduler.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The scheduler's host.
    pub host: String,
    /// The scheduler's port.
    pub port: u16,
    /// The address to listen on, as the scheduler reaches it. None: the one from which packets to
    /// the scheduler leave.
    pub own_host: Option<String>,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

impl Operator {
    /// Asks for the state of the job.
    ///
    /// # Errors
    /// There is no scheduler of pslite there, or the answer is of another version.
    pub fn status(&self) -> Result<Status> {
        let word = self.ask(SchedulerMessageKind::Status, 0)?;
        Status::from_json(&word.text)
            .ok_or_else(|| NodeError::Protocol("the scheduler is of another version".to_owned()))
    }

    /// Asks to empty that server and release it. Returns the scheduler's answer; emptying goes on
    /// afterwards.
    ///
    /// # Errors
    /// As [`Self::status`], or the scheduler refuses, and says why.
    pub fn drain(&self, server: NodeId) -> Result<String> {
        let word = self.ask(SchedulerMessageKind::Drain, server)?;
        if word.node == 0 { Ok(word.text) } else { Err(NodeError::Remote(word.text)) }
    }

    fn ask(&self, kind: SchedulerMessageKind, node: NodeId) -> Result<SchedulerMessage> {
        let fail =
            |error: pslite_transport::zmq::TransportError| NodeError::Address(error.to_string());
        let transport = ZmqTransport::new(ZmqOptions {
            send_queue: QUEUE,
            recv_queue: QUEUE,
            priority_mode: false,
            max_frame: FRAME_BYTES_MAX,
            name_seed: address::incarnation(),
            answers: Answers::OwnWay,
        })
        .map_err(fail)?;
        let own_host = self.own_host()?;
        let listen =
            net::bindable(&own_host).map_err(|error| NodeError::Address(error.to_string()))?;
        let port = transport.bind(&Endpoint::Tcp { host: listen, port: 0 }).map_err(fail)?;
        let scheduler = Endpoint::Tcp { host: self.host.clone(), port: self.port };
        transport.connect(SCHEDULER, &scheduler, None).map_err(fail)?;
        let mut control = Control::new(Command::Heartbeat);
        let kind = kind as i32;
        let text = format!("{own_host}:{port}");
        control.word =
            Some(Box::new(SchedulerMessage { kind, node, text, ..SchedulerMessage::default() }));
        let mut meta = Vec::new();
        wire::encode_meta(&Message::control(control).meta, &mut meta);
        transport
            .send(SCHEDULER, &meta, &[], 0, SendMode::Control)
            .map_err(|error| NodeError::Address(error.to_string()))?;
        let answer = self.answer(&transport);
        transport.close(Duration::ZERO);
        answer?.ok_or_else(|| {
            NodeError::Timeout(format!(
                "no scheduler of pslite answers at {}:{} within {} s (it connects to this host, \
                 port {port})",
                self.host,
                self.port,
                self.timeout.as_secs_f64()
            ))
        })
    }

    fn own_host(&self) -> Result<String> {
        if let Some(host) = &self.own_host {
            return Ok(host.clone());
        }
        net::local_address_towards(&self.host, self.port).map(|ip| ip.to_string()).ok_or_else(
            || {
                NodeError::Address(format!(
                    "no way leads to {}:{}; set DMLC_NODE_HOST to an address of this host",
                    self.host, self.port
                ))
            },
        )
    }

    /// Waits for the answer; a thread of its own ends the wait at the limit.
    fn answer(&self, transport: &ZmqTransport) -> Result<Option<SchedulerMessage>> {
        let (done, over) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let end = move || {
                let _ = over.recv_timeout(self.timeout);
                transport.stop();
            };
            thread::Builder::new()
                .spawn_scoped(scope, end)
                .map_err(|error| NodeError::Config(format!("cannot start a thread: {error}")))?;
            // Until it is stopped, at the latest when time is up.
            let answer = loop {
                let Ok(incoming) = transport.recv() else { break None };
                if let Some(word) = told(&incoming) {
                    break Some(word);
                }
            };
            drop(done);
            Ok(answer)
        })
    }
}

/// The scheduler's answer, if the message is one.
fn told(incoming: &Incoming) -> Option<SchedulerMessage> {
    let meta = wire::decode_meta(incoming.frames.first()?).ok()?;
    let word = *meta.control?.word?;
    let is_answer =
        incoming.from == Some(SCHEDULER) && word.kind == SchedulerMessageKind::Told as i32;
    is_answer.then_some(word)
}
