//! Hosts are addresses of the loopback interface here, each with its own tunnels.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::*;
use crate::carrier::{Endpoint, SendMode};
use crate::native::{Carriers, NativeOptions, NativeTransport};
use crate::zmq::{Answers, ZmqOptions, ZmqTransport};
use pslite_core::wire::socks::{self, CHOICE, NO_CHOICE, Reply};

const LIMIT: Duration = Duration::from_secs(20);

/// A port that is free on each address of the loopback interface, most likely.
fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

fn host(number: u8) -> String {
    format!("127.0.77.{number}")
}

/// The tunnels of a host. Each way: where to, and over which hosts.
fn tunnels(own: u8, port: u16, all: &[(u8, &[u8])]) -> Tunnels {
    let mut ways: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for (to, over) in all {
        ways.entry(host(*to)).or_default().push(over.iter().map(|h| host(*h)).collect());
    }
    Tunnels::start(TunnelOptions { host: host(own), port, ways }).unwrap()
}

/// A server that says back what it hears.
fn echo(at: u8) -> u16 {
    let listener = TcpListener::bind((host(at), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                let _ = io::copy(&mut stream, &mut writer);
                let _ = writer.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

/// Asks the SOCKS server there for a target; what it answers.
fn ask(at: SocketAddr, target: &Target) -> (TcpStream, Reply) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut said = Vec::new();
    socks::ask(target, &mut said).unwrap();
    stream.write_all(&said).unwrap();
    let mut heard = [0; 12];
    stream.read_exact(&mut heard).unwrap();
    let (_, reply) = socks::answers(&heard).unwrap().unwrap();
    (stream, reply)
}

fn target(at: u8, port: u16) -> Target {
    Target { host: host(at), port }
}

/// Sends much while it reads, then ends its direction, and reads the rest.
fn says_back(mut stream: TcpStream, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(|n| ((n * 31) >> 3) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let sent = data.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    writing.join().unwrap();
    assert!(heard == data, "{} bytes of {}", heard.len(), data.len());
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// 1 - 2 - 3 - 4: all that 1 has of 4 goes through 2 and 3.
fn line(port: u16) -> [Tunnels; 4] {
    [
        tunnels(1, port, &[(2, &[]), (3, &[2]), (4, &[2, 3])]),
        tunnels(2, port, &[(1, &[]), (3, &[]), (4, &[3])]),
        tunnels(3, port, &[(1, &[2]), (2, &[]), (4, &[])]),
        tunnels(4, port, &[(1, &[3, 2]), (2, &[3]), (3, &[])]),
    ]
}

#[test]
fn an_entrance_leads_through_all_gateways() {
    let port = free_port();
    let hosts = line(port);
    let server = echo(4);
    let entrance = hosts[0].entrance(&host(4), server).unwrap().unwrap();
    let again = hosts[0].entrance(&host(4), server).unwrap().unwrap();
    assert_eq!(again.address(), entrance.address(), "one for each place");
    assert!(hosts[0].entrance(&host(2), server).unwrap().is_none(), "there is a link");
    assert!(hosts[0].entrance("10.9.8.7", server).unwrap().is_none(), "nothing is known of it");
    for bytes in [0, 1, 100_000, 8 << 20] {
        says_back(TcpStream::connect(entrance.address()).unwrap(), bytes);
    }
    until("all passages end", || hosts.iter().all(|tunnels| tunnels.passing().0 == 0));
    // What was passed on is counted after it went, so the other end may have it before.
    let passed: Vec<u64> = hosts.iter().map(|tunnels| tunnels.passing().1).collect();
    // There and back, at the entrance and at three gateways: the last one is the target's own
    // host's, which nothing needs here.
    assert!(passed[..3].iter().all(|bytes| *bytes >= 2 * (8 << 20)), "{passed:?}");
    assert_eq!(passed[3], 0);
}

#[test]
fn what_does_not_lead_there_is_said() {
    let port = free_port();
    let hosts = line(port);
    let nobody = free_port();
    let entrance = hosts[0].entrance(&host(4), nobody).unwrap().unwrap();
    let mut heard = Vec::new();
    let _ = TcpStream::connect(entrance.address()).unwrap().read_to_end(&mut heard);
    assert!(heard.is_empty(), "it only ends");
    let gateway = (host(2).parse::<Ipv4Addr>().unwrap(), port).into();
    assert_eq!(ask(gateway, &target(4, nobody)).1, Reply::Forbidden, "who asks knows the way");
    assert_eq!(ask(gateway, &target(9, nobody)).1, Reply::Forbidden, "no host of the job");
    let server = echo(2);
    assert_eq!(ask(gateway, &target(2, server)).1, Reply::Through, "its own host");
    assert_eq!(ask(gateway, &target(3, nobody)).1, Reply::Refused);
}

#[test]
fn strange_clients_are_sent_away() {
    let port = free_port();
    let _tunnels = tunnels(1, port, &[(2, &[])]);
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[4, 1, 0, 80], &[5, 1, 0, 5, 2, 0, 1]] {
        let mut stream = TcpStream::connect((host(1), port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(said).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.is_empty() || heard == CHOICE, "{heard:?}");
    }
    let mut stream = TcpStream::connect((host(1), port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&[5, 1, 2]).unwrap();
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert_eq!(heard, NO_CHOICE, "a client with a password");
}

#[test]
fn another_way_is_taken_where_one_fails() {
    let port = free_port();
    let first = tunnels(1, port, &[(2, &[]), (3, &[]), (4, &[2]), (4, &[3])]);
    // Host 2 has no tunnels.
    let _third = tunnels(3, port, &[(1, &[]), (4, &[])]);
    let server = echo(4);
    let entrance = first.entrance(&host(4), server).unwrap().unwrap();
    says_back(TcpStream::connect(entrance.address()).unwrap(), 100_000);
}

#[test]
fn one_process_of_a_host_is_its_gateway_and_another_takes_its_place() {
    let port = free_port();
    let ways: &[(u8, &[u8])] = &[(2, &[])];
    let (first, second) = (tunnels(1, port, ways), tunnels(1, port, ways));
    assert!(first.is_gateway() && !second.is_gateway());
    first.close(Duration::ZERO);
    until("the second one is the gateway", || second.is_gateway());
    let server = echo(2);
    let gateway = (host(1).parse::<Ipv4Addr>().unwrap(), port).into();
    assert_eq!(ask(gateway, &target(2, server)).1, Reply::Through);
}

#[test]
fn who_ends_waits_for_those_that_pass() {
    let port = free_port();
    let hosts = line(port);
    let server = echo(4);
    let entrance = hosts[0].entrance(&host(4), server).unwrap().unwrap();
    let stream = TcpStream::connect(entrance.address()).unwrap();
    (&stream).write_all(b"x").unwrap();
    (&stream).read_exact(&mut [0]).unwrap();
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| hosts[1].close(LIMIT));
        thread::sleep(Duration::from_millis(200));
        says_back(stream, 1 << 20);
    });
    assert!(begin.elapsed() < LIMIT, "it has not waited for its limit");
    let begin = Instant::now();
    let entrance = hosts[3].entrance(&host(2), echo(2)).unwrap().unwrap();
    let mut stays = TcpStream::connect(entrance.address()).unwrap();
    stays.write_all(b"x").unwrap();
    stays.read_exact(&mut [0]).unwrap();
    hosts[2].close(Duration::from_millis(100));
    assert!(begin.elapsed() < LIMIT, "it does not wait for ever");
}

/// An entrance that nobody holds is closed, and another one to the same place is a new one. Who
/// came in before stays.
#[test]
fn an_entrance_goes_with_the_last_one_that_holds_it() {
    let port = free_port();
    let hosts = line(port);
    let server = echo(4);
    let open = || hosts[0].entrance(&host(4), server).unwrap().unwrap();
    let (first, also) = (open(), open());
    let address = first.address();
    drop(first);
    let mut stays = TcpStream::connect(address).unwrap();
    stays.set_read_timeout(Some(LIMIT)).unwrap();
    let mut says = |word: &[u8]| {
        let mut heard = vec![0; word.len()];
        stays.write_all(word).unwrap();
        stays.read_exact(&mut heard).unwrap();
        assert_eq!(heard, word);
    };
    says(b"before");
    drop(also);
    until("it is closed", || TcpStream::connect(address).is_err());
    says(b"after");
    says_back(TcpStream::connect(open().address()).unwrap(), 100_000);
    // As an operator does who asks again and again (`pslite status`).
    let mut closed = Vec::new();
    for number in 1..200 {
        closed.push(hosts[0].entrance(&host(4), number).unwrap().unwrap().address());
    }
    until("all are closed", || closed.iter().all(|at| TcpStream::connect(at).is_err()));
}

/// What libzmq makes of an entrance: a channel that is reported up, and down with its peer.
#[test]
fn control_goes_through_an_entrance() {
    let port = free_port();
    let hosts = line(port);
    let transport = |name_seed| {
        ZmqTransport::new(ZmqOptions {
            send_queue: 100,
            recv_queue: 100,
            priority_mode: false,
            max_frame: 1 << 20,
            name_seed,
            answers: Answers::OwnWay,
        })
        .unwrap()
    };
    let (here, there) = (transport(1), transport(2));
    let endpoint = Endpoint::Tcp { host: host(4), port: 0 };
    // A peer that does not listen yet is neither up nor down, though its entrance lets in.
    let nobody = free_port();
    let early = Endpoint::Tcp { host: host(4), port: nobody };
    let entrance = hosts[0].entrance(&host(4), nobody).unwrap();
    here.connect_through(9, &early, entrance, Some(9)).unwrap();
    thread::sleep(Duration::from_millis(500));
    let mut events = Vec::new();
    here.channel_events(&mut events);
    assert!(events.is_empty(), "{events:?}");
    let bound = there.bind(&endpoint).unwrap();
    let endpoint = Endpoint::Tcp { host: host(4), port: bound };
    let entrance = hosts[0].entrance(&host(4), bound).unwrap();
    here.connect_through(8, &endpoint, entrance, Some(9)).unwrap();
    here.send(8, b"meta", &[], 0, SendMode::Block).unwrap();
    let incoming = there.recv().unwrap();
    assert_eq!(incoming.from, Some(9));
    until("it is reported up", || {
        let mut found = Vec::new();
        here.channel_events(&mut found);
        found.iter().any(|event| event.up)
    });
    there.stop();
    there.close(Duration::ZERO);
    drop(there);
    let begin = Instant::now();
    while events.is_empty() {
        assert!(begin.elapsed() < LIMIT, "it is never reported down");
        here.channel_events(&mut events);
        events.retain(|event: &crate::zmq::NumberedEvent| !event.up);
        thread::sleep(Duration::from_millis(5));
    }
    here.close(Duration::ZERO);
}

fn data_plane(life: u64) -> NativeTransport {
    let options = NativeOptions::new(life, Some([7; 16]));
    NativeTransport::new(NativeOptions { carriers: Carriers::Tcp, ..options }).unwrap()
}

/// Passes each connection on to that place, like a link that is there again.
fn link(to: SocketAddr, at: SocketAddr) {
    let listener = TcpListener::bind(at).unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let onward = TcpStream::connect(to).unwrap();
            for (mut from, mut to) in [
                (stream.try_clone().unwrap(), onward.try_clone().unwrap()),
                (onward.try_clone().unwrap(), stream.try_clone().unwrap()),
            ] {
                thread::spawn(move || io::copy(&mut from, &mut to));
            }
        }
    });
}

