//! A linear program whose variables come one after the other: the revised simplex method with an
//! explicit inverse (Dantzig and Orchard-Hays 1954), for column generation. After each solution it
//! says what each row is worth (its *price*), from which the caller makes the variables that would
//! still gain. (`cost/simplex` solves a program that is known at once, and keeps no prices.)
//!
//! Rows have limits that are not negative; the last ones may be equalities. The start is feasible:
//! the slack of each limited row, and a given variable for each equality.
//!
//! Pure; deterministic: ties go to the smallest number. If rounding spoils the inverse, the answer
//! is worse, not wrong: `pack` takes rates and prices from here and proves both anew.

use std::cmp::Ordering;

use super::cells::{add, at, put};

/// What counts as zero: rates are of the order of 1 here.
const ZERO: f64 = 1e-9;
/// So many steps without progress, and the rule of Bland (1977) takes over, which cannot go in
/// circles.
const STANDSTILL: usize = 50;

/// A variable: what one unit of it gains, and what that takes of which row.
#[derive(Clone, Debug, Default)]
pub(super) struct Variable {
    pub(super) gain: f64,
    pub(super) takes: Vec<(usize, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Basic {
    Slack(usize),
    Variable(usize),
}

/// The program and its best solution so far.
pub(super) struct Master {
    /// Rows before this one have a slack.
    limited: usize,
    variables: Vec<Variable>,
    /// Whether a variable is in the basis.
    inside: Vec<bool>,
    /// The same of slacks.
    slack_inside: Vec<bool>,
    basis: Vec<Basic>,
    inverse: Vec<Vec<f64>>,
    values: Vec<f64>,
    prices: Vec<f64>,
    pivots: u64,
    touched: u64,
}

impl Master {
    /// A program with those limits and, after them, an equality with 0 for each of `starts`, which
    /// takes 1 of that row and no other equality's, and gains nothing.
    pub(super) fn new(limits: &[f64], starts: Vec<Variable>) -> Self {
        let (limited, rows) = (limits.len(), limits.len() + starts.len());
        let unit = |row: usize| {
            let mut cells = vec![0.0; rows];
            put(&mut cells, row, 1.0);
            cells
        };
        let mut inverse: Vec<Vec<f64>> = (0..rows).map(unit).collect();
        for (number, start) in starts.iter().enumerate() {
            for (row, taken) in start.takes.iter().filter(|(row, _)| *row < limited) {
                if let Some(cells) = inverse.get_mut(*row) {
                    add(cells, limited + number, -taken);
                }
            }
        }
        let slacks = (0..limited).map(Basic::Slack);
        let basis = slacks.chain((0..starts.len()).map(Basic::Variable)).collect();
        let values = limits.iter().copied().chain(starts.iter().map(|_| 0.0)).collect();
        Self {
            limited,
            inside: vec![true; starts.len()],
            slack_inside: vec![true; limited],
            variables: starts,
            basis,
            inverse,
            values,
            prices: vec![0.0; rows],
            pivots: 0,
            touched: 0,
        }
    }

    /// One more variable, at 0 for now. Its number is how many there were.
    pub(super) fn add(&mut self, variable: Variable) {
        self.variables.push(variable);
        self.inside.push(false);
    }

    /// What one unit more of each row would gain, by the last solution.
    pub(super) fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// Steps so far.
    pub(super) const fn pivots(&self) -> u64 {
        self.pivots
    }

    /// The value of each variable.
    pub(super) fn solution(&self) -> Vec<f64> {
        let mut solution = vec![0.0; self.variables.len()];
        for (basic, value) in self.basis.iter().zip(&self.values) {
            if let Basic::Variable(number) = basic {
                put(&mut solution, *number, value.max(0.0));
            }
        }
        solution
    }

    /// Goes on until no variable gains, or so many cells of the inverse were touched since the
    /// beginning. False: those were too few, or nothing limits the gain.
    pub(super) fn solve(&mut self, most_cells: u64) -> bool {
        let mut still = 0;
        while self.touched < most_cells {
            let careful = still > STANDSTILL;
            let Some((entering, gain)) = self.entering(careful) else { return true };
            let direction = self.direction(entering);
            let Some(row) = self.leaving(&direction, careful) else { return false };
            let by = self.pivot(entering, row, &direction, gain);
            still = if by * gain > ZERO { 0 } else { still + 1 };
        }
        false
    }

    /// What one unit of a variable gains beyond what it takes.
    pub(super) fn net_gain(&self, variable: &Variable) -> f64 {
        let worth = variable.takes.iter().map(|(row, taken)| taken * at(&self.prices, *row));
        variable.gain - worth.sum::<f64>()
    }

    /// What is worth raising, and by how much a unit of it gains.
    fn entering(&self, careful: bool) -> Option<(Basic, f64)> {
        let slacks = self.prices.iter().take(self.limited).enumerate();
        let slacks = slacks.filter(|(row, _)| !at(&self.slack_inside, *row));
        let slacks = slacks.map(|(row, price)| (Basic::Slack(row), -price));
        let variables = self.variables.iter().enumerate();
        let variables = variables.filter(|(number, _)| !at(&self.inside, *number));
        let variables = variables.map(|(n, it)| (Basic::Variable(n), self.net_gain(it)));
        let mut gaining = slacks.chain(variables).filter(|(_, gain)| *gain > ZERO);
        if careful {
            return gaining.next();
        }
        gaining.fold(None, |best: Option<(Basic, f64)>, found| match best {
            Some(best) if best.1 >= found.1 => Some(best),
            _ => Some(found),
        })
    }

    /// How each basic value falls as it rises.
    fn direction(&self, entering: Basic) -> Vec<f64> {
        let slack;
        let takes = match entering {
            Basic::Slack(row) => {
                slack = [(row, 1.0)];
                slack.as_slice()
            }
            Basic::Variable(number) => {
                self.variables.get(number).map_or(&[] as &[_], |it| it.takes.as_slice())
            }
        };
        let of = |cells: &Vec<f64>| {
            takes.iter().map(|(row, taken)| taken * at(cells, *row)).sum::<f64>()
        };
        self.inverse.iter().map(of).collect()
    }

    /// The row whose value falls to 0 first. Of several: the one that falls fastest, since small
    /// divisors spoil the inverse; carefully: the one whose variable has the smallest number.
    fn leaving(&self, direction: &[f64], careful: bool) -> Option<usize> {
        let rows = direction.iter().zip(&self.values).zip(&self.basis).enumerate();
        let falling = rows.filter(|(_, ((step, _), _))| **step > ZERO);
        let first = falling
            .map(|(row, ((step, value), basic))| (value.max(0.0) / step, *step, *basic, row));
        let first = first.min_by(|a, b| {
            let near = (a.0 - b.0).abs() <= ZERO * (1.0 + a.0.abs().min(b.0.abs()));
            let faster = if careful { Ordering::Equal } else { b.1.total_cmp(&a.1) };
            if near { faster.then(a.2.cmp(&b.2)) } else { a.0.total_cmp(&b.0) }
        });
        first.map(|(_, _, _, row)| row)
    }

    /// Lets a variable take the place of that of the row; by how much it rose.
    fn pivot(&mut self, entering: Basic, row: usize, direction: &[f64], gain: f64) -> f64 {
        let step = at(direction, row);
        let Some(mut pivot) = self.inverse.get_mut(row).map(std::mem::take) else { return 0.0 };
        for cell in &mut pivot {
            *cell /= step;
        }
        // Early on most cells are 0.
        let filled: Vec<(usize, f64)> =
            pivot.iter().copied().enumerate().filter(|(_, cell)| *cell != 0.0).collect();
        for (cells, fall) in self.inverse.iter_mut().zip(direction) {
            // Each row is looked at.
            self.touched += 1;
            if *fall != 0.0 && !cells.is_empty() {
                self.touched += filled.len() as u64;
                for (column, cell) in &filled {
                    add(cells, *column, -fall * cell);
                }
            }
        }
        for (column, cell) in &filled {
            add(&mut self.prices, *column, gain * cell);
        }
        put(&mut self.inverse, row, pivot);
        let by = at(&self.values, row).max(0.0) / step;
        for (value, fall) in self.values.iter_mut().zip(direction) {
            *value = (*value - by * fall).max(0.0);
        }
        put(&mut self.values, row, by);
        if let Some(basic) = self.basis.get_mut(row) {
            let leaving = std::mem::replace(basic, entering);
            self.set_inside(leaving, false);
            self.set_inside(entering, true);
        }
        self.pivots += 1;
        by
    }

    fn set_inside(&mut self, basic: Basic, inside: bool) {
        match basic {
            Basic::Slack(row) => put(&mut self.slack_inside, row, inside),
            Basic::Variable(number) => put(&mut self.inside, number, inside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(gain: f64, takes: &[(usize, f64)]) -> Variable {
        Variable { gain, takes: takes.to_vec() }
    }

    fn near(found: &[f64], wanted: &[f64]) {
        let close = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-7);
        assert!(close && found.len() == wanted.len(), "{found:?}, not {wanted:?}");
    }

    #[test]
    fn a_program_from_a_textbook_with_its_prices() {
        let mut master = Master::new(&[4.0, 12.0, 18.0], Vec::new());
        master.add(variable(3.0, &[(0, 1.0), (2, 3.0)]));
        assert!(master.solve(10_000));
        near(&master.solution(), &[4.0]);
        master.add(variable(5.0, &[(1, 2.0), (2, 2.0)]));
        assert!(master.solve(10_000));
        near(&master.solution(), &[2.0, 6.0]);
        near(master.prices(), &[0.0, 1.5, 1.0]);
    }

    /// `a = t`, `b = 2 t`, as much of `t` as goes: the form in which shares are fixed.
    #[test]
    fn equalities_are_kept() {
        let starts =
            vec![variable(0.0, &[(0, 1.0), (2, 1.0)]), variable(0.0, &[(0, 1.0), (3, 1.0)])];
        let mut master = Master::new(&[6.0, 3.0], starts);
        master.add(variable(1.0, &[(2, -1.0), (3, -2.0)]));
        assert!(master.solve(10_000));
        near(&master.solution(), &[2.0, 4.0, 2.0]);
        // Another way for `a`, over the other row.
        master.add(variable(0.0, &[(1, 1.0), (2, 1.0)]));
        assert!(master.solve(10_000));
        near(&master.solution(), &[0.0, 6.0, 3.0, 3.0]);
    }

    /// The example of Beale (1955), on which the plain rule goes in circles.
    #[test]
    fn it_does_not_go_in_circles() {
        let mut master = Master::new(&[0.0, 0.0, 1.0], Vec::new());
        master.add(variable(0.75, &[(0, 0.25), (1, 0.5)]));
        master.add(variable(-150.0, &[(0, -60.0), (1, -90.0)]));
        master.add(variable(0.02, &[(0, -0.04), (1, -0.02), (2, 1.0)]));
        master.add(variable(-6.0, &[(0, 9.0), (1, 3.0)]));
        assert!(master.solve(100_000));
        let solution = master.solution();
        let value =
            0.75 * solution[0] - 150.0 * solution[1] + 0.02 * solution[2] - 6.0 * solution[3];
        assert!((value - 0.05).abs() < 1e-7, "{value}");
    }

    #[test]
    fn what_nothing_limits() {
        let mut master = Master::new(&[1.0], Vec::new());
        master.add(variable(1.0, &[]));
        assert!(!master.solve(10_000));
    }
}
