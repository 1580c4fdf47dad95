use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;

use super::*;

const WAIT_APART: Duration = Duration::from_micros(100);

/// Waits of somebody who sleeps, one soon after the other.
fn sleeps(state: &mut HandoffState, now: &mut Instant, times: u32) {
    for _ in 0..times {
        assert!(!state.begin(*now, true));
        *now += WAIT_APART;
        state.note_message();
        state.wake(*now);
    }
}

/// A seat whose receiving thread has just stepped aside.
fn aside() -> (HandoffState, Instant) {
    let (mut state, mut now) = (HandoffState::default(), Instant::now());
    sleeps(&mut state, &mut now, WAITS + 1);
    assert!(state.is_wanted() && state.make_way());
    assert_eq!(state.look(false), AfterLook::Naps);
    (state, now)
}

#[test]
fn only_waits_one_soon_after_the_other_make_the_receiving_thread_step_aside() {
    let (mut state, mut now) = (HandoffState::default(), Instant::now());
    sleeps(&mut state, &mut now, WAITS);
    assert!(!state.is_wanted(), "the first one follows none");
    now += SOON;
    sleeps(&mut state, &mut now, 1);
    assert!(!state.is_wanted(), "one came late");
    sleeps(&mut state, &mut now, WAITS - 1);
    assert!(!state.is_wanted());
    // One that is not alone.
    assert!(!state.begin(now, false));
    state.wake(now);
    sleeps(&mut state, &mut now, WAITS - 1);
    assert!(!state.is_wanted());
    sleeps(&mut state, &mut now, 1);
    assert!(state.is_wanted());
}

#[test]
fn the_receiving_thread_stays_for_those_who_sleep() {
    let (mut state, mut now) = (HandoffState::default(), Instant::now());
    sleeps(&mut state, &mut now, WAITS);
    assert!(!state.begin(now, true) && state.is_wanted());
    assert!(!state.begin(now, false) && !state.is_wanted(), "it was wanted too soon");
    state.note_message();
    assert!(!state.make_way());
    state.wake(now);
    assert!(state.make_way(), "the last one has got what he waits for, most likely");
}

#[test]
fn the_receiving_thread_stays_for_who_began_to_wait_after_its_last_message() {
    let (mut state, mut now) = (HandoffState::default(), Instant::now());
    sleeps(&mut state, &mut now, WAITS);
    assert!(!state.begin(now, true) && state.is_wanted());
    assert!(!state.make_way(), "nothing came for him yet");
    state.note_message();
    assert!(state.make_way());
}

#[test]
fn a_waiter_takes_the_free_seat_and_nobody_is_told_when_he_leaves() {
    let (mut state, mut now) = aside();
    for _ in 0..100 {
        now += WAIT_APART;
        assert!(state.begin(now, true));
        assert!(!state.begin(now, true), "it is taken");
        state.wake(now);
        assert_eq!(state.look(false), AfterLook::Naps);
        state.leave(now, true, false);
        assert!(!state.needed);
    }
    assert_eq!(state.look(false), AfterLook::Sits, "nobody came again");
    assert!(!state.begin(now, true));
}

#[test]
fn a_waiter_who_stays_long_tells_when_he_leaves() {
    let (mut state, now) = aside();
    assert!(state.begin(now, true));
    assert_eq!((state.look(false), state.look(false)), (AfterLook::Naps, AfterLook::Sleeps));
    assert!(state.sleeps);
    state.leave(now, true, false);
    assert_eq!(state.look(false), AfterLook::Sits);
}

#[test]
fn the_receiving_thread_comes_back_when_it_is_needed() {
    for case in 0..5 {
        let (mut state, now) = aside();
        let sits = state.begin(now, case != 0);
        assert_eq!(sits, case != 0);
        match case {
            0 => {} // He sleeps, as his answer is not the only one under way.
            1 => {
                assert!(!state.begin(now, true), "another one sleeps");
                assert_eq!(state.look(false), AfterLook::Naps);
                state.leave(now, true, false);
            }
            2 => state.leave(now, true, true),
            3 => state.leave(now, false, false),
            _ => {
                assert_eq!(state.look(true), AfterLook::Sleeps, "the seat is taken");
                state.leave(now, true, false);
            }
        }
        assert!(state.needed || case == 4);
        assert!(case == 4 || !state.begin(now, true), "it is on its way back");
        assert_eq!(state.look(case == 4), AfterLook::Sits, "case {case}");
    }
}

