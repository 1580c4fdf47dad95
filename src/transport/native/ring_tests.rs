use super::*;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn pair(size: usize) -> (RingWriter, RingReader) {
    let (descriptor, writer) = RingWriter::create(size).unwrap();
    (writer, RingReader::open(descriptor).unwrap())
}

#[test]
fn bytes_pass_in_order_and_room_is_bounded() {
    let (mut writer, mut reader) = pair(RING_MIN);
    let all: Vec<u8> = (0..RING_MIN + 10).map(|n| (n % 251) as u8).collect();
    let (first, second) = all.split_at(100);
    let slices = [IoSlice::new(first), IoSlice::new(second)];
    assert_eq!(writer.write(&slices, || panic!("nobody sleeps")).unwrap(), RING_MIN);
    let full = writer.write(&[IoSlice::new(b"x")], || {}).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert!(!writer.has_room() && writer.ask_for_room());
    let mut knocks = 0;
    let mut taken = vec![0; RING_MIN];
    let (left, right) = taken.split_at_mut(7);
    let mut slices = [IoSliceMut::new(left), IoSliceMut::new(right)];
    assert_eq!(reader.read(&mut slices, || knocks += 1).unwrap(), RING_MIN);
    assert_eq!((taken, knocks), (all[..RING_MIN].to_vec(), 1));
    assert!(reader.sleep());
    let mut knocks = 0;
    assert_eq!(writer.write(&[IoSlice::new(&all[RING_MIN..])], || knocks += 1).unwrap(), 10);
    assert_eq!(knocks, 1);
    assert!(!reader.sleep(), "there is something");
}

#[test]
fn an_end_that_lies_is_found_out() {
    for lie in [u64::MAX, 1 << 40] {
        let (mut writer, mut reader) = pair(RING_MIN);
        reader.ring.word(WRITTEN).store(lie, Ordering::Relaxed);
        let mut bytes = [0; 8];
        let error = reader.read(&mut [IoSliceMut::new(&mut bytes)], || {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let full = vec![0; RING_MIN];
        writer.write(&[IoSlice::new(&full)], || {}).unwrap();
        writer.ring.word(READ).store(lie, Ordering::Relaxed);
        let error = writer.write(&[IoSlice::new(b"x")], || {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

#[derive(Default)]
struct Bell(Mutex<bool>, Condvar);

impl Bell {
    fn ring(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let mut rung = self.0.lock().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while !*rung {
            assert!(Instant::now() < until, "nobody knocked");
            rung = self.1.wait_timeout(rung, Duration::from_secs(1)).unwrap().0;
        }
        *rung = false;
    }
}

/// Both ends sleep whenever they can: no wake-up is lost, no byte either.
#[test]
fn no_wake_up_is_lost() {
    const TOTAL: usize = 4_000_000;
    let (mut writer, mut reader) = pair(RING_MIN);
    let (data, room) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    let (their_data, their_room) = (Arc::clone(&data), Arc::clone(&room));
    let sender = thread::spawn(move || {
        let (mut sent, mut length) = (0, 1);
        while sent < TOTAL {
            let bytes: Vec<u8> =
                (sent..TOTAL.min(sent + length)).map(|n| (n % 253) as u8).collect();
            match writer.write(&[IoSlice::new(&bytes)], || their_data.ring()) {
                Ok(n) => sent += n,
                Err(_) if writer.ask_for_room() => their_room.wait(),
                Err(_) => {}
            }
            length = length * 7 % 9973 + 1;
        }
    });
    let (mut got, mut length) = (0, 1);
    let mut bytes = vec![0; 10_000];
    while got < TOTAL {
        match reader.read(&mut [IoSliceMut::new(&mut bytes[..length])], || room.ring()) {
            Ok(n) => {
                let right = bytes[..n].iter().zip(got..).all(|(byte, n)| *byte == (n % 253) as u8);
                assert!(right);
                got += n;
            }
            Err(_) if reader.sleep() => data.wait(),
            Err(_) => {}
        }
        length = length * 11 % 9931 + 1;
    }
    sender.join().unwrap();
}
