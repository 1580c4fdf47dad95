//! A graph as a text that people write, one thing a line:
//!
//! ```text
//! # rates are Mbit/s
//! link paris berlin 100 40    there and back; one number is both, none is 100
//! card rome 500 200           what a site can send and receive in all; one number is both
//! switch rome oslo bonn       these reach each other as fast as their cards go
//! ```
//!
//! Sites are there once they are named. What a link carries takes the cards of its ends, too, if
//! they have one.

use std::collections::BTreeMap;

use super::{Edge, Graph, GraphError, MOST_SITES, NamedGraph};

/// One Mbit/s, in bytes per second.
pub const MBIT: f64 = 125_000.0;

/// Why a text is no graph.
#[derive(Clone, Debug, PartialEq)]
pub enum TextError {
    /// What is wrong in which line, from 1, and what would be right.
    Line(usize, String),
    /// The lines are right, but what they describe is not.
    Graph(GraphError),
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number, wrong) => write!(f, "line {number}: {wrong}"),
            Self::Graph(wrong) => wrong.fmt(f),
        }
    }
}

impl std::error::Error for TextError {}

impl From<GraphError> for TextError {
    fn from(error: GraphError) -> Self {
        Self::Graph(error)
    }
}

/// Mbit/s of a link of which nobody says a rate: jobs measure it.
const UNKNOWN: f64 = 100.0;
const FORMS: &str =
    "a line is `link SITE SITE [MBIT [MBIT]]`, `card SITE MBIT [MBIT]`, or `switch SITE SITE...`";

/// Reads a graph.
///
/// # Errors
/// The first line that is none, or what is wrong with the whole.
pub fn parse(text: &str) -> Result<NamedGraph, TextError> {
    let mut lines = GraphLines::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        lines.read(number + 1, &words)?;
    }
    lines.graph()
}

struct LinkLine {
    ends: (usize, usize),
    rates: (f64, f64),
}

/// What was read so far.
#[derive(Default)]
struct GraphLines {
    names: Vec<String>,
    links: Vec<LinkLine>,
    /// Rates up and down by site.
    cards: BTreeMap<usize, (f64, f64)>,
    /// Pairs on a switch, and the line that says so.
    switched: BTreeMap<(usize, usize), usize>,
}

impl GraphLines {
    fn read(&mut self, line: usize, words: &[&str]) -> Result<(), TextError> {
        match *words {
            [] => {}
            ["link", a, b, ref rates @ ..] => {
                let ends = (self.site(a), self.site(b));
                let rates = match rates {
                    [] => (UNKNOWN, UNKNOWN),
                    rates => both(line, rates)?,
                };
                if ends.0 == ends.1 {
                    return Err(TextError::Line(line, format!("a link from {a} to itself")));
                }
                let same = |link: &LinkLine| link.ends == ends || link.ends == (ends.1, ends.0);
                if self.links.iter().any(same) {
                    let wrong = format!("a second link of {a} and {b}: give one, with the sum");
                    return Err(TextError::Line(line, wrong));
                }
                self.links.push(LinkLine { ends, rates });
            }
            ["card", site, ref rates @ ..] => {
                let (number, rates) = (self.site(site), both(line, rates)?);
                if self.cards.insert(number, rates).is_some() {
                    return Err(TextError::Line(line, format!("a second card of {site}")));
                }
            }
            ["switch", ref sites @ ..] if sites.len() > 1 => {
                let sites: Vec<usize> = sites.iter().map(|name| self.site(name)).collect();
                for a in &sites {
                    let others = sites.iter().filter(|b| *b != a);
                    self.switched.extend(others.map(|b| ((*a, *b), line)));
                }
            }
            _ => return Err(TextError::Line(line, FORMS.to_owned())),
        }
        if self.names.len() > MOST_SITES {
            return Err(GraphError::Sites(self.names.len()).into());
        }
        Ok(())
    }

