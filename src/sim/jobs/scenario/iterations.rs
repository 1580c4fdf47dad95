//! What jobs have in common whose planners are judged: plain rounds of dense tensors, one iteration
//! after the other, over connections that cut data into chunks. Draws no chance.

use std::time::Duration;

use super::super::config::JobConfig;
use super::super::script::Program;
use super::MS;
use crate::network::Chunks;

/// Such a job takes that long at most.
const LONGEST: Duration = Duration::from_secs(3600);

/// Workers push all tensors, and pull them, before they compute again. Nothing moves at random, and
/// nothing is lost.
pub(super) fn in_iterations(config: &mut JobConfig, chunks: Chunks) {
    config.program = Program {
        sync: true,
        rounds: 0,
        rule: None,
        second_rule: None,
        multi_precision: false,
        compressed: false,
        second_customer: None,
    };
    config.tensors.two_bit = None;
    config.tensors.rows = None;
    (config.tensors.both, config.tensors.pipelined) = (false, false);
    config.compute = MS * 50;
    config.pulls = 100;
    config.move_every = None;
    config.network.jitter = MS;
    config.network.chunks = Some(chunks);
    config.heal = LONGEST;
    config.time_max = LONGEST;
    config.steps_max = 50_000_000;
}
