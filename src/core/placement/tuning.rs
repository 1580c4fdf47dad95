//! The numbers that the planner is set by, in one place: what each means, in which unit, and what
//! it rests on. That is a section of the papers' facts, or "lab" (a measurement over links of
//! given rates: docs/placement.md, "What the lab shows"), or "ours" (a choice that works in the
//! tests of this room and was not measured apart).
//!
//! A fraction is a number without unit: 0.1 is a tenth. A factor says how many times. Limits on
//! what is remembered or believed from the wire stay where they guard, and so do tolerances of
//! arithmetic (`cost`).

use std::time::Duration;

// When a plan is made (`planner`)

/// Between two looks of the planner, at least. From: docs/algorithms.md 2.4 has 5 s; a look costs
/// less than a millisecond, and 5 s are several rounds after a change of the network.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// For so long a plan has to be worth it: longer than it takes until all nodes have noticed a
/// change (they report each second). From: ours; gate `settling`.
pub(super) const SETTLE: Duration = Duration::from_secs(2);

/// So long the network is expected to stay as it is; what a move costs has to come back in that
/// time. From: ours, the period of `scripts/bench lab redrawn`.
pub(super) const STEADY: Duration = Duration::from_secs(60);

/// Fraction. A prediction that changed by it since a plan came up: the network is still
/// changing, and the plan waits anew. From: ours.
pub(super) const SETTLE_DRIFT: f64 = 0.1;

/// So often a plan waits anew for that. From: ours; without it a network that never holds still
/// gets no plan.
pub(super) const SETTLE_RESTARTS_MAX: u32 = 3;

/// Factor. A plan that makes rounds shorter by less has to be worth it all through a round: while
/// only some of what a round does is under way, a card that is not kept busy looks slower than it
/// is. From: lab, `slowed` (one plan for a slower link, in the place of several).
pub(super) const SMALL_GAIN: f64 = 1.25;

/// So long the first plan waits for the first times of workers. From: ours; gate `without_times`.
pub(super) const FIRST_TIMES_WAIT: Duration = Duration::from_secs(10);

/// Factor. A plan that makes rounds shorter by that much does not wait for them. From: ours.
pub(super) const CLEAR_GAIN: f64 = 2.0;

/// Fraction of the bytes of a round. The first plan waits longer if a piece that cannot be cut is
/// larger: before their first round none can (`store/moving/moves`), and all small pieces would go
/// from where a large one is. From: ours.
pub(super) const LARGE_PIECE: f64 = 1.0 / 32.0;

/// So long it waits then. From: ours.
pub(super) const FIRST_ROUND_WAIT: Duration = Duration::from_secs(60);

/// Fraction. A round, or the shortest possible one, that differs by it from what the last plan
/// was made for, by the model: the network is another one, or better known. From: lab, `redrawn`
/// (with 0.25 eta was 0.7 again after 2, 6, none, 5, 2 rounds, with 0.12 after 3, 2, 3, 2, 2).
pub(super) const NETWORK_CHANGED: f64 = 0.12;

/// Rounds. What a card was able to do counts for that fraction of the shortest possible round, ...
/// From: lab, second case (plans every third round without it).
pub(super) const KNOWN_SPAN_ROUNDS: f64 = 0.5;

/// ... and that long at most.
pub(super) const KNOWN_SPAN_MAX: Duration = Duration::from_secs(10);

/// A plan that is not reported as done after that time, ... From: ours.
pub(super) const MOVE_WAIT: Duration = Duration::from_secs(120);

/// ... and after so many rounds, is taken as given up.
pub(super) const MOVE_WAIT_ROUNDS: f64 = 10.0;

/// Rounds for which a move has to pay (H of docs/algorithms.md 2.3), at least and at most;
/// [`STEADY`] says how many in between. From: ours.
pub(super) const HORIZON_ROUNDS: (f64, f64) = (10.0, 1000.0);

/// Nodes that receive report each second ([`REPORT_PERIOD`]); after a longer silence nobody does,
/// and the job rests. From: ours.
pub(super) const BUSY_SILENCE: Duration = Duration::from_millis(1500);

/// Rounds without a plan after one was rolled back; doubles each time, ...
/// From: docs/algorithms.md 4.5.
pub(super) const HOLD_ROUNDS: u64 = 20;

