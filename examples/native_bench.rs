//! The native data plane beside raw TCP, in turn, between two processes of one host: round trips of
//! 64 bytes and 4 KB, and a stream of 4 MB messages. Prints medians and their ratios.
//!
//! ```text
//! cargo run --release --example native_bench [-- rounds]
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pslite::transport::carrier::{Endpoint, SendMode};
use pslite::transport::native::{Carriers, NativeOptions, NativeTransport};

const TOKEN: [u8; 16] = *b"native_bench run";
/// Length of metadata as they are between workers and servers.
const META: usize = 40;
const TRIPS: usize = 3000;
const LARGE: usize = 4 << 20;
const STREAM: usize = 100;
/// Messages of the stream that are under way before the sender waits for an answer.
const WINDOW: usize = 4;

fn endpoint(port: u16) -> Endpoint {
    Endpoint::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// Both programs: the child answers each message with one of the length that it asks for.
struct Ours {
    transport: NativeTransport,
}

impl Ours {
    fn new(carriers: Carriers, life: u64) -> (Self, u16) {
        let options = NativeOptions { carriers, ..NativeOptions::new(life, Some(TOKEN)) };
        let transport = NativeTransport::new(options).unwrap();
        let port = transport.bind(&endpoint(0)).unwrap();
        (Self { transport }, port)
    }

    fn send(&self, answer: u32, data: &[Bytes]) {
        let mut meta = [0; META];
        meta[..4].copy_from_slice(&answer.to_ne_bytes());
        self.transport.send(1, &meta, data, 0, SendMode::Block).unwrap();
    }

    fn serve(&self, parent: u16) {
        self.transport.connect(1, &endpoint(parent), Some(9), 1).unwrap();
        let payload = Bytes::from(vec![1_u8; LARGE]);
        while let Ok(message) = self.transport.recv() {
            match u32::from_ne_bytes(*message.frames[0].first_chunk().unwrap()) {
                u32::MAX => return self.transport.close(Duration::from_secs(1)),
                length => self.send(length, &[payload.slice(..length as usize)]),
            }
        }
    }

    fn trip(&self, data: &Bytes) {
        self.send(data.len() as u32, std::slice::from_ref(data));
        let answer = self.transport.recv().unwrap();
        assert_eq!(answer.frames[1].len(), data.len());
    }

    fn stream(&self, data: &Bytes) {
        for number in 0..STREAM {
            self.send(0, std::slice::from_ref(data));
            if number >= WINDOW {
                self.transport.recv().unwrap();
            }
        }
        (0..WINDOW).for_each(|_| drop(self.transport.recv().unwrap()));
    }
}

/// The same over plain sockets. Each message begins with its length and that of the answer.
struct Raw(TcpStream);

impl Raw {
    fn send(&mut self, answer: u32, data: &[u8]) {
        let mut head = [0; META];
        head[..4].copy_from_slice(&answer.to_ne_bytes());
        head[4..8].copy_from_slice(&(data.len() as u32).to_ne_bytes());
        let slices = [std::io::IoSlice::new(&head), std::io::IoSlice::new(data)];
        let mut sent = self.0.write_vectored(&slices).unwrap();
        if sent < META {
            self.0.write_all(&head[sent..]).unwrap();
            sent = META;
        }
        self.0.write_all(&data[sent - META..]).unwrap();
    }

    /// Reads as a program does that knows what comes: small ones in one piece.
    fn receive(&mut self, buffer: &mut [u8], expected: usize) {
        self.0.read_exact(&mut buffer[..META + expected]).unwrap();
    }

    fn serve(&mut self) {
        let mut buffer = vec![0; META + LARGE];
        let payload = vec![1_u8; LARGE];
        loop {
            if self.0.read_exact(&mut buffer[..META]).is_err() {
                return;
            }
            let answer = u32::from_ne_bytes(*buffer.first_chunk().unwrap());
            let len = u32::from_ne_bytes(*buffer[4..].first_chunk().unwrap()) as usize;
            if len < LARGE {
                // One read for a small message: what is known of the rest of this series.
                return self.serve_small(&mut buffer, len, &payload);
            }
            self.0.read_exact(&mut buffer[META..META + len]).unwrap();
            self.send(0, &payload[..answer as usize]);
        }
    }

    fn serve_small(&mut self, buffer: &mut [u8], len: usize, payload: &[u8]) {
        self.0.read_exact(&mut buffer[META..META + len]).unwrap();
        self.send(0, &payload[..len]);
        while self.0.read_exact(&mut buffer[..META + len]).is_ok() {
            self.send(0, &payload[..len]);
        }
    }

    fn trip(&mut self, buffer: &mut [u8], data: &[u8]) {
        self.send(data.len() as u32, data);
        self.receive(buffer, data.len());
    }

    fn stream(&mut self, buffer: &mut [u8], data: &[u8]) {
        for number in 0..STREAM {
            self.send(0, data);
            if number >= WINDOW {
                self.receive(buffer, 0);
            }
        }
        (0..WINDOW).for_each(|_| self.receive(buffer, 0));
    }
}

fn child(kind: &str, port: u16) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", kind, &port.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn be_child(kind: &str, port: u16) {
    if kind == "raw" {
        loop {
            let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
            stream.set_nodelay(true).unwrap();
            Raw(stream).serve();
        }
    }
    let (ours, mine) = Ours::new(carriers_of(kind), u64::from(std::process::id()) << 8 | 2);
    println!("{mine}");
    ours.serve(port);
}

