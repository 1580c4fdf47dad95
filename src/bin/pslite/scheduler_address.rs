//! Where the scheduler of a job is, as the command line or the environment says.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use pslite::node::Operator;
use pslite::transport::host;

use crate::jobs;

/// How long to wait for the scheduler's answer, if nothing else is said, in seconds.
pub(crate) const ANSWER_WITHIN: f64 = 5.0;

/// `HOST:PORT` of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Reads `HOST:PORT`.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let (host, port) = text
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok().filter(|port| *port > 0)?)))
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(|| format!("write it as HOST:PORT, not {text:?}"))?;
    host::check(host).map_err(|why| format!("{host} is not a host: {why}"))?;
    Ok(Address { host: host.to_owned(), port })
}

/// Whom an operator asks.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchedulerArguments {
    /// The scheduler's address [default: $DMLC_PS_ROOT_URI:$DMLC_PS_ROOT_PORT, or this user's job
    /// on this host]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    scheduler: Option<Address>,
    /// How long to wait for its answer
    #[arg(long, value_name = "SECONDS", default_value_t = ANSWER_WITHIN, value_parser = limit)]
    timeout: f64,
}

/// Reads how long to wait for something.
pub(crate) fn limit(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=LONGEST_LIMIT).contains(number));
    number.ok_or_else(|| format!("it is a number of seconds from 0 to {LONGEST_LIMIT}"))
}

/// Thirty years.
const LONGEST_LIMIT: f64 = 1e9;

impl SchedulerArguments {
    /// The one who asks it.
    ///
    /// # Errors
    /// It is not clear where the scheduler is: nothing says so, and this user has no job on this
    /// host, or several.
    pub(crate) fn operator(&self) -> Result<Operator> {
        let all = self.operators()?;
        match <[Operator; 1]>::try_from(all) {
            Ok([one]) => Ok(one),
            Err(all) => {
                let places = all.iter().map(|one| format!("{}:{}", one.host, one.port));
                let places = places.collect::<Vec<_>>().join(", ");
                bail!("which job? Name one with --scheduler: {places}")
            }
        }
    }

    /// Those who ask all that may be meant: the one that is named, or each of this user's jobs on
    /// this host.
    ///
    /// # Errors
    /// There is none, or the environment holds nonsense.
    pub(crate) fn operators(&self) -> Result<Vec<Operator>> {
        let named =
            self.scheduler.clone().map_or_else(from_environment, |address| Ok(Some(address)))?;
        let all = named.map_or_else(jobs::find, |address| vec![address]);
        ensure!(
            !all.is_empty(),
            "where is the scheduler? This user has no job on this host that `pslite run` or \
             `pslite scheduler` \
             started; name it with --scheduler HOST:PORT, or set DMLC_PS_ROOT_URI and \
             DMLC_PS_ROOT_PORT"
        );
        Ok(all.iter().map(|address| operator(address, self.timeout)).collect())
    }
}

/// One who asks that scheduler.
pub(crate) fn operator(address: &Address, timeout: f64) -> Operator {
    Operator {
        host: address.host.clone(),
        port: address.port,
        own_host: variable("DMLC_NODE_HOST"),
        timeout: Duration::try_from_secs_f64(timeout).unwrap_or(Duration::ZERO),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Where the environment says that the scheduler is, if it does.
fn from_environment() -> Result<Option<Address>> {
    let both = variable("DMLC_PS_ROOT_URI").zip(variable("DMLC_PS_ROOT_PORT"));
    let Some((host, port)) = both else { return Ok(None) };
    let found = address(&format!("{host}:{port}"));
    found
        .map(Some)
        .map_err(|why| anyhow!("DMLC_PS_ROOT_URI={host}, DMLC_PS_ROOT_PORT={port}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let of = |host: &str, port| Ok(Address { host: host.to_owned(), port });
        assert_eq!(address("10.0.0.3:9091"), of("10.0.0.3", 9091));
        assert_eq!(address("ps.example:1"), of("ps.example", 1));
        for wrong in [
            "",
            ":9091",
            "http://a:1",
            "'a':1",
            "a:1:2",
            "host",
            "host:",
            "host:0",
            "host:70000",
            "host:x",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
