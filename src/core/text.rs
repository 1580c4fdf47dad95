//! Texts for people that name several things. Knows nothing of what it names.

/// Names in a text, at most. A line goes to every node: with all names of a large job in it, what
/// is said would grow with the square of the number of nodes.
pub const NAMED_MAX: usize = 8;

/// The first [`NAMED_MAX`] names, separated by commas, and how many there are besides.
pub fn few(names: impl IntoIterator<Item = String>) -> String {
    few_of(names, NAMED_MAX)
}

/// The same with another bound.
pub fn few_of(names: impl IntoIterator<Item = String>, max: usize) -> String {
    let mut names = names.into_iter();
    let mut said: Vec<String> = names.by_ref().take(max).collect();
    let more = names.count();
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_counted() {
        let names = |n: usize| (0..n).map(|i| i.to_string());
        assert_eq!(few(names(0)), "");
        assert_eq!(few(names(2)), "0, 1");
        assert_eq!(few(names(8)), "0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(few(names(9)), "0, 1, 2, 3, 4, 5, 6, 7, 1 more");
        assert_eq!(few_of(names(500), 2), "0, 1, 498 more");
    }
}
