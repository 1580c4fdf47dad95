//! `pslite doctor`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::ports::free_port;
use super::{Scheduler, finish, pslite, text};

/// A job that is in order, apart from what `changes` say; a Python that is none, so that nothing
/// depends on what is installed.
fn doctor(changes: &[(&str, &str)]) -> (Option<i32>, Vec<String>) {
    let mut command = pslite(&["doctor", "--python", "/nowhere/python"]);
    let good = [
        ("DMLC_ROLE", "worker"),
        ("DMLC_NUM_WORKER", "2"),
        ("DMLC_NUM_SERVER", "2"),
        ("DMLC_PS_ROOT_URI", "127.0.0.1"),
        ("DMLC_PS_ROOT_PORT", "9"),
        ("DMLC_NODE_HOST", "127.0.0.1"),
    ];
    command.envs(good).envs(changes.iter().copied());
    let output = finish(command);
    (output.status.code(), text(&output.stdout).lines().map(str::to_owned).collect())
}

fn has(lines: &[String], level: &str, topic: &str, part: &str) -> bool {
    lines.iter().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(level) && words.next() == Some(topic) && line.contains(part)
    })
}

#[test]
fn a_job_in_order_passes() {
    let port = free_port();
    let _scheduler = Scheduler::start(port, "2");
    let port = port.to_string();
    let (code, lines) = doctor(&[("DMLC_PS_ROOT_PORT", &port)]);
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(has(&lines, "ok", "counts", "DMLC_NUM_WORKER: 2"));
    assert!(has(&lines, "ok", "address", "127.0.0.1"));
    assert!(has(&lines, "ok", "port", &port), "{lines:#?}");
    assert!(has(&lines, "ok", "agreed", "its job of 2 workers and 2 servers is forming"));
    assert!(lines.last().unwrap().starts_with("all checks passed"), "{lines:#?}");
    assert!(has(&lines, "ok", "nic", "DMLC_NODE_HOST"));
    assert!(has(&lines, "warning", "versions", "/nowhere/python"));
}

#[test]
fn what_the_scheduler_was_told_otherwise_is_found() {
    let port = free_port();
    let _scheduler = Scheduler::start(port, "3");
    let port = port.to_string();
    let (code, lines) = doctor(&[("DMLC_PS_ROOT_PORT", &port)]);
    assert_eq!(code, Some(1), "{lines:#?}");
    let parts = "DMLC_NUM_WORKER is 2 at this worker and 3 at the scheduler (127.0.0.1:";
    assert!(has(&lines, "FAIL", "agreed", parts), "{lines:#?}");
    assert!(lines.last().unwrap().contains("checks failed"), "{lines:#?}");
}

#[test]
fn a_port_where_nobody_listens_fails() {
    let (code, lines) = doctor(&[]);
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(has(&lines, "FAIL", "port", "nobody listens at 127.0.0.1:9"), "{lines:#?}");
}

#[test]
fn without_a_job_nothing_fails() {
    let output = finish(pslite(&["doctor", "--python", "/nowhere/python"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn each_of_the_five_is_found() {
    for (change, topic, part) in [
        (("DMLC_NUM_SERVER", "0"), "counts", "DMLC_NUM_SERVER=0"),
        (("DMLC_ROLE", "wroker"), "counts", "wroker"),
        (("DMLC_NODE_HOST", "192.0.2.254"), "address", "192.0.2.254"),
        (("DMLC_PS_ROOT_URI", "no-such-host.invalid"), "address", "does not resolve"),
        (("DMLC_PS_ROOT_PORT", "70000"), "port", "70000"),
        (("DMLC_PS_ROOT_URI", "192.0.2.254"), "nic", "only this machine can reach"),
        (("LD_PRELOAD", "/nowhere/libpslite_mxnet.so"), "versions", "/nowhere/libpslite_mxnet.so"),
    ] {
        let (code, lines) = doctor(&[change]);
        assert_eq!(code, Some(1), "{change:?}: {lines:#?}");
        assert!(has(&lines, "FAIL", topic, part), "{change:?}: {lines:#?}");
    }
}

#[test]
fn settings_that_do_nothing_are_found() {
    let port = free_port();
    let _scheduler = Scheduler::start(port, "2");
    let port = port.to_string();
    let vain = [("PSLITE_ELASTIK", "1"), ("PS_RESEND_TIMEOUT", "100"), ("PSLITE_TEST_X", "1")];
    let (code, lines) = doctor(&[&vain[..], &[("DMLC_PS_ROOT_PORT", port.as_str())]].concat());
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(has(&lines, "warning", "settings", "did you mean PSLITE_ELASTIC?"), "{lines:#?}");
    assert!(has(&lines, "warning", "settings", "PS_RESEND_TIMEOUT=100 has no effect"));
    assert!(!lines.iter().any(|line| line.contains("PSLITE_TEST_X")), "{lines:#?}");
    let (_, lines) = doctor(&[]);
    assert!(!has(&lines, "warning", "settings", ""), "{lines:#?}");
}

#[test]
fn a_busy_port_names_its_holder() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (code, lines) = doctor(&[("DMLC_ROLE", "scheduler"), ("DMLC_PS_ROOT_PORT", &port)]);
    assert_eq!(code, Some(1));
    assert!(has(&lines, "FAIL", "port", &format!("pid {} ", std::process::id())), "{lines:#?}");
}

/// A program that answers as Python would for an MXNet in `folder`.
fn python_with_mxnet(folder: &Path, version: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder).unwrap();
    let script = format!(
        "#!/bin/sh\ntest -z \"$DMLC_ROLE\" || exit 1\necho python 3.11.7\necho path {}\necho \
         mxnet {version}\n",
        folder.display()
    );
    let path = folder.join("python");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn an_mxnet_of_another_build_is_refused() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mxnet-{}", std::process::id()));
    let python = python_with_mxnet(&folder, "1.9.1");
    // A library that is one, but holds no ps-lite.
    std::fs::copy(env!("CARGO_BIN_EXE_pslite"), folder.join("libmxnet.so")).unwrap();
    let mut command = pslite(&["doctor", "--python", python.to_str().unwrap()]);
    command.env("DMLC_ROLE", "server");
    let output = finish(command);
    std::fs::remove_dir_all(&folder).unwrap();
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(output.status.code(), Some(1));
    assert!(has(&lines, "ok", "versions", "mxnet 1.9.1"), "{lines:#?}");
    assert!(
        has(&lines, "FAIL", "versions", "no symbol _ZZN2ps10Postoffice3GetEvE1e"),
        "{lines:#?}"
    );
}
