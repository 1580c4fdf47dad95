//! The blocks of the screen, as lines of text: what they say, not where they stand. The same things
//! as the page shows, in the same order.

use std::cmp::Ordering;

use pslite::scheduler::{LinkStatus, NodeStatus, Status};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::events;
use super::super::exchange;
use super::super::table::{bytes, copies_of, line_of, seconds};
use super::view::JobView;

/// Cells of a bar that shows a share.
const BAR: usize = 16;
/// Links that are listed: the slowest.
const LINKS_MAX: usize = 64;
/// What continues a line is moved in by so much.
const INDENT: &str = "  ";
/// Between two columns.
const GAP: &str = "  ";

/// One block.
pub(super) struct ScreenBlock {
    pub(super) title: String,
    pub(super) lines: Vec<Line<'static>>,
    /// Lines that it gets before others get more than these.
    pub(super) least: usize,
    /// The line that must be seen.
    pub(super) chosen: Option<usize>,
    /// Lines that are too long go on in the next one: they are sentences.
    wraps: bool,
}

impl ScreenBlock {
    fn new(title: impl Into<String>, least: usize, lines: Vec<Line<'static>>) -> Self {
        Self { title: title.into(), lines, least, chosen: None, wraps: false }
    }
}

impl ScreenBlock {
    /// As it is in a column of that width.
    pub(super) fn within(mut self, width: usize) -> Self {
        if self.wraps {
            let lines = std::mem::take(&mut self.lines);
            self.lines = lines.into_iter().flat_map(|line| wrapped(&line, width)).collect();
            self.least = self.least.max(self.lines.len().min(4));
        }
        self
    }

    fn wrapping(self) -> Self {
        Self { wraps: true, ..self }
    }
}

