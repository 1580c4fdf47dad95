//! The scheduler's name, before the node that connects to it is made. Where a name may still get an address that is
//! waited for; anywhere else it is an error at once, as on stock. May ask the resolver, log and sleep.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::error::{NodeError, Result};
use super::settings::Settings;
use crate::observe::log::{self, Level};
use crate::transport::address::{AddressError, resolve};
use crate::wire::Role;

/// How often the resolver is asked.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest time to wait for it, so that the sum of two stays a time.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// True if a name without an address may get one: in Kubernetes, where a service has none before its pod runs, and
/// where the user said how long a start may take.
const fn may_come(settings: &Settings) -> bool {
    settings.kubernetes || settings.names_may_come || settings.start_timeout.is_some()
}

/// Returns when the scheduler's name has an address, with the time that this took.
///
/// # Errors
/// It has none and will not get one, or not within `PSLITE_START_TIMEOUT`.
pub(super) fn wait_for_scheduler(settings: &Settings) -> Result<Duration> {
    let host = &settings.root_host;
    // The scheduler itself listens there, or says why it cannot.
    if settings.role == Role::Scheduler || settings.local {
        return Ok(Duration::ZERO);
    }
    let began = Instant::now();
    let limit = settings.start_timeout.unwrap_or(NEVER).min(NEVER);
    let mut say_at = Duration::ZERO;
    loop {
        let why = match resolve_within(host, limit.saturating_sub(began.elapsed())) {
            Ok(()) => return Ok(began.elapsed()),
            Err(why) => why,
        };
        let text = format!("DMLC_PS_ROOT_URI={host}: {why}");
        if !may_come(settings) {
            return Err(NodeError::Address(format!(
                "{text}; write the scheduler's address or a name that this host knows. If the name comes later, set \
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
        std::thread::sleep(AGAIN.min(limit.saturating_sub(began.elapsed())));
    }
}

/// Asks the resolver. One that does not answer in time is left to itself.
fn resolve_within(host: &str, limit: Duration) -> std::result::Result<(), String> {
    let (tell, told) = sync_channel::<std::result::Result<_, AddressError>>(1);
    let name = host.to_owned();
    let thread = std::thread::Builder::new().name("pslite-name".to_owned());
    let asked = thread.spawn(move || {
        let _ = tell.send(resolve(&name)); // Nobody listens any more: the time has passed.
    });
    asked.map_err(|error| format!("cannot start a thread: {error}"))?;
    match told.recv_timeout(limit) {
        Ok(Ok(found)) if found.iter().any(std::net::IpAddr::is_ipv4) => Ok(()),
        Ok(Ok(_)) => Err(format!("{host} has no IPv4 address")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(format!("{host}: the resolver does not answer"))
        }
    }
}
