//! The book against the code: every setting is documented, nothing is documented that is not read,
//! and no link leads nowhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pslite::observe::EVENTS;
use pslite::observe::events::EventRow;
use pslite::observe::exposition::FamilyRow;
use pslite::observe::job::JOB_FAMILIES;
use pslite::observe::process::PROCESS_FAMILIES;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The names in a text that look like our settings.
fn variables(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| {
        !(letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
    })
    .filter(|word| ["DMLC_", "PS_", "PSLITE_"].iter().any(|start| word.starts_with(start)))
    .filter(|word| !word.ends_with('_'))
    .map(str::to_owned)
    .collect()
}

/// The settings that a table row of the reference begins with.
fn documented() -> BTreeSet<String> {
    let text = read("docs/env.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(variables).collect()
}

#[test]
fn every_setting_is_documented() {
    let files = ["src/node/settings.rs", "src/node/settings/reader.rs"].map(read);
    let code: String = files.iter().map(|file| file.split("mod tests").next().unwrap()).collect();
    let missing: Vec<String> = variables(&code).difference(&documented()).cloned().collect();
    assert!(missing.is_empty(), "not in docs/env.md: {missing:?}");
}

#[test]
fn every_documented_setting_of_ours_is_read_somewhere() {
    let mut read_by_code = BTreeSet::new();
    for folder in ["src", "scripts", "compat-tests", "ffi"] {
        collect(&root().join(folder), &mut read_by_code);
    }
    let ours: BTreeSet<String> =
        documented().into_iter().filter(|name| name.starts_with("PSLITE_")).collect();
    assert!(ours.len() > 5, "the table was not found: {ours:?}");
    let unread: Vec<&String> = ours.difference(&read_by_code).collect();
    assert!(unread.is_empty(), "documented, but nobody reads {unread:?}");
}

fn collect(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    } else if let Ok(text) = fs::read_to_string(path) {
        found.extend(variables(&text));
    }
}

/// The targets of `[text](target)` in a page.
fn links(text: &str) -> Vec<String> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|part| part.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn no_link_leads_nowhere() {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|page| root().join(page)));
    let mut checked = 0;
    for page in pages {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().unwrap().join(target);
            assert!(path.exists(), "{}: {link} leads nowhere", page.display());
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} links were found");
}

/// `docs/metrics.md` has the event list as a table: `UPDATE_DOCS=1` writes it anew.
#[test]
fn every_metric_is_documented() {
    let mut rows = String::new();
    for (_, event) in EVENTS {
        let labels: Vec<&str> = event.labels.iter().map(|label| label.name()).collect();
        let EventRow { name, exposed, unit, text, .. } = event;
        let (kind, labels) = (event.kind.name(), labels.join(", "));
        rows += &format!("| `{name}` | `{exposed}` | {unit} | {kind} | {labels} | {text} |\n");
    }
    is_documented(&["name", "exposed", "unit", "kind", "labels", "meaning"], &rows);
}

/// Likewise what is only in the OpenMetrics text.
#[test]
fn every_exposed_family_is_documented() {
    let mut rows = String::new();
    for row in JOB_FAMILIES.iter().chain(PROCESS_FAMILIES) {
        let FamilyRow { name, text, .. } = row;
        let (kind, labels) = (row.kind.name(), row.labels.join(", "));
        rows += &format!("| `{name}` | {kind} | {labels} | {text} |\n");
    }
    is_documented(&["exposed", "kind", "labels", "meaning"], &rows);
}

/// `docs/metrics.md` has the table with these columns and rows.
fn is_documented(columns: &[&str], rows: &str) {
    let rule = "|---".repeat(columns.len());
    let begin = format!("| {} |\n{rule}|\n", columns.join(" | "));
    let table = format!("{begin}{rows}");
    // Both tables are in one page.
    static PAGE: Mutex<()> = Mutex::new(());
    let _guard = PAGE.lock();
    let page = read("docs/metrics.md");
    let start = page.find(&begin).unwrap();
    let end = start + page[start..].find("\n\n").map_or(page.len() - start, |at| at + 1);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let new = format!("{}{table}{}", &page[..start], &page[end..]);
        fs::write(root().join("docs/metrics.md"), new).unwrap();
    } else {
        assert_eq!(page[start..end], table, "run UPDATE_DOCS=1 cargo test --test docs");
    }
}

/// The names of all functions below a folder, in Rust and Python, and of the C++ programs.
fn tests_below(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            tests_below(&entry.unwrap().path(), found);
        }
        return;
    }
    if path.extension().is_some_and(|extension| extension == "cc") {
        found.insert(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    let Ok(text) = fs::read_to_string(path) else { return };
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("fn ").or_else(|| line.strip_prefix("def ")) {
            found.extend(rest.split('(').next().map(str::to_owned));
        }
    }
}

/// The words in code quotes of the last column of each row that has `columns` of them.
fn last_column(page: &str, columns: usize) -> Vec<(String, Vec<String>)> {
    let rows = read(page);
    let rows = rows.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|-"));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let last = cells.last().filter(|_| cells.len() == columns)?;
        Some((row.to_owned(), last.split('`').skip(1).step_by(2).map(str::to_owned).collect()))
    })
    .filter(|(row, _)| !row.ends_with("| test |"))
    .collect()
}

fn exists(name: &str, tests: &BTreeSet<String>) -> bool {
    let (file, test) = name.split_once("::").unwrap_or(("", name));
    if test.contains('/') {
        return root().join(test).exists();
    }
    (file.is_empty() || root().join("compat-tests").join(file).exists()) && tests.contains(test)
        || root().join("compat-tests").join(test).exists()
}

/// Every report that is answered names what holds it, and no page names a test that is gone.
#[test]
fn the_pages_name_tests_that_exist() {
    let mut tests = BTreeSet::new();
    for folder in ["src", "tests", "ffi", "compat-tests"] {
        tests_below(&root().join(folder), &mut tests);
    }
    let mut checked = 0;
    for (page, columns) in [("docs/track-record.md", 4), ("docs/divergences.md", 5)] {
        for (row, names) in last_column(page, columns) {
            assert!(columns != 4 || !names.is_empty(), "{page}: no test: {row}");
            for name in names.iter().filter(|name| !name.contains(' ')) {
                assert!(exists(name, &tests), "{page}: there is no test {name}: {row}");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "only {checked} tests were found");
}

#[test]
fn the_divergences_name_files_that_exist() {
    let page = read("docs/divergences.md");
    let names = page.split('`').filter(|text| text.starts_with("src/") && !text.contains(' '));
    let mut checked = 0;
    for name in names {
        assert!(root().join(name).exists(), "docs/divergences.md: there is no {name}");
        checked += 1;
    }
    assert!(checked > 5);
}
