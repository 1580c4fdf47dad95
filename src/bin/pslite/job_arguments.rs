//! The job's settings on the command line of a role. They take precedence over the environment.

use std::sync::Arc;

use pslite::node::Lookup;

/// The counts and the address of a job; everything else comes from the environment.
#[derive(Debug, clap::Args)]
pub(crate) struct JobArguments {
    /// Workers of the job [default: $DMLC_NUM_WORKER]
    #[arg(short = 'n', long = "workers", value_name = "W")]
    workers: Option<u32>,
    /// Servers of the job [default: $DMLC_NUM_SERVER]
    #[arg(short = 's', long = "servers", value_name = "S")]
    servers: Option<u32>,
    /// The scheduler's address, as all nodes know it [default: $DMLC_PS_ROOT_URI]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The scheduler's port [default: $DMLC_PS_ROOT_PORT]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

impl JobArguments {
    /// The settings of a node of that role.
    pub(crate) fn lookup(&self, role: &'static str) -> Lookup {
        let mut told = vec![("DMLC_ROLE", role.to_owned())];
        let options = [
            ("DMLC_NUM_WORKER", self.workers.map(|count| count.to_string())),
            ("DMLC_NUM_SERVER", self.servers.map(|count| count.to_string())),
            ("DMLC_PS_ROOT_URI", self.host.clone()),
            ("DMLC_PS_ROOT_PORT", self.port.map(|port| port.to_string())),
        ];
        told.extend(options.into_iter().filter_map(|(name, value)| Some((name, value?))));
        lookup(told)
    }
}

/// Settings that come before the environment.
pub(crate) fn lookup(told: Vec<(&'static str, String)>) -> Lookup {
    Arc::new(move |name| {
        let of_command_line =
            told.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        of_command_line.or_else(|| std::env::var(name).ok()).or_else(|| default(name))
    })
}

/// Somebody looks at this program's output, so it says more than a library would.
fn default(name: &str) -> Option<String> {
    let quiet = std::env::var_os("PS_VERBOSE").is_none();
    (name == "PSLITE_LOG" && quiet).then(|| "info".to_owned())
}
