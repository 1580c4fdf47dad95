//! A node that ends before it takes part, because its settings or its addresses are wrong, tells
//! the scheduler why: otherwise the others would only know that somebody is missing. Best effort:
//! it needs what is right of the settings. May connect to the scheduler.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::NodeError;
use crate::settings::{Lookup, ProgramSettings};
use pslite_core::cluster::giving_up;
use pslite_core::wire::{self, Dialect};
use pslite_transport::address as net;
use pslite_transport::carrier::Endpoint;
use pslite_transport::zmq::Question;

/// How long the scheduler may take to accept a connection, and then the message.
const LIMIT: Duration = Duration::from_millis(500);

/// Tells it, if the environment says where it is, and that it may be told what stock does not know.
pub(super) fn say_why(lookup: &Lookup, asked: &ProgramSettings, error: &NodeError) {
    let text = |name: &str| {
        lookup(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let role = asked.role.map(|role| role.name().to_owned()).or_else(|| text("DMLC_ROLE"));
    let role = role.unwrap_or_else(|| "node".to_owned());
    let wire = asked.dialect.filter(|dialect| *dialect != Dialect::default());
    let is_off = |name: &str| text(name).is_none_or(|value| value == "0");
    let speaks = text("PSLITE_LEVEL").is_none_or(|level| level != "stock")
        && text("PSLITE_WIRE").map_or(wire.is_none(), |name| name == Dialect::default().name());
    if role == "scheduler" || !speaks || !is_off("DMLC_LOCAL") {
        return;
    }
    let (Some(host), Some(port)) = (text("DMLC_PS_ROOT_URI"), text("DMLC_PS_ROOT_PORT")) else {
        return;
    };
    let Ok(port) = port.parse::<u16>() else { return };
    let found = net::resolve(&host).unwrap_or_default().into_iter().find(IpAddr::is_ipv4);
    let Some(address) = found.filter(|_| port > 0) else { return };
    let Ok(stream) = TcpStream::connect_timeout(&SocketAddr::new(address, port), LIMIT) else {
        return;
    };
    let from = stream.local_addr().map_or_else(|_| "?".to_owned(), |own| own.ip().to_string());
    drop(stream);
    let text = format!("a {role} on {from} (pid {}) ended: {error}", std::process::id());
    let mut meta = Vec::new();
    wire::encode_meta(&giving_up(text, 0).meta, &mut meta);
    let place = Endpoint::Tcp { host: address.to_string(), port };
    // Whether it arrives is not waited for any longer: the node ends with the error in any case.
    let _ = Question::ask(&place, &meta, LIMIT);
}
