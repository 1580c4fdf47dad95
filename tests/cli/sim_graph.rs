//! `pslite sim --graph`: what it prints, and what it says to input that is wrong.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;

use super::{finish, pslite, text, until};

/// The output of a run that must succeed.
fn planned(arguments: &[&str]) -> String {
    let output = finish(pslite(&[&["sim"], arguments].concat()));
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What is said to a run that must fail.
fn refused(arguments: &[&str]) -> String {
    let output = finish(pslite(&[&["sim"], arguments].concat()));
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pslite-{}-{name}", std::process::id()));
    fs::write(&path, content).unwrap();
    path
}

/// The output without the time that planning took.
fn timeless(output: &str) -> Vec<&str> {
    output.lines().map(|line| line.rsplit_once("; ").map_or(line, |(line, _)| line)).collect()
}

#[test]
fn the_trees_of_netstorm() {
    let arguments = ["--graph", "netstorm", "--topology", "packed", "--seed", "3"];
    let one = planned(&arguments);
    assert!(one.contains("9 sites, 26 edges; 100.0 MB in 400 parts of 250 KB"), "{one}");
    for wanted in ["T* ", " packed, ", " x T* (eta 0.9", "the star takes ", " %  up ", "down "] {
        assert!(one.contains(wanted), "no {wanted:?} in {one}");
    }
    assert_eq!(timeless(&one), timeless(&planned(&arguments)));
    // One owner: all trees have its root.
    let one = planned(&["--graph", "netstorm", "--topology", "packed", "--owners", "5"]);
    let roots: Vec<&str> =
        one.lines().filter_map(|line| line.split_once("  up ")).map(|it| it.1).collect();
    assert!(!roots.is_empty() && roots.iter().all(|tree| tree.starts_with("5(")), "{one}");
}

#[test]
fn several_seeds_are_a_line_each_and_their_mean() {
    let fapt = ["--graph", "netstorm", "--topology", "fapt:9", "--seeds", "0..3"];
    let published = planned(&[&fapt[..], &["--part", "4000", "--order", "arrival"]].concat());
    assert_eq!(published.lines().count(), 4, "{published}");
    assert!(published.contains("seed 2: T* "), "{published}");
    assert!(published.contains("3 seeds: a round "), "{published}");
}

#[test]
fn a_graph_of_ones_own() {
    let path = file("graph", "link paris berlin 100 40\nlink berlin rome 80 # a comment\n");
    let path = path.to_str().unwrap();
    let own = planned(&["--graph", path, "--owners", "berlin"]);
    assert!(own.contains("3 sites, 4 edges") && own.contains("up berlin(paris rome)"), "{own}");
    for seeds in [["--seeds", "0..3"], ["--seeds", "0..1"], ["--seed", "0"]] {
        let arguments = ["--graph", path, seeds[0], seeds[1]];
        assert!(refused(&arguments).contains("leave --seed and --seeds out"), "{seeds:?}");
    }
    let unknown = refused(&["--graph", path, "--owners", "oslo"]);
    assert!(unknown.contains("the sites are paris, berlin, rome"), "{unknown}");
    fs::remove_file(path).unwrap();
    let path = file("island", "link paris berlin 100\nlink rome oslo 5\n");
    let island = refused(&["--graph", path.to_str().unwrap()]);
    assert!(island.contains("no path leads from site paris to site rome: add a link"), "{island}");
    fs::write(&path, "link paris\n").unwrap();
    let wrong = refused(&["--graph", path.to_str().unwrap()]);
    assert!(wrong.contains("line 1: a line is `link SITE SITE [MBIT [MBIT]]`"), "{wrong}");
    fs::remove_file(path).unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let cases: [(&[&str], &str); 11] = [
        (&["--graph", "ring"], "there are netstorm, mesh:N"),
        (&["--graph", "mesh:1000"], "what follows the colon is 1 to 256 sites"),
        (&["--graph", "netstorm", "--topology", "ring"], "there are star, balanced:K"),
        (&["--graph", "netstorm", "--topology", "fapt:0"], "a number from 1"),
        (&["--graph", "netstorm", "--part", "0"], "a number above 0"),
        (&["--graph", "netstorm", "--model=-1"], "a number above 0"),
        (&["--graph", "netstorm", "--model", "0"], "a number above 0"),
        (&["--graph", "netstorm", "--model", "inf"], "a number above 0"),
        (&["--graph", "netstorm", "--topology", "fapt:3", "--owners", "1"], "leave --owners out"),
        (&["--graph", "netstorm", "--part", "0.001"], "take larger parts"),
        (&["--graph", "netstorm", "--plan"], "cannot be used with"),
    ];
    for (arguments, wanted) in cases {
        let said = refused(arguments);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    assert!(refused(&["--topology", "star"]).contains("--graph"));
}

#[test]
fn small_and_large_graphs() {
    let one = planned(&["--graph", "switch:1"]);
    assert!(one.contains("star, 1 tree: a round 0.000 s, 1.00 x T*"), "{one}");
    let equal = planned(&["--graph", "switch:8"]);
    assert!(equal.contains("; star, 8 trees"), "{equal}");
    let many = planned(&["--graph", "switch:40", "--topology", "packed", "--part", "2000"]);
    assert!(many.contains("beyond 32 sites"), "{many}");
}

/// As `pslite sim ... | head -1` does.
#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let mut command = pslite(&["sim", "--graph", "switch:2", "--seeds", "0..1000000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("seed 0"), "{line}");
    until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}
