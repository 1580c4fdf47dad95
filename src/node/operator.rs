//! An operator: asks the scheduler of a job from outside (`pslite status`, `pslite drain`). It has
//! no place in the job, and reads the answer from the connection by which it asks. (For a scheduler
//! of an earlier version it also listens, and says in its question where.)

mod save;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use crate::address;
use crate::error::{NodeError, Result};
use pslite_core::scheduler::Status;
use pslite_core::wire::chronicle::ChronicleQuestion;
use pslite_core::wire::word::{AnswerWay, OperatorAnswer, Word};
use pslite_core::wire::{self, Control, Message, NodeId, Payload, SCHEDULER};
use pslite_observe::awake;
use pslite_transport::address as net;
use pslite_transport::carrier::{Endpoint, TransportError};
use pslite_transport::zmq::{Answers, Question, ZmqOptions, ZmqTransport};

/// The largest frame that is taken: the answer has a line for each node.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Messages that wait in a socket.
const QUEUE: i32 = 100;
/// How long to try where nobody listens.
const NOBODY_LISTENS: Duration = Duration::from_secs(1);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(100);
/// The longest time to wait for a connection, whatever was said.
const LONGEST: Duration = Duration::from_secs(3600);
/// How often to look for an answer that came the other way.
const LOOK: Duration = Duration::from_millis(20);

/// What it is told, or why it is refused.
type AnswerOrRefusal = std::result::Result<OperatorAnswer, String>;

/// How an operator reaches the scheduler.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The scheduler's host.
    pub host: String,
    /// The scheduler's port.
    pub port: u16,
    /// The address to listen on for the answer of a scheduler of an earlier version, as that
    /// reaches it. None: the one from which packets to the scheduler leave.
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
        self.ask_status(None)
    }

    /// Asks for the state of the job and for what has happened in it: what comes after the answer
    /// before. [`Status::chronicle`] has it; none: the scheduler is of an earlier version.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn chronicle(&self, asked: ChronicleQuestion) -> Result<Status> {
        self.ask_status(Some(asked))
    }

    fn ask_status(&self, chronicle: Option<ChronicleQuestion>) -> Result<Status> {
        let answer = self.ask(|way| Word::Status { way, chronicle })?;
        Status::from_json(&answer.text)
            .ok_or_else(|| NodeError::Protocol("the scheduler is of another version".to_owned()))
    }

    /// Asks to empty that server and release it. Returns the scheduler's answer; emptying goes on
    /// afterwards.
    ///
    /// # Errors
    /// As [`Self::status`], or the scheduler refuses, and says why.
    pub fn drain(&self, server: NodeId) -> Result<String> {
        self.ask(|way| Word::Drain { server, way }).map(|answer| answer.text)
    }

    fn ask(&self, word: impl FnOnce(AnswerWay) -> Word) -> Result<OperatorAnswer> {
        let fail = |error: TransportError| NodeError::Address(error.to_string());
        self.wait_for_listener()?;
        let listener = self.listen().ok();
        let listens_at = listener.as_ref().map(|(_, place)| place.clone());
        let listens_at = listens_at.unwrap_or_default();
        let control = Control::saying(word(AnswerWay { own_connection: true, listens_at }));
        let mut meta = Vec::new();
        wire::encode_meta(&Message::control(control).meta, &mut meta);
        let scheduler = Endpoint::Tcp { host: self.host.clone(), port: self.port };
        let question = Question::ask(&scheduler, &meta, Duration::ZERO).map_err(fail)?;
        let listener = listener.map(|(transport, _)| transport);
        let answer = self.answer(question, listener.as_ref());
        if let Some(transport) = listener {
            transport.close(Duration::ZERO);
        }
        let told = answer.ok_or_else(|| {
            NodeError::Timeout(format!(
                "what listens at {}:{} does not answer as a scheduler of pslite within {} s: is it \
                 a stock one, another program, or busy?",
                self.host,
                self.port,
                self.timeout.as_secs_f64()
            ))
        });
        told?.map_err(NodeError::Remote)
    }

    /// Returns once somebody listens there. That nobody does is known at once; a scheduler that is
    /// just started gets a second.
    fn wait_for_listener(&self) -> Result<()> {
        let began = awake::now();
        let host = &self.host;
        let found = net::resolve(host).map_err(|error| NodeError::Address(error.to_string()))?;
        let address = found
            .into_iter()
            .find(IpAddr::is_ipv4)
            .ok_or_else(|| NodeError::Address(format!("{host} has no IPv4 address")))?;
        let place = SocketAddr::new(address, self.port);
        loop {
            let limit = self.timeout.clamp(AGAIN, LONGEST);
            let Err(error) = TcpStream::connect_timeout(&place, limit) else { return Ok(()) };
            let refused = error.kind() == io::ErrorKind::ConnectionRefused;
            if refused && awake::since(began) + AGAIN < NOBODY_LISTENS.min(self.timeout) {
                thread::sleep(AGAIN);
                continue;
            }
            let what = if refused { "nobody listens there".to_owned() } else { error.to_string() };
            return Err(NodeError::Timeout(format!(
                "no scheduler at {host}:{}: {what}; is the job over, or the address wrong?",
                self.port
            )));
        }
    }

    /// For schedulers of earlier versions, which answer over a connection of their own: what
    /// listens, and where.
    fn listen(&self) -> Result<(ZmqTransport, String)> {
        let fail = |error: TransportError| NodeError::Address(error.to_string());
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
        Ok((transport, format!("{own_host}:{port}")))
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

    /// Waits for the answer, by either way.
    fn answer(
        &self,
        mut question: Question,
        listener: Option<&ZmqTransport>,
    ) -> Option<AnswerOrRefusal> {
        let until = awake::now().checked_add(self.timeout);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            if let Some(transport) = listener {
                let listen = move || {
                    // Until it is stopped, at the latest when time is up.
                    while let Ok(incoming) = transport.recv() {
                        let by_scheduler = incoming.from == Some(SCHEDULER);
                        let told = answer_of(incoming.frames.first()).filter(|_| by_scheduler);
                        if let Some(told) = told {
                            let _ = tell.send(told); // It came the other way, too.
                        }
                    }
                };
                // Without a thread only schedulers of this version are heard.
                let _ = thread::Builder::new().spawn_scoped(scope, listen);
            }
            let answer = loop {
                if let Ok(answer) = told.try_recv() {
                    break Some(answer);
                }
                let frames = question.answer(LOOK, FRAME_BYTES_MAX).unwrap_or_default();
                if let Some(answer) = answer_of(frames.first()) {
                    break Some(answer);
                }
                if until.is_some_and(|until| awake::now() >= until) {
                    break None;
                }
            };
            if let Some(transport) = listener {
                transport.stop();
            }
            answer
        })
    }
}

/// What an operator is told, if the frame tells it.
fn answer_of(meta: Option<&Bytes>) -> Option<AnswerOrRefusal> {
    let Payload::Control(control) = wire::decode_meta(meta?).ok()?.payload else { return None };
    match *control.word? {
        Word::Told(told) => Some(told),
        _ => None,
    }
}
