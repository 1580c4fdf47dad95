//! What is read from the environment, and what the program says besides.

use super::*;
use pslite_core::cluster::alike::is_compared;
use std::collections::BTreeMap;

fn lookup(extra: &[(&str, &str)]) -> Lookup {
    let mut map: BTreeMap<String, String> = [
        ("DMLC_ROLE", "worker"),
        ("DMLC_NUM_WORKER", "2"),
        ("DMLC_NUM_SERVER", "3"),
        ("DMLC_PS_ROOT_URI", "127.0.0.1"),
        ("DMLC_PS_ROOT_PORT", "9091"),
    ]
    .iter()
    .chain(extra)
    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
    .collect();
    map.retain(|_, v| v != "<unset>");
    Arc::new(move |name| map.get(name).cloned())
}

#[test]
fn defaults_are_stocks_where_stock_has_one() {
    let s = Settings::read(&lookup(&[]), &ProgramSettings::default()).unwrap();
    assert_eq!((s.role, s.num_workers, s.num_servers), (Role::Worker, 2, 3));
    assert!(s.resend.is_none() && s.heartbeat_timeout.is_none() && !s.priority_van);
    assert_eq!((s.log_level, s.connections), (Level::Warning, 1));
}

#[test]
fn nonsense_is_named() {
    for (name, value) in [
        ("DMLC_NUM_WORKER", "two"),
        ("DMLC_ROLE", "wroker"),
        ("DMLC_PS_ROOT_PORT", "0"),
        ("PSLITE_PORT_RANGE", "9000"),
        ("DMLC_PS_VAN_TYPE", "ibverbs"),
        ("PS_RESEND", "yes"),
        ("PSLITE_METRICS", "m.jsonl:0"),
        ("PSLITE_REPLICAS", "2"),
        ("PSLITE_CONNECTIONS", "0"),
        ("PSLITE_CONNECTIONS", "9"),
        ("PSLITE_CONNECTIONS", "two"),
        ("DMLC_PS_ROOT_URI", "<unset>"),
        ("PSLITE_WIRE", "byteps-0.3"),
        ("BYTEPS_ORDERED_HOSTS", "a:1,b,a"),
    ] {
        let error = Settings::read(&lookup(&[(name, value)]), &ProgramSettings::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(name), "{name}={value}: {error}");
    }
}

/// A node that lives and is a little late must not be taken for dead.
#[test]
fn signs_of_life_come_several_times_within_the_silence_that_is_allowed() {
    let interval = |extra: &[(&str, &str)]| {
        let settings = Settings::read(&lookup(extra), &ProgramSettings::default()).unwrap();
        settings.heartbeat_interval.map(|interval| interval.as_millis())
    };
    let timeout = ("PS_HEARTBEAT_TIMEOUT", "2");
    assert_eq!(interval(&[]), Some(2000));
    assert_eq!(interval(&[timeout]), Some(500));
    assert_eq!(interval(&[("PS_HEARTBEAT_TIMEOUT", "60")]), Some(2000));
    assert_eq!(interval(&[timeout, ("PSLITE_HEARTBEAT", "1")]), Some(1000));
    assert_eq!(interval(&[timeout, ("PSLITE_HEARTBEAT", "0")]), None);
    assert_eq!(interval(&[timeout, ("PS_HEARTBEAT_INTERVAL", "1.5")]), Some(1500));
}

#[test]
fn keys_do_not_move_over_resent_messages() {
    let follows = |extra: &[(&str, &str)]| {
        Settings::read(&lookup(extra), &ProgramSettings::default()).unwrap().follows_pieces()
    };
    assert!(follows(&[("PSLITE_ELASTIC", "1")]) && follows(&[]));
    assert!(!follows(&[("PS_RESEND", "1")]));
    assert!(!follows(&[("PSLITE_ELASTIC", "1"), ("PS_RESEND", "1")]));
    assert!(follows(&[("PSLITE_ELASTIC", "moves")]) && !follows(&[("PSLITE_ELASTIC", "0")]));
    assert!(!follows(&[("PSLITE_ELASTIC", "moves"), ("PS_RESEND", "1")]));
    assert!(!follows(&[("PSLITE_ELASTIC", "moves"), ("PSLITE_LEVEL", "stock")]));
    assert!(!follows(&[("PSLITE_ELASTIC", "moves"), ("PSLITE_WIRE", "byteps")]));
}

