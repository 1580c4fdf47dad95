//! What a state machine promises of itself, as code: each large one has a `validate`, which walks
//! over its state and names the first promise that does not hold, with the numbers.
//!
//! Who calls it:
//!
//! - `pslite sim` after each step, for the whole state of who was given something. A state of many
//!   keys is looked at as a whole every so many steps only (`sim/jobs/promises`);
//! - debug builds at the end of each entry of a machine ([`debug`]): there it looks only at what
//!   the entry touched, so that it costs no more the more keys there are. An entry that goes over
//!   all keys itself (a policy) is followed by a look at all.
//!
//! Release builds call nothing of it. Pure; knows nothing of any machine.

/// Nothing is broken; or what is, with the numbers, for people.
pub type Valid = Result<(), String>;

/// Names a promise that does not hold.
///
/// # Errors
/// What `broken` says, unless it holds.
pub fn require(holds: bool, broken: impl FnOnce() -> String) -> Valid {
    if holds { Ok(()) } else { Err(broken()) }
}

/// Parts `from..to` ascend, none is empty, none overlaps another one, and all end within `length`.
///
/// # Errors
/// The first part that does not.
pub fn disjoint(parts: impl IntoIterator<Item = (u64, u64)>, length: u64) -> Valid {
    let mut end = 0;
    for (from, to) in parts {
        require(from < to, || format!("the part {from}..{to} is empty"))?;
        require(end <= from, || format!("the part {from}..{to} begins before {end}"))?;
        require(to <= length, || format!("the part {from}..{to} ends behind {length}"))?;
        end = to;
    }
    Ok(())
}

/// The same, and nothing from 0 to `length` is left out.
///
/// # Errors
/// The first part that does not.
pub fn covering(parts: impl IntoIterator<Item = (u64, u64)>, length: u64) -> Valid {
    let mut end = 0;
    for (from, to) in parts {
        require(from < to, || format!("the part {from}..{to} is empty"))?;
        require(end == from, || format!("the part {from}..{to} does not begin at {end}"))?;
        end = to;
    }
    require(end == length, || format!("the parts end at {end}, not at {length}"))
}

/// A debug build stops here if something is broken; a release build does not look.
pub fn debug(check: impl FnOnce() -> Valid) {
    if cfg!(debug_assertions) {
        let found = check();
        debug_assert!(found.is_ok(), "a broken invariant: {}", found.err().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_empty_overlap_or_leave_gaps_are_named() {
        assert_eq!(disjoint([(0, 4), (6, 8)], 8), Ok(()));
        for (parts, text) in [
            ([(0, 4), (3, 8)], "the part 3..8 begins before 4"),
            ([(0, 4), (6, 6)], "the part 6..6 is empty"),
            ([(0, 4), (6, 9)], "the part 6..9 ends behind 8"),
        ] {
            assert_eq!(disjoint(parts, 8), Err(text.to_owned()));
        }
        assert_eq!(covering([(0, 4), (4, 8)], 8), Ok(()));
        assert_eq!(
            covering([(0, 4), (6, 8)], 8),
            Err("the part 6..8 does not begin at 4".to_owned())
        );
        assert_eq!(covering([(0, 4)], 8), Err("the parts end at 4, not at 8".to_owned()));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "a broken invariant: two is odd"))]
    fn a_debug_build_stops_at_what_is_broken() {
        debug(|| Ok(()));
        debug(|| Err("two is odd".to_owned()));
    }
}