/// ... up to so many. From: docs/algorithms.md 4.5.
pub(super) const HOLD_ROUNDS_MAX: u64 = 320;

/// Fraction. A round, or the shortest possible one, that differs by it from what it was when a
/// plan was rolled back: that was another network. More than what estimates differ by from look to
/// look. From: ours.
pub(super) const HOLD_OTHER_NETWORK: f64 = 0.25;

/// Fraction. A server with less than such a fraction of what the average one holds has hardly
/// anything: what little comes to it says little about its card. From: ours.
pub(super) const HARDLY_HOLDS: f64 = 0.05;

/// Bytes per second of servers of which nothing is known; only that it is the same for all counts.
pub(super) const UNKNOWN_RATE: f64 = 1e9;

/// Fraction of a card. A server is counted as slower by that fraction for each time that the
/// average server is faster (`planner/look`). From: lab, second case (11.7 to 12.9 s a round became
/// 11.0 to 12.1 s).
pub(super) const LAG: f64 = 0.1;

/// Fraction of a card that a slow server may use at least. From: ours.
pub(super) const LAG_USED_MIN: f64 = 0.3;

/// Rounds. What moves in one round takes a server that fraction of it. It travels once to its new
/// owner and once more to the copy there. From: a run in which all at once made one round twice as
/// long.
pub(super) const PORTION_ROUNDS: f64 = 0.125;

/// A round that is not over after so many times the usual one, ... From: ours.
pub(super) const PORTION_WAIT_ROUNDS: f64 = 2.0;

/// ... and after that long at least, is not waited for: perhaps nobody trains just now.
pub(super) const PORTION_WAIT: Duration = Duration::from_secs(1);

// Where copies lie (`planner/copies`)

/// Up to so many servers other places for copies are looked for. From: ours; the search solves a
/// program for each pair.
pub(super) const COPIES_SERVERS_MAX: usize = 24;

/// Fraction. Copies stay where they are unless the shortest possible round becomes shorter by that
/// fraction. It is little because it pays more than the bound tells: a slow server that is filled
/// by the copies of a fast one keeps every worker waiting for each of them. From: ours.
pub(super) const COPIES_GAIN: f64 = 0.03;

/// Fraction by which it becomes shorter where the last places were decided before all that changed
/// was seen. From: lab, `redrawn`.
pub(super) const COPIES_GAIN_EARLY: f64 = 0.1;

/// Fraction. One change that makes less of a difference is none. From: ours.
pub(super) const COPIES_STEP_GAIN: f64 = 0.01;

/// Between two changes of places, at least: of [`COPIES_GAIN`], and of [`COPIES_GAIN_EARLY`]. From:
/// lab, `redrawn`.
pub(super) const COPIES_PAUSE: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(5)];

// Advice on the number of servers (`planner/advice`)

/// Fraction by which one server more has to make the shortest possible round shorter. From: ours.
pub(super) const ADVICE_MORE_GAIN: f64 = 0.1;

/// Fraction. A server is not needed if the shortest possible round without it is longer by no more.
/// From: docs/algorithms.md 4.6.
pub(super) const ADVICE_FEWER_LOSS: f64 = 0.02;

/// Fraction of a measured round. One more is advised only if servers keep workers for longer. From:
/// docs/algorithms.md 4.6.
pub(super) const ADVICE_SERVERS_FRACTION: f64 = 0.5;

/// So many looks in a row have to say the same. From: docs/algorithms.md 4.6.
pub(super) const ADVICE_LOOKS: u32 = 3;

/// Fraction of the round of now. Advice is another one if the round that it promises differs by it.
/// From: ours.
pub(super) const ADVICE_DIFFERS: f64 = 0.1;

// Shares (`shares`)

/// Fraction by which a round has to become shorter, or nothing moves. From: docs/algorithms.md 2.6.
pub(super) const THETA: f64 = 0.10;

/// The same while a server that may hold pieces has none. From: ours.
pub(super) const THETA_JOIN: f64 = 0.02;

