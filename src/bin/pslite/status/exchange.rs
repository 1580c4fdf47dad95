//! The part of `pslite status` about workers that train while deltas travel (docs/nbsync.md).

use std::fmt::Write as _;

use pslite::scheduler::Status;
use pslite::wire::exchange::status::{ExchangeStatus, ExchangeWorker};

/// Adds lines for each exchange and its workers. Writing to a string cannot fail.
pub(super) fn draw(status: &Status, text: &mut String) {
    for exchange in &status.exchanges {
        let _ = writeln!(text, "{}", line(exchange));
        for worker in &exchange.workers {
            let node = status.nodes.iter().find(|node| node.id == worker.id);
            let rank =
                node.map_or_else(|| format!("id {}", worker.id), |node| node.rank.to_string());
            let _ = writeln!(text, "  worker {rank}  {}", worker_line(worker));
        }
    }
}

fn line(exchange: &ExchangeStatus) -> String {
    let ExchangeStatus { customer, window, rounds, period, busy, gain, .. } = exchange;
    let mut text = format!("  kvstore {customer}: {window} in flight, {rounds} rounds");
    if let Some(period) = period {
        let _ = write!(text, ", all sections each {period:.2} s");
    }
    if let Some(busy) = busy {
        let _ = write!(text, ", network busy {}", percent(*busy));
    }
    if let Some(gain) = gain {
        let _ = write!(text, ", steps {gain:.1} x plain");
    }
    text
}

fn worker_line(worker: &ExchangeWorker) -> String {
    let number = |of: Option<f64>, unit: &str| {
        of.map_or_else(|| format!("- {unit}"), |number| format!("{number:.2} {unit}"))
    };
    let part = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), percent);
    let ExchangeWorker { steps, per_exchange, computing, held, stage, is_slowest, .. } = worker;
    let mut text = format!(
        "{}  {}  computing {}  held {}",
        number(*steps, "steps/s"),
        number(*per_exchange, "an exchange"),
        part(*computing),
        part(*held)
    );
    if !stage.is_empty() {
        let _ = write!(text, "  {stage}");
    }
    if *is_slowest {
        text.push_str("  <- rounds end with it");
    }
    text
}

fn percent(part: f64) -> String {
    format!("{:.0} %", (part * 100.0).clamp(0.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exchange_has_a_line_and_each_worker_of_it() {
        let of = |id, stage: &str, is_slowest: bool| ExchangeWorker {
            id,
            steps: is_slowest.then_some(1.214),
            per_exchange: Some(5.1),
            computing: Some(0.991),
            held: Some(0.0),
            stage: stage.to_owned(),
            is_slowest,
            ..ExchangeWorker::default()
        };
        let exchange = ExchangeStatus {
            window: 3,
            rounds: 412,
            period: Some(4.2),
            busy: Some(0.96),
            gain: Some(4.0),
            workers: vec![of(9, "", true), of(11, "aligns", false)],
            ..ExchangeStatus::default()
        };
        let mut text = String::new();
        draw(&Status { exchanges: vec![exchange], ..Status::default() }, &mut text);
        let expected = [
            "  kvstore 0: 3 in flight, 412 rounds, all sections each 4.20 s, network busy 96 %, \
             steps 4.0 x plain",
            "  worker id 9  1.21 steps/s  5.10 an exchange  computing 99 %  held 0 %  \
             <- rounds end with it",
            "  worker id 11  - steps/s  5.10 an exchange  computing 99 %  held 0 %  aligns",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
