//! Full factorials: all combinations of levels, and their number.

/// Returns the number of all combinations, at most `u128::MAX`.
pub(super) fn product(counts: &[usize]) -> u128 {
    counts.iter().fold(1, |product, count| product.saturating_mul(*count as u128))
}

/// Returns all combinations, the last factor fastest.
pub(crate) fn all(counts: &[usize]) -> Vec<Vec<usize>> {
    let mut combinations = vec![Vec::new()];
    for count in counts {
        combinations = combinations
            .iter()
            .flat_map(|start: &Vec<usize>| {
                (0..*count).map(|level| start.iter().copied().chain([level]).collect())
            })
            .collect();
    }
    combinations
}
