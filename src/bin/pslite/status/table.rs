//! The state of a job as a table and lines below it, for people. Pure.

use std::fmt::Write as _;

use pslite::scheduler::{LinkStatus, NodeStatus, Status, TreeStatus, TreesStatus};
use pslite::wire::balance::SessionStatus;

use super::exchange;

/// Above that eta means nothing. Measurements make it a little more than 1.
const ETA_MAX: f64 = 1.1;

/// Columns of the table of nodes.
const COLUMNS: usize = 10;
const HEADER: [&str; COLUMNS] = [
    "node",
    "id",
    "address",
    "state",
    "pieces",
    "values",
    "share",
    "state of optimizer",
    "computes",
    "waits",
];
/// Those from here on are left out if there is nothing in them.
const OPTIONAL: usize = 8;

/// For people. Writing to a string cannot fail.
pub(super) fn table(status: &Status) -> String {
    let mut text = String::new();
    let what = if status.elastic {
        format!("policy {}, {} further copies of each piece", status.epoch, status.replicas)
    } else {
        "keys do not move".to_owned()
    };
    let _ = writeln!(
        text,
        "job at {}: {}, {} workers, {} servers at the start; {what}",
        status.scheduler, status.phase, status.workers, status.servers
    );
    if !status.note.is_empty() {
        let _ = writeln!(text, "{}", status.note);
    }
    for wait in &status.waits {
        let _ = writeln!(text, "{wait}");
    }
    let total: u64 = status.nodes.iter().map(|node| node.bytes).sum();
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(status.nodes.iter().map(|node| row(node, total)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let filled = |column: usize| rows[1..].iter().any(|row| !row[column].is_empty());
    let shown: Vec<bool> = (0..COLUMNS).map(|column| column < OPTIONAL || filled(column)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).zip(&shown).filter(|(_, shown)| **shown);
        let cells = cells.map(|((cell, width), _)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if status.uncopied > 0 {
        let _ = writeln!(text, "{}", copies_of(status));
    }
    if let Some(exchange) = &status.exchange {
        let _ = writeln!(text, "exchange: {exchange}");
        exchange::draw(status, &mut text);
    }
    if status.iteration.is_some() {
        let _ = writeln!(text, "iteration: {}", seconds(status.iteration));
    }
    let _ = writeln!(
        text,
        "round: predicted {}, measured {}, lower bound T* {}, eta {}",
        seconds(status.predicted),
        seconds(status.measured),
        seconds(status.bound),
        eta_of(status.eta)
    );
    if !status.limit.is_empty() {
        let _ = writeln!(text, "limit: {}", status.limit);
    }
    if !status.no_plan.is_empty() {
        let _ = writeln!(text, "nothing is moved: {}", status.no_plan);
    }
    if !status.advice.is_empty() {
        let _ = writeln!(text, "advice: {}", status.advice);
    }
    if !status.exchange_advice.is_empty() {
        let _ = writeln!(text, "advice: {}", status.exchange_advice);
    }
    for session in &status.sessions {
        let _ = writeln!(text, "{}", line_of(session));
    }
    if let Some(trees) = &status.trees {
        draw(trees, &mut text);
    }
    text
}

/// What the loss of a server would cost.
pub(super) fn copies_of(status: &Status) -> String {
    let servers = || status.nodes.iter().filter(|node| node.role == "server");
    let pieces: usize = servers().map(|node| node.pieces).sum();
    let what_to_do = match servers().filter(|node| node.state == "live").count() {
        0 | 1 => "start a server",
        _ => "they are being made",
    };
    format!("{} of {pieces} pieces have no copy: {what_to_do}", status.uncopied)
}

/// T* by the measured round. T* comes from rates; a round that is much shorter shows that they are
/// not what carries it: nodes of one machine share memory, and links may not be measured.
pub(super) fn eta_of(eta: Option<f64>) -> String {
    match eta {
        None => "-".to_owned(),
        Some(eta) if eta <= ETA_MAX => format!("{eta:.2}"),
        Some(_) => "- (T* is too long here)".to_owned(),
    }
}

/// The trees, and what links carry there and back.
fn draw(status: &TreesStatus, text: &mut String) {
    let TreesStatus { topology, overlay, trees, links, why } = status;
    if !why.is_empty() {
        let _ = writeln!(text, "trees: {topology}, but rounds go straight: {why}");
        return;
    }
    let _ = writeln!(text, "trees: {topology}, {} of them, overlay {overlay}", trees.len());
    for TreeStatus { share, up, down, .. } in trees {
        let _ = writeln!(text, "  {:5.1} %  up   {up}\n           down {down}", 100.0 * share);
    }
    if links.is_empty() {
        return;
    }
    let _ = writeln!(text, "links, Mbit/s (in brackets: as PSLITE_LINKS says):");
    let rate = |link: &LinkStatus| match (link.measured, link.mbit) {
        (_, 0.0) => "cut".to_owned(),
        (true, mbit) => format!("{mbit:.1}"),
        (false, mbit) => format!("({mbit:.1})"),
    };
    for link in links {
        let back = links.iter().find(|back| back.from == link.to && back.to == link.from);
        let is_second = back.is_some_and(|back| {
            links.iter().position(|one| one == back) < links.iter().position(|one| one == link)
        });
        match back {
            Some(_) if is_second => {}
            Some(back) => {
                let (there, back) = (rate(link), rate(back));
                let _ = writeln!(text, "  {} to {}: {there}, back {back}", link.from, link.to);
            }
            None => {
                let _ = writeln!(text, "  {} to {}: {}", link.from, link.to, rate(link));
            }
        }
    }
}

/// Workers that share batches.
pub(super) fn line_of(session: &SessionStatus) -> String {
    let SessionStatus { name, rule, members, present, .. } = session;
    let mut line = format!("session {name:?}: rule {rule}, {present} of {members} workers");
    if rule == "dealt" {
        let percent = 100.0 * session.dealt;
        let _ = write!(line, ", {percent:.0} % of epoch {} is dealt", session.epoch);
        return line;
    }
    let SessionStatus { iteration, smallest, largest, .. } = session;
    let _ = write!(line, ", iteration {iteration}, {smallest} to {largest} samples");
    if let (Some(spread), Some(gain)) = (session.spread, session.gain) {
        let spread = 100.0 * spread;
        let _ = write!(
            line,
            ", times differ by {spread:.0} %, {gain:.2} times as fast as equal batches"
        );
    }
    line
}

fn row(node: &NodeStatus, total: u64) -> [String; COLUMNS] {
    let server = node.role == "server";
    let of_server = |text: String| if server { text } else { String::new() };
    let share = 100.0 * node.bytes as f64 / total.max(1) as f64;
    let known = node.state != "registered";
    [
        if known { format!("{} {}", node.role, node.rank) } else { node.role.clone() },
        if known { node.id.to_string() } else { "-".to_owned() },
        node.address.clone(),
        node.state.clone(),
        of_server(node.pieces.to_string()),
        of_server(bytes(node.bytes)),
        of_server(format!("{share:.1} %")),
        of_server(bytes(node.state_bytes)),
        node.computes.map_or_else(String::new, |time| seconds(Some(time))),
        node.waits.map_or_else(String::new, |time| seconds(Some(time))),
    ]
}

pub(super) fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3} s"))
}

pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(role: &str, rank: i32, id: i32, bytes: u64) -> NodeStatus {
        NodeStatus {
            role: role.to_owned(),
            rank,
            id,
            address: format!("10.0.0.{id}:9000"),
            state: "live".to_owned(),
            pieces: usize::from(bytes > 0),
            bytes,
            state_bytes: 2 * bytes,
            computes: None,
            waits: None,
            heard: None,
            totals: None,
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_node() {
        let status = Status {
            scheduler: "10.0.0.1:9091".to_owned(),
            phase: "running".to_owned(),
            workers: 1,
            servers: 2,
            elastic: true,
            epoch: 4,
            replicas: 1,
            nodes: vec![
                node("server", 0, 8, 3_000_000),
                node("server", 1, 10, 1_000_000),
                NodeStatus { computes: Some(0.2), waits: Some(0.0314), ..node("worker", 0, 9, 0) },
            ],
            iteration: Some(0.2314),
            predicted: None,
            measured: Some(0.25),
            bound: Some(0.2),
            eta: Some(0.8),
            limit: String::new(),
            no_plan: "rounds are as short as can be".to_owned(),
            advice: "one server more".to_owned(),
            note: String::new(),
            waits: vec!["a barrier waits".to_owned()],
            waiting: Vec::new(),
            circle: Vec::new(),
            sessions: vec![SessionStatus {
                name: "a".to_owned(),
                rule: "cpu".to_owned(),
                members: 3,
                present: 3,
                iteration: 120,
                smallest: 12,
                largest: 40,
                spread: Some(0.04),
                gain: Some(1.8),
                ..SessionStatus::default()
            }],
            trees: None,
            exchange: None,
            exchanges: Vec::new(),
            exchange_advice: String::new(),
            uncopied: 0,
            settings: Vec::new(),
            chronicle: None,
            rounds: None,
            moved: Vec::new(),
            advised_servers: None,
            oldest_waits: Vec::new(),
        };
        let mut alone = Status { uncopied: 2, ..status.clone() };
        assert!(table(&alone).contains("\n2 of 2 pieces have no copy: they are being made\n"));
        alone.nodes[0].state = "dead".to_owned();
        assert!(table(&alone).contains("2 of 2 pieces have no copy: start a server\n"));
        let exchange = Some("nbsync, 8 sections, nesterov 0.5 x 1".to_owned());
        let exchanging = table(&Status { exchange, ..status.clone() });
        let said = "\nexchange: nbsync, 8 sections, nesterov 0.5 x 1\niteration: 0.231 s\n";
        assert!(exchanging.contains(said), "{exchanging}");
        let text = table(&status);
        assert!(!text.contains("exchange"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 11, "{text}");
        assert_eq!(lines[1], "a barrier waits");
        assert!(lines[0].contains("policy 4") && lines[0].contains("running"), "{text}");
        assert!(lines[3].contains("server 0") && lines[3].contains("75.0 %"), "{text}");
        assert!(lines[3].contains("3000.0 KB") && lines[3].contains("6000.0 KB"), "{text}");
        assert!(!lines[5].contains('%'), "a worker has no share: {text}");
        assert!(lines[2].ends_with("computes  waits"), "{text}");
        assert!(lines[5].ends_with("0.200 s   0.031 s"), "{text}");
        assert_eq!(lines[6], "iteration: 0.231 s");
        assert!(lines[7].contains("predicted -") && lines[7].contains("eta 0.80"), "{text}");
        assert_eq!(eta_of(Some(1.04)), "1.04");
        assert!(eta_of(Some(12.0)).starts_with("- ("));
        assert_eq!(lines[8], "nothing is moved: rounds are as short as can be");
        assert_eq!(lines[9], "advice: one server more");
        let session = "session \"a\": rule cpu, 3 of 3 workers, iteration 120, 12 to 40 samples, \
                       times differ by 4 %, 1.80 times as fast as equal batches";
        assert_eq!(lines[10], session);
        let sessions = Vec::new();
        let silent = Status { sessions, advice: String::new(), no_plan: String::new(), ..status };
        assert_eq!(table(&silent).lines().count(), 8);
        let link = |from: &str, to: &str, mbit, measured| LinkStatus {
            from: from.to_owned(),
            to: to.to_owned(),
            mbit,
            measured,
        };
        let tree = TreeStatus {
            share: 1.0,
            root: "a".to_owned(),
            up: "a(b(c))".to_owned(),
            down: "a(b c)".to_owned(),
        };
        let links = vec![
            link("a", "b", 18.25, true),
            link("b", "a", 20.0, false),
            link("b", "c", 0.0, true),
        ];
        let (topology, why) = ("auto".to_owned(), String::new());
        let trees = TreesStatus { topology, overlay: 3, trees: vec![tree], links, why };
        let none = TreesStatus { why: "a host has no worker".to_owned(), ..trees.clone() };
        let drawn = table(&Status { trees: Some(none), ..silent.clone() });
        let last = drawn.lines().last();
        assert_eq!(last, Some("trees: auto, but rounds go straight: a host has no worker"));
        let drawn = table(&Status { trees: Some(trees), ..silent });
        let lines: Vec<&str> = drawn.lines().skip(8).collect();
        assert_eq!(
            lines,
            [
                "trees: auto, 1 of them, overlay 3",
                "  100.0 %  up   a(b(c))",
                "           down a(b c)",
                "links, Mbit/s (in brackets: as PSLITE_LINKS says):",
                "  a to b: 18.2, back (20.0)",
                "  b to c: cut",
            ]
        );
    }
}