    fn site(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// The resources: first the cards, two for each in the order of their sites, then the links.
    fn graph(self) -> Result<NamedGraph, TextError> {
        let mut resources: Vec<f64> =
            self.cards.values().flat_map(|(up, down)| [up * MBIT, down * MBIT]).collect();
        let card = |site: usize| self.cards.keys().position(|known| *known == site);
        let up = |site| card(site).map(|place| 2 * place);
        let down = |site| card(site).map(|place| 2 * place + 1);
        let mut edges = Vec::new();
        for LinkLine { ends: (a, b), rates: (there, back) } in &self.links {
            for (from, to, rate) in [(*a, *b, *there), (*b, *a, *back)] {
                let link = Some(resources.len());
                let taken = [up(from), link, down(to)].into_iter().flatten().collect();
                resources.push(rate * MBIT);
                edges.push(Edge { from, to, resources: taken });
            }
        }
        for ((from, to), line) in &self.switched {
            let name = |site: &usize| self.names.get(*site).cloned().unwrap_or_default();
            for site in [from, to] {
                if !self.cards.contains_key(site) {
                    let name = name(site);
                    let wrong =
                        format!("{name} is on a switch without a card: add `card {name} MBIT`");
                    return Err(TextError::Line(*line, wrong));
                }
            }
            if edges.iter().any(|edge| (edge.from, edge.to) == (*from, *to)) {
                let wrong = format!("{} and {} have a link already", name(from), name(to));
                return Err(TextError::Line(*line, wrong));
            }
            let taken = [up(*from), down(*to)].into_iter().flatten().collect();
            edges.push(Edge { from: *from, to: *to, resources: taken });
        }
        let graph = Graph::new(self.names.len(), resources, edges)?;
        Ok(NamedGraph { graph, names: self.names })
    }
}

/// One rate or two.
fn both(line: usize, words: &[&str]) -> Result<(f64, f64), TextError> {
    let rate = |word: &str| {
        let rate = word.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
        let wrong = || TextError::Line(line, format!("{word} is no rate: Mbit/s, from 0"));
        rate.ok_or_else(wrong)
    };
    match words {
        [one] => Ok((rate(one)?, rate(one)?)),
        [one, two] => Ok((rate(one)?, rate(two)?)),
        _ => Err(TextError::Line(line, FORMS.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_cards_and_switches() {
        let text = "# a comment\nlink paris berlin 100 40\n\ncard rome 500 200 # another\n\
                    card berlin 80\nswitch rome berlin\n";
        let NamedGraph { graph, names } = parse(text).unwrap();
        assert_eq!(names, ["paris", "berlin", "rome"]);
        assert_eq!(graph.connected(), Ok(()));
        let edge = |from, to| graph.edge(from, to).map(|edge| graph.rate(edge) / MBIT);
        assert_eq!((edge(0, 1), edge(1, 0)), (Some(80.0), Some(40.0)));
        assert_eq!((edge(2, 1), edge(1, 2), edge(0, 2)), (Some(80.0), Some(80.0), None));
        assert_eq!(graph.edge(1, 0).unwrap().resources.len(), 2);
        let unknown = parse("link a b").unwrap().graph;
        let rates = [(0, 1), (1, 0)].map(|(from, to)| unknown.edge(from, to).unwrap());
        assert_eq!(rates.map(|edge| unknown.rate(edge) / MBIT), [UNKNOWN; 2]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(wrong("link a b 1\nline a"), format!("line 2: {FORMS}"));
        assert_eq!(wrong("link a"), format!("line 1: {FORMS}"));
        assert_eq!(wrong("link a b 1 2 3"), format!("line 1: {FORMS}"));
        assert_eq!(wrong("switch a"), format!("line 1: {FORMS}"));
        assert_eq!(wrong("link a b fast"), "line 1: fast is no rate: Mbit/s, from 0");
        assert_eq!(wrong("link a b -3"), "line 1: -3 is no rate: Mbit/s, from 0");
        assert_eq!(wrong("link a b inf"), "line 1: inf is no rate: Mbit/s, from 0");
        assert_eq!(wrong("link a a 3"), "line 1: a link from a to itself");
        assert!(wrong("link a b 3\nlink b a 4").starts_with("line 2: a second link of b and a"));
        assert_eq!(wrong("card a 1\ncard a 2"), "line 2: a second card of a");
        let card = "line 2: b is on a switch without a card: add `card b MBIT`";
        assert_eq!(wrong("card a 1\nswitch a b"), card);
        let both = "card a 1\ncard b 1\nlink a b 2\nswitch a b";
        assert_eq!(wrong(both), "line 4: a and b have a link already");
        assert_eq!(wrong(""), "0 sites: a graph has 1 to 256");
        let many: String = (0..300).map(|n| format!("link a b{n} 5\n")).collect();
        assert_eq!(wrong(&many), "257 sites: a graph has 1 to 256");
    }
}
