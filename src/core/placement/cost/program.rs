//! The best loads as a linear program, for jobs in which limits join servers: copies, hosts with
//! several nodes. It starts from the loads as they are and finds what to change, so that the price
//! of a move is part of it (docs/algorithms.md 2.3): minimise `T(loads) + price * bytes moved`.
//!
//! Variables are fractions of all bytes, and times in units of the bound.

use super::closed::{Tap, pour};
use super::level::{self, Share};
use super::rows::Row;
use super::{Model, simplex};

/// More usable servers than that are not solved exactly, since the table grows with the square:
/// what joins two of them, such as copies, is eased then, in shares and in T*.
pub const MOST_SERVERS: usize = 128;

/// What the time of the slowest server weighs where workers decide the round: enough to spread
/// what has to move anyway, too little to move anything else.
const LEVELLING: f64 = 0.01;

/// What it is worth that bytes leave where they may not stay.
const FORCE: f64 = 1e4;

/// No round is shorter than that fraction of a round with equal shares.
const SHORTEST: f64 = 1e-6;

/// The loads as they are.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    /// Bytes of each server.
    pub(super) loads: &'a [f64],
    /// Bytes that no server holds.
    pub(super) homeless: f64,
    /// Seconds of a round for each byte that leaves a server where it could stay.
    pub(super) price: f64,
}

/// The best loads. None: there is nothing to hold, nobody to hold it, or no solution.
pub(super) fn solve(model: &Model, start: &Start<'_>) -> Option<Vec<f64>> {
    LinearProgram::new(model, start, LEVELLING)?.solve()
}

/// The seconds of the shortest round. None: no solution.
pub(super) fn shortest(model: &Model, total: f64) -> Option<f64> {
    let loads = vec![0.0; model.servers.len()];
    let start = Start { loads: &loads, homeless: total, price: 0.0 };
    let best = LinearProgram::new(model, &start, 0.0)?.solve()?;
    Some(model.round_seconds(&best))
}

/// What a column of the table stands for.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    /// Bytes come to the server.
    In(usize),
    /// Bytes leave the server that could stay.
    Out(usize),
    /// Bytes leave the server that may not stay.
    Forced(usize),
    /// Bytes that nobody held come to somebody.
    Homed,
    /// The time of the slowest server falls (true) or grows.
    Slowest(bool),
    /// The time of the round falls (true) or grows.
    Round(bool),
}

struct LinearProgram<'a> {
    model: &'a Model,
    start: &'a Start<'a>,
    total: f64,
    /// Seconds of a unit of time.
    unit: f64,
    levelling: f64,
    /// For each server whether it shall hold something.
    used: Vec<bool>,
    columns: Vec<Column>,
    rows: Vec<Vec<f64>>,
    limits: Vec<f64>,
}

impl<'a> LinearProgram<'a> {
    fn new(model: &'a Model, start: &'a Start<'a>, levelling: f64) -> Option<Self> {
        let total = start.loads.iter().sum::<f64>() + start.homeless;
        let used = used(model, total);
        let fits = start.loads.len() == model.servers.len() && used.contains(&true);
        if !(fits && total.is_finite() && total > 0.0) {
            return None;
        }
        let unit = unit(model, total, &used);
        let (rows, limits, columns) = (Vec::new(), Vec::new(), Vec::new());
        let mut program =
            Self { model, start, total, unit, levelling, used, columns, rows, limits };
        program.set_columns();
        program.limit_moves();
        program.limit_times();
        Some(program)
    }

    /// The fraction of all bytes that a server has now.
    fn load(&self, index: usize) -> f64 {
        self.start.loads.get(index).map_or(0.0, |load| load.max(0.0) / self.total)
    }

    fn is_used(&self, index: usize) -> bool {
        self.used.get(index).copied().unwrap_or(false)
    }

    fn set_columns(&mut self) {
        let mut columns = Vec::new();
        for index in 0..self.model.servers.len() {
            let holds = self.load(index) > 0.0;
            match self.is_used(index) {
                true => {
                    columns.push(Column::In(index));
                    columns.extend(holds.then_some(Column::Out(index)));
                }
                false => columns.extend(holds.then_some(Column::Forced(index))),
            }
        }
        if self.start.homeless > 0.0 {
            columns.push(Column::Homed);
        }
        for falls in [true, false] {
            columns.extend([Column::Slowest(falls), Column::Round(falls)]);
        }
        self.columns = columns;
    }

    fn limit(&mut self, factor: impl Fn(Column) -> f64, limit: f64) {
        self.rows.push(self.columns.iter().map(|column| factor(*column)).collect());
        self.limits.push(limit.max(0.0));
    }

    /// What leaves comes somewhere; nobody gives more than he has.
    fn limit_moves(&mut self) {
        let flow = |column: Column| match column {
            Column::In(_) => 1.0,
            Column::Out(_) | Column::Forced(_) | Column::Homed => -1.0,
            _ => 0.0,
        };
        self.limit(flow, 0.0);
        self.limit(|column| -flow(column), 0.0);
        for column in self.columns.clone() {
            let most = match column {
                Column::Out(index) | Column::Forced(index) => self.load(index),
                Column::Homed => self.start.homeless / self.total,
                _ => continue,
            };
            self.limit(|other| if other == column { 1.0 } else { 0.0 }, most);
        }
    }

