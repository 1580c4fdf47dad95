//! The settings with which a worker opens a session. This module checks whether they make sense,
//! and whether workers agree. It trusts no number from the wire.

use super::split::Bounds;
use super::status::rule_name;
use crate::wire::balance::{BalanceOpen, BalanceOrder, BalanceRule};

/// The most workers of a session.
pub const MEMBERS_MAX: u32 = 16_384;
/// The most iterations that a worker may be ahead of the slowest one.
pub const LOOKAHEAD_MAX: u32 = 1024;
/// The most samples of an epoch. Sums of places must not overflow.
pub const LENGTH_MAX: u64 = 1 << 62;
/// The largest quantum. What is left over is shared out sample by sample, so it must be small.
pub const QUANTUM_MAX: u32 = 4096;
/// The last iteration (or epoch) with which a session may begin, or to which a worker may skip.
pub const FIRST_MAX: u64 = 1 << 61;
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
    require(
        open.first <= FIRST_MAX,
        format!("it cannot begin with iteration {}: {FIRST_MAX} is the last one", open.first),
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

/// Iterations of an epoch; 0 where batches are dealt.
#[must_use]
pub fn per_epoch(open: &BalanceOpen) -> u64 {
    let total = u64::from(open.total);
    match rule_of(open) {
        Some(BalanceRule::Dealt) => 0,
        _ if open.wraps => open.length.div_ceil(total),
        _ => open.length / total,
    }
}

/// How many samples that worker takes at least and at most.
#[must_use]
pub const fn bounds_of(open: &BalanceOpen) -> Bounds {
    Bounds { min: open.min, max: if open.max == 0 { u32::MAX } else { open.max } }
}

/// All workers have to agree, but for rank, min, max and who reports. Returns a text with the first
/// point in which these two do not. `has_begun`: the second one comes while others compute, so it
/// does not matter where it would begin.
#[must_use]
pub fn difference(first: &BalanceOpen, second: &BalanceOpen, has_begun: bool) -> Option<String> {
    let pairs = [
        ("length", first.length, second.length),
        ("total", first.total.into(), second.total.into()),
        ("members", first.members.into(), second.members.into()),
        ("quantum", first.quantum.into(), second.quantum.into()),
        ("prefetch", ahead(first), ahead(second)),
        ("seed", first.seed, second.seed),
        ("epochs", first.epochs, second.epochs),
        ("wraps", first.wraps.into(), second.wraps.into()),
    ];
    let (a, b) = (first.rank, second.rank);
    if first.rule != second.rule {
        let name = |open| rule_of(open).map_or("one that is not known here", rule_name);
        return Some(format!("rank {a} has the rule {}, rank {b} {}", name(first), name(second)));
    }
    let other = pairs.into_iter().find(|(_, first, second)| first != second);
    let other = other
        .map(|(what, first, second)| format!("rank {a} has {what}={first}, rank {b} {second}"));
    other.or_else(|| order_difference(first, second, has_begun))
}

/// What a loader takes ahead, as applications say it.
const fn ahead(open: &BalanceOpen) -> u64 {
    open.lookahead.saturating_sub(1) as u64
}

/// Where two workers begin, and in which order they take samples.
fn order_difference(first: &BalanceOpen, second: &BalanceOpen, has_begun: bool) -> Option<String> {
    let (a, b) = (first.rank, second.rank);
    if !has_begun && first.first != second.first {
        let dealt = first.rule == BalanceRule::Dealt as i32;
        let what = if dealt { "epoch" } else { "iteration" };
        return Some(format!(
            "rank {a} begins with {what} {}, rank {b} with {}",
            first.first, second.first
        ));
    }
    let unsaid = BalanceOrder::Unsaid as i32;
    if first.order == unsaid || second.order == unsaid {
        return None;
    }
    let hashes = first.order_hash != second.order_hash && first.first == second.first;
    if first.order == second.order && !(hashes && first.order == BalanceOrder::Own as i32) {
        return None;
    }
    let (one, other) = (order_text(first), order_text(second));
    Some(format!("rank {a} takes samples {one}, rank {b} {other}"))
}

fn order_text(open: &BalanceOpen) -> String {
    match BalanceOrder::try_from(open.order) {
        Ok(BalanceOrder::Shuffled) => format!("in an order shuffled by seed={}", open.seed),
        Ok(BalanceOrder::Stored) => "as they are stored (shuffle=False)".to_owned(),
        Ok(BalanceOrder::Own) => {
            format!("in an order of its own (`order`) with the hash {:016x}", open.order_hash)
        }
        _ => "in an order that is not known here".to_owned(),
    }
}

/// Why no sizes are right.
pub(super) fn bounds_text(spec: &BalanceOpen) -> String {
    format!(
        "the workers that take part cannot share {} samples: the sum of their `max` is below it, \
         or that of their `min` above",
        spec.total
    )
}
