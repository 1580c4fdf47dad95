//! A tree as a line of text: each site is followed by its children in parentheses. Pure.

/// `1(2(5 6) 3)`: 2 and 3 are children of 1, and 5 and 6 of 2. Sites that do not hang together
/// with the root are not in it.
#[must_use]
pub fn drawing(names: &[String], root: usize, parents: &[Option<usize>]) -> String {
    let mut text = String::new();
    // What is still to be written, the next last.
    let mut open = vec![Stroke::Site(root)];
    let mut budget = parents.len();
    while let Some(piece) = open.pop() {
        let site = match piece {
            Stroke::Text(word) => {
                text.push_str(word);
                continue;
            }
            Stroke::Site(site) => site,
        };
        if budget == 0 {
            break;
        }
        budget -= 1;
        text.push_str(names.get(site).map_or("?", String::as_str));
        let children: Vec<usize> =
            (0..parents.len()).filter(|child| parents.get(*child) == Some(&Some(site))).collect();
        if children.is_empty() {
            continue;
        }
        open.push(Stroke::Text(")"));
        for (place, child) in children.iter().enumerate().rev() {
            open.push(Stroke::Site(*child));
            open.push(Stroke::Text(if place == 0 { "(" } else { " " }));
        }
    }
    text
}

enum Stroke {
    Site(usize),
    Text(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_in_parentheses() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let parents = [Some(1), None, Some(0), Some(1), Some(0)];
        assert_eq!(drawing(&names, 1, &parents), "b(a(c e) d)");
        assert_eq!(drawing(&names, 2, &[None; 5]), "c");
    }

    #[test]
    fn a_circle_ends() {
        let names: Vec<String> = ["a", "b"].map(str::to_owned).to_vec();
        assert!(drawing(&names, 0, &[Some(1), Some(0)]).len() < 20);
    }
}