/// Bytes. No cut leaves a piece with fewer. From: pipeline model, plans for known rates in forty
/// networks of 2 to 8 servers (with 64 KB the worst one took 1.21 times as long as with each tensor
/// cut, with this 1.09, with 16 KB 1.13).
pub(super) const PIECE_BYTES_MIN: u64 = 32 << 10;

/// No key has more pieces by cuts of the planner. From: ours.
pub(super) const KEY_PIECES_MAX: usize = 64;

/// Rounds over which a move has to pay, where nobody says how long they take ([`HORIZON_ROUNDS`]).
/// From: ours.
pub(super) const SHARES_HORIZON: f64 = 100.0;

/// Fraction of a server's load. What is given up, or kept, is summed up until it is that fraction
/// of all that is. From: ours.
pub(super) const GIVEN_UP_CHUNK: f64 = 1.0 / 32.0;

/// Fraction. A load that near to its target is good enough. From: ours.
pub(super) const LOAD_TOLERANCE: f64 = 0.01;

/// Even shares. Of a model so small that servers hold less than some pieces, a server may hold that
/// many. From: ours.
pub(super) const SMALL_MODEL_LOAD: f64 = 4.0;

/// Factor. A round that near to what the target would give is good enough. From: ours.
pub(super) const IMPROVE_NEAR: f64 = 1.02;

/// Fraction that a change of places has to gain. From: ours.
pub(super) const IMPROVE_STEP_GAIN: f64 = 0.005;

/// Changes of places, at most: the time of a plan.
pub(super) const IMPROVE_STEPS_MAX: usize = 64;

/// Pieces of one server that are tried, by size: the time of a plan.
pub(super) const IMPROVE_PIECES_MAX: usize = 32;

/// Tensors that are cut for all servers, at most: the pieces of a plan, and its time. From: fluid
/// model, `what_cutting_gains` (with 32 the worst network is within 2 % of all of them).
pub(super) const SHARED_TENSORS_MAX: usize = 64;

/// Fraction of the bytes of a round. Smaller tensors do not make it wait. From: fluid model.
pub(super) const SHARED_TENSOR_MIN: f64 = 0.002;

/// Fraction. Twice as many tensors are cut only if rounds become shorter by it. From: ours.
pub(super) const SHARED_GAIN: f64 = 0.01;

/// Steps of the search for the fraction of a round by which all is due: halves, so what is missing
/// is no byte.
pub(super) const SPREAD_STEPS: usize = 60;

// What workers see (`stragglers`)

/// Fraction. A straggler takes longer than the mean of all by it, ... From: docs/algorithms.md 4.3.
pub(super) const STRAGGLER_ABOVE: f64 = 0.2;

/// ... in so many reports in a row. From: docs/algorithms.md 4.3.
pub(super) const STRAGGLER_REPORTS: u32 = 2;

/// Weight of an observation after one more. From: docs/algorithms.md 4.5.
pub(super) const FIT_FORGETTING: f64 = 0.8;

/// Fraction. A time that far from the expected one means that something has changed. From:
/// docs/algorithms.md 4.5.
pub(super) const FIT_REGIME: f64 = 0.5;

/// Fraction of the plans that try something else than the best known. From: docs/algorithms.md 4.5.
pub(super) const EXPLORATION: f64 = 0.05;

/// Factor of [`EXPLORATION`] at each report without a straggler. From: docs/algorithms.md 4.5.
pub(super) const EXPLORATION_CALM: f64 = 0.97;

/// Deviation of the logarithm of what is tried. From: docs/algorithms.md 4.5.
pub(super) const EXPLORATION_BOLDNESS: f64 = 0.25;

/// Fraction. Only servers whose times are that far from the expected ones are experimented with.
/// From: ours.
pub(super) const EXPLORATION_RESIDUAL: f64 = 0.2;

/// Fraction. Handlers that take as much of the time are the cause. From: docs/algorithms.md 4.3
/// (network-bound if the handler's time is far below).
pub(super) const HANDLER_BUSY: f64 = 0.5;

/// Factor. A server that takes so many times what its card explains is not slow by its card. From:
/// ours; only names a cause.
pub(super) const UNEXPLAINED_SLOWDOWN: f64 = 1.5;

/// Factor. A difference from the usual server that counts. From: ours; only names a cause.
pub(super) const CAUSE_DIFFERENT: f64 = 1.2;

