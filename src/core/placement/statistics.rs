//! Middle values: what all estimates here rest on, since one odd sample must not decide.
//!
//! Pure; numbers that are not finite are left out.

/// The finite ones of some numbers, in ascending order.
fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite
}

/// The middle one, or the mean of the two in the middle.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(values);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(half.checked_sub(1)?)?, upper))
}

/// The middle one, or the smaller one of the two in the middle: of two servers the faster one.
pub(super) fn lower_median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(values);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The value at which half of the weight is reached. Pairs of value and weight.
pub(super) fn weighted_median(values: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let usable = |(value, weight): &(f64, f64)| value.is_finite() && *weight > 0.0;
    let mut pairs: Vec<(f64, f64)> = values.into_iter().filter(usable).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = pairs.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut seen = 0.0;
    for (value, weight) in &pairs {
        seen += weight;
        if seen >= half {
            return Some(*value);
        }
    }
    pairs.last().map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_values() {
        assert_eq!(median([3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(lower_median([4.0, 1.0]), Some(1.0));
        assert_eq!(lower_median([4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(weighted_median([(1.0, 1.0), (9.0, 5.0), (2.0, 1.0)]), Some(9.0));
        assert_eq!(weighted_median([(1.0, 1.0), (9.0, 1.0), (2.0, 1.0)]), Some(2.0));
        assert_eq!((median([]), lower_median([f64::NAN]), weighted_median([])), (None, None, None));
    }
}