#[test]
fn unset_keys_move_unless_something_else_wants_them_to_stay() {
    let elastic = |extra: &[(&str, &str)]| {
        Settings::read(&lookup(extra), &ProgramSettings::default()).unwrap().elastic
    };
    assert_eq!(elastic(&[]), Elastic::Moves);
    assert_eq!(elastic(&[("PS_HEARTBEAT_TIMEOUT", "0")]), Elastic::Moves);
    for stays in
        [("DMLC_PS_VAN_TYPE", "p3"), ("PS_HEARTBEAT_TIMEOUT", "5"), ("PSLITE_STORE", "mxnet")]
    {
        assert_eq!(elastic(&[stays]), Elastic::Off, "{stays:?}");
        assert_eq!(elastic(&[stays, ("PSLITE_ELASTIC", "moves")]), Elastic::Moves, "{stays:?}");
        assert_eq!(elastic(&[stays, ("PSLITE_ELASTIC", "1")]), Elastic::Copies, "{stays:?}");
    }
}

#[test]
fn copies_are_kept_if_asked_for() {
    let copies = |extra: &[(&str, &str)]| {
        Settings::read(&lookup(extra), &ProgramSettings::default()).unwrap().copies()
    };
    let moves = ("PSLITE_ELASTIC", "moves");
    assert_eq!(copies(&[("PSLITE_ELASTIC", "1")]), None);
    assert_eq!(copies(&[("PSLITE_ELASTIC", "1"), ("PSLITE_REPLICAS", "0")]), Some(0));
    assert_eq!((copies(&[moves]), copies(&[])), (Some(0), Some(0)));
    assert_eq!(copies(&[moves, ("PSLITE_REPLICAS", "1")]), Some(1));
}

#[test]
fn resend_and_ranges_are_read() {
    let s = Settings::read(
        &lookup(&[
            ("PS_RESEND", "1"),
            ("PS_RESEND_TIMEOUT", "200"),
            ("PSLITE_PORT_RANGE", "9000-9010"),
            ("PSLITE_CONNECTIONS", "8"),
        ]),
        &ProgramSettings::default(),
    )
    .unwrap();
    assert_eq!(s.resend, Some(Duration::from_millis(200)));
    assert_eq!((s.port_range, s.connections), (Some((9000, 9010)), 8));
}

#[test]
fn the_program_says_what_the_environment_does_not() {
    let asked = ProgramSettings {
        role: Some(Role::Server),
        wished_rank: Some(1),
        group_size: Some(2),
        dialect: Some(Dialect::Byteps),
        holds_pushes: None,
    };
    let read = |extra: &[(&str, &str)]| Settings::read(&lookup(extra), &asked).unwrap();
    let s = read(&[("PSLITE_ELASTIC", "1")]);
    assert_eq!((s.role, s.wished_rank, s.dialect), (Role::Server, Some(1), Dialect::Byteps));
    assert_eq!((s.num_workers, s.num_servers, s.server_groups()), (4, 6, 3));
    assert!(s.holds_pushes == Some(true) && !s.follows_pieces());
    let s = read(&[("PSLITE_WIRE", "mxnet"), ("BYTEPS_ORDERED_HOSTS", "b:1, a")]);
    assert_eq!((s.dialect, s.holds_pushes), (Dialect::Mxnet, None));
    assert_eq!(s.rank_order, RankOrder::Hosts(vec!["b".to_owned(), "a".to_owned()]));
    assert_eq!(read(&[("BYTEPS_ENABLE_ASYNC", "1")]).holds_pushes, Some(false));
    assert_eq!(read(&[("PSLITE_HOLD_PUSHES", "0")]).holds_pushes, Some(false));
    assert!(Settings::read(&lookup(&[("PS_RESEND", "1")]), &asked).is_err());
}

