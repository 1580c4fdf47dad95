//! `pslite run`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use super::{finish, pslite, text, until};

/// Runs a shell script as every process of a job.
fn run(options: &[&str], script: &str) -> Output {
    let mut arguments = vec!["run"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    finish(pslite(&arguments))
}

fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn exists(pid: u32) -> bool {
    // A zombie is gone too; its parent is ours or init.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

/// A library that any process can have preloaded, which defines these functions and no more.
fn library(name: &str, functions: &[&str]) -> String {
    let path = format!("{}/{}-{name}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let source: String = functions.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
    let arguments = ["-x", "c", "-shared", "-fPIC", "-o", &path, "-"];
    let mut compiler = Command::new("cc").args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    path
}

/// One that `pslite run` takes for its own.
fn harmless_library() -> String {
    static ONE: OnceLock<String> = OnceLock::new();
    let made = || library("harmless.so", &["_ZN2ps10Postoffice5StartEiPKcb", "pslite_start"]);
    ONE.get_or_init(made).clone()
}

#[test]
fn each_process_has_its_name_and_its_environment() {
    let script = "echo $DMLC_ROLE $DMLC_TASK_ID $DMLC_NUM_WORKER/$DMLC_NUM_SERVER $DMLC_NODE_HOST \
                  $DMLC_PS_ROOT_URI ${LD_PRELOAD:-none}; echo to stderr >&2";
    let output = run(&["-n", "2", "-s", "1", "--stock"], script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        sorted_lines(&output.stdout),
        [
            "[scheduler] scheduler 0 2/1 127.0.0.1 127.0.0.1 none",
            "[server 0] server 2 2/1 127.0.0.1 127.0.0.1 none",
            "[worker 0] worker 0 2/1 127.0.0.1 127.0.0.1 none",
            "[worker 1] worker 1 2/1 127.0.0.1 127.0.0.1 none",
        ]
    );
    let names = ["scheduler", "server 0", "worker 0", "worker 1"];
    assert_eq!(sorted_lines(&output.stderr), names.map(|name| format!("[{name}] to stderr")));
}

/// Its workers share batches (docs/lbbsp.md).
#[test]
fn a_job_may_have_no_servers() {
    let script = "echo $DMLC_ROLE $DMLC_NUM_WORKER/$DMLC_NUM_SERVER";
    let output = run(&["-n", "2", "-s", "0", "--stock"], script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = ["[scheduler] scheduler 2/0", "[worker 0] worker 2/0", "[worker 1] worker 2/0"];
    assert_eq!(sorted_lines(&output.stdout), lines);
    let output = run(&["-n", "0", "-s", "0", "--stock"], script);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn all_processes_are_told_one_free_port() {
    let output = run(&["-n", "2", "-s", "2", "--stock"], "echo $DMLC_PS_ROOT_PORT");
    let mut ports: Vec<u16> = text(&output.stdout)
        .lines()
        .map(|l| l.split("] ").nth(1).unwrap().parse().unwrap())
        .collect();
    assert_eq!(ports.len(), 5);
    ports.dedup();
    assert_eq!(ports.len(), 1);
    assert!(
        std::net::TcpListener::bind(("127.0.0.1", ports[0])).is_ok(),
        "the port must be free again"
    );
}

#[test]
fn the_library_is_preloaded_in_front_of_what_is_there() {
    let library = harmless_library();
    let arguments =
        ["run", "-n", "1", "-s", "1", "--library", &library, "--", "sh", "-c", "echo $LD_PRELOAD"];
    let mut command = pslite(&arguments);
    command.env("LD_PRELOAD", &library);
    let output = finish(command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for line in text(&output.stdout).lines() {
        assert!(line.ends_with(&format!("] {library}:{library}")), "{line}");
    }
    let mut command = pslite(&["run", "-n", "1", "-s", "1", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    command.env("PSLITE_LIBRARY", &library);
    assert!(text(&finish(command).stdout).contains(&format!("[worker 0] {library}\n")));
}

#[test]
fn a_missing_library_is_said_before_anything_starts() {
    let output = run(&["-n", "1", "-s", "1", "--library", "/nowhere/lib.so"], "echo started");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/lib.so"));
    assert_eq!(text(&output.stdout), "");
}

/// Of what it cannot preload, ld.so prints a line, if that, and the job would run on stock.
#[test]
fn a_library_that_replaces_nothing_is_refused() {
    let of_tests =
        |name: &str| format!("{}/{}-{name}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let (words, empty) = (of_tests("words.so"), of_tests("empty.so"));
    std::fs::write(&words, "no library\n".repeat(100)).unwrap();
    std::fs::write(&empty, "").unwrap();
    let cut = of_tests("cut.so");
    let whole = std::fs::read(harmless_library()).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let abi_alone = library("abi.so", &["pslite_start"]);
    for (path, why) in [
        (&words, "not a 64-bit library"),
        (&empty, "too short"),
        (&cut, "cannot be preloaded"),
        (&abi_alone, "does not define _ZN2ps10Postoffice5StartEiPKcb"),
        (&env!("CARGO_BIN_EXE_pslite").to_owned(), "does not define"),
    ] {
        let output = run(&["-n", "1", "-s", "1", "--library", path], "echo started");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{path}: {said}");
        assert!(said.contains(path) && said.contains(why), "{path}: {said}");
        assert_eq!(text(&output.stdout), "");
        let mut command = pslite(&["run", "-n", "1", "-s", "1", "--", "true"]);
        command.env("PSLITE_LIBRARY", path);
        assert_eq!(finish(command).status.code(), Some(2), "{path}");
    }
    for path in [words, empty, cut, abi_alone] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    for (options, why) in [
        (&["--timeout", "0"][..], "a number above 0"),
        (&["--timeout", "nan"], "seconds"),
        (&["--grace", "inf"], "seconds"),
        (&["--local-workers", "2"], "more than the 1"),
    ] {
        let output = run(&[&["-n", "1", "-s", "1", "--stock"], options].concat(), "echo started");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(why), "{options:?}: {}", text(&output.stderr));
    }
    for (arguments, why) in [
        (&["sim", "--workers", "0"][..], "a number from 1"),
        (&["sim", "--servers", "0"], "a number from 1"),
        (&["sim", "--plan", "--servers", "0"], "a number from 1"),
        (&["sim", "--plan", "--workers", "100001"], "a number from 1"),
        (&["sim", "--workers", "257"], "too many to play"),
        (&["sim", "--scenario", "sites", "--workers", "1"], "a worker each"),
        (&["sim", "--scenario", "sites", "--workers", "2", "--servers", "3"], "no more servers"),
        (&["sim", "--keys", "0"], "1..=1000000"),
        (&["sim", "--seeds", "7..7"], "are none"),
        (&["scheduler", "-n", "0", "-s", "1", "--host", "127.0.0.1", "--port", "9"], "from 1"),
        (&["scheduler", "-n", "1", "-s", "1", "--host", "127.0.0.1", "--port", "0"], "a port"),
        (&["server", "-n", "0", "-s", "1", "--host", "127.0.0.1", "--port", "9"], "from 1"),
        (&["server", "-n", "9999999", "-s", "1", "--host", "127.0.0.1", "--port", "9"], "from 1"),
        (&["drain", "server:0", "--scheduler", "127.0.0.1:9", "--wait", "nan"], "--wait"),
        (&["status", "--scheduler", "127.0.0.1:9", "--timeout", "nan"], "--timeout"),
    ] {
        let output = finish(pslite(arguments));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

/// `pslite run` says where its scheduler is, and `pslite status` finds it without being told.
#[test]
fn a_job_is_found_by_its_user() {
    let folder = std::env::temp_dir().join(format!("pslite-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let status = |folder: &std::path::Path| {
        let mut command = pslite(&["status", "--timeout", "5"]);
        command.env("XDG_RUNTIME_DIR", folder);
        finish(command)
    };
    let nobody = status(&folder);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("no job on this host"), "{}", text(&nobody.stderr));
    let mut job = pslite(&[
        "run",
        "-n",
        "1",
        "-s",
        "1",
        "--native-scheduler",
        "--native-servers",
        "--library",
        &harmless_library(),
        "--",
        "sleep",
        "30",
    ]);
    job.env("XDG_RUNTIME_DIR", &folder).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut job = job.spawn().unwrap();
    let mut lines = BufReader::new(job.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let place = line.rsplit(' ').next().unwrap().to_owned();
    assert!(line.contains(&format!("listens on {place}; to see the job: pslite status")), "{line}");
    let found = (0..20).map(|_| status(&folder)).find(|output| output.status.success());
    let _ = Command::new("kill").arg(job.id().to_string()).status();
    drop(lines);
    job.wait().unwrap();
    let found = found.expect("no status");
    assert!(text(&found.stdout).contains(&format!("job at {place}")), "{}", text(&found.stdout));
    assert_eq!(status(&folder).status.code(), Some(2), "it is over");
    assert_eq!(std::fs::read_dir(folder.join("pslite")).unwrap().count(), 0, "a file stayed");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Its scheduler has one if it is of pslite, and is told where; the others answer if they were
/// asked to.
#[test]
fn the_page_of_a_job_is_said_where_there_is_one() {
    const WATCH: &str = "pslite: watch this job at http://";
    const OR: &str = "/   (or: pslite status --watch)";
    let said = |options: &[&str]| {
        let counts = ["-n", "1", "-s", "1"];
        let output = run(&[&counts, options].concat(), "echo ${PSLITE_HTTP:-none}");
        let lines = text(&output.stderr);
        let place = lines.lines().find_map(|line| line.strip_prefix(WATCH)?.strip_suffix(OR));
        (place.map(str::to_owned), sorted_lines(&output.stdout), lines)
    };
    let library = harmless_library();
    let (place, told, _) = said(&["--library", &library]);
    let place = place.unwrap();
    assert!(place.starts_with("127.0.0.1:"), "{place}");
    let expected = [&format!("[scheduler] {place}"), "[server 0] none", "[worker 0] none"];
    assert_eq!(told, expected);

    let (place, told, lines) = said(&["--library", &library, "--env", "PSLITE_HTTP=0"]);
    let expected = format!("[scheduler] {}", place.unwrap());
    assert_eq!(told, [&expected, "[server 0] 127.0.0.1:0", "[worker 0] 127.0.0.1:0"], "{lines}");

    let (place, told, _) = said(&["--stock"]);
    assert_eq!((place, told.iter().filter(|line| line.ends_with("none")).count()), (None, 3));

    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("PSLITE_HTTP={}", held.local_addr().unwrap());
    let (place, told, lines) = said(&["--library", &library, "--env", &taken]);
    assert!(lines.contains(&format!("{taken}: no port there is free")), "{lines}");
    assert!(place.is_none() && told.is_empty(), "{lines}");
}

#[test]
fn lines_of_different_processes_never_mix() {
    let script = "i=0; while [ $i -lt 200 ]; do \
                  printf '%s' $DMLC_TASK_ID; printf '%0999d\\n' $DMLC_TASK_ID; i=$((i+1)); done";
    let output = run(
        &["-n", "3", "-s", "1", "--roles", "worker", "--root", "127.0.0.1:9", "--stock"],
        script,
    );
    let all = text(&output.stdout);
    assert_eq!(all.lines().count(), 600);
    for line in all.lines() {
        let (name, rest) = line.split_once("] ").unwrap();
        let task = name.strip_prefix("[worker ").unwrap();
        assert_eq!(rest, format!("{task}{:0999}", task.parse::<u32>().unwrap()));
    }
}

#[test]
fn the_failing_process_is_named_and_its_code_returned() {
    let script = "test $DMLC_TASK_ID = 1 && exit 7; sleep 0.2; exit 0";
    let output = run(&["-n", "2", "-s", "1", "--stock"], script);
    assert_eq!(output.status.code(), Some(7));
    assert!(
        text(&output.stderr).contains("worker 1 ended with exit code 7"),
        "{}",
        text(&output.stderr)
    );
    let output =
        run(&["-n", "2", "-s", "1", "--stock"], "test $DMLC_TASK_ID = 1 && kill -SEGV $$; exit 0");
    assert_eq!(output.status.code(), Some(128 + 11));
    assert!(
        text(&output.stderr).contains("worker 1 was ended by SIGSEGV"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn those_that_do_not_end_after_a_failure_are_ended_with_all_they_started() {
    // The server ignores SIGTERM and has a child of its own that does so too.
    let script =
        "test $DMLC_ROLE = worker && exit 3; trap '' TERM; sleep 300 & echo child $!; wait";
    let started = Instant::now();
    let output = run(&["-n", "1", "-s", "1", "--stock", "--grace", "0.5"], script);
    assert_eq!(output.status.code(), Some(3));
    assert!(started.elapsed().as_secs() < 30, "took {:?}", started.elapsed());
    let said = text(&output.stderr);
    assert!(said.contains("sending SIGTERM") && said.contains("sending SIGKILL"), "{said}");
    let children: Vec<u32> = text(&output.stdout)
        .lines()
        .filter_map(|line| line.split("child ").nth(1)?.parse().ok())
        .collect();
    assert_eq!(children.len(), 2);
    until("the end of the grandchildren", || !children.iter().any(|pid| exists(*pid)));
}

#[test]
fn servers_that_stay_after_the_workers_are_ended() {
    let script = "test $DMLC_ROLE = worker && exit 0; exec sleep 300";
    let output = run(&["-n", "1", "-s", "1", "--stock", "--grace", "0.3"], script);
    assert_eq!(output.status.code(), Some(128 + 15));
    let said = text(&output.stderr);
    assert!(said.contains("did not end by itself: scheduler, server 0"), "{said}");
}

#[test]
fn the_time_limit_ends_the_job() {
    let output = run(&["-n", "1", "-s", "1", "--stock", "--timeout", "0.5"], "exec sleep 300");
    assert_eq!(output.status.code(), Some(124));
    assert!(text(&output.stderr).contains("--timeout"));
}

#[test]
fn a_command_that_does_not_exist() {
    let output = finish(pslite(&["run", "-n", "1", "-s", "1", "--stock", "--", "no-such-command"]));
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("[worker 0] pslite: cannot run no-such-command"));
}

#[test]
fn the_environment_can_be_extended() {
    let options =
        ["-n", "1", "-s", "1", "--stock", "--env", "A=1", "--env", "B=x=y", "--host", "10.1.2.3"];
    let output = run(&options, "echo $A $B $DMLC_NODE_HOST");
    assert!(
        text(&output.stdout).contains("[server 0] 1 x=y 10.1.2.3\n"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(
        run(&["-n", "1", "-s", "1", "--stock", "--env", "A"], "true").status.code(),
        Some(2)
    );
}

#[test]
fn some_roles_need_to_know_the_scheduler() {
    let output = run(&["-n", "4", "-s", "2", "--stock", "--roles", "worker"], "true");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--root"));
    let output = run(
        &[
            "-n",
            "4",
            "-s",
            "2",
            "--stock",
            "--roles",
            "worker",
            "--local-workers",
            "1",
            "--root",
            "10.0.0.1:9091",
        ],
        "echo $DMLC_NUM_WORKER $DMLC_PS_ROOT_URI $DMLC_PS_ROOT_PORT ${DMLC_NODE_HOST:-unset}",
    );
    assert_eq!(text(&output.stdout), "[worker 0] 4 10.0.0.1 9091 unset\n");
}

/// Starts a job whose processes print their numbers and wait.
fn waiting_job(script: &str) -> (Child, Vec<u32>) {
    let mut command = pslite(&["run", "-n", "1", "-s", "1", "--stock", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pids = (0..3)
        .map(|_| lines.next().unwrap().unwrap().split("] ").nth(1).unwrap().parse().unwrap())
        .collect();
    (child, pids)
}

#[test]
fn a_signal_is_passed_on() {
    let (child, pids) = waiting_job("echo $$; exec sleep 300");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(text(&output.stderr).contains("SIGTERM: passed on to worker 0, then to the others"));
    assert!(!pids.iter().any(|pid| exists(*pid)));
}

#[test]
fn nothing_stays_behind_when_the_launcher_is_killed() {
    let (mut child, pids) =
        waiting_job("trap '' TERM HUP INT; echo $$; while :; do sleep 0.1; done");
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of the processes", || !pids.iter().any(|pid| exists(*pid)));
}
