//! What to start: one entry for each process, with its command and its environment.
//!
//! Reads the arguments and the environment, looks for a free port; starts nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, TcpListener, ToSocketAddrs};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail, ensure};
use pslite::transport::host;
use pslite::web::WebPlace;

use super::web::RunWeb;
use super::{RunArguments, library};
use crate::scheduler_address::{self, Address};

/// The role of a process in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProcessRole {
    /// Knows who is there.
    Scheduler,
    /// Holds the parameters.
    Server,
    /// Trains.
    Worker,
}

impl ProcessRole {
    /// The value of DMLC_ROLE.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Server => "server",
            Self::Worker => "worker",
        }
    }
}

/// One process to start.
#[derive(Debug)]
pub(crate) struct JobProcess {
    /// What the user calls it.
    pub(crate) label: String,
    pub(crate) role: ProcessRole,
    pub(crate) command: Vec<OsString>,
    pub(crate) preload: Option<OsString>,
    pub(crate) variables: BTreeMap<OsString, OsString>,
    pub(crate) unset: Vec<&'static str>,
}

/// All that is to be started.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// In the order of starting: the scheduler first.
    pub(crate) processes: Vec<JobProcess>,
    /// Where the scheduler listens that is started here, if it is ours.
    pub(crate) scheduler: Option<Address>,
    /// Where the page of the job is, and what else is to be said of it.
    pub(crate) web_lines: Vec<String>,
    /// Keep the ports of the scheduler, its page and torch from others while we prepare.
    pub(crate) reserved_ports: Vec<TcpListener>,
}

struct Root {
    host: String,
    port: u16,
    reserved: Option<TcpListener>,
}

impl RunPlan {
    /// Decides what to start.
    ///
    /// # Errors
    /// The arguments contradict each other, the library or a port is missing.
    pub(crate) fn new(arguments: &RunArguments) -> Result<Self> {
        let root = root(arguments)?;
        let preload = preload(arguments)?;
        let shared = shared_variables(arguments, &root)?;
        let meeting = meeting_point(arguments, &root)?;
        let web = web(arguments, &shared)?;
        let mut processes = Vec::new();
        for role in [ProcessRole::Scheduler, ProcessRole::Server, ProcessRole::Worker] {
            for index in 0..count_here(arguments, role)? {
                let mut variables = shared.clone();
                variables.insert("DMLC_ROLE".into(), role.name().into());
                let task =
                    if role == ProcessRole::Server { arguments.workers + index } else { index };
                // As dmlc_tracker's local launcher numbers them: workers, then servers.
                variables.entry("DMLC_TASK_ID".into()).or_insert_with(|| task.to_string().into());
                // So that a process has one name, here and in the job. (Stock knows nothing of it.)
                if all_are_here(arguments, role)? {
                    variables.insert("PSLITE_RANK".into(), index.to_string().into());
                }
                if let (ProcessRole::Worker, Some(meeting)) = (role, &meeting) {
                    for (name, value) in meeting.variables(index, arguments.workers) {
                        variables.entry(name.into()).or_insert_with(|| value.into());
                    }
                }
                let mut unset = unset(arguments);
                if let Some(web) = &web {
                    match web.setting(role) {
                        Some(setting) => {
                            drop(variables.insert("PSLITE_HTTP".into(), setting.into()))
                        }
                        None => {
                            variables.remove(OsStr::new("PSLITE_HTTP"));
                            unset.push("PSLITE_HTTP");
                        }
                    }
                }
                let native = match role {
                    ProcessRole::Scheduler => arguments.native_scheduler,
                    ProcessRole::Server => arguments.native_servers,
                    ProcessRole::Worker => false,
                };
                processes.push(JobProcess {
                    label: label(role, index),
                    role,
                    command: if native { alone(role)? } else { arguments.command.clone() },
                    preload: preload.clone().filter(|_| !native),
                    variables,
                    unset,
                });
            }
        }
        ensure!(
            !processes.is_empty(),
            "nothing to start here: --roles and the counts leave no process"
        );
        let scheduler = has_our_scheduler(arguments)
            .then(|| Address { host: root.host.clone(), port: root.port });
        let meeting_port = meeting.map(|meeting| meeting.port);
        let web_lines = web.as_ref().map_or_else(Vec::new, |web| web.lines.clone());
        let web_port = web.map(|web| web.reserved);
        let reserved_ports = root.reserved.into_iter().chain(meeting_port).chain(web_port);
        Ok(Self { processes, scheduler, web_lines, reserved_ports: reserved_ports.collect() })
    }
}

