//! Rust's text as the few tokens that paths are made of. Comments are dropped. Literals and
//! lifetimes are only marks: what stands in them is no code.

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or a keyword; `r#` is taken off.
    Name(String),
    /// `::`.
    Colons,
    /// Any other sign.
    Sign(char),
    /// A number, text, a character or a lifetime.
    Mark,
}

/// The tokens of a file.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else if let Some(length) = literal(rest) {
            found.push(Token::Mark);
            length
        } else if is_of_name(first) {
            let begin = if rest.starts_with("r#") { 2 } else { 0 };
            let name = &rest[begin..];
            let name = &name[..name.find(|c| !is_of_name(c)).unwrap_or(name.len())];
            let number = first.is_ascii_digit();
            found.push(if number { Token::Mark } else { Token::Name(name.to_owned()) });
            begin + name.len()
        } else if rest.starts_with("::") {
            found.push(Token::Colons);
            2
        } else {
            found.push(Token::Sign(first));
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment at the begin; one may stand in another.
fn comment(text: &str) -> usize {
    let (mut open, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (open, at) = (open + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (open, at) = (open - 1, at + 2);
            if open == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the text, character or lifetime at the begin, if there is one.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| {
        let rest = text.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            let quoted = rest.trim_start_matches('#').starts_with('"');
            rest.starts_with('"') || quoted && prefix.ends_with('r')
        })
    });
    if let Some(prefix) = prefix.filter(|prefix| prefix.ends_with('r')) {
        let raw = &text[prefix.len()..];
        let marks = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(marks));
        let begin = prefix.len() + marks + 1;
        return Some(text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len()));
    }
    let begin = prefix.map_or(0, str::len);
    if text[begin..].starts_with('"') {
        return Some(begin + quoted(&text[begin..], '"'));
    }
    let rest = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let mut letters = rest.chars();
    let (first, second) = (letters.next()?, letters.next()?);
    if first == '\\' || second == '\'' {
        let begin = text.len() - rest.len() - 1;
        return Some(begin + quoted(&text[begin..], '\''));
    }
    // A lifetime.
    Some(1 + rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()))
}

/// The length of what stands between two of that quote, with both.
fn quoted(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return at + quote.len_utf8();
        }
    }
    text.len()
}
