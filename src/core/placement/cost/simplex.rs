//! A small linear program solver: the primal simplex method on a dense table (Dantzig 1947), with
//! the rule of Bland (1977) once it stands still, so that it cannot go in circles. For programs
//! whose start is feasible, with some hundreds of rows.
//!
//! Pure; deterministic: ties go to the smallest index.

/// What counts as zero.
const ZERO: f64 = 1e-9;
/// So many steps without progress, and the careful rule takes over.
const STANDSTILL: usize = 50;
/// Steps for each row and column, at most.
const MOST_STEPS: usize = 50;

/// The `x >= 0` with the largest `objective * x` under `rows * x <= limits`, where no limit is
/// negative (so `x = 0` is a start). None: there is no largest one, the shapes do not fit, or the
/// steps do not suffice.
pub(super) fn maximise(objective: &[f64], rows: &[Vec<f64>], limits: &[f64]) -> Option<Vec<f64>> {
    let mut table = Tableau::new(objective, rows, limits)?;
    let most = MOST_STEPS.saturating_mul(rows.len() + objective.len());
    let mut still = 0;
    for _ in 0..most {
        let Some(column) = table.entering(still > STANDSTILL) else {
            return Some(table.solution());
        };
        let row = table.leaving(column)?;
        let before = table.value();
        table.pivot(row, column);
        still = if table.value() > before + ZERO { 0 } else { still + 1 };
    }
    None
}

/// The program solved for the variables in `basis`: row = sum of others, the last row is the
/// objective, the last column the limits.
struct Tableau {
    cells: Vec<Vec<f64>>,
    basis: Vec<usize>,
    others: Vec<usize>,
}

impl Tableau {
    fn new(objective: &[f64], rows: &[Vec<f64>], limits: &[f64]) -> Option<Self> {
        let columns = objective.len();
        let fits = rows.len() == limits.len() && rows.iter().all(|row| row.len() == columns);
        if !fits || limits.iter().any(|limit| limit.is_nan() || *limit < 0.0) {
            return None;
        }
        let with = |row: &[f64], last: f64| row.iter().copied().chain([last]).collect::<Vec<f64>>();
        let mut cells: Vec<Vec<f64>> =
            rows.iter().zip(limits).map(|(row, limit)| with(row, *limit)).collect();
        cells.push(objective.iter().map(|gain| -gain).chain([0.0]).collect());
        let basis = (columns..columns + rows.len()).collect();
        Some(Self { cells, basis, others: (0..columns).collect() })
    }

    fn value(&self) -> f64 {
        self.cells.last().and_then(|row| row.last()).copied().unwrap_or(0.0)
    }

    /// The column whose variable is worth raising; none: the best is reached.
    fn entering(&self, careful: bool) -> Option<usize> {
        let costs = self.cells.last()?.iter().take(self.others.len()).enumerate();
        let gains = costs.filter(|(_, cost)| **cost < -ZERO);
        if careful {
            let index = |(column, _): &(usize, &f64)| self.others.get(*column).copied();
            return gains.min_by_key(index).map(|(column, _)| column);
        }
        gains.min_by(|a, b| a.1.total_cmp(b.1)).map(|(column, _)| column)
    }

    /// The row that limits how far it can be raised; none: nothing does.
    fn leaving(&self, column: usize) -> Option<usize> {
        let ratio = |(row, cells): (usize, &Vec<f64>)| {
            let (cell, limit) = (*cells.get(column)?, *cells.last()?);
            (cell > ZERO).then(|| (limit.max(0.0) / cell, *self.basis.get(row).unwrap_or(&0), row))
        };
        let rows = self.cells.iter().take(self.basis.len()).enumerate();
        let tightest = rows.filter_map(ratio).min_by(|a, b| {
            let near = (a.0 - b.0).abs() <= ZERO * (1.0 + a.0.abs().min(b.0.abs()));
            if near { a.1.cmp(&b.1) } else { a.0.total_cmp(&b.0) }
        });
        tightest.map(|(_, _, row)| row)
    }

