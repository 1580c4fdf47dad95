//! `pslite doctor`: checks the five things that keep a job from starting: counts, address, port,
//! NIC, versions; says what will carry its data; checks what trees and tunnels need; finds settings
//! that do nothing; and compares with what the scheduler knows of the others.
//!
//! One module for each; a check reads the environment through [`JobVariables`], looks at this
//! machine, and answers with findings. It changes nothing: what it binds it closes, what it
//! connects to it leaves without a word.

mod address;
mod agreed;
mod counts;
mod data;
mod finding;
mod job;
mod links;
mod nic;
mod port;
mod settings;
mod versions;

use std::process::ExitCode;

use crate::print::say;
use finding::{Finding, Severity};
use job::JobVariables;

/// What `pslite doctor` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArguments {
    /// Check as a node of this role [default: $DMLC_ROLE]
    #[arg(long, value_enum)]
    role: Option<crate::run::ProcessRole>,
    /// The Python that the job uses [default: $PYTHON, or python3]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<String>,
    /// The library that the job preloads [default: as for `pslite run`]
    #[arg(long, value_name = "PATH")]
    library: Option<std::path::PathBuf>,
}

/// Runs all checks and prints a line for each.
pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
    let job = JobVariables::read(arguments.role.map(crate::run::ProcessRole::name), &|name| {
        std::env::var(name).ok()
    });
    let mut findings = counts::check(&job);
    findings.extend(address::check(&job));
    let (ports, greets) = port::check(&job);
    findings.extend(ports);
    findings.extend(nic::check(&job));
    findings.extend(data::check(&job));
    findings.extend(links::check(&job));
    let variables = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
    let role = arguments.role.map(crate::run::ProcessRole::name);
    findings.extend(settings::check(role, &variables.collect::<Vec<_>>()));
    findings.extend(versions::check(
        &job,
        arguments.python.as_deref(),
        arguments.library.as_deref(),
    ));
    let lookup = |name: &str| std::env::var(name).ok();
    let agreed = agreed::check(&job, &lookup, &findings, greets);
    findings.extend(agreed);
    for finding in &findings {
        say!("{}", finding.line());
    }
    let failed = findings.iter().filter(|finding| finding.level == Severity::Fail).count();
    say!("{}", verdict(&findings));
    ExitCode::from(u8::from(failed > 0))
}

/// The last line.
fn verdict(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    match (count(Severity::Fail), count(Severity::Warning)) {
        (0, 0) => "all checks passed".to_owned(),
        (0, warnings) => format!("all checks passed, with warnings: {warnings}"),
        (failed, _) => format!("{failed} of {} checks failed", findings.len()),
    }
}