/// Also while a waiter has the seat, and not only after the next look.
#[test]
fn a_second_request_calls_the_receiving_thread() {
    for taken in [false, true] {
        let handoff = Arc::new(ReceiverHandoff::default());
        *lock(&handoff.state) = aside().0;
        lock(&handoff.state).seen = u64::MAX;
        handoff.aside.store(true, Ordering::Relaxed);
        let stay = taken.then(|| handoff.begin(true));
        handoff.need_receiver();
        assert!(lock(&handoff.state).needed);
        if let Some(mut stay) = stay {
            assert!(stay.sits());
            assert_eq!(lock(&handoff.state).look(false), AfterLook::Sleeps);
            (stay.got, stay.more) = (true, false);
        }
        assert!(!handoff.begin(true).sits(), "it is on its way back");
        assert_eq!(lock(&handoff.state).look(false), AfterLook::Sits);
    }
    let handoff = ReceiverHandoff::default();
    handoff.need_receiver();
    assert!(!lock(&handoff.state).needed, "it sits there");
}

#[test]
fn what_does_not_pay_is_tried_less_and_less() {
    let (mut state, now) = aside();
    for times in 1..20 {
        state.holder = ReceiverHolder::Nobody;
        state.needed = false;
        assert!(state.begin(now, true));
        if times % 2 == 0 {
            state.leave(now, false, false);
        } else {
            assert!(!state.begin(now, true), "another one sleeps");
            state.leave(now, true, false);
            state.wake(now);
        }
        assert_eq!(state.enough, (WAITS << times).min(WAITS_MAX));
    }
    state.holder = ReceiverHolder::Nobody;
    state.needed = false;
    assert!(state.begin(now, true));
    state.leave(now, true, false);
    assert_eq!(state.enough, WAITS);
}

/// However waiters come and go: one thread at a time receives, the receiving one comes back
/// whenever somebody sleeps, and it ends when it must.
#[test]
fn one_receives_at_a_time_and_sleepers_are_not_forgotten() {
    let handoff = Arc::new(ReceiverHandoff::default());
    let stopping = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(AtomicU32::new(0));
    let enter = |inside: &AtomicU32| assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
    let leave = |inside: &AtomicU32| inside.fetch_sub(1, Ordering::SeqCst);
    let rounds = Arc::new(AtomicU32::new(0));
    let receiver = {
        let (handoff, stopping) = (Arc::clone(&handoff), Arc::clone(&stopping));
        let (inside, rounds) = (Arc::clone(&inside), Arc::clone(&rounds));
        thread::spawn(move || {
            while !stopping.load(Ordering::SeqCst) {
                handoff.make_way(|| stopping.load(Ordering::SeqCst));
                enter(&inside);
                rounds.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                leave(&inside);
            }
        })
    };
    let waiters: Vec<_> = (0..3)
        .map(|who| {
            let handoff = Arc::clone(&handoff);
            let (inside, rounds) = (Arc::clone(&inside), Arc::clone(&rounds));
            thread::spawn(move || {
                let mut sat = 0_u32;
                for wait in 0..3000_u32 {
                    // The others pause now and then, so that one is alone for a while.
                    if who > 0 && wait % 100 == 0 {
                        thread::sleep(Duration::from_millis(3 * who));
                    }
                    let mut stay = handoff.begin(true);
                    if stay.sits() {
                        enter(&inside);
                        (stay.got, stay.more) = (wait % 7 != 0, wait % 11 == 0);
                        leave(&inside);
                        sat += 1;
                        continue;
                    }
                    // The receiving thread has to come round, now or when the waiter leaves.
                    let before = rounds.load(Ordering::SeqCst);
                    let until = Instant::now() + Duration::from_secs(20);
                    while rounds.load(Ordering::SeqCst) == before {
                        assert!(Instant::now() < until, "nobody receives");
                        thread::yield_now();
                    }
                }
                sat
            })
        })
        .collect();
    let sat: u32 = waiters.into_iter().map(|thread| thread.join().unwrap()).sum();
    stopping.store(true, Ordering::SeqCst);
    handoff.call();
    receiver.join().unwrap();
    println!("{sat} times a waiter had the seat");
}
