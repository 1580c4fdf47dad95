//! The gate against applications of several kinds: BytePS's rounds in every order of two and three
//! workers, its first pushes, its asynchronous mode, and some that it must not keep from going on.

use bytes::Bytes;
use proptest::prelude::*;
use smallvec::smallvec;

use super::*;

const KEY: Key = 7;
const A: NodeId = 9;
const B: NodeId = 11;
const NOW: Duration = Duration::ZERO;

fn request(sender: NodeId, push: bool, timestamp: i32) -> Message {
    let keys = Bytes::copy_from_slice(&KEY.to_le_bytes());
    let meta = Meta {
        sender,
        customer_id: 0,
        timestamp,
        request: true,
        push,
        pull: !push,
        ..Meta::default()
    };
    Message { meta, data: smallvec![keys, Bytes::new()] }
}

/// A gate and what the application was given, as (worker, push).
#[derive(Default)]
struct Play {
    gate: Gate,
    given: Vec<(NodeId, bool)>,
    timestamp: i32,
    /// Pulls that the application has.
    pulls: BTreeMap<NodeId, Meta>,
}

impl Play {
    fn ask(&mut self, now: Duration, who: NodeId, push: bool) -> bool {
        self.timestamp += 1;
        let given = self.gate.take(now, request(who, push, self.timestamp));
        let passed = given.is_some();
        self.give(given);
        passed
    }

    fn push(&mut self, who: NodeId) -> bool {
        self.ask(NOW, who, true)
    }

    fn pull(&mut self, who: NodeId) -> bool {
        self.ask(NOW, who, false)
    }

    fn give(&mut self, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            let meta = message.meta;
            self.given.push((meta.sender, meta.push));
            if meta.pull {
                self.pulls.insert(meta.sender, meta);
            }
        }
    }

    fn answer(&mut self, who: NodeId) -> GatedAnswer {
        let meta = self.pulls.remove(&who).unwrap();
        self.gate.answered(&meta).unwrap()
    }

    fn flush(&mut self, answer: GatedAnswer) {
        let released = self.gate.flushed(answer);
        self.give(released);
    }

    fn answer_and_flush(&mut self, who: NodeId) {
        let answer = self.answer(who);
        self.flush(answer);
    }
}

#[test]
fn a_push_waits_until_every_pull_of_the_round_is_out() {
    let mut play = Play::default();
    // The pushes that make the key, then a round.
    assert!(play.push(A) && play.push(B) && play.push(A) && play.push(B));
    assert!(play.pull(A));
    play.answer_and_flush(A);
    assert!(!play.push(A), "B has not pulled");
    assert!(play.pull(B));
    assert!(!play.pull(A), "it waits behind the push of the same worker");
    let answer = play.answer(B);
    assert_eq!(play.given.len(), 6, "the values of B's answer are still needed");
    play.flush(answer);
    assert_eq!(play.given[6..], [(A, true), (A, false)]);
    assert!(play.push(B) && !play.gate.holds());
}

#[test]
fn pushes_without_pulls_never_wait() {
    let mut play = Play::default();
    for _ in 0..5 {
        assert!(play.push(A));
    }
    assert!(play.push(B) && play.pull(B));
    play.answer_and_flush(B);
    assert!(play.push(B), "A is not in B's round");
}

/// BYTEPS_ENABLE_ASYNC, should somebody forget to say so: a pull is answered before all have
/// pushed.
#[test]
fn without_rounds_the_slower_worker_is_not_waited_for() {
    let mut play = Play::default();
    assert!(play.push(A) && play.push(B));
    for _ in 0..3 {
        assert!(play.push(A) && play.pull(A));
        play.answer_and_flush(A);
    }
    assert!(!play.gate.holds());
}

