//! The parameters of functions.

use super::tokens::Token;

/// Each parameter of a function that has a tuple for a type, or a reference to one: the function's
/// name, as often as it has such a parameter.
pub(crate) fn tuples(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if let [Token::Name(word), Token::Name(function)] = pair
            && word == "fn"
            && let Some(parameters) = parameters(&tokens[at + 2..])
        {
            let count = split(parameters).into_iter().filter(|one| is_tuple(one)).count();
            found.extend(std::iter::repeat_n(function.clone(), count));
        }
    }
    found
}

/// What stands between the parentheses, after a function's name and its generic parameters.
fn parameters(tokens: &[Token]) -> Option<&[Token]> {
    let mut angles = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('<') => angles += 1,
            Token::Sign('>') if tokens[at.saturating_sub(1)] != Token::Sign('-') => angles -= 1,
            Token::Sign('(') if angles == 0 => {
                let inside = &tokens[at + 1..];
                return Some(&inside[..end(inside)]);
            }
            Token::Sign('{' | ';') => return None,
            _ => {}
        }
    }
    None
}

/// Where the parenthesis, bracket or brace closes that was open before these tokens.
fn end(tokens: &[Token]) -> usize {
    let mut open = 1;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => open += 1,
            Token::Sign(')' | ']' | '}') => open -= 1,
            _ => {}
        }
        if open == 0 {
            return at;
        }
    }
    tokens.len()
}

/// The parts between commas that are in no brackets.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut open, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{' | '<') => open += 1,
            Token::Sign('>') if at > 0 && tokens[at - 1] == Token::Sign('-') => {}
            Token::Sign(')' | ']' | '}' | '>') => open -= 1,
            Token::Sign(',') if open == 0 => {
                parts.push(&tokens[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[begin..]);
    parts
}

/// Whether a parameter's type is a tuple of two or more, or a reference to one.
fn is_tuple(parameter: &[Token]) -> bool {
    let mut open = 0;
    let colon = parameter.iter().position(|token| {
        match token {
            Token::Sign('(' | '[' | '{') => open += 1,
            Token::Sign(')' | ']' | '}') => open -= 1,
            _ => {}
        }
        open == 0 && *token == Token::Sign(':')
    });
    let Some(colon) = colon else { return false };
    let mut kind = parameter[colon + 1..].iter().skip_while(|token| match token {
        Token::Sign('&') | Token::Mark => true,
        Token::Name(name) => name == "mut",
        _ => false,
    });
    if kind.next() != Some(&Token::Sign('(')) {
        return false;
    }
    let inside: Vec<Token> = kind.cloned().collect();
    split(&inside[..end(&inside)]).len() > 1
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::tuples;

    #[test]
    fn tuples_are_found_behind_references_and_patterns() {
        let text = "fn a((x, y): (u8, u8), z: &'a mut (B, C)) {}\n\
                    fn b<F: Fn((u8, u8)) -> (u8, u8)>(f: F, g: Vec<(u8, u8)>) -> (u8, u8) {}\n\
                    fn c(self, f: &dyn Fn(u8, u8), h: (u8)) { let (a, b) = d((1, 2)); }\n\
                    pub(crate) fn d((a, b): (HashMap<u8, u8>, [u8; 2])) {}";
        assert_eq!(tuples(&tokens(text)), ["a", "a", "d"]);
    }
}