/// The words of a line, in lines of that width at most, but for longer words.
fn wrapped(line: &Line<'_>, width: usize) -> Vec<Line<'static>> {
    if line.width() <= width {
        return vec![Line::styled(line.to_string(), line.style)];
    }
    let mut lines = vec![String::new()];
    for word in line.to_string().split_whitespace() {
        let is_first = lines.last().is_none_or(|last| last.trim().is_empty());
        let taken = lines.last().map_or(0, |last| Span::raw(last.as_str()).width());
        if !is_first && taken + 1 + Span::raw(word).width() > width {
            lines.push(INDENT.to_owned() + word);
        } else if let Some(last) = lines.last_mut() {
            last.push_str(if is_first { "" } else { " " });
            last.push_str(word);
        }
    }
    let style = line.style;
    lines.into_iter().map(|text| Line::styled(text, style)).collect()
}

/// What happened, newest first; none if nothing did.
pub(super) fn happened(view: &JobView) -> Option<ScreenBlock> {
    let told = view.events.iter().rev();
    let lines: Vec<_> = told.map(|event| Line::raw(events::line(event))).collect();
    let least = lines.len().min(3);
    (least > 0).then(|| ScreenBlock::new("what happened, newest first", least, lines).wrapping())
}

/// How things look. A state is a word as well as a colour, so nothing is lost without colours.
pub(super) struct Looks {
    colours: bool,
}

impl Looks {
    pub(super) const fn new(colours: bool) -> Self {
        Self { colours }
    }

    fn colour(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn bad(&self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn changing(&self) -> Style {
        self.colour(Color::Yellow)
    }

    pub(super) fn good(&self) -> Style {
        self.colour(Color::Green)
    }

    pub(super) fn measured(&self) -> Style {
        self.colour(Color::Cyan)
    }

    pub(super) fn bound(&self) -> Style {
        self.colour(Color::Magenta)
    }

    pub(super) fn quiet() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn state(&self, state: &str) -> Style {
        match state {
            "live" | "fixed" => self.good(),
            "dead" => self.bad(),
            "released" => Self::quiet(),
            _ => self.changing(),
        }
    }
}

/// Who waits for whom, what is missing, and where copies are not there yet; none if nobody waits.
pub(super) fn waits(status: &Status, looks: &Looks) -> Option<ScreenBlock> {
    let mut lines = Vec::new();
    if !status.note.is_empty() {
        lines.push(Line::styled(status.note.clone(), looks.bad()));
    }
    lines.extend(status.waits.iter().map(|wait| Line::styled(wait.clone(), looks.changing())));
    if status.uncopied > 0 {
        lines.push(Line::styled(copies_of(status), looks.changing()));
    }
    let least = lines.len().min(4);
    (least > 0).then(|| ScreenBlock::new("waits", least, lines).wrapping())
}

/// Who has how much.
pub(super) fn servers(view: &JobView, looks: &Looks) -> ScreenBlock {
    let total: u64 = view.servers().map(|node| node.bytes).sum();
    let most = view.servers().map(|node| node.bytes).max().unwrap_or(0);
    let header = ["server", "state", "share", "", "values", "optimizer", "pieces", "address"];
    let rows = view.servers().map(|node| {
        vec![
            Span::raw(name(node)),
            Span::styled(node.state.clone(), looks.state(&node.state)),
            Span::styled(bar(node.bytes, most), looks.measured()),
            Span::raw(format!("{:.1} %", 100.0 * node.bytes as f64 / total.max(1) as f64)),
            Span::raw(bytes(node.bytes)),
            Span::raw(bytes(node.state_bytes)),
            Span::raw(node.pieces.to_string()),
            Span::raw(node.address.clone()),
        ]
    });
    let mut lines = columns(&header, rows.collect());
    let chosen = view.chosen + 1;
    if let Some(line) = lines.get_mut(chosen).filter(|_| view.servers().count() > 1) {
        *line = std::mem::take(line).patch_style(Modifier::REVERSED);
    }
    let least = lines.len().min(4);
    ScreenBlock { chosen: Some(chosen), ..ScreenBlock::new("servers", least, lines) }
}

/// The workers, and what they do with their time.
pub(super) fn workers(view: &JobView, looks: &Looks) -> ScreenBlock {
    let header = ["worker", "state", "computes", "waits", "address"];
    let time = |time: Option<f64>| Span::raw(seconds(time));
    let rows = view.workers().map(|node| {
        vec![
            Span::raw(name(node)),
            Span::styled(node.state.clone(), looks.state(&node.state)),
            time(node.computes),
            time(node.waits),
            Span::raw(node.address.clone()),
        ]
    });
    let lines = columns(&header, rows.collect());
    let least = lines.len().min(4);
    ScreenBlock::new("workers", least, lines)
}

/// The trees that rounds go along and the links, slowest first; none without trees.
pub(super) fn trees(status: &Status, looks: &Looks) -> Option<ScreenBlock> {
    let trees = status.trees.as_ref()?;
    if !trees.why.is_empty() {
        let line = Line::styled(format!("rounds go straight: {}", trees.why), looks.changing());
        let title = format!("trees: {}", trees.topology);
        return Some(ScreenBlock::new(title, 1, vec![line]).wrapping());
    }
    let mut lines = Vec::new();
    for tree in &trees.trees {
        lines.push(Line::raw(format!("{:5.1} %  up   {}", 100.0 * tree.share, tree.up)));
        lines.push(Line::raw(format!("         down {}", tree.down)));
    }
    let mut links: Vec<&LinkStatus> = trees.links.iter().collect();
    links.sort_by(|a, b| a.mbit.partial_cmp(&b.mbit).unwrap_or(Ordering::Equal));
    let more = links.len().saturating_sub(LINKS_MAX);
    let rows = links.iter().take(LINKS_MAX).map(|link| {
        let rate = if link.mbit == 0.0 {
            Span::styled("cut", looks.bad())
        } else {
            Span::raw(format!("{:.1} Mbit/s", link.mbit))
        };
        let from = if link.measured { "measured" } else { "as PSLITE_LINKS says" };
        vec![Span::raw(format!("{} to {}", link.from, link.to)), rate, Span::raw(from)]
    });
    lines.extend(columns(&["link", "carries", ""], rows.collect()));
    if more > 0 {
        lines.push(Line::raw(format!("{more} faster ones")));
    }
    let title = format!("trees: {}, overlay {}", trees.topology, trees.overlay);
    let least = lines.len().min(4);
    Some(ScreenBlock::new(title, least, lines))
}

/// Workers that share batches or exchange deltas; none without.
pub(super) fn methods(status: &Status) -> Option<ScreenBlock> {
    let mut text = String::new();
    for session in &status.sessions {
        text.push_str(&line_of(session));
        text.push('\n');
    }
    if let Some(method) = &status.exchange {
        text.push_str(&format!("exchange: {method}\n"));
        exchange::draw(status, &mut text);
    }
    let lines: Vec<_> = text.lines().map(|line| Line::raw(line.to_owned())).collect();
    let least = lines.len().min(2);
    (least > 0).then(|| ScreenBlock::new("batches and exchanges", least, lines))
}

/// What limits a round, and what would help; none if nobody knows.
pub(super) fn advice(status: &Status) -> Option<ScreenBlock> {
    let named = [
        ("limit", &status.limit),
        ("nothing is moved", &status.no_plan),
        ("advice", &status.advice),
        ("advice", &status.exchange_advice),
    ];
    let said = named.into_iter().filter(|(_, text)| !text.is_empty());
    let lines: Vec<_> = said.map(|(name, text)| Line::raw(format!("{name}: {text}"))).collect();
    let least = lines.len().min(2);
    (least > 0).then(|| ScreenBlock::new("what limits rounds", least, lines).wrapping())
}

fn name(node: &NodeStatus) -> String {
    match node.state.as_str() {
        "registered" => "-".to_owned(),
        _ => node.rank.to_string(),
    }
}

fn bar(part: u64, most: u64) -> String {
    let filled = (part as f64 / most.max(1) as f64 * BAR as f64).round() as usize;
    let filled = filled.min(BAR);
    "█".repeat(filled) + &"░".repeat(BAR - filled)
}

/// Rows with columns that are as wide as their widest cell; the header first.
fn columns(header: &[&str], rows: Vec<Vec<Span<'static>>>) -> Vec<Line<'static>> {
    let head = header.iter().map(|text| Span::styled((*text).to_owned(), Looks::quiet()));
    let mut all = vec![head.collect::<Vec<_>>()];
    all.extend(rows);
    let width = |at: usize| all.iter().map(|row| row[at].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |row: Vec<Span<'static>>| {
        let mut spans = Vec::with_capacity(2 * row.len());
        for (cell, width) in row.into_iter().zip(&widths) {
            let space = " ".repeat(width.saturating_sub(cell.width()));
            spans.push(cell);
            spans.push(Span::raw(space + GAP));
        }
        Line::from(spans)
    };
    all.into_iter().map(line).collect()
}
