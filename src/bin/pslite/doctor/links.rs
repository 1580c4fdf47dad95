//! What trees and tunnels need: a topology that there is, a file of links that can be read and
//! names this host, gateways that answer (docs/trees.md, docs/tunnels.md). All nodes of a host are
//! checked alike; what counts for one role alone is said.

use std::path::Path;

use pslite::node::files::read_links;
use pslite::placement::graph::text::parse;
use pslite::placement::graph::{NamedGraph, Topology};
use pslite::transport::tunnel::{Listener, who_listens};

use super::Finding;
use super::job::JobVariables;

const TOPIC: &str = "links";
/// Neighbours whose gateways are asked; the others are likely to be alike.
const ASKED_MAX: usize = 8;

pub(super) fn check(job: &JobVariables) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(topology(job));
    let Some(path) = &job.links else {
        if let Some(port) = tunnels(job) {
            findings.push(Finding::fail(
                TOPIC,
                format!("PSLITE_TUNNELS={port} needs PSLITE_LINKS"),
                "give it a file with the links of all hosts, on each node",
            ));
        }
        return findings;
    };
    // Of a scheduler's, `settings` says it.
    if job.topology.is_none() && tunnels(job).is_none() && !job.is_scheduler() {
        findings.push(Finding::warning(
            TOPIC,
            "PSLITE_LINKS has no effect without PSLITE_TUNNELS, or PSLITE_TOPOLOGY (scheduler)",
            "set one of them, or leave it out",
        ));
    }
    match read(path) {
        Ok(links) => findings.extend(of_host(job, path, &links)),
        Err(why) => findings.push(Finding::fail(
            TOPIC,
            format!("PSLITE_LINKS={path}: {why}"),
            "see `pslite sim --graph FILE`",
        )),
    }
    findings
}

fn tunnels(job: &JobVariables) -> Option<&str> {
    job.tunnels.as_deref().filter(|port| *port != "0")
}

fn topology(job: &JobVariables) -> Option<Finding> {
    let text = job.topology.as_deref()?;
    let advice = "choose star, balanced:K, or, with PSLITE_LINKS, packed or auto";
    let wrong = |why: &str| Finding::fail(TOPIC, format!("PSLITE_TOPOLOGY={text} {why}"), advice);
    let found = match text.parse() {
        Err(_) => wrong("is no topology"),
        Ok(Topology::Fapt(_)) => wrong("chooses other owners, which a job cannot"),
        Ok(Topology::Star | Topology::Balanced(_) | Topology::Auto) if job.links.is_none() => {
            counts_for(job, text)
        }
        Ok(_) if job.links.is_none() && job.is_scheduler() => wrong("needs PSLITE_LINKS"),
        Ok(_) => counts_for(job, text),
    };
    Some(found)
}

fn counts_for(job: &JobVariables, text: &str) -> Finding {
    let whom = if job.is_scheduler() { "" } else { "; it counts at the scheduler only" };
    Finding::ok(TOPIC, format!("PSLITE_TOPOLOGY={text}{whom}"))
}

fn read(path: &str) -> Result<NamedGraph, String> {
    let text = read_links(Path::new(path)).map_err(|error| error.to_string())?;
    let links = parse(&text).map_err(|error| error.to_string())?;
    links.graph.connected().map_err(|wrong| links.explain(&wrong))?;
    Ok(links)
}

fn of_host(job: &JobVariables, path: &str, links: &NamedGraph) -> Vec<Finding> {
    let hosts = links.names.len();
    let root = job.is_scheduler().then_some(&job.root_host).and_then(Option::as_ref);
    let Some(host) = root.or(job.node_host.as_ref()) else {
        return vec![Finding::warning(
            TOPIC,
            format!("PSLITE_LINKS={path} has {hosts} hosts; which one this is cannot be told"),
            "set DMLC_NODE_HOST to its name in the file",
        )];
    };
    let Some(own) = links.names.iter().position(|name| name == host) else {
        let text = format!("PSLITE_LINKS={path} has {hosts} hosts, and {host} is none of them");
        // With trees a scheduler, or a server that owns nothing, may be anywhere.
        let is_needed = tunnels(job).is_some() || job.role.as_deref() == Some("worker");
        let advice = "name the host in the file as DMLC_NODE_HOST does";
        return match is_needed {
            true => vec![Finding::fail(TOPIC, text, advice)],
            false => vec![Finding::warning(TOPIC, text, advice)],
        };
    };
    let graph = &links.graph;
    let is_next = |site: &usize| {
        *site != own && (graph.edge(own, *site).is_some() || graph.edge(*site, own).is_some())
    };
    let next: Vec<&str> = (0..hosts).filter(is_next).map(|site| links.name(site)).collect();
    let text = format!("PSLITE_LINKS={path}: {hosts} hosts, {} with a link to {host}", next.len());
    let mut findings = vec![Finding::ok(TOPIC, text)];
    if let Some(port) = tunnels(job) {
        findings.extend(gateways(port, host, &next));
    }
    findings
}