    /// Lets the variable of the column take the place of that of the row.
    fn pivot(&mut self, row: usize, column: usize) {
        let Some(mut pivot_row) = self.cells.get_mut(row).map(std::mem::take) else { return };
        let inverse = pivot_row.get(column).map_or(0.0, |cell| 1.0 / cell);
        for cell in &mut pivot_row {
            *cell *= inverse;
        }
        for cells in self.cells.iter_mut().filter(|cells| !cells.is_empty()) {
            let Some(factor) = cells.get(column).copied().filter(|factor| *factor != 0.0) else {
                continue;
            };
            for (cell, pivot) in cells.iter_mut().zip(&pivot_row) {
                *cell -= factor * pivot;
            }
            set(cells, column, -factor * inverse);
        }
        set(&mut pivot_row, column, inverse);
        set(&mut self.cells, row, pivot_row);
        if let (Some(leaving), Some(entering)) =
            (self.basis.get_mut(row), self.others.get_mut(column))
        {
            std::mem::swap(leaving, entering);
        }
    }

    fn solution(&self) -> Vec<f64> {
        let mut solution = vec![0.0; self.others.len()];
        for (variable, cells) in self.basis.iter().zip(&self.cells) {
            if let (Some(slot), Some(value)) = (solution.get_mut(*variable), cells.last()) {
                *slot = value.max(0.0);
            }
        }
        solution
    }
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(slot) = list.get_mut(index) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_program_from_a_textbook() {
        let rows = [vec![1.0, 0.0], vec![0.0, 2.0], vec![3.0, 2.0]];
        let best = maximise(&[3.0, 5.0], &rows, &[4.0, 12.0, 18.0]).unwrap();
        assert!((best[0] - 2.0).abs() < 1e-9 && (best[1] - 6.0).abs() < 1e-9, "{best:?}");
    }

    /// The example of Beale (1955), on which the plain rule goes in circles.
    #[test]
    fn it_does_not_go_in_circles() {
        let rows = [
            vec![0.25, -60.0, -1.0 / 25.0, 9.0],
            vec![0.5, -90.0, -1.0 / 50.0, 3.0],
            vec![0.0, 0.0, 1.0, 0.0],
        ];
        let gain = [0.75, -150.0, 0.02, -6.0];
        let best = maximise(&gain, &rows, &[0.0, 0.0, 1.0]).unwrap();
        let value: f64 = gain.iter().zip(&best).map(|(a, b)| a * b).sum();
        assert!((value - 0.05).abs() < 1e-9, "{value}");
    }

    #[test]
    fn what_has_no_answer() {
        assert_eq!(maximise(&[1.0], &[vec![-1.0]], &[1.0]), None);
        assert_eq!(maximise(&[1.0], &[vec![1.0]], &[-1.0]), None);
        assert_eq!(maximise(&[1.0], &[vec![1.0]], &[f64::NAN]), None);
        assert_eq!(maximise(&[1.0, 1.0], &[vec![1.0]], &[1.0]), None);
    }

    proptest! {
        /// With two variables every corner can be tried.
        #[test]
        fn no_corner_is_better(
            gain in prop::array::uniform2(0.1..5.0_f64),
            rows in prop::collection::vec(
                (prop::array::uniform2(0.0..3.0_f64), 0.1..4.0_f64), 1..6,
            ),
        ) {
            let mut sides: Vec<([f64; 2], f64)> = rows;
            sides.extend([([1.0, 0.0], 10.0), ([0.0, 1.0], 10.0)]);
            let (factors, limits): (Vec<_>, Vec<_>) =
                sides.iter().map(|(row, limit)| (row.to_vec(), *limit)).unzip();
            let best = maximise(&gain, &factors, &limits).unwrap();
            let value = gain[0] * best[0] + gain[1] * best[1];
            let inside = |x: f64, y: f64| {
                x >= -1e-7 && y >= -1e-7
                    && sides.iter().all(|(row, limit)| row[0] * x + row[1] * y <= limit + 1e-7)
            };
            prop_assert!(inside(best[0], best[1]));
            let axes = [([1.0, 0.0], 0.0), ([0.0, 1.0], 0.0)];
            let lines: Vec<_> = sides.iter().copied().chain(axes).collect();
            for (a, p) in &lines {
                for (b, q) in &lines {
                    let det = a[0] * b[1] - a[1] * b[0];
                    let (x, y) = ((p * b[1] - a[1] * q) / det, (a[0] * q - p * b[0]) / det);
                    if det.abs() > 1e-6 && inside(x, y) {
                        prop_assert!(gain[0] * x + gain[1] * y <= value + 1e-5);
                    }
                }
            }
        }
    }
}