/// Weight. How much the fixed time is held at 0, against one observation. Enough to decide where
/// observations do not, too little to matter where they do. From: ours.
pub(super) const FIT_RIDGE: f64 = 0.01;

/// Fraction. Two operating points differ at least by it. From: ours.
pub(super) const FIT_APART: f64 = 0.1;

/// Operating points that tell the constants apart. From: docs/algorithms.md 4.5.
pub(super) const FIT_POINTS: usize = 3;

/// Factor. No server is believed to be slower by more: a share that is next to nothing could not be
/// timed, and so never be corrected. From: docs/algorithms.md 4.5 keeps a share of 2 % for that;
/// this keeps as much, unless the card is slow as well.
pub(super) const SLOWDOWN_MAX: f64 = 32.0;

/// Fraction of the longest time. Times of servers that should take less say nothing. From: ours.
pub(super) const TELLING_FRACTION: f64 = 0.05;

/// What is known of a server that is not seen any more fades: first after that time, ... From:
/// ours.
pub(super) const FADE_AFTER: Duration = Duration::from_secs(30);

/// ... then by half in each.
pub(super) const FADE_HALF: Duration = Duration::from_secs(60);

/// Fraction of a server's time. Fixed seconds below are noise. From: ours.
pub(super) const FIXED_MIN: f64 = 0.1;

/// A report of a worker covers so many rounds, ... From: docs/algorithms.md 4.3.
pub(super) const REPORT_ROUNDS: usize = 5;

/// ... or what there is after that time: long rounds must not keep the scheduler in the dark. From:
/// ours.
pub(super) const REPORT_AFTER: Duration = Duration::from_secs(5);

/// Fraction of an iteration. A worker that computes longer than the usual one of the others by it
/// holds them up, if their iterations differ by less. From: ours; only names it.
pub(super) const SLOW_WORKER: f64 = 0.2;

/// Rounds after a switch that are looked at. From: docs/algorithms.md 4.5.
pub(super) const TRIAL_ROUNDS: u64 = 5;

/// Reports after a switch that are looked at, at least: the network may change within one of them.
/// From: ours.
pub(super) const TRIAL_REPORTS: usize = 3;

/// Fraction. Rounds that are longer by it are worse. From: docs/algorithms.md 4.5.
pub(super) const TRIAL_WORSE: f64 = 0.05;

/// Ratios of measured to predicted rounds that are remembered. From: ours.
pub(super) const TRIAL_RATIOS: usize = 5;

// What links and cards can do (`links`)

/// Bytes. Messages are put together until they have as many; a sample with fewer says nothing.
/// From: docs/algorithms.md 2.2.
pub(super) const MIN_SAMPLE: u64 = 64 << 10;

/// Bytes with which a sample ends, ... From: ours.
pub(super) const FULL_SAMPLE: u64 = 1 << 20;

/// ... or after that time.
pub(super) const SAMPLE_TIME: Duration = Duration::from_millis(100);

/// A sample that took less says nothing: the bytes lay in a buffer. From: ours.
pub(super) const SAMPLE_TIME_MIN: Duration = Duration::from_micros(20);

/// Between two messages of one sender with more to send there is no longer pause, unless something
/// else is wrong (a connection was made anew, a process was stopped). From: ours.
pub(super) const SENDING_PAUSE_MAX: Duration = Duration::from_secs(1);

/// So many slow probes one after the other, in a job that rests, show that a link is slow: one may
/// have met somebody else's traffic. From: ours.
pub(super) const SLOW_PROBES: u32 = 3;

/// Samples of a link that are kept. From: docs/algorithms.md 2.2.
pub(super) const SAMPLES: usize = 8;

/// Without traffic confidence halves in that time. From: docs/algorithms.md 2.2.
pub(super) const HALF_LIFE: Duration = Duration::from_secs(10);

/// Fraction that a link is trusted less, at most, because its traffic is long ago. Before
/// [`PROBE_AFTER`] it is trusted as ever: rounds can take as long, and while a slow server keeps
/// everybody waiting, the fast ones rest. From: ours.
pub(super) const STALE_DISCOUNT: f64 = 0.25;