/// Asks the gateway of this host, and those of its neighbours.
fn gateways(port: &str, host: &str, next: &[&str]) -> Vec<Finding> {
    let Some(number) = port.parse().ok().filter(|number: &u16| *number > 0) else {
        return vec![Finding::fail(
            TOPIC,
            format!("PSLITE_TUNNELS={port} is no port"),
            "choose one from 1 to 65535, the same for all hosts",
        )];
    };
    let asked = std::iter::once(&host).chain(next).take(ASKED_MAX);
    asked.map(|name| gateway(name, number)).collect()
}

fn gateway(host: &str, port: u16) -> Finding {
    match who_listens(host, port) {
        Listener::Gateway => Finding::ok(TOPIC, format!("the gateway {host}:{port} answers")),
        Listener::Nobody => Finding::warning(
            TOPIC,
            format!("no gateway at {host}:{port}"),
            "the first node of that host starts it; is the port open between the hosts?",
        ),
        Listener::Stranger => Finding::warning(
            TOPIC,
            format!("what listens at {host}:{port} does not answer as a gateway"),
            "its file must name this host; or another program has the port: then choose another",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::path::PathBuf;

    use super::super::{Severity, job};
    use super::*;

    fn file(name: &str, content: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("pslite-doctor-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        path
    }

    fn found(variables: &[(&str, &str)]) -> Vec<Finding> {
        check(&job::of(variables))
    }

    #[track_caller]
    fn says(findings: &[Finding], level: Severity, part: &str) {
        let says = |finding: &Finding| finding.level == level && finding.text.contains(part);
        assert!(findings.iter().any(says), "{part}: {findings:#?}");
    }

    #[test]
    fn topologies_are_checked() {
        assert!(found(&[("DMLC_ROLE", "worker")]).is_empty());
        let of = |role: &str, topology: &str| {
            found(&[("DMLC_ROLE", role), ("PSLITE_TOPOLOGY", topology)])
        };
        says(&of("scheduler", "balanced:2"), Severity::Ok, "balanced:2");
        says(&of("worker", "packed"), Severity::Ok, "at the scheduler only");
        says(&of("scheduler", "packed"), Severity::Fail, "needs PSLITE_LINKS");
        says(&of("scheduler", "fapt:3"), Severity::Fail, "other owners");
        says(&of("scheduler", "ring"), Severity::Fail, "no topology");
        says(&found(&[("PSLITE_TUNNELS", "7100")]), Severity::Fail, "needs PSLITE_LINKS");
    }

    #[test]
    fn files_are_read_and_must_name_the_host() {
        let path = file("links", "link 127.0.78.1 127.0.78.2 10\n");
        let path = path.to_str().unwrap();
        let of = |role: &str, host: &str, links: &str| {
            let all = [("DMLC_ROLE", role), ("DMLC_NODE_HOST", host), ("PSLITE_LINKS", links)];
            found(&all)
        };
        says(&of("worker", "127.0.78.1", path), Severity::Ok, "2 hosts, 1 with a link");
        says(&of("worker", "127.0.78.1", path), Severity::Warning, "has no effect");
        says(&of("worker", "127.0.78.3", path), Severity::Fail, "is none of them");
        says(&of("server", "127.0.78.3", path), Severity::Warning, "is none of them");
        says(&of("worker", "127.0.78.1", "/nowhere"), Severity::Fail, "/nowhere");
        says(&of("worker", "127.0.78.1", "/dev/zero"), Severity::Fail, "no regular file");
        says(&found(&[("PSLITE_LINKS", path)]), Severity::Warning, "cannot be told");
        let bad = file("bad", "link a\n");
        says(&of("worker", "a", bad.to_str().unwrap()), Severity::Fail, "line 1");
    }

    #[test]
    fn gateways_are_asked() {
        let path = file("gateways", "link 127.0.78.1 127.0.78.2 10\n");
        let stranger = TcpListener::bind("127.0.78.2:0").unwrap();
        let port = stranger.local_addr().unwrap().port().to_string();
        let findings = found(&[
            ("DMLC_NODE_HOST", "127.0.78.1"),
            ("PSLITE_LINKS", path.to_str().unwrap()),
            ("PSLITE_TUNNELS", &port),
        ]);
        says(&findings, Severity::Warning, "no gateway at 127.0.78.1");
        says(&findings, Severity::Warning, "127.0.78.2");
        says(&findings, Severity::Warning, "does not answer as a gateway");
    }
}
