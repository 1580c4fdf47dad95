//! How a session is, for operators.

use crate::wire::balance::{BalanceRule, SessionStatus};

/// How a session is that hands out sizes; the rest of `status` says whose.
pub(super) fn with_sizes(
    status: SessionStatus,
    iteration: u64,
    sizes: &[u32],
    seconds: &[f64],
) -> SessionStatus {
    let live = || sizes.iter().copied().filter(|size| *size > 0);
    let (smallest, largest) = (live().min().unwrap_or(0), live().max().unwrap_or(0));
    let known: Vec<(u32, f64)> = sizes
        .iter()
        .copied()
        .zip(seconds.iter().copied())
        .filter(|(size, seconds)| *size > 0 && *seconds > 0.0)
        .collect();
    let all = !known.is_empty() && known.len() == live().count();
    let spread = all.then(|| spread(&known));
    let gain = all.then(|| gain(&known));
    SessionStatus { iteration, smallest, largest, spread, gain, ..status }
}

fn spread(known: &[(u32, f64)]) -> f64 {
    let seconds = || known.iter().map(|(_, seconds)| *seconds);
    let mean = seconds().sum::<f64>() / known.len() as f64;
    (seconds().fold(0.0, f64::max) - seconds().fold(f64::INFINITY, f64::min)) / mean
}

fn gain(known: &[(u32, f64)]) -> f64 {
    let total: f64 = known.iter().map(|(size, _)| f64::from(*size)).sum();
    let equal = total / known.len() as f64;
    let slowest = known.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let of_equal = known.iter().map(|(size, seconds)| seconds / f64::from(*size) * equal);
    of_equal.fold(0.0, f64::max) / slowest
}

/// The rule's name, as users write it.
pub(super) const fn rule_name(rule: BalanceRule) -> &'static str {
    match rule {
        BalanceRule::Fixed => "fixed",
        BalanceRule::Cpu => "cpu",
        BalanceRule::CpuLast => "cpu-last",
        BalanceRule::CpuMean => "cpu-mean",
        BalanceRule::Gpu => "gpu",
        BalanceRule::Dealt => "dealt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_sizes_bring() {
        let status = with_sizes(SessionStatus::default(), 7, &[48, 16], &[1.0, 1.1]);
        assert_eq!((status.smallest, status.largest, status.iteration), (16, 48, 7));
        assert!((status.spread.unwrap() - 0.1 / 1.05).abs() < 1e-9);
        // 32 samples of the second one would take 2.2 s.
        assert!((status.gain.unwrap() - 2.0).abs() < 1e-9);
        let early = with_sizes(SessionStatus::default(), 0, &[32, 32], &[1.0, 0.0]);
        assert_eq!((early.spread, early.gain), (None, None));
    }
}