/// Texts beside those of the table of all variables (`tests/settings.rs`).
#[test]
fn a_job_has_workers_and_stars_are_the_schedulers() {
    let read = |extra: &[(&str, &str)]| Settings::read(&lookup(extra), &ProgramSettings::default());
    for zeros in [
        [("DMLC_NUM_WORKER", "0"), ("DMLC_ROLE", "scheduler")],
        [("DMLC_NUM_SERVER", "0"), ("DMLC_NUM_WORKER", "0")],
    ] {
        let error = read(&zeros).unwrap_err().to_string();
        assert!(error.contains("=0 is not a number from 1"), "{error}");
    }
    assert_eq!(read(&[("DMLC_NUM_SERVER", "0")]).unwrap().num_servers, 0);
    let scheduler = ("DMLC_ROLE", "scheduler");
    let alone = [scheduler, ("DMLC_NUM_WORKER", "0"), ("DMLC_NUM_SERVER", "0")];
    assert_eq!(read(&alone).unwrap().num_servers, 0);
    assert_eq!(read(&[scheduler, ("DMLC_PS_ROOT_URI", "*")]).unwrap().root_host, "*");
    assert!(read(&[("DMLC_PS_ROOT_URI", "*")]).is_err());
    // With Unix sockets nobody looks at the host.
    assert!(read(&[("DMLC_PS_ROOT_URI", "a b"), ("DMLC_LOCAL", "1")]).is_ok());
}

#[test]
fn a_host_has_to_fit_into_the_wire() {
    let long = "hh.".repeat(22);
    for name in ["DMLC_PS_ROOT_URI", "DMLC_NODE_HOST"] {
        let extra = [(name, long.as_str()), ("PSLITE_WIRE", "byteps")];
        let error =
            Settings::read(&lookup(&extra), &ProgramSettings::default()).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        assert!(Settings::read(&lookup(&extra[..1]), &ProgramSettings::default()).is_ok());
    }
}

#[test]
fn several_ports_are_refused() {
    for (name, text) in [("DMLC_NUM_PORTS", "2"), ("DMLC_ENABLE_RDMA", "multivan")] {
        let error =
            Settings::read(&lookup(&[(name, text)]), &ProgramSettings::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&format!("{name}={text}")) && error.contains("unset it"), "{error}");
    }
    for (name, text) in [("DMLC_NUM_PORTS", "1"), ("DMLC_ENABLE_RDMA", "0")] {
        assert!(
            Settings::read(&lookup(&[(name, text)]), &ProgramSettings::default()).is_ok(),
            "{name}"
        );
    }
}

#[test]
fn auto_is_the_star_where_there_can_be_no_trees() {
    let name = format!("pslite-links-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, "link a b 20\n").unwrap();
    let topology = |extra: &[(&str, &str)]| {
        let all = [&[("DMLC_ROLE", "scheduler"), ("PSLITE_TOPOLOGY", "auto")][..], extra].concat();
        Settings::read(&lookup(&all), &ProgramSettings::default()).unwrap().topology
    };
    let links = ("PSLITE_LINKS", path.to_str().unwrap());
    assert_eq!(topology(&[]), Topology::Star, "no links");
    assert_eq!(topology(&[links]), Topology::Auto);
    assert_eq!(topology(&[links, ("PSLITE_DETERMINISTIC", "tree")]), Topology::Auto);
    assert_eq!(topology(&[links, ("PSLITE_DETERMINISTIC", "1")]), Topology::Star);
    std::fs::remove_file(path).unwrap();
}

/// A default counts as its value, and numbers as numbers.
#[test]
fn what_must_be_alike_is_said_in_words_that_are_compared() {
    let of = |extra: &[(&str, &str)]| {
        let settings = Settings::read(&lookup(extra), &ProgramSettings::default()).unwrap();
        settings.alike.into_iter().map(|one| (one.name, one.value)).collect::<BTreeMap<_, _>>()
    };
    for role in ["worker", "server", "scheduler"] {
        let said = of(&[("DMLC_ROLE", role), ("PSLITE_HOLD_PUSHES", "1")]);
        assert_eq!(
            (said["DMLC_NUM_WORKER"].as_str(), said["DMLC_NUM_SERVER"].as_str()),
            ("2", "3")
        );
        assert!(said.keys().all(|name| is_compared(name)), "{role}: {said:?}");
    }
    let bound = "MXNET_KVSTORE_BIGARRAY_BOUND";
    assert_eq!(of(&[])[bound], "1000000");
    assert_eq!(of(&[(bound, "01000000")]), of(&[]));
    assert_ne!(of(&[(bound, "1000")]), of(&[]));
    for silent in [("PSLITE_LEVEL", "stock"), ("PSLITE_WIRE", "byteps")] {
        assert!(of(&[silent]).is_empty(), "{silent:?}");
    }
}