fn carriers_of(kind: &str) -> Carriers {
    if kind == "shm" { Carriers::Shm } else { Carriers::Tcp }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// Round trips in microseconds: the median of one series.
fn trips(mut trip: impl FnMut()) -> f64 {
    (0..TRIPS / 10).for_each(|_| trip());
    median((0..TRIPS).map(|_| seconds(&mut trip) * 1e6).collect())
}

fn stream_speed(stream: impl FnOnce()) -> f64 {
    (LARGE * STREAM) as f64 / seconds(stream) / 1e9
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, kind, port] = &arguments[..]
        && role == "child"
    {
        return be_child(kind, port.parse().unwrap());
    }
    let rounds = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(7);
    run(rounds);
}

fn run(rounds: usize) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (mut raw_child, _out) = child("raw", listener.local_addr().unwrap().port());
    let raw = || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        Raw(stream)
    };
    let mut children = Vec::new();
    let ours: Vec<Ours> = ["tcp", "shm"]
        .into_iter()
        .map(|kind| {
            let life = u64::from(std::process::id()) << 8 | children.len() as u64;
            let (ours, port) = Ours::new(carriers_of(kind), life);
            let (child, mut out) = child(kind, port);
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            ours.transport.connect(1, &endpoint(line.trim().parse().unwrap()), Some(8), 1).unwrap();
            children.push(child);
            ours
        })
        .collect();
    let mut buffer = vec![0; META + LARGE];
    let mut results: Vec<[Vec<f64>; 3]> = Vec::new();
    for (name, length) in
        [("64 B round trip", 64), ("4 KB round trip", 4096), ("4 MB stream", LARGE)]
    {
        let data = Bytes::from(vec![1_u8; length]);
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let mut raw = raw();
            if length < LARGE {
                all[0].push(trips(|| raw.trip(&mut buffer, &data)));
                all[1].push(trips(|| ours[0].trip(&data)));
                all[2].push(trips(|| ours[1].trip(&data)));
            } else {
                all[0].push(stream_speed(|| raw.stream(&mut buffer, &data)));
                all[1].push(stream_speed(|| ours[0].stream(&data)));
                all[2].push(stream_speed(|| ours[1].stream(&data)));
            }
        }
        let [raw, tcp, shm] = all.each_ref().map(|series| median(series.clone()));
        let unit = if length < LARGE { "us" } else { "GB/s" };
        println!(
            "{name}: raw {raw:.2} {unit}, tcp {tcp:.2} ({:.2}x), shm {shm:.2} ({:.2}x)",
            tcp / raw,
            shm / raw
        );
        results.push(all);
    }
    for ours in &ours {
        ours.send(u32::MAX, &[]);
        ours.transport.close(Duration::from_secs(1));
    }
    drop(listener);
    for child in &mut children {
        child.wait().unwrap();
    }
    let _ = raw_child.kill();
    let _ = raw_child.wait();
}
