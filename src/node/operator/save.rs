//! An operator that reads the global model of a job: asks the scheduler where the servers are, and
//! these for one piece after the other.

use std::time::Duration;

use super::{AnswerOrRefusal, FRAME_BYTES_MAX, LOOK, Operator, answer_of};
use crate::error::{NodeError, Result};
use pslite_core::scheduler::Status;
use pslite_core::store::saved::{SavedArray, SavedModel};
use pslite_core::wire::agreement::Fact;
use pslite_core::wire::save::{SaveAsked, SaveTold, SavedPiece};
use pslite_core::wire::word::Word;
use pslite_core::wire::{self, Control, Message};
use pslite_observe::awake;
use pslite_transport::carrier::{Endpoint, TransportError};
use pslite_transport::zmq::Question;

/// The longest answer of a server: an array has 2 GB at each server at most.
const PIECE_BYTES_MAX: usize = (2 << 30) + FRAME_BYTES_MAX;
/// How often all servers are asked what they have, before pieces that move are given up.
const PASSES_MAX: usize = 10;
/// States of a server that has no values, or not any more.
const GONE: [&str; 3] = ["dead", "released", "registered"];

impl Operator {
    /// The global model, array by array. Each piece is as of one round; different ones may be a
    /// round apart.
    ///
    /// # Errors
    /// As [`Operator::status`]; a server does not answer, or has no store of ours; or nobody has
    /// some element.
    pub fn save(&self) -> Result<Vec<SavedArray>> {
        let (mut model, mut facts) = (SavedModel::default(), Vec::new());
        let mut status = self.status()?;
        for pass in 0..PASSES_MAX {
            let mut is_news = false;
            for place in places(&status) {
                // What moved from a server that was asked later to one that was asked before was
                // with neither: whatever is new is looked for until there is nothing more.
                let read = self
                    .of_server(&place)
                    .and_then(|mut server| server.read(&mut model, pass > 0, &mut facts));
                is_news |= match read {
                    Ok(is_news) => is_news,
                    // It was emptied, or died: others have what it had.
                    Err(_) if !places(&self.status()?).contains(&place) => true,
                    Err(error) => return Err(error),
                };
            }
            if pass > 0 && !is_news {
                break;
            }
            status = self.status()?;
        }
        model.arrays(status.servers, &facts).map_err(NodeError::Remote)
    }

    fn of_server(&self, place: &str) -> Result<Server> {
        let address = place.rsplit_once(':');
        let address = address.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let Some((host, port)) = address else {
            return Err(NodeError::Protocol(format!("{place:?} is no address of a server")));
        };
        let asks = Self { host: host.to_owned(), port, ..self.clone() };
        asks.wait_for_listener().map_err(|error| match error {
            NodeError::Timeout(_) => {
                NodeError::Timeout(format!("nobody listens at {place}, where a server should"))
            }
            other => other,
        })?;
        Ok(Server { place: place.to_owned(), question: None, timeout: self.timeout })
    }
}

/// Where the servers are that may have values.
fn places(status: &Status) -> Vec<String> {
    let servers = status.nodes.iter().filter(|node| node.role == "server");
    let here = servers.filter(|node| !GONE.contains(&node.state.as_str()));
    here.map(|node| node.address.clone()).collect()
}

/// A server that is asked.
struct Server {
    place: String,
    question: Option<Question>,
    timeout: Duration,
}

impl Server {
    /// Reads all pieces; with `known`, those that are not in the model. True if there were some.
    fn read(&mut self, model: &mut SavedModel, known: bool, facts: &mut Vec<Fact>) -> Result<bool> {
        let (mut at, mut is_news) = (SaveAsked::default(), false);
        loop {
            let SaveTold { piece, facts: said } = self.ask(SaveAsked { bare: known, ..at })?;
            let Some(piece) = piece else {
                if !said.is_empty() {
                    *facts = said;
                }
                return Ok(is_news);
            };
            let SavedPiece { key, to, .. } = piece;
            let piece = match known {
                false => Some(piece),
                true if model.has(&piece) => None,
                true => self.ask(SaveAsked { key, from: piece.from, bare: false })?.piece,
            };
            if let Some(piece) = piece {
                model.add(&piece).map_err(NodeError::Protocol)?;
                is_news = true;
            }
            at = SaveAsked { key, from: to, bare: known };
        }
    }

    fn ask(&mut self, asked: SaveAsked) -> Result<SaveTold> {
        let fail = |error: TransportError| NodeError::Address(error.to_string());
        let control = Control::saying(Word::Save(asked.write()));
        let mut meta = Vec::new();
        wire::encode_meta(&Message::control(control).meta, &mut meta);
        match &mut self.question {
            Some(question) => question.again(&meta).map_err(fail)?,
            none => {
                let (host, port) = self.place.rsplit_once(':').unwrap_or_default();
                let port = port.parse().unwrap_or(0);
                let server = Endpoint::Tcp { host: host.to_owned(), port };
                *none = Some(Question::ask(&server, &meta, Duration::ZERO).map_err(fail)?);
            }
        }
        let told = self.answer().ok_or_else(|| {
            let text = format!(
                "the server at {} does not answer within {} s: is it of an earlier version?",
                self.place,
                self.timeout.as_secs_f64()
            );
            NodeError::Timeout(text)
        })?;
        let refused = |why| NodeError::Remote(format!("the server at {}: {why}", self.place));
        let answer = told.map_err(refused)?;
        let malformed =
            || NodeError::Protocol(format!("the server at {} says nothing", self.place));
        SaveTold::read(answer.told).ok_or_else(malformed)
    }

    fn answer(&mut self) -> Option<AnswerOrRefusal> {
        let until = awake::now().checked_add(self.timeout);
        let question = self.question.as_mut()?;
        loop {
            let frames = question.answer(LOOK, PIECE_BYTES_MAX).unwrap_or_default();
            if let Some(told) = answer_of(frames.first()) {
                return Some(told);
            }
            if until.is_some_and(|until| awake::now() >= until) {
                return None;
            }
        }
    }
}
