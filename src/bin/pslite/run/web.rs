//! Where the page of a job is that is started here (`PSLITE_HTTP`): a port that is free is kept for
//! the scheduler, so that it can be said before anything runs. Binds that port; starts nothing.

use std::net::TcpListener;

use anyhow::{Context, Result, bail};
use pslite::web::WebPlace;

use super::ProcessRole;
use super::plan::free_port;

/// The same without a browser.
const IN_A_TERMINAL: &str = "or: pslite status --watch";

/// See the module.
#[derive(Debug)]
pub(super) struct RunWeb {
    /// What to say.
    pub(super) lines: Vec<String>,
    /// Keeps the port until the scheduler starts.
    pub(super) reserved: TcpListener,
    scheduler: String,
    /// For the other processes, where they are to answer, too.
    others: Option<String>,
}

impl RunWeb {
    /// Of the scheduler alone, at any port of the loopback interface.
    ///
    /// # Errors
    /// None is free.
    pub(super) fn anywhere() -> Result<Self> {
        const HOST: &str = "127.0.0.1";
        let reserved =
            free_port(HOST).context("no free port for the page of the job on 127.0.0.1")?;
        Self::new(reserved, None, None)
    }

    /// Of all processes, as somebody set `PSLITE_HTTP` for them all.
    ///
    /// # Errors
    /// No port there is free.
    pub(super) fn at(place: WebPlace) -> Result<Self> {
        let bound = place.addresses().find_map(|address| TcpListener::bind(address).ok());
        let Some(reserved) = bound else {
            bail!(
                "PSLITE_HTTP={place}: no port there is free; choose another one, a range such as \
                 9400-9409, or 0 for any"
            )
        };
        let port = reserved.local_addr()?.port();
        let others = match place.low {
            0 => Some(place),
            // The scheduler may be the last that comes to it.
            _ => port.checked_add(1).map(|low| WebPlace { low, ..place }),
        };
        let others = others.filter(|others| others.low <= others.high);
        let alone = others.is_none().then(|| {
            format!(
                "PSLITE_HTTP={place} has one free port, which is the scheduler's; with a range \
                 such as 9400-9409, or 0, servers and workers answer, too"
            )
        });
        Self::new(reserved, others.map(|place| place.to_string()), alone)
    }

    fn new(reserved: TcpListener, others: Option<String>, note: Option<String>) -> Result<Self> {
        let address = reserved.local_addr()?;
        let watch = format!("watch this job at http://{address}/   ({IN_A_TERMINAL})");
        let lines = [watch].into_iter().chain(note).collect();
        Ok(Self { lines, reserved, scheduler: address.to_string(), others })
    }

    /// `PSLITE_HTTP` of a process; `None`: it has none.
    pub(super) fn setting(&self, role: ProcessRole) -> Option<&str> {
        match role {
            ProcessRole::Scheduler => Some(&self.scheduler),
            ProcessRole::Server | ProcessRole::Worker => self.others.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_has_a_port_that_is_free_and_the_others_none() {
        let web = RunWeb::anywhere().unwrap();
        let address = web.reserved.local_addr().unwrap().to_string();
        let line = format!("watch this job at http://{address}/   (or: pslite status --watch)");
        assert_eq!(web.lines, [line]);
        assert_eq!(web.setting(ProcessRole::Scheduler), Some(address.as_str()));
        assert_eq!(web.setting(ProcessRole::Worker), None);
    }

    #[test]
    fn one_port_is_the_schedulers_and_of_a_range_the_others_have_the_rest() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken = RunWeb::at(WebPlace::parse(&port.to_string()).unwrap());
        assert!(taken.unwrap_err().to_string().contains("no port there is free"));
        drop(listener);
        let one = RunWeb::at(WebPlace::parse(&port.to_string()).unwrap()).unwrap();
        assert_eq!(one.setting(ProcessRole::Scheduler), Some(&*format!("127.0.0.1:{port}")));
        assert_eq!((one.setting(ProcessRole::Server), one.lines.len()), (None, 2));
        drop(one);
        let any = RunWeb::at(WebPlace::parse("0").unwrap()).unwrap();
        assert_eq!((any.setting(ProcessRole::Server), any.lines.len()), (Some("127.0.0.1:0"), 1));
        let range = RunWeb::at(WebPlace::parse("1024-65535").unwrap()).unwrap();
        let first = range.reserved.local_addr().unwrap().port();
        let rest = format!("127.0.0.1:{}-65535", first + 1);
        assert_eq!(range.setting(ProcessRole::Worker), Some(rest.as_str()));
    }
}
