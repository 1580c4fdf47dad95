//! Puts the blocks on a screen of any size: one column when it is narrow, two when it is wide. A
//! block that does not fit says how much is not shown.

use std::time::Duration;

use pslite::chronicle::RoundPoint;
use pslite::scheduler::Status;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph};

use super::super::table::{eta_of, seconds};
use super::blocks::{self, Looks, ScreenBlock};
use super::view::JobView;

/// From so many columns on there are two.
const WIDE: u16 = 120;
/// Lines of the picture of rounds, at least and at most.
const CHART: [usize; 2] = [4, 10];
/// Answers that are older than that are called old.
const OLD: Duration = Duration::from_secs(5);

/// A block, or the picture of rounds.
enum ColumnPart {
    /// Whether some were measured.
    Rounds {
        some: bool,
    },
    Lines(ScreenBlock),
}

impl ColumnPart {
    fn within(self, width: usize) -> Self {
        match self {
            Self::Lines(block) => Self::Lines(block.within(width)),
            rounds @ Self::Rounds { .. } => rounds,
        }
    }

    fn least(&self) -> usize {
        match self {
            Self::Rounds { some: true } => CHART[0],
            Self::Rounds { some: false } => 1,
            Self::Lines(part) => part.least,
        }
    }

    fn most(&self) -> usize {
        match self {
            Self::Rounds { some: true } => CHART[1],
            Self::Rounds { some: false } => 1,
            Self::Lines(part) => part.lines.len(),
        }
    }
}

/// Draws all.
pub(super) fn screen(frame: &mut Frame<'_>, view: &JobView, now: Duration) {
    let looks = Looks::new(view.colours);
    let head = head(view, now, usize::from(frame.area().width), &looks);
    let heights =
        [Constraint::Length(head.len() as u16), Constraint::Min(0), Constraint::Length(1)];
    let [top, body, bottom] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    frame.render_widget(Paragraph::new(foot(view, now, &looks)), bottom);
    let Some((_, status)) = &view.last else { return };
    let (left, right) = parts(view, status, &looks);
    if body.width >= WIDE && !right.is_empty() {
        let widths = [Constraint::Percentage(56), Constraint::Length(2), Constraint::Min(0)];
        let [one, _, two] = Layout::horizontal(widths).areas(body);
        column(frame, one, left, view, &looks);
        column(frame, two, right, view, &looks);
    } else {
        let mut all = right;
        // Who waits stands above all else.
        let rest = all.split_off(usize::from(!status_is_calm(status)).min(all.len()));
        all.extend(left);
        all.extend(rest);
        column(frame, body, all, view, &looks);
    }
}

fn status_is_calm(status: &Status) -> bool {
    status.note.is_empty() && status.waits.is_empty() && status.uncopied == 0
}

/// What stands left, and what stands right; the first of these is who waits, if somebody does.
fn parts(view: &JobView, status: &Status, looks: &Looks) -> (Vec<ColumnPart>, Vec<ColumnPart>) {
    let left = vec![
        ColumnPart::Rounds { some: !view.rounds.is_empty() },
        ColumnPart::Lines(blocks::servers(view, looks)),
        ColumnPart::Lines(blocks::workers(view, looks)),
    ];
    let right = [
        blocks::waits(status, looks),
        blocks::trees(status, looks),
        blocks::methods(status),
        blocks::advice(status),
        blocks::happened(view),
    ];
    (left, right.into_iter().flatten().map(ColumnPart::Lines).collect())
}

/// The job in two lines; one more on a narrow screen, and one if the scheduler is silent.
fn head(view: &JobView, now: Duration, width: usize, looks: &Looks) -> Vec<Line<'static>> {
    let mut first = vec![Span::styled(format!("pslite {}  ", view.scheduler), Modifier::BOLD)];
    let mut lines = Vec::new();
    let Some((at, status)) = &view.last else {
        lines.push(Line::from(first));
        let what = view.silence.clone().map_or_else(
            || Line::raw("asking the scheduler ..."),
            |why| Line::styled(why, looks.bad()),
        );
        lines.push(what);
        return lines;
    };
    let phase = match status.phase.as_str() {
        "running" => looks.good(),
        "failed" => looks.bad(),
        _ => looks.changing(),
    };
    first.push(Span::styled(status.phase.clone(), phase));
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    let (workers, servers) = (view.workers().count(), view.servers().count());
    first.push(Span::raw(format!("  {}, {}", count(workers, "worker"), count(servers, "server"))));
    let keys = if status.elastic {
        format!("policy {}, {} further copies of each piece", status.epoch, status.replicas)
    } else {
        "keys do not move".to_owned()
    };
    let mut first = Line::from(first);
    if first.width() + 2 + keys.len() <= width {
        first.push_span(format!("  {keys}"));
        lines.push(first);
    } else {
        lines.push(first);
        lines.push(Line::raw(keys));
    }
    lines.push(Line::from(vec![
        Span::raw("round "),
        Span::styled(seconds(status.measured), looks.measured()),
        Span::raw(format!("  predicted {}  T* ", seconds(status.predicted))),
        Span::styled(seconds(status.bound), looks.bound()),
        Span::raw(format!("  eta {}", eta_of(status.eta))),
    ]));
    let age = now.saturating_sub(*at);
    match &view.silence {
        Some(why) => {
            let text = format!("no answer since {} s, what is below is old: {why}", age.as_secs());
            lines.push(Line::styled(text, looks.bad().add_modifier(Modifier::REVERSED)));
        }
        None if age > OLD => {
            let text = format!("what is below is {} s old", age.as_secs());
            lines.push(Line::styled(text, looks.changing().add_modifier(Modifier::REVERSED)));
        }
        None => {}
    }
    lines
}