    /// Each limit of the model holds within the time of the round.
    fn limit_times(&mut self) {
        let model = self.model;
        let (floors, decided): (Vec<_>, Vec<_>) =
            model.rows.iter().partition(|row| row.terms.is_empty());
        let now = |row: &Row| self.seconds_now(row);
        let floor = floors.into_iter().map(now).fold(0.0, f64::max);
        let slowest = decided.iter().map(|row| now(row)).fold(0.0, f64::max);
        let longest = floor.max(slowest);
        for row in decided {
            let slack = slowest - self.seconds_now(row);
            let scale = self.total / (row.rate * self.unit);
            let factor = |column: Column| match column {
                Column::In(index) => scale * factor_of(row, index),
                Column::Out(index) | Column::Forced(index) => -scale * factor_of(row, index),
                Column::Slowest(falls) => sign(falls),
                _ => 0.0,
            };
            self.limit(factor, slack / self.unit);
        }
        let order = |column: Column| match column {
            Column::Slowest(falls) => -sign(falls),
            Column::Round(falls) => sign(falls),
            _ => 0.0,
        };
        self.limit(order, (longest - slowest) / self.unit);
        // Where no server decides anything, its time would fall below nothing, without end.
        let least = |column: Column| match column {
            Column::Slowest(falls) => sign(falls),
            _ => 0.0,
        };
        self.limit(least, slowest / self.unit);
        let last = |column: Column| match column {
            Column::Round(falls) => sign(falls),
            _ => 0.0,
        };
        self.limit(last, (longest - floor) / self.unit);
    }

    /// The seconds of a row with the loads as they are, and the fixed seconds of all that shall be
    /// used.
    fn seconds_now(&self, row: &Row) -> f64 {
        let own: f64 = row.terms.iter().map(|(index, factor)| factor * self.load(*index)).sum();
        let used = row.servers.iter().copied().filter(|index| self.is_used(*index));
        (row.base + own) * self.total / row.rate + row.fixed(self.model, used)
    }

    fn gain(&self, column: Column) -> f64 {
        match column {
            Column::In(_) => 0.0,
            Column::Out(_) => -self.start.price.max(0.0) * self.total / self.unit,
            Column::Forced(_) | Column::Homed => FORCE,
            Column::Slowest(falls) => self.levelling * sign(falls),
            Column::Round(falls) => sign(falls),
        }
    }

    fn solve(self) -> Option<Vec<f64>> {
        let gains: Vec<f64> = self.columns.iter().map(|column| self.gain(*column)).collect();
        let change = simplex::maximise(&gains, &self.rows, &self.limits)?;
        let mut loads: Vec<f64> =
            (0..self.model.servers.len()).map(|index| self.load(index)).collect();
        for (column, amount) in self.columns.iter().zip(change) {
            let (index, change) = match column {
                Column::In(index) => (*index, amount),
                Column::Out(index) | Column::Forced(index) => (*index, -amount),
                _ => continue,
            };
            if let Some(load) = loads.get_mut(index) {
                *load += change;
            }
        }
        for load in &mut loads {
            *load = if *load > 1e-9 { *load * self.total } else { 0.0 };
        }
        Some(loads)
    }
}

/// Seconds in which times are counted: about those of the shortest round. A server that shares a
/// host with all workers looks as if it needed no time at all (its own card is not in the way);
/// then those of equal shares.
fn unit(model: &Model, total: f64, used: &[bool]) -> f64 {
    let count = used.iter().filter(|used| **used).count().max(1);
    let share = total / count as f64;
    let even: Vec<f64> = used.iter().map(|used| if *used { share } else { 0.0 }).collect();
    let even = model.round_seconds(&even);
    let even = if even.is_normal() { even } else { 1.0 };
    let shortest = level::seconds(model, total, Share::Best);
    shortest.filter(|seconds| *seconds > even * SHORTEST && *seconds <= even).unwrap_or(even)
}

const fn sign(falls: bool) -> f64 {
    if falls { 1.0 } else { -1.0 }
}

fn factor_of(row: &Row, index: usize) -> f64 {
    row.terms.iter().find(|(term, _)| *term == index).map_or(0.0, |(_, factor)| *factor)
}

/// The servers that shall hold something: the usable ones whose fixed seconds do not already exceed
/// what the others need without them (docs/algorithms.md 4.4).
fn used(model: &Model, total: f64) -> Vec<bool> {
    let taps = level::taps(model, Share::Even);
    let plain: Vec<Tap> = taps.iter().map(|(_, tap)| *tap).collect();
    let seconds = pour(&plain, total).unwrap_or(f64::INFINITY);
    let mut used = vec![false; model.servers.len()];
    for (index, tap) in taps {
        if let Some(slot) = used.get_mut(index) {
            *slot = tap.starts <= 0.0 || tap.starts < seconds;
        }
    }
    used
}
