//! Agreement of virtual time and the kernel: ratios of their means, for cells with equal levels.

use crate::cell::{Cell, EngineKind, levels_text};
use crate::report::scale::{Unit, significant};
use crate::results::Results;
use crate::statistics::{Interval, mean, unpaired_log_ratio};

/// Distance of the ratio from 1 above which the engines differ.
pub const TOLERANCE: f64 = 0.05;
/// Limit on the flows of a cell that are compared one by one. Further ones count in the sum.
const MAX_FLOWS: usize = 6;

/// A metric of a cell in virtual time and with the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement<'a> {
    /// The cell in virtual time. The kernel's cell has the same levels.
    pub cell: &'a Cell,
    /// Name of the metric.
    pub metric: String,
    /// Arithmetic mean in virtual time.
    pub virtual_time: f64,
    /// Arithmetic mean with the kernel.
    pub kernel: f64,
    /// Ratio of the geometric means, virtual time to kernel, with its 95 % interval (Welch).
    pub ratio: Option<Interval>,
}

impl Agreement<'_> {
    /// Returns the ratio of virtual time to kernel: if there is no interval, of arithmetic means.
    pub fn quotient(&self) -> f64 {
        self.ratio.map_or(self.virtual_time / self.kernel, |ratio| ratio.estimate)
    }

    /// True if the engines differ by more than [`TOLERANCE`].
    pub fn differs(&self) -> bool {
        (self.quotient() - 1.0).abs() > TOLERANCE
    }

    /// Returns the ratio for readers: `0.982 (0.976 to 0.988)`.
    pub fn ratio_text(&self) -> String {
        let ends = self.ratio.map(|it| [it.low, it.high].map(|end| significant(end, 4)));
        let ends = ends.map(|[low, high]| format!(" ({low} to {high})"));
        significant(self.quotient(), 4) + &ends.unwrap_or_default()
    }

    /// Returns both means in the unit of the metric.
    pub fn means_text(&self) -> [String; 2] {
        let unit = Unit::of_metric(&self.metric);
        [self.virtual_time, self.kernel].map(|mean| unit.text(mean))
    }
}

/// Returns the agreement of every cell that was measured in virtual time and with the kernel, in
/// the order of the plan: the goodput of its flows and, of several flows, their sum and Jain's
/// index.
pub fn agreements(results: &Results) -> Vec<Agreement<'_>> {
    let of = |engine: EngineKind| results.cells.iter().filter(move |cell| cell.physics.engine == engine);
    let mut found = Vec::new();
    for kernel in of(EngineKind::Kernel) {
        let twin = [EngineKind::Virtual, EngineKind::Packets]
            .into_iter()
            .find_map(|engine| of(engine).find(|cell| cell.factors == kernel.factors));
        let Some(cell) = twin else { continue };
        for metric in metrics(kernel) {
            let [ours, theirs] = [cell, kernel].map(|cell| results.values(cell, &metric));
            let (Some(virtual_time), Some(mean)) = (mean(&ours), mean(&theirs)) else { continue };
            if virtual_time <= 0.0 || mean <= 0.0 {
                continue;
            }
            let ratio = unpaired_log_ratio(&ours, &theirs, 0.95).map(|it| it.interval);
            found.push(Agreement { cell, metric, virtual_time, kernel: mean, ratio });
        }
    }
    found
}

/// Returns the names of the metrics that are compared.
fn metrics(cell: &Cell) -> Vec<String> {
    match cell.physics.flows.as_slice() {
        [_] => vec!["goodput".to_owned()],
        flows => {
            let each = flows.iter().take(MAX_FLOWS).map(|flow| format!("{}.goodput", flow.name));
            each.chain(["sum", "jain"].map(str::to_owned)).collect()
        }
    }
}

/// Returns how many values agree, and which differs most, if a cell was measured with both engines.
pub fn sentence(agreements: &[Agreement<'_>]) -> Option<String> {
    let distance = |it: &Agreement<'_>| it.quotient().ln().abs();
    let most = agreements.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let agree = agreements.iter().filter(|it| !it.differs()).count();
    let [virtual_time, kernel] = most.means_text();
    let levels = levels_text(&most.cell.factors, ", ");
    let levels = if levels.is_empty() { levels } else { format!(" [{levels}]") };
    Some(format!(
        "Virtual time beside the kernel: {agree} of {} values within {} %; the largest difference has \
         {}{levels}: {virtual_time} for {kernel}, ratio {}",
        agreements.len(),
        TOLERANCE * 100.0,
        most.metric,
        most.ratio_text(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::two_engines;
    use crate::record::Record;

    /// Results of an experiment with a level that the kernel does not run. Repetition r has the
    /// goodput `base * (1 + r / 1000)`, of which the kernel has the share `kernel`.
    fn results(kernel: f64) -> Results {
        let other_level = "{ name = \"50ms\", path.rtt = \"50ms\", engine = \"virtual\" }";
        let plan = two_engines("two", other_level, "");
        let mut results = Results { cells: plan.cells, ..Results::default() };
        for cell in &results.cells {
            let share = if cell.physics.engine == EngineKind::Kernel { kernel } else { 1.0 };
            for rep in 0..5 {
                let goodput = 7e6 * share * (1.0 + f64::from(rep) / 1e3);
                let record = Record::of(cell, rep, "a.goodput", goodput);
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
        }
        results
    }

    #[test]
    fn cells_of_both_engines_have_a_ratio() {
        let results = results(0.98);
        let agreements = agreements(&results);
        assert_eq!(agreements.len(), 1, "{agreements:?}");
        let ratio = agreements[0].ratio.expect("an interval");
        assert!((ratio.estimate - 1.0 / 0.98).abs() < 1e-9 && ratio.contains(ratio.estimate), "{ratio:?}");
        assert!(ratio.low > 1.01 && ratio.high < 1.03, "{ratio:?}");
        assert!(!agreements[0].differs());
    }

    #[test]
    fn sentence_names_the_largest_difference() {
        let sentence = sentence(&agreements(&results(0.8))).expect("one value");
        assert!(sentence.contains("0 of 1 values within 5 %"), "{sentence}");
        assert!(sentence.contains("goodput [rtt=2ms]") && sentence.contains("ratio 1.25 ("), "{sentence}");
        assert_eq!(super::sentence(&[]), None);
    }
}