/// A link that is cut has a detour, of which nothing is concluded about the link; and the link is
/// used again. Each message arrives once.
#[test]
fn a_detour_is_left_when_the_link_is_back() {
    let port = free_port();
    let _first = tunnels(1, port, &[(2, &[])]);
    let _second = tunnels(2, port, &[(1, &[]), (4, &[])]);
    let (here, there) = (data_plane(1), data_plane(2));
    let bound = there.bind(&Endpoint::Tcp { host: host(4), port: 0 }).unwrap();
    let gateway = |host| Target { host, port };
    let stops = [gateway(host(2)), target(4, bound)];
    let straight = SocketAddr::new(host(4).parse().unwrap(), free_port());
    let ways = vec![
        DialledWay::straight(straight),
        DialledWay::through(&stops, Some(host(1).parse().unwrap())).unwrap(),
    ];
    here.connect_by(8, ways, Some(9), 1);
    let send = |number: u32| {
        let data = Bytes::from(vec![number as u8; 100_000]);
        here.send(8, &number.to_le_bytes(), &[data], 0, SendMode::Block).unwrap();
    };
    let stop = AtomicUsize::new(0);
    let heard = thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut heard = Vec::new();
            while stop.load(Ordering::Relaxed) == 0 || heard.len() < stop.load(Ordering::Relaxed) {
                let Ok(incoming) = there.recv() else { break };
                heard.push(u32::from_le_bytes(*incoming.frames[0].first_chunk().unwrap()));
            }
            heard
        });
        send(0);
        until("there is a detour", || here.carrier(8) == "tcp");
        assert_eq!(here.unconnected(), [8], "the link is not connected");
        assert!(here.sent_over_tcp().is_empty());
        link(SocketAddr::new(host(4).parse().unwrap(), bound), straight);
        let numbers = AtomicUsize::new(1);
        until("the link is used again", || {
            // Messages are under way all the time.
            send(numbers.fetch_add(1, Ordering::Relaxed) as u32);
            here.unconnected().is_empty() && !here.sent_over_tcp().is_empty()
        });
        let last = numbers.load(Ordering::Relaxed);
        stop.store(last + 1, Ordering::Relaxed);
        send(last as u32);
        receiving.join().unwrap()
    });
    assert!(heard.iter().copied().eq(0..heard.len() as u32), "{heard:?}");
    here.close(Duration::ZERO);
    there.close(Duration::ZERO);
}

