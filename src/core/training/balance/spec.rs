//! The settings with which a worker opens a session. This module checks whether they make sense,
//! and whether workers agree. It trusts no number from the wire.

use super::split::Bounds;
use crate::wire::balance::{BalanceOpen, BalanceRule};

/// The most workers of a session.
pub const MEMBERS_MAX: u32 = 16_384;
/// The most iterations that a worker may be ahead of the slowest one.
pub const LOOKAHEAD_MAX: u32 = 1024;
/// The most samples of an epoch. Sums of places must not overflow.
pub const LENGTH_MAX: u64 = 1 << 62;
/// The largest quantum. What is left over is shared out sample by sample, so it must be small.
pub const QUANTUM_MAX: u32 = 4096;
/// The most bytes of a session's name.
pub const NAME_MAX: usize = 128;

/// Checks whether a session can be opened with these settings.
///
/// # Errors
/// It cannot. The text says what to change.
pub fn check(name: &str, open: &BalanceOpen) -> Result<(), String> {
    let require = |holds: bool, text: String| if holds { Ok(()) } else { Err(text) };
    let named = !name.is_empty() && name.len() <= NAME_MAX;
    require(named, format!("a session's name has 1 to {NAME_MAX} bytes"))?;
    let BalanceOpen { length, total, members, rank, min, lookahead, .. } = *open;
    require(
        (1..=MEMBERS_MAX).contains(&members),
        format!("{members} workers: 1 to {MEMBERS_MAX} can share a session"),
    )?;
    require(rank < members, format!("rank {rank} is not below the number of workers, {members}"))?;
    require(open.instance != 0, "an opening has a number".to_owned())?;
    let rule = rule_of(open).ok_or("this scheduler does not know the rule: it is older")?;
    require(total > 0, "a batch of 0 samples".to_owned())?;
    require(
        u64::from(total) <= length || open.wraps || rule == BalanceRule::Dealt,
        format!("{total} samples per iteration, and the epoch has {length}"),
    )?;
    require(
        (1..=LENGTH_MAX).contains(&length),
        format!("an epoch of {length} samples: 1 to {LENGTH_MAX} are possible"),
    )?;
    require(
        (1..=LOOKAHEAD_MAX).contains(&lookahead),
        format!("{lookahead} iterations ahead: 1 to {LOOKAHEAD_MAX} are possible"),
    )?;
    if rule == BalanceRule::Dealt {
        return Ok(());
    }
    require(min > 0, "each worker takes 1 sample at least".to_owned())?;
    let most = (total / members).clamp(1, QUANTUM_MAX);
    require(
        (1..=most).contains(&open.quantum),
        format!("quantum {}: 1 to {most} are possible with {total} samples", open.quantum),
    )?;
    let bounds = bounds_of(open);
    require(bounds.min <= bounds.max, format!("min {min} is above max {}", bounds.max))?;
    require(
        u64::from(members) <= u64::from(total),
        format!("{total} samples per iteration are too few for {members} workers"),
    )
}

/// The rule, if this version knows it.
#[must_use]
pub fn rule_of(open: &BalanceOpen) -> Option<BalanceRule> {
    BalanceRule::try_from(open.rule).ok()
}

/// How many samples that worker takes at least and at most.
#[must_use]
pub const fn bounds_of(open: &BalanceOpen) -> Bounds {
    Bounds { min: open.min, max: if open.max == 0 { u32::MAX } else { open.max } }
}

/// All workers have to agree, but for rank, min and max. Returns a text with the first point in
/// which these two do not.
#[must_use]
pub fn difference(first: &BalanceOpen, second: &BalanceOpen) -> Option<String> {
    let pairs = [
        ("length", first.length, second.length),
        ("total", first.total.into(), second.total.into()),
        ("members", first.members.into(), second.members.into()),
        ("quantum", first.quantum.into(), second.quantum.into()),
        ("lookahead", first.lookahead.into(), second.lookahead.into()),
        ("seed", first.seed, second.seed),
        ("epochs", first.epochs, second.epochs),
        ("wraps", first.wraps.into(), second.wraps.into()),
    ];
    let (a, b) = (first.rank, second.rank);
    if first.rule != second.rule {
        let names = (rule_of(first), rule_of(second));
        return Some(format!("rank {a} has the rule {:?}, rank {b} {:?}", names.0, names.1));
    }
    let other = pairs.into_iter().find(|(_, first, second)| first != second);
    other.map(|(what, first, second)| format!("rank {a} has {what}={first}, rank {b} {second}"))
}
