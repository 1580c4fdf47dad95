//! The modules of a crate: what each defines, imports and names. Tests are left out: all that
//! stands behind `#[cfg(test)]`.
//!
//! Only the text is read, nothing is expanded. An item that a macro makes is not known; a path to
//! it ends at the module that it is said to be in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::{Token, tokens};

/// A name that `use` brings into a module.
#[derive(Debug)]
pub(crate) struct Import {
    /// The name that it has here; `None`: all that is in there.
    pub(crate) name: Option<String>,
    pub(crate) path: Vec<String>,
}

/// One module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// From the crate's root, without the crate.
    pub(crate) path: Vec<String>,
    pub(crate) file: PathBuf,
    pub(crate) parent: Option<usize>,
    /// Modules in it, as places in the list of all.
    pub(crate) children: BTreeMap<String, usize>,
    /// Names of what it defines itself.
    pub(crate) items: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// The paths of two names and more that stand in its code.
    pub(crate) paths: BTreeSet<Vec<String>>,
    /// All names that stand in its code, but for `use`.
    pub(crate) names: BTreeSet<String>,
}

/// The modules of the crate with that root, which is the first of them. `read` gives the text of a
/// file, if there is one.
pub(crate) fn modules(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Module> {
    let mut crate_of = Crate { modules: Vec::new(), read };
    let text = read(root).unwrap_or_else(|| panic!("{} is gone", root.display()));
    crate_of.add(Module { file: root.to_owned(), ..Module::default() }, &tokens(&text));
    crate_of.modules
}

struct Crate<'a> {
    modules: Vec<Module>,
    read: &'a dyn Fn(&Path) -> Option<String>,
}

impl Crate<'_> {
    fn add(&mut self, module: Module, code: &[Token]) -> usize {
        let place = self.modules.len();
        self.modules.push(module);
        self.scan(place, code);
        place
    }

    /// Reads the code of a module.
    fn scan(&mut self, place: usize, code: &[Token]) {
        let (mut at, mut depth) = (0, 0_usize);
        while at < code.len() {
            let rest = &code[at..];
            let mut length = 1;
            match rest {
                [Token::Sign('#'), ..] if is_for_tests(rest) => length = of_next_item(rest),
                [Token::Sign(open), ..] if "([{".contains(*open) => depth += 1,
                [Token::Sign(close), ..] if ")]}".contains(*close) => {
                    depth = depth.saturating_sub(1);
                }
                [Token::Name(word), ..] => match (word.as_str(), &rest[1..]) {
                    ("pub", more @ [Token::Sign('('), ..]) => length = 1 + of_block(more),
                    ("use", [Token::Name(_) | Token::Colons, ..]) => {
                        let end = rest.iter().position(|token| *token == Token::Sign(';'));
                        length = end.unwrap_or(rest.len());
                        let imports = &mut self.modules[place].imports;
                        imports_of(&rest[1..length], &[], imports);
                    }
                    ("mod", [Token::Name(name), Token::Sign('{'), ..]) => {
                        let block = of_block(&rest[2..]);
                        self.child(place, name, Some(&rest[3..1 + block]));
                        length = 2 + block;
                    }
                    ("mod", [Token::Name(name), Token::Sign(';'), ..]) => {
                        self.child(place, name, None);
                        length = 2;
                    }
                    (keyword, more) => {
                        let module = &mut self.modules[place];
                        if depth == 0
                            && let Some(name) = defined(keyword, more)
                        {
                            module.items.insert(name.to_owned());
                        }
                        let before = at.checked_sub(1).map(|before| &code[before]);
                        let path = path_at(rest);
                        length = path.len() * 2 - 1;
                        // Neither a method, nor a crate's name.
                        if !matches!(before, Some(Token::Sign('.') | Token::Colons)) {
                            module.names.insert(path[0].clone());
                            if path.len() > 1 {
                                module.paths.insert(path);
                            }
                        }
                    }
                },
                _ => {}
            }
            at += length;
        }
    }

    /// A module in another: with its code, or in a file of its own.
    fn child(&mut self, parent: usize, name: &str, code: Option<&[Token]>) {
        let above = &self.modules[parent];
        let mut path = above.path.clone();
        path.push(name.to_owned());
        let (file, code) = match code {
            Some(code) => (above.file.clone(), code.to_vec()),
            None => {
                let folder = folder_of(above);
                let files = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
                let found = files.into_iter().find_map(|file| Some(((self.read)(&file)?, file)));
                let (text, file) =
                    found.unwrap_or_else(|| panic!("{}: no file of {name}", folder.display()));
                (file, tokens(&text))
            }
        };
        let module = Module { path, file, parent: Some(parent), ..Module::default() };
        let place = self.add(module, &code);
        self.modules[parent].children.insert(name.to_owned(), place);
    }
}