/// A channel of the data plane has a connection by each way, and keeps its order.
#[test]
fn data_take_both_ways() {
    let port = free_port();
    let first = tunnels(1, port, &[(2, &[]), (3, &[]), (4, &[2]), (4, &[3])]);
    let second = tunnels(2, port, &[(1, &[]), (4, &[])]);
    let third = tunnels(3, port, &[(1, &[]), (4, &[])]);
    let (here, there) = (data_plane(1), data_plane(2));
    let bound = there.bind(&Endpoint::Tcp { host: host(4), port: 0 }).unwrap();
    let ways = first.ways(&host(4), bound).unwrap();
    assert_eq!(ways.len(), 2);
    here.connect_by(8, ways, Some(9), 1);
    const MESSAGES: u32 = 64;
    let send = |number: u32| {
        let data = Bytes::from(vec![number as u8; 1 << 20]);
        here.send(8, &number.to_le_bytes(), &[data], 0, SendMode::Block).unwrap();
    };
    thread::scope(|scope| {
        // Connections are welcomed by who receives.
        scope.spawn(|| {
            for number in 0..MESSAGES {
                let incoming = there.recv().unwrap();
                assert_eq!(incoming.frames[0], number.to_le_bytes()[..]);
                assert!(incoming.frames[1].iter().all(|byte| *byte == number as u8));
            }
        });
        send(0);
        let connections = || here.counters().iter().map(|of| of.connections).max().unwrap_or(0);
        until("both connections stand", || connections() == 2);
        (1..MESSAGES).for_each(send);
    });
    let (one, other) = (second.passing().1, third.passing().1);
    assert!(one.min(other) > 1 << 20, "both carry some of it: {one} and {other}");
    here.close(Duration::ZERO);
    there.close(Duration::ZERO);
}

/// Another program has the port of the gateway.
#[test]
fn it_is_known_who_listens_at_a_port() {
    let port = free_port();
    let hosts = line(port);
    until("a gateway answers", || who_listens(&host(2), port) == Listener::Gateway);
    drop(hosts);
    assert_eq!(who_listens(&host(2), port), Listener::Nobody);
    let silent = TcpListener::bind((host(2), port)).unwrap();
    assert_eq!(who_listens(&host(2), port), Listener::Stranger);
    drop(silent);
    let echo = echo(2);
    assert_eq!(who_listens(&host(2), echo), Listener::Stranger, "it says back what it hears");
}