/// The scheduler is started here, and is of pslite.
fn has_our_scheduler(arguments: &RunArguments) -> bool {
    let is_ours = !arguments.stock || arguments.native_scheduler;
    arguments.roles.contains(&ProcessRole::Scheduler) && is_ours
}

/// Where the page of the job is; `None` if its scheduler has none, or is elsewhere.
fn web(arguments: &RunArguments, shared: &BTreeMap<OsString, OsString>) -> Result<Option<RunWeb>> {
    if !has_our_scheduler(arguments) {
        return Ok(None);
    }
    let given = shared.get(OsStr::new("PSLITE_HTTP")).cloned();
    let told = given.or_else(|| std::env::var_os("PSLITE_HTTP"));
    let told = told.map(|text| text.to_string_lossy().trim().to_owned());
    let told = told.filter(|text| !text.is_empty());
    let Some(text) = told else { return RunWeb::anywhere().map(Some) };
    // What cannot be read is said by the node that it is meant for.
    let Ok(place) = WebPlace::parse(&text) else { return Ok(None) };
    RunWeb::at(place).map(Some)
}

/// Where the workers' torch.distributed meets, if a script uses it (`init_process_group`).
struct MeetingPoint {
    host: String,
    port: TcpListener,
}

impl MeetingPoint {
    /// What torch reads in that worker.
    fn variables(&self, index: u32, workers: u32) -> [(&'static str, String); 4] {
        let port = self.port.local_addr().map_or(0, |address| address.port());
        [
            ("RANK", index.to_string()),
            ("WORLD_SIZE", workers.to_string()),
            ("MASTER_ADDR", self.host.clone()),
            ("MASTER_PORT", port.to_string()),
        ]
    }
}

/// None if some workers are started elsewhere: nobody here knows who is who.
fn meeting_point(arguments: &RunArguments, root: &Root) -> Result<Option<MeetingPoint>> {
    if !all_are_here(arguments, ProcessRole::Worker)? || arguments.workers == 0 {
        return Ok(None);
    }
    let host = if is_loopback(&root.host) { "127.0.0.1" } else { root.host.as_str() };
    let free = free_root(host.to_owned()).or_else(|_| free_root("127.0.0.1".to_owned()))?;
    let Root { host, reserved: Some(port), .. } = free else { return Ok(None) };
    Ok(Some(MeetingPoint { host, port }))
}

fn label(role: ProcessRole, index: u32) -> String {
    match role {
        ProcessRole::Scheduler => role.name().to_owned(),
        ProcessRole::Server | ProcessRole::Worker => format!("{} {index}", role.name()),
    }
}

/// This program in that role, without an application.
fn alone(role: ProcessRole) -> Result<Vec<OsString>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(vec![program.into_os_string(), role.name().into()])
}

fn count_here(arguments: &RunArguments, role: ProcessRole) -> Result<u32> {
    if !arguments.roles.contains(&role) {
        return Ok(0);
    }
    let (all, here, option) = match role {
        ProcessRole::Scheduler => return Ok(1),
        ProcessRole::Server => (arguments.servers, arguments.local_servers, "--local-servers"),
        ProcessRole::Worker => (arguments.workers, arguments.local_workers, "--local-workers"),
    };
    let here = here.unwrap_or(all);
    ensure!(here <= all, "{option} {here} is more than the {all} of the whole job");
    Ok(here)
}

/// All processes of that role are started here.
fn all_are_here(arguments: &RunArguments, role: ProcessRole) -> Result<bool> {
    let all = match role {
        ProcessRole::Scheduler => return Ok(false),
        ProcessRole::Server => arguments.servers,
        ProcessRole::Worker => arguments.workers,
    };
    Ok(count_here(arguments, role)? == all)
}

/// A DMLC_RANK of another life would make a node keep its rank (van.cc:161); one PORT cannot serve
/// several processes.
fn unset(arguments: &RunArguments) -> Vec<&'static str> {
    let mut names = vec!["DMLC_RANK"];
    let set_by_user = arguments.variables.iter().any(|pair| pair.starts_with("PORT="));
    if !set_by_user {
        names.push("PORT");
    }
    names
}