/// Where the files of a module's children are.
fn folder_of(module: &Module) -> PathBuf {
    let stem = module.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = module.file.parent().unwrap_or(Path::new(""));
    if module.parent.is_none() || stem == "mod" {
        return folder.to_owned();
    }
    // A module without a file of its own has a folder below its parent's.
    let name = module.path.last().map_or("", String::as_str);
    if name == stem { folder.join(stem) } else { folder.join(stem).join(name) }
}

/// Whether an attribute begins there that keeps what follows for tests.
fn is_for_tests(code: &[Token]) -> bool {
    let name = |at: usize, name: &str| code.get(at) == Some(&Token::Name(name.to_owned()));
    if code.get(1) != Some(&Token::Sign('[')) || !name(2, "cfg") {
        return false;
    }
    let attribute = &code[3..1 + of_block(&code[1..])];
    let has = |name: &str| attribute.contains(&Token::Name(name.to_owned()));
    has("test") && !has("not")
}

/// The number of tokens of the attributes that begin there, and of what they stand at: an item, a
/// field, a variant, a statement.
fn of_next_item(code: &[Token]) -> usize {
    let mut at = 0;
    while code.get(at) == Some(&Token::Sign('#')) {
        at += 1 + of_block(&code[at + 1..]);
    }
    let mut words = code[at..].iter().filter_map(|token| match token {
        Token::Name(word) if !["pub", "crate", "super", "in"].contains(&word.as_str()) => {
            Some(word.as_str())
        }
        _ => None,
    });
    let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let is_value = first == "const" && !["fn", "unsafe", "extern", "async"].contains(&second);
    let to_semicolon = is_value || ["use", "static", "type", "let"].contains(&first);
    let has_block = ["fn", "impl", "struct", "enum", "trait", "mod", "const", "unsafe", "async"];
    let to_comma = !to_semicolon && !has_block.contains(&first);
    while at < code.len() {
        match &code[at] {
            Token::Sign(';') => return at + 1,
            Token::Sign(',') if to_comma => return at + 1,
            Token::Sign(')' | ']' | '}') => return at,
            Token::Sign('{') if !to_semicolon => return at + of_block(&code[at..]),
            Token::Sign('(' | '[' | '{') => at += of_block(&code[at..]),
            _ => at += 1,
        }
    }
    code.len()
}

/// The number of tokens from an open bracket to the one that closes it, with both.
fn of_block(code: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The name of the item that a keyword begins.
fn defined<'a>(keyword: &str, more: &'a [Token]) -> Option<&'a str> {
    let more = match (keyword, more) {
        ("macro_rules", [Token::Sign('!'), more @ ..]) => more,
        ("struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static", more) => more,
        _ => return None,
    };
    let name = more.iter().find_map(|token| match token {
        Token::Name(name) if name != "mut" => Some(name.as_str()),
        _ => None,
    })?;
    let is_keyword = keyword == "const" && ["fn", "unsafe", "extern", "async"].contains(&name);
    (!is_keyword).then_some(name)
}

/// The path that begins there, of one name at least.
fn path_at(code: &[Token]) -> Vec<String> {
    let mut path = Vec::new();
    let mut rest = code;
    while let [Token::Name(name), more @ ..] = rest {
        path.push(name.clone());
        match more {
            [Token::Colons, Token::Name(_), ..] => rest = &more[1..],
            _ => break,
        }
    }
    path
}

/// What one tree of `use` imports, below a path.
fn imports_of(code: &[Token], below: &[String], found: &mut Vec<Import>) {
    let mut path = below.to_vec();
    let mut rest = code;
    loop {
        match rest {
            // A crate's name.
            [Token::Colons, ..] if path.is_empty() => return,
            [Token::Name(name), Token::Colons, more @ ..] => {
                path.push(name.clone());
                rest = more;
            }
            [Token::Name(name), more @ ..] => {
                // `self` at the end of a tree is the module above it.
                if name != "self" || path.is_empty() {
                    path.push(name.clone());
                }
                let known_as = match more {
                    [Token::Name(_), Token::Name(other), ..] => other.clone(),
                    _ => path.last().cloned().unwrap_or_default(),
                };
                found.push(Import { name: Some(known_as), path });
                return;
            }
            [Token::Sign('*'), ..] => {
                found.push(Import { name: None, path });
                return;
            }
            [Token::Sign('{'), ..] => {
                let inner = &rest[1..of_block(rest) - 1];
                for tree in trees(inner) {
                    imports_of(tree, &path, found);
                }
                return;
            }
            _ => return,
        }
    }
}

/// The trees between the braces of one.
fn trees(code: &[Token]) -> Vec<&[Token]> {
    let (mut found, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < code.len() {
        match &code[at] {
            Token::Sign('{') => at += of_block(&code[at..]),
            Token::Sign(',') => {
                found.push(&code[begin..at]);
                at += 1;
                begin = at;
            }
            _ => at += 1,
        }
    }
    found.push(&code[begin..]);
    found
}