/// Fraction that a link is trusted less, at most, because its samples differ. From: ours.
pub(super) const SPREAD_DISCOUNT: f64 = 0.25;

/// A report at least that often while there is traffic. From: docs/algorithms.md 2.2.
pub(super) const REPORT_PERIOD: Duration = Duration::from_secs(1);

/// Fraction. A report at once if an estimate changed by it, ... From: docs/algorithms.md 2.2.
pub(super) const REPORT_CHANGE: f64 = 0.10;

/// ... but never more often than this. From: ours.
pub(super) const REPORT_GAP: Duration = Duration::from_millis(100);

/// A link without traffic for that long should be probed. From: docs/algorithms.md 2.2.
pub const PROBE_AFTER: Duration = Duration::from_secs(30);

/// An idle link is probed first after that time; then whenever it has been idle for twice as long,
/// until [`PROBE_AFTER`]. While a slow server keeps everybody waiting, others that have become
/// faster rest, and nothing else shows it. From: lab, `redrawn`.
pub(super) const FIRST_PROBE_AFTER: Duration = Duration::from_secs(2);

/// Factor. What is faster than known by it has become faster. From: ours.
pub(super) const SURPASSED: f64 = 1.5;

/// What a worker was able to do once it can still do after that time with traffic, unless its links
/// say otherwise: while one slow server keeps it waiting, nothing shows it. From: ours.
pub(super) const MEMORY: Duration = Duration::from_secs(60);

/// What a whole node sends is looked at in windows of that length. From: docs/algorithms.md 2.2 has
/// 1 s.
pub(super) const WINDOW: Duration = Duration::from_millis(250);

/// Windows, or groups of slots, in which a node was kept busy that are remembered. From: ours.
pub(super) const WINDOWS: usize = 16;

/// A window that became as long, because nobody looked, says nothing. From: ours.
pub(super) const WINDOW_MAX: Duration = Duration::from_secs(1);

/// Windows. Of so many that count a server's fastest ones tell what it can send. There are few in a
/// round: in most of them something else holds it back, or it paces itself. So with more of them,
/// or a minute's, a card that has become slower was taken for what it had been for seven rounds,
/// and got copies to send for which it had no room. From: lab, `redrawn`.
pub(super) const SERVER_WINDOWS: usize = 8;

/// Windows that are kept: those of the last second, and what may still come to the one before.
pub(super) const RECENT_WINDOWS: u64 = 8;

/// Fraction. A peer counts in a window if it had more to send, or to be sent, for that fraction of
/// it. From: ours.
pub(super) const WINDOW_COVERED: f64 = 0.8;

/// Bytes. Less in a window is no traffic: nodes of a job that rests still tell each other that they
/// are there. From: ours.
pub(super) const WINDOW_TRAFFIC: u64 = 8 << 10;

/// A job without traffic for longer rests, and what it knew does not grow older: no card becomes
/// another one by that, and the first round after it must not begin as if nothing were known. From:
/// lab, second table.
pub(super) const JOB_REST: Duration = Duration::from_secs(5);

/// Factor. What a card carries has become less if it is below that fraction of what it was, and
/// more if it was below that fraction of what it is. From: ours.
pub(super) const CARD_CHANGED: f64 = 0.75;

/// Rates closer together count as one, which keeps few of them.
pub(super) const KNOWN_TOGETHER: Duration = Duration::from_millis(500);

/// Long enough for what one read takes from the kernel, at 50 Mbit/s and more. From: lab, `redrawn`
/// (full windows were too rare).
pub(super) const SLOT: Duration = Duration::from_millis(10);

/// Slots. So far back they may still be added to: slow parts of messages are told of when they are
/// complete.
pub(super) const SLOTS_OPEN: u64 = 200;

/// Peers that must have more to send. From: docs/algorithms.md 2.2.
pub(super) const FULL_PEERS: u32 = 2;

/// Slots of one group: of a server, and of a worker. (Of a worker the fastest groups of a
/// minute count, so they must be longer: of many short ones some are too fast.) From: ours.
pub(super) const GROUP_SLOTS: [u32; 2] = [10, 25];

/// A round trip that is as long is a long way: TCP's window needs ten of them to grow from where it
/// begins to what a fast link needs, and that is longer than a sample (`transport/native/held`).
pub(super) const LONG_WAY: Duration = Duration::from_millis(10);