fn shared_variables(arguments: &RunArguments, root: &Root) -> Result<BTreeMap<OsString, OsString>> {
    let mut all: BTreeMap<OsString, OsString> = [
        ("DMLC_NUM_WORKER", arguments.workers.to_string()),
        ("DMLC_NUM_SERVER", arguments.servers.to_string()),
        ("DMLC_PS_ROOT_URI", root.host.clone()),
        ("DMLC_PS_ROOT_PORT", root.port.to_string()),
        ("DMLC_JOB_CLUSTER", "local".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    let chosen = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(host) = &arguments.host {
        all.insert("DMLC_NODE_HOST".into(), host.into());
    } else if is_loopback(&root.host) && !chosen("DMLC_NODE_HOST") && !chosen("DMLC_INTERFACE") {
        all.insert("DMLC_NODE_HOST".into(), "127.0.0.1".into());
    }
    if let Some(range) = &arguments.port_range {
        all.insert("PSLITE_PORT_RANGE".into(), range.into());
    }
    for pair in &arguments.variables {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            bail!("--env {pair}: write it as NAME=VALUE");
        };
        all.insert(name.into(), value.into());
    }
    Ok(all)
}

fn is_loopback(host: &str) -> bool {
    (host, 0).to_socket_addrs().is_ok_and(|mut found| {
        found
            .next()
            .is_some_and(|address| matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback()))
    })
}

fn preload(arguments: &RunArguments) -> Result<Option<OsString>> {
    let existing = std::env::var_os("LD_PRELOAD");
    if arguments.stock {
        let rest = library::without_library(existing.as_deref());
        return Ok(Some(rest).filter(|rest| !rest.is_empty()));
    }
    let library = library::find(arguments.library.as_deref())?;
    Ok(Some(library::with_library(existing.as_deref(), &library)))
}

fn root(arguments: &RunArguments) -> Result<Root> {
    let scheduler_is_here = arguments.roles.contains(&ProcessRole::Scheduler);
    if let Some(text) = &arguments.root {
        let (host, port) = text
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host.to_owned(), port.parse::<u16>().ok()?)))
            .filter(|(host, _)| !host.is_empty())
            .with_context(|| format!("--root {text}: write it as HOST:PORT"))?;
        if let Err(why) = host::check(&host) {
            bail!("--root {text}: {host} is not a host: {why}");
        }
        if port != 0 {
            return Ok(Root { host, port, reserved: None });
        }
        ensure!(
            scheduler_is_here,
            "--root {text}: port 0 means any, so the scheduler must be started here"
        );
        return free_root(host);
    }
    if scheduler_is_here {
        return free_root("127.0.0.1".to_owned());
    }
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (host, port) = variable("DMLC_PS_ROOT_URI").zip(variable("DMLC_PS_ROOT_PORT")).context(
        "where is the scheduler? Name it with --root HOST:PORT, or set DMLC_PS_ROOT_URI and \
         DMLC_PS_ROOT_PORT",
    )?;
    let found = scheduler_address::address(&format!("{host}:{port}"));
    let wrong = |why| format!("DMLC_PS_ROOT_URI={host}, DMLC_PS_ROOT_PORT={port}: {why}");
    let found = found.map_err(|why| anyhow!(wrong(why)))?;
    Ok(Root { host: found.host, port: found.port, reserved: None })
}

/// Below the kernel's range of automatic ports, so that no node of the job gets the scheduler's
/// port by chance before the scheduler has it.
fn free_root(host: String) -> Result<Root> {
    let Some(listener) = free_port(&host) else {
        bail!("no free port for the scheduler on {host}: is that an address of this machine?")
    };
    let port = listener.local_addr()?.port();
    Ok(Root { host, port, reserved: Some(listener) })
}

/// A listener at a free port of that host, below the kernel's range of automatic ports.
pub(super) fn free_port(host: &str) -> Option<TcpListener> {
    const LOWEST: u16 = 10_000;
    const TRIES: u16 = 200;
    let highest = lowest_automatic_port();
    let span = highest.saturating_sub(LOWEST);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let seed = u64::from(seed) ^ (u64::from(std::process::id()) << 16);
    let spread = (0..TRIES).filter(|_| span > TRIES).map(|step| {
        LOWEST
            + (seed.wrapping_add(u64::from(step)).wrapping_mul(2_654_435_761) % u64::from(span))
                as u16
    });
    spread.chain([0]).find_map(|port| TcpListener::bind((host, port)).ok())
}

fn lowest_automatic_port() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}