/// What the user is asked, what became of it, or which keys there are.
fn foot(view: &JobView, now: Duration, looks: &Looks) -> Line<'static> {
    if let Some(node) = view.question.and_then(|id| view.server(id)) {
        let text =
            format!("drain server {} ({})? y: yes, any other key: no", node.rank, node.address);
        return Line::styled(text, looks.changing().add_modifier(Modifier::REVERSED));
    }
    if let Some(said) = view.said(now) {
        return Line::styled(said.to_owned(), looks.changing());
    }
    Line::styled("q leaves  up, down choose a server  d drains it", Looks::quiet())
}

/// Parts below each other: each gets what it needs at least, then the first ones get more.
fn column(
    frame: &mut Frame<'_>,
    area: Rect,
    parts: Vec<ColumnPart>,
    view: &JobView,
    looks: &Looks,
) {
    let width = usize::from(area.width);
    let parts: Vec<_> = parts.into_iter().map(|part| part.within(width)).collect();
    let mut heights: Vec<usize> = Vec::with_capacity(parts.len());
    let mut free = usize::from(area.height);
    for part in &parts {
        // One line is the title; a title alone says nothing.
        let height = if free < 2 { 0 } else { (part.least() + 1).min(free) };
        heights.push(height);
        free -= height;
    }
    for (part, height) in parts.iter().zip(&mut heights).filter(|(_, height)| **height > 0) {
        let more = (part.most() + 1).saturating_sub(*height).min(free);
        *height += more;
        free -= more;
    }
    let mut y = area.y;
    for (part, height) in parts.into_iter().zip(heights).filter(|(_, height)| *height > 0) {
        let place = Rect { y, height: height as u16, ..area };
        y += place.height;
        match part {
            ColumnPart::Rounds { .. } => rounds(frame, place, view, looks),
            ColumnPart::Lines(part) => lines(frame, place, part),
        }
    }
}

fn titled(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(Looks::quiet()).title(title)
}

fn lines(frame: &mut Frame<'_>, area: Rect, part: ScreenBlock) {
    let ScreenBlock { title, lines, chosen, .. } = part;
    let room = usize::from(area.height.saturating_sub(1));
    let hidden = lines.len().saturating_sub(room);
    let title = if hidden > 0 { format!("{title} ({hidden} more lines) ") } else { title + " " };
    // The header stays; below it the chosen line is in sight.
    let skipped = chosen.map_or(0, |at| (at + 1).saturating_sub(room)).min(hidden);
    let mut rest = lines.into_iter();
    let mut shown: Vec<Line<'static>> = Vec::with_capacity(room);
    if skipped > 0 {
        shown.extend(rest.next());
    }
    shown.extend(rest.skip(skipped));
    shown.truncate(room);
    frame.render_widget(Paragraph::new(shown).block(titled(title)), area);
}

/// Measured rounds, what the model says of them, and T*.
fn rounds(frame: &mut Frame<'_>, area: Rect, view: &JobView, looks: &Looks) {
    let title = "rounds: measured, predicted (dots), T* (below) ".to_owned();
    let Some((first, last)) = view.rounds.front().zip(view.rounds.back()) else {
        let text = Line::styled("no round was measured yet", Looks::quiet());
        frame.render_widget(Paragraph::new(text).block(titled(title)), area);
        return;
    };
    let line = |value: fn(&RoundPoint) -> Option<f64>| -> Vec<(f64, f64)> {
        let point = |seen: &RoundPoint| Some((seen.at, value(seen)?));
        view.rounds.iter().filter_map(point).collect()
    };
    let measured = line(|seen| seen.measured);
    let (predicted, bound) = (line(|seen| seen.predicted), line(|seen| seen.bound));
    let all = measured.iter().chain(&predicted).chain(&bound);
    let highest = all.map(|(_, seconds)| *seconds).fold(0.0, f64::max).max(1e-6) * 1.1;
    let (from, to) = (first.at, last.at);
    let set = |data, marker, style: Style| {
        let kind = if marker == Marker::Dot { GraphType::Scatter } else { GraphType::Line };
        Dataset::default().data(data).marker(marker).graph_type(kind).style(style)
    };
    let sets = vec![
        set(&bound, Marker::Braille, looks.bound()),
        set(&predicted, Marker::Dot, looks.changing()),
        set(&measured, Marker::Braille, looks.measured()),
    ];
    let ago = format!("{:.0} s ago", to - from);
    let x = Axis::default().bounds([from, to.max(from + 1.0)]).labels([ago, "now".to_owned()]);
    let high = format!("{highest:.3} s");
    let y = Axis::default().bounds([0.0, highest]).labels(["0".to_owned(), high]);
    let chart = Chart::new(sets).x_axis(x).y_axis(y).legend_position(None).block(titled(title));
    frame.render_widget(chart, area);
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