/// Round trips. A sample, or a group, is at least that long on a long way: TCP needs one or two to
/// send again what was lost. From: lab, 40 ms one way (groups of 100 ms had 24, 33 and 219 Mbit/s
/// one after the other, of a card of 96).
pub(super) const GROUP_ROUND_TRIPS: u32 = 4;

/// Slots of a group, at most: two seconds. From: ours; rounds are not much longer.
pub(super) const GROUP_SLOTS_MAX: u32 = 200;

/// Fraction. A group of slots counts if that fraction of the peers that had more to send lately
/// still had: the last ones do not fill the card, as each may only have its share of that under
/// way. From: ours.
pub(super) const CROWDED: f64 = 0.75;

/// Factor. What is left of that number with each group: it is halved after 3.5 s in which fewer
/// peers had more. From: ours.
pub(super) const CROWD_KEPT: f64 = 0.98;

/// What receivers saw of one sender counts together if they reported within that time
/// ([`REPORT_PERIOD`] and a half).
pub(super) const UPS_TOGETHER: Duration = Duration::from_millis(1500);

/// Fraction. A link is narrower than the cards at its ends only if it is below that fraction of
/// what both could give it with all links in use. Above, the cards explain it. From: ours.
pub(super) const NARROW_PAIR: f64 = 0.5;

/// Fraction of a server's card that is left to workers, at least, while copies use it too: of what
/// may be under way to it workers have a third of what another server has with copies
/// (`transport/native/receiver/windows`). Without it pushes that shared a slowed card with copies
/// seemed narrow, and their server got a third less than its card can carry. From: lab (slowed).
pub(super) const COPIES_LEAVE: f64 = 0.25;

/// Factor. A link is held up at its server if its worker has one that is faster by it. From: ours.
pub(super) const HELD_UP_SERVER: f64 = 1.2;

/// The same for its worker. (When the others are done one worker may have a server for itself.)
/// From: ours.
pub(super) const HELD_UP_WORKER: f64 = 4.0;

/// Confidence. A server that has sent for five seconds, and never was kept busy with it, can send
/// more than it was able to before: it holds so little that nobody waits for it. That is the
/// confidence which is left then.
pub(super) const TRUSTED_CONFIDENCE: f64 = 0.7;

/// Fraction. A worker that exchanges that fraction of what the servers can that it has something
/// from, or more, is not what limits them. From: pipeline model, networks in which two of six
/// servers hold nearly all (rounds took 3.8 times T*).
pub(super) const WORKER_EXPLAINED: f64 = 0.75;

/// Factor. A server that was not kept busy lately can send what it could before, unless its links
/// together bring that many times as much. From: pipeline model, networks with unequal up and down
/// (without it plans went to and fro, as such a server was taken to send as fast as it receives).
pub(super) const LINKS_RISEN: f64 = 1.25;

/// Factor. A card that carried so many times what all its links together seem to can is not as slow
/// as these. From: ours; over links of 40 ms one way three equal servers were taken for 14 to 98
/// Mbit/s in the first rounds.
pub(super) const CARRIED_MORE: f64 = 1.25;

/// Windows. A worker is slow to send or to receive, a server to send, or a link narrow, only if so
/// many say so. While a job begins one worker makes the keys, and what servers then answer in a few
/// windows is less than any of them can send or get: the answers are small, and their confirmations
/// wait behind what workers push. From: ours.
pub(super) const TELLING_WINDOWS: u32 = 8;

// What the links of trees carry (`links/trains`, `links/carried_rates`)

/// Bytes. So much of what follows each other says nothing of a link: a token bucket lets the first
/// ones through at once, and TCP begins slowly. As the head of a probe
/// ([`crate::wire::native::PROBE_HEAD`]).
pub(super) const TRAIN_HEAD: u64 = crate::wire::native::PROBE_HEAD;

/// Bytes after that with which a train begins to count. From: lab of sites, where a link hands on
/// 64 KB at once.
pub(super) const TRAIN_LEAST: u64 = 192 << 10;

/// Parts of rounds must have come so lately for what is seen of links to count. From: ours.
pub(super) const TRAINS_USED: Duration = Duration::from_secs(2);

