//! The search itself, on small crates that are planted here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::rooms::{Circle, circles_of};
use super::tokens::{Token, tokens};

/// The circles of a crate of these files.
fn planted(files: &[(&str, &str)]) -> Vec<Circle> {
    let files: BTreeMap<PathBuf, &str> =
        files.iter().map(|(file, text)| (PathBuf::from(file), *text)).collect();
    circles_of(Path::new("x/lib.rs"), &|file| files.get(file).map(|text| (*text).to_owned()))
}

/// The files of the only circle.
fn the_circle(files: &[(&str, &str)]) -> Vec<String> {
    let found = planted(files);
    let files = found.iter().flat_map(|circle| &circle.files);
    let files = files.map(|file| file.strip_prefix("x").unwrap_or(file).display().to_string());
    let files = files.collect();
    assert!(found.len() < 2, "{found:#?}");
    files
}

#[test]
fn a_circle_is_found_and_what_leads_to_it_is_not_in_it() {
    let found = planted(&[
        ("x/lib.rs", "mod a; mod b; mod c; mod d; use a::A;"),
        ("x/a.rs", "use crate::b::{self, B}; pub struct A; use std::a::b;"),
        ("x/b.rs", "use super::c as other; pub struct B; fn f() -> other::deep::C {}"),
        ("x/c/mod.rs", "pub mod deep;"),
        ("x/c/deep.rs", "pub struct C; fn f() { crate::a::A::new(); super::super::d::D }"),
        ("x/d.rs", "pub struct D;"),
    ]);
    assert_eq!(found.len(), 1, "{found:#?}");
    let files: Vec<&str> = found[0].files.iter().filter_map(|file| file.to_str()).collect();
    assert_eq!(files, ["x/a.rs", "x/b.rs", "x/c/deep.rs"]);
    assert_eq!((found[0].room.as_str(), found[0].is_between()), ("x", true));
    let text = found[0].to_string();
    assert!(text.contains("x/a.rs -> x/b.rs: crate::b::B\n"), "{text}");
    assert!(text.contains("x/c/deep.rs -> x/a.rs: crate::a::A::new\n"), "{text}");
}

#[test]
fn a_name_that_is_passed_on_belongs_to_the_file_that_defines_it() {
    let lib = ("x/lib.rs", "pub mod room;");
    let one = ("x/room/one.rs", "pub struct One; use super::Two;");
    let two = ("x/room/two.rs", "pub struct Two;");
    for passing in ["pub use two::Two;", "use self::two::*;", "use two::Two as Three;\n"] {
        let text = format!("mod one; mod two; pub use one::One; {passing}");
        let two_is_known = !passing.contains("Three");
        let found = the_circle(&[lib, ("x/room/mod.rs", &text), one, two]);
        // What is nowhere known is the room's own.
        let expected: &[&str] = if two_is_known { &[] } else { &["room/mod.rs", "room/one.rs"] };
        assert_eq!(found, expected, "{passing}");
    }
    // The same name, and it is defined in the file between.
    let room = ("x/room/mod.rs", "mod one; pub struct Two; pub use one::One;");
    assert_eq!(the_circle(&[lib, room, one]), ["room/mod.rs", "room/one.rs"]);
    // It is another crate's.
    let room = ("x/room/mod.rs", "mod one; pub use elsewhere::Two; pub use one::One;");
    assert!(the_circle(&[lib, room, one]).is_empty());
    // Two ends of one circle, each behind another module.
    let outer = ("x/lib.rs", "pub mod room; pub mod other; use room::One as First;");
    let other = ("x/other.rs", "pub struct Two; fn f(_: crate::First) {}");
    let room = ("x/room/mod.rs", "mod one; pub use one::One; use crate::other::Two;");
    assert_eq!(the_circle(&[outer, other, room, one]), ["other.rs", "room/one.rs"]);
}

#[test]
fn all_of_a_module_is_no_more_than_what_is_named_of_it() {
    let lib = ("x/lib.rs", "mod a; mod b;");
    let b = ("x/b.rs", "pub struct B; use crate::a::A;");
    let all = |rest: &str| the_circle(&[lib, b, ("x/a.rs", &format!("pub struct A; {rest}"))]);
    assert_eq!(all("use super::b::*; fn f(_: B) {}"), ["a.rs", "b.rs"]);
    assert!(all("use super::b::*; fn f(_: C) {}").is_empty());
    // Each has all of the other.
    let b = ("x/b.rs", "pub struct B; pub use crate::a::*; fn f(_: C) {}");
    assert!(the_circle(&[lib, b, ("x/a.rs", "pub use crate::b::*; fn f(_: D) {}")]).is_empty());
}

