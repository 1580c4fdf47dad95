//! Resolves the host names that a node needs before it is made: the scheduler's, and its own. Where
//! a name may get an address later, this waits for it. Otherwise an unknown name is an error at
//! once, as on stock. May ask the resolver, log and sleep.

#![allow(
    clippy::disallowed_methods,
    reason = "before the node: nobody keeps time, and the resolver may take long"
)]

use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::error::{NodeError, Result};
use crate::settings::Settings;
use pslite_core::wire::Role;
use pslite_observe::log::{self, Level};
use pslite_transport::address::{AddressError, resolve};

/// How often the resolver is asked.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest time to wait for it, so that the sum of two stays a time.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// True if a name without an address may get one: in Kubernetes, where a service has none before
/// its pod runs, and where the user said how long a start may take.
const fn may_come(settings: &Settings) -> bool {
    settings.kubernetes || settings.names_may_come || settings.start_timeout.is_some()
}

/// Returns when the names have an address, with the time that this took.
///
/// # Errors
/// One has none and will not get one, or not within `PSLITE_START_TIMEOUT`, or the node was stopped
/// meanwhile. A name to listen on that is not waited for is no error here: who listens says why it
/// cannot.
pub(super) fn wait_for_names(settings: &Settings, is_stopped: Stopped<'_>) -> Result<Duration> {
    let began = Instant::now();
    if settings.local {
        return Ok(Duration::ZERO);
    }
    let scheduler = settings.role == Role::Scheduler;
    if !scheduler || may_come(settings) && !settings.kubernetes {
        wait_for("DMLC_PS_ROOT_URI", &settings.root_host, settings, began, is_stopped)?;
    }
    if let Some(host) = settings.node_host.as_ref().filter(|_| !scheduler && may_come(settings)) {
        wait_for("DMLC_NODE_HOST", host, settings, began, is_stopped)?;
    }
    Ok(began.elapsed())
}

/// Whether the node was stopped since its start began.
type Stopped<'a> = &'a dyn Fn() -> bool;

/// A stop ended the start.
pub(super) fn stopped() -> NodeError {
    NodeError::Stopped("the node was stopped while it started".to_owned())
}

fn wait_for(
    variable: &str,
    host: &str,
    settings: &Settings,
    began: Instant,
    is_stopped: Stopped<'_>,
) -> Result<()> {
    // `*` on the scheduler: all its addresses.
    if host == "*" || host.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let limit = settings.start_timeout.unwrap_or(NEVER).min(NEVER);
    let mut say_at = if settings.report_interval == Duration::MAX { NEVER } else { Duration::ZERO };
    // What the resolver last said. Towards the limit it gets no time to answer.
    let mut last = None;
    loop {
        let why = match resolve_within(host, limit.saturating_sub(began.elapsed()), is_stopped) {
            Resolved::Found => return Ok(()),
            Resolved::Not(why) => last.insert(why).as_str(),
            Resolved::Late => last.as_deref().unwrap_or("the resolver does not answer"),
        };
        let text = format!("{variable}={host}: {why}");
        if !may_come(settings) {
            return Err(NodeError::Address(format!(
                "{text}; write the scheduler's address or a name that this host knows. If the \
                 name comes later, set \
                 PSLITE_START_TIMEOUT to how long to wait for it"
            )));
        }
        let waited = began.elapsed();
        if waited >= limit {
            return Err(NodeError::Timeout(format!("PSLITE_START_TIMEOUT has passed: {text}")));
        }
        if waited >= say_at {
            say_at = waited.saturating_add(settings.report_interval);
            let waited = waited.as_secs();
            log::write(Level::Warning, &format!("{text}; has waited {waited} s for it"));
        }
        if is_stopped() {
            return Err(stopped());
        }
        std::thread::sleep(AGAIN.min(limit.saturating_sub(began.elapsed())));
    }
}

/// What the resolver said about a name.
enum Resolved {
    /// It has an IPv4 address.
    Found,
    /// It has none, and why.
    Not(String),
    /// Nothing within the time.
    Late,
}

/// Asks the resolver. One that does not answer in time, or before the node is stopped, is left to
/// itself.
fn resolve_within(host: &str, limit: Duration, is_stopped: Stopped<'_>) -> Resolved {
    let asked_at = Instant::now();
    let (tell, told) = sync_channel::<std::result::Result<_, AddressError>>(1);
    let name = host.to_owned();
    let thread = std::thread::Builder::new().name("pslite-name".to_owned());
    let asked = thread.spawn(move || {
        let _ = tell.send(resolve(&name)); // Nobody listens any more: the time has passed.
    });
    if let Err(error) = asked {
        return Resolved::Not(format!("cannot start a thread: {error}"));
    }
    loop {
        let left = limit.saturating_sub(asked_at.elapsed());
        return match told.recv_timeout(left.min(AGAIN)) {
            Ok(Ok(found)) if found.iter().any(IpAddr::is_ipv4) => Resolved::Found,
            Ok(Ok(_)) => Resolved::Not(format!("{host} has no IPv4 address")),
            Ok(Err(error)) => Resolved::Not(error.to_string()),
            Err(RecvTimeoutError::Timeout) if left > AGAIN && !is_stopped() => continue,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Resolved::Late,
        };
    }
}