/// Bytes that are worth a report. From: ours.
pub(super) const CARRIED_TOLD: u64 = 64 << 10;

/// Whether a link has changed is seen in its last reports, back to so much busy time, ... From:
/// ours; a plan has to follow a change within 5 s.
pub(super) const CARRIED_TIME: Duration = Duration::from_secs(1);

/// ... or so many bytes. From: ours.
pub(super) const CARRIED_BYTES: u64 = 4 << 20;

/// So long before the newest report, at most. From: ours.
pub(super) const CARRIED_SPAN: Duration = Duration::from_secs(5);

/// By what the rate of a busy second (its logarithm) differs if the link has changed; less than a
/// second has to differ by as much more as it is shorter. From: ours. In the lab of nine sites busy
/// seconds differ by 0.04 (standard deviation) over links that stay the same. A link that carries
/// 30 % less is known after 1 s in the middle, as it is without means, and 2 s at worst.
pub(super) const CARRIED_CHANGED: f64 = 0.2;

/// Else reports count less and less, by this much busy time, ... From: ours. Means over 10 s differ
/// by 0.017 there. (5 s: 0.019, 20 s: 0.016.)
pub(super) const CARRIED_FADE_BUSY: Duration = Duration::from_secs(10);

/// ... and by this much time in which rounds go on. From: ours.
pub(super) const CARRIED_FADE: Duration = Duration::from_secs(30);

/// After a silence of [`CARRIED_SPAN`], what was before counts at most that many times as much as
/// what comes. From: ours; a link that only probes measure is known by the last few of them.
pub(super) const CARRIED_RARE: f64 = 2.0;

/// When some link has changed, what is known of the others counts as much as this busy time of what
/// comes. From: ours; a probe takes 0.1 to 0.3 s.
pub(super) const CARRIED_DOUBTED: Duration = Duration::from_millis(200);

/// Bytes. Fewer say nothing. From: ours; a probe of a link that rests gives some more.
pub(super) const CARRIED_LEAST: u64 = 64 << 10;

/// Reports of one link that are remembered: those of [`CARRIED_SPAN`]. From: ours.
pub(super) const CARRIED_KEPT: usize = 25;

/// Nothing gets through a link on which something has been under way for so long without any of it
/// being confirmed. From: ours; TCP repeats what is lost several times within that, unless the way
/// is long ([`Sent::patience`](super::links::Sent)).
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(2);

/// That is said again after so long. From: ours.
pub(super) const STALLED_REPEATED: Duration = Duration::from_secs(1);

// What processors can do (`links/cpu_share`)

/// Between two looks, at least. From: ours.
pub(super) const WORK_LOOK: Duration = Duration::from_secs(1);

/// Bytes. A server that exchanged less with workers between two looks says nothing: in a rest, in
/// which pieces may move, who shares its processor may be busier than in rounds. From: ours.
pub(super) const WORK_TRAFFIC: u64 = 64 << 10;

/// Fraction of the time. A thread that waits for a processor for it is starved, ... From:
/// docs/algorithms.md 4.3 names the cause; lab, a hundredth of a core.
pub(super) const STARVED_WAIT: f64 = 0.5;

/// ... if so many ... From: ours.
pub(super) const STARVED_LOOKS: usize = 2;

/// ... of so many last looks with traffic found that.
pub(super) const STARVED_LOOKS_OF: usize = 4;

/// Fraction of a processor with which, or with more, nobody is called starved. From: ours.
pub(super) const UNSTARVED_SHARE: f64 = 0.5;

/// Fraction of a processor. No smaller one is believed: the kernel's smallest quota is no smaller.
pub(super) const PROCESSOR_SHARE_MIN: f64 = 0.001;

/// Weight of older looks, after one more, in what a byte takes: a round and more counts. From:
/// ours.
pub(super) const WORK_KEPT: f64 = 0.9;

/// Fraction. Of a starved node only looks in which it used that fraction of what is left to it say
/// what a byte takes. In others much of what it ran was for clocks and signs of life: with less to
/// carry each byte would seem to take more, so it would be given less still. From: lab, a hundredth
/// of a core.
pub(super) const WORK_USED: f64 = 0.75;