#[test]
fn tests_comments_and_texts_name_nothing() {
    let lib = ("x/lib.rs", "mod a; mod b;");
    let a = ("x/a.rs", "pub struct A; use crate::b::B;");
    for without in [
        "#[cfg(test)] mod tests { use crate::a::A; }",
        "#[cfg(test)] mod not_there;",
        "#[cfg(test)] use crate::a::{A, a};",
        "#[cfg(any(test, feature = \"x\"))] #[allow(dead_code)] fn f<T, U>() -> crate::a::A { x }",
        "#[cfg(test)] pub(crate) const X: A = crate::a::A { x };",
        "struct S { #[cfg(test)] a: crate::a::A, b: u8 }",
        "/* /* */ use crate::a::A; */ // crate::a::A",
        "/// [`crate::a::A`]\nfn f() {}",
        "fn f() { \"\\\" crate::a::A\"; r#\"\" crate::a::A\"#; b\"crate::a::A\"; }",
        "fn f<'a>(_: &'a ()) { ('\"', '\\'', 'a', b'\\'', \"crate::a::A\"); }",
        "fn f() { x.a::<A>(); ::a::A; }",
        "pub(in crate::a) fn f() {}",
    ] {
        let b = format!("pub struct B; {without} fn g() {{}}");
        assert!(the_circle(&[lib, a, ("x/b.rs", &b)]).is_empty(), "{without}");
        // And what follows is read.
        let b = format!("pub struct B; {without}\nfn h() {{ crate::a::A }}");
        assert_eq!(the_circle(&[lib, a, ("x/b.rs", &b)]), ["a.rs", "b.rs"], "{without}");
    }
    let b = ("x/b.rs", "pub struct B; #[cfg(not(test))] use crate::a::A;");
    assert_eq!(the_circle(&[lib, a, b]), ["a.rs", "b.rs"]);
}

#[test]
fn modules_within_a_file_are_of_that_file() {
    let lib = ("x/lib.rs", "mod a; mod b;");
    let a = ("x/a.rs", "mod inner { pub struct A; mod c; } pub use self::inner::A;");
    let c = ("x/a/inner/c.rs", "use super::A;");
    assert!(the_circle(&[lib, a, c, ("x/b.rs", "use crate::a::A;")]).is_empty());
    let c = ("x/a/inner/c.rs", "use super::A; use crate::b::B;");
    let b = ("x/b.rs", "pub struct B; use crate::a::inner::c::C;");
    let found = planted(&[lib, a, c, b]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].files.len(), 2, "{found:#?}");
}

#[test]
fn a_file_belongs_to_the_folder_of_its_name() {
    let lib = ("x/lib.rs", "mod a; mod b;");
    let a = ("x/a.rs", "mod c; mod d; pub struct A; use c::C;");
    let c = ("x/a/c.rs", "pub struct C; use crate::a::A;");
    let d = ("x/a/d.rs", "pub struct D;");
    let b = ("x/b.rs", "pub struct B;");
    let found = planted(&[lib, a, c, d, b]);
    assert_eq!((found[0].room.as_str(), found[0].is_between()), ("x/a", false));
    let c = ("x/a/c.rs", "pub struct C; use crate::b::B;");
    let b = ("x/b.rs", "pub struct B; use crate::a::c::C;");
    let found = planted(&[lib, a, c, d, b]);
    assert_eq!((found[0].room.as_str(), found[0].is_between()), ("x", true));
}

#[test]
fn text_is_cut_into_tokens() {
    let name = |name: &str| Token::Name(name.to_owned());
    let expected = [name("use"), name("type"), Token::Colons, name("b"), Token::Sign(';')];
    assert_eq!(tokens("use r#type::b; // c"), expected);
    let sign = Token::Sign;
    let expected = [name("f"), sign('('), Token::Mark, sign(','), Token::Mark, sign(')')];
    assert_eq!(tokens("f(1e5, 'a)"), expected);
}
