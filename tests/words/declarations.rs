//! The names of the types that a file declares.

use super::tokens::Token;

const KINDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// The names of types and traits that these tokens declare. Types that belong to a trait have the
/// trait's name for it: they are left out.
pub(crate) fn declared(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    // For each open brace: whether it is the body of a trait or of an `impl`.
    let mut bodies = Vec::new();
    let mut begin = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{') => {
                bodies.push(tokens[begin..at].iter().any(
                    |token| matches!(token, Token::Name(name) if name == "impl" || name == "trait"),
                ));
                begin = at + 1;
            }
            Token::Sign('}') => {
                bodies.pop();
                begin = at + 1;
            }
            Token::Sign(';') => begin = at + 1,
            Token::Name(kind) if KINDS.contains(&kind.as_str()) => {
                let of_trait = kind == "type" && bodies.last() == Some(&true);
                if let (Some(Token::Name(name)), false) = (tokens.get(at + 1), of_trait) {
                    found.push(name.clone());
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::declared;

    #[test]
    fn types_are_found_and_those_of_traits_are_not() {
        let text = "pub struct A { field: B }\n enum C { D }\ntrait E { type F; }\n\
                    impl E for A { type F = u8; fn f() { struct G; } }\ntype H = A;\n\
                    // struct I\nfn f() -> impl E { \"struct J\"; loop {} }";
        assert_eq!(declared(&tokens(text)), ["A", "C", "E", "G", "H"]);
    }
}