#[test]
fn nobody_waits_for_ever() {
    let mut play = Play::default();
    assert!(play.push(A) && play.push(B) && play.pull(A));
    play.answer_and_flush(A);
    assert!(!play.push(A), "B pushes, and never pulls");
    let (out, gave_up) = play.gate.tick(PATIENCE - Duration::from_millis(1));
    assert!(out.is_empty() && gave_up.is_empty());
    let (out, gave_up) = play.gate.tick(PATIENCE);
    play.give(out);
    assert_eq!(gave_up, [GaveUp { key: KEY, awaited: vec![B] }]);
    assert_eq!(play.given.last(), Some(&(A, true)));
    assert!(play.pull(A));
    play.answer_and_flush(A);
    assert!(play.push(A), "the key is not watched any more");
}

#[test]
fn nobody_waits_for_who_is_gone() {
    for left in [false, true] {
        let mut play = Play::default();
        assert!(play.push(A) && play.push(B) && play.pull(A));
        play.answer_and_flush(A);
        assert!(!play.push(A));
        let out = if left { play.gate.customer_left(B, 0) } else { play.gate.forget_node(B) };
        play.give(out);
        assert_eq!(play.given.last(), Some(&(A, true)));
    }
}

#[test]
fn what_the_dead_asked_is_forgotten() {
    let mut play = Play::default();
    assert!(play.push(A) && play.push(B) && play.pull(A));
    play.answer_and_flush(A);
    assert!(!play.push(A));
    assert!(play.gate.forget_node(A).is_empty() && !play.gate.holds());
    assert!(play.push(A), "another process has its id");
}

#[test]
fn requests_for_several_keys_pass() {
    let mut gate = Gate::default();
    let mut two = request(A, true, 1);
    two.data[0] = Bytes::from(vec![0; 2 * KEY_SIZE]);
    assert_eq!(gate.take(NOW, two.clone()), Some(two));
    assert!(gate.keys.is_empty());
}

/// One worker of BytePS: pushes; when it is acknowledged pulls; when that is answered goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Pushes,
    Pulls,
    Waits,
}

proptest! {
    /// BytePS's server, its workers in any order, answers written late: no round's push reaches the
    /// server while a pull of the round before is not out, and all rounds end.
    #[test]
    fn rounds_do_not_mix(
        workers in 1..4_usize,
        choices in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut play = Play::default();
        let ids: Vec<NodeId> = (0..workers as i32).map(|rank| 9 + 2 * rank).collect();
        for id in &ids {
            prop_assert!(play.push(*id), "the pushes that make the key");
        }
        let mut states = vec![Worker::Pushes; workers];
        let mut seen = play.given.len();
        // The server: who has pushed in the open round, and whose pulls of the last one are not
        // out.
        let (mut pushed, mut readers) = (0_usize, Vec::<NodeId>::new());
        let mut unwritten: Vec<(NodeId, GatedAnswer)> = Vec::new();
        let mut rounds = 0;
        for choice in choices.iter().copied().chain((0..200).map(|i| i as u8)) {
            let at = choice as usize % (workers + 1);
            if at == workers {
                if !unwritten.is_empty() {
                    let (id, answer) = unwritten.remove(choice as usize / 8 % unwritten.len());
                    readers.retain(|reader| *reader != id);
                    play.flush(answer);
                }
            } else {
                match states[at] {
                    Worker::Pushes => {
                        play.push(ids[at]);
                        states[at] = Worker::Pulls;
                    }
                    Worker::Pulls if play.given[seen..].is_empty() => {
                        play.pull(ids[at]);
                        states[at] = Worker::Waits;
                    }
                    _ => {}
                }
            }
            // What reached the server, in order.
            while seen < play.given.len() {
                let (_, push) = play.given[seen];
                seen += 1;
                if push {
                    prop_assert!(pushed > 0 || readers.is_empty(), "a push of the next round");
                    pushed += 1;
                    if pushed == workers {
                        pushed = 0;
                        rounds += 1;
                        readers.clone_from(&ids);
                    }
                }
            }
            // Pulls are answered when all have pushed.
            for (at, id) in ids.iter().enumerate() {
                let waits = states[at] == Worker::Waits;
                if readers.contains(id) && waits && play.pulls.contains_key(id) {
                    unwritten.push((*id, play.answer(*id)));
                    states[at] = Worker::Pushes;
                }
            }
        }
        prop_assert!(rounds >= 10, "only {rounds} rounds: somebody waits for ever");
    }
}
