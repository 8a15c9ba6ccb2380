//! Results in memory: cells with their records, and the selection of cells by levels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::cell::{Cell, CellId, EngineKind, levels_text};
use crate::flow::Flow;
use crate::journal::read_columns;
use crate::record::{NOT_STATIONARY, Record, Series, Status};
use crate::report::scale::significant;
use crate::statistics::mean;

/// Limit on the cells that a sentence names.
const MAX_NAMED_CELLS: usize = 5;
/// Number of repeats for each lost packet above which a sentence warns.
const MAX_REPEATS: f64 = 3.0;

/// Cells of one experiment, with what was measured. Results of different engines are never pooled.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// Cells in the order of the plan.
    pub cells: Vec<Cell>,
    /// Levels of each factor in the order of the file.
    pub levels: BTreeMap<String, Vec<String>>,
    /// Records of each cell, by the number of the repetition.
    pub records: BTreeMap<CellId, BTreeMap<u32, Record>>,
    /// Folder of results with the series of repetitions. They stay there, because all of them
    /// together may be larger than the memory.
    pub folder: Option<PathBuf>,
}

/// Levels that a cell must have: `[sack=on, initial-window=1]`. Factors that are not named may
/// have any level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(pub Vec<(String, String)>);

impl Selection {
    /// True if `cell` has all these levels.
    pub fn matches(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(factor, level)| cell.level(factor) == Some(level))
    }
}

impl Results {
    /// Returns the engines of the cells, in the order of engines.
    pub fn engines(&self) -> Vec<EngineKind> {
        let engines: BTreeSet<EngineKind> = self.cells.iter().map(|cell| cell.physics.engine).collect();
        engines.into_iter().collect()
    }

    /// Returns the cells of an engine that a selection matches, in the order of the plan.
    pub fn cells<'a>(
        &'a self,
        engine: EngineKind,
        selection: &'a Selection,
    ) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.physics.engine == engine && selection.matches(cell))
    }

    /// Returns the records of a cell, by the number of the repetition.
    pub fn of_cell(&self, cell: CellId) -> impl Iterator<Item = &Record> {
        self.records.get(&cell).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the values of a metric in the valid repetitions of a cell, in their order.
    pub fn values(&self, cell: &Cell, metric: &str) -> Vec<f64> {
        self.valid_repetitions(cell.id).filter_map(|rep| self.metric(cell, metric, rep)).collect()
    }

    /// Returns in how many valid repetitions of a cell a metric is missing, and the number of all.
    pub fn missing(&self, cell: &Cell, metric: &str) -> (usize, usize) {
        let all = self.valid_repetitions(cell.id).count();
        (all - self.values(cell, metric).len(), all)
    }

    /// Returns the place of a level among those of its factor: in the file, or else in the cells.
    pub(crate) fn place_of_level(&self, factor: &str, level: &str) -> Option<usize> {
        if let Some(levels) = self.levels.get(factor) {
            return levels.iter().position(|known| known == level);
        }
        self.cells.iter().position(|cell| cell.level(factor) == Some(level))
    }

    /// Reads the series of the first repetition of a cell that keeps them: the columns that `wants`
    /// accepts, and all events. `None` if there are none; one that cannot be read is a figure less,
    /// not a wrong figure.
    pub fn series(&self, cell: CellId, wants: impl Fn(&str) -> bool) -> Option<Series> {
        let folder = self.folder.as_ref()?;
        let read = |rep: &u32| read_columns(folder, cell, *rep, &wants).ok().flatten();
        self.records.get(&cell)?.keys().find_map(read)
    }

    /// Returns the numbers of the valid repetitions of a cell, ascending.
    pub fn valid_repetitions(&self, cell: CellId) -> impl Iterator<Item = u32> + '_ {
        let records = self.records.get(&cell).into_iter().flatten();
        records.filter(|(_, record)| record.status == Status::Ok).map(|(rep, _)| *rep)
    }

    /// Returns a metric of a repetition. A name without a flow means the only flow, or the run. If
    /// all repetitions of the cell are one run, one that was not run has the same value.
    pub fn metric(&self, cell: &Cell, name: &str, rep: u32) -> Option<f64> {
        let records = self.records.get(&cell.id)?;
        let one_run = || records.values().next().filter(|_| self.is_one_run(cell.id));
        let metrics = &records.get(&rep).or_else(one_run)?.metrics;
        let of_flow = || match cell.physics.flows.as_slice() {
            [flow] => metrics.get(&format!("{}.{name}", flow.name)),
            _ => None,
        };
        metrics.get(name).or_else(of_flow).copied()
    }

    /// True if a cell has at least two valid repetitions in virtual time, all with the same
    /// metrics: nothing in it is random, and an interval of width 0 would mislead. Hashes of events
    /// differ even then, because packets contain identifiers that are drawn from the seed.
    pub fn is_one_run(&self, cell: CellId) -> bool {
        let mut valid =
            self.of_cell(cell).filter(|r| r.status == Status::Ok && r.engine.is_virtual()).peekable();
        let Some(first) = valid.next() else { return false };
        valid.peek().is_some() && valid.all(|record| record.metrics == first.metrics)
    }

    /// Removes the failed repetitions of a cell in real time, so that they run again. In virtual
    /// time they would fail again.
    pub(crate) fn forget_failures(&mut self, cell: &Cell) {
        let records = self.records.get_mut(&cell.id).filter(|_| !cell.physics.engine.is_virtual());
        if let Some(records) = records {
            records.retain(|_, record| !matches!(record.status, Status::Failed(_)));
        }
    }

    /// Returns the number of repetitions that failed, and of those for which the host was too slow.
    pub fn unusable(&self) -> (usize, usize) {
        let statuses = || self.records.values().flatten().map(|(_, record)| &record.status);
        let failed = statuses().filter(|status| matches!(status, Status::Failed(_))).count();
        (failed, statuses().filter(|status| **status == Status::HostLimited).count())
    }

    /// Returns the factors that changed nothing in virtual time: whatever their level, equal seeds
    /// gave equal events.
    fn idle_factors(&self) -> Vec<&str> {
        let factors = self.cells.first().into_iter().flat_map(|cell| &cell.factors).enumerate();
        let idle = factors.filter(|(index, _)| self.is_idle(*index));
        idle.map(|(_, (name, _))| name.as_str()).collect()
    }

    /// True if cells that differ in the level of this factor alone have equal events.
    fn is_idle(&self, factor: usize) -> bool {
        let mut groups: BTreeMap<_, CellId> = BTreeMap::new();
        let mut is_idle = false;
        for cell in &self.cells {
            let mut key: Vec<&str> = cell.factors.iter().map(|(_, level)| level.as_str()).collect();
            if factor < key.len() {
                key.remove(factor);
            }
            let first = *groups.entry((cell.physics.engine, key)).or_insert(cell.id);
            match (first != cell.id).then(|| self.have_equal_events(first, cell.id)).flatten() {
                Some(false) => return false,
                Some(true) => is_idle = true,
                None => {}
            }
        }
        is_idle
    }

    /// True if the repetitions of two cells have equal events. `None` if no two can be compared.
    fn have_equal_events(&self, one: CellId, two: CellId) -> Option<bool> {
        let (one, two) = (self.records.get(&one)?, self.records.get(&two)?);
        let hash = |record: &Record| record.hash.filter(|_| record.status == Status::Ok);
        let both = one.iter().filter_map(|(rep, record)| Some((hash(record)?, hash(two.get(rep)?)?)));
        both.map(|(one, two)| one == two).reduce(|all, next| all && next)
    }

    /// Returns a sentence about failed repetitions, one about those for which the host was too
    /// slow, and one about each factor without effect.
    pub fn remarks(&self) -> Vec<String> {
        let (failed, host_limited) = self.unusable();
        let first = self.records.values().flatten().find_map(|(rep, record)| match &record.status {
            Status::Failed(reason) => Some((rep, record, reason)),
            Status::Ok | Status::HostLimited => None,
        });
        let mut remarks = Vec::new();
        if let Some((rep, record, reason)) = first {
            let (engine, levels) = (record.engine, levels_text(&record.factors, ", "));
            let again = if engine.is_virtual() { "" } else { ", which the next run repeats" };
            remarks.push(format!(
                "{failed} failed repetitions{again}; the first is number {rep} of {engine} [{levels}]: {reason}"
            ));
        }
        if host_limited > 0 {
            remarks.push(format!(
                "{host_limited} repetitions are left out of all means: the host was too slow for the path in four attempts; \
                 to run them again, name another folder with -o"
            ));
        }
        remarks.extend(self.repeated());
        let idle = self.idle_factors().into_iter();
        remarks.extend(idle.map(|factor| {
            format!(
                "the factor {factor} changed nothing in virtual time: with all its levels the same happened"
            )
        }));
        remarks
    }

    /// Returns a sentence about the valid repetitions in which the throughput of a flow is not
    /// stationary. `None` if it is stationary in all of them, or the rule MSER-5 was not applied.
    pub fn not_stationary(&self) -> Option<String> {
        let is_not = |name: &String| name.rsplit('.').next() == Some(NOT_STATIONARY);
        let (mut all, mut cells) = (0, Vec::new());
        for records in self.records.values() {
            let valid: Vec<&Record> = records.values().filter(|it| it.status == Status::Ok).collect();
            all += valid.len();
            let count = valid.iter().filter(|it| it.metrics.keys().any(is_not)).count();
            if let Some(first) = valid.first().filter(|_| count > 0) {
                let levels = levels_text(&first.factors, ", ");
                cells.push((count, format!("{} [{levels}] ({count} of {})", first.engine, valid.len())));
            }
        }
        let total: usize = cells.iter().map(|(count, _)| count).sum();
        // The cells with most such repetitions come first.
        cells.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
        let named = first_of(cells.into_iter().map(|(_, cell)| cell).collect());
        (total > 0).then(|| {
            format!(
                "The throughput is not stationary in {total} of {all} repetitions: by the rule MSER-5 its \
                 warm-up is longer than half of the flow, and the mean depends on it. The cells: \
                 {named}."
            )
        })
    }

    /// Returns a sentence about flows that repeat more than three packets for each one
    /// that the path lost, on average over the repetitions of a cell. `None` if there are none.
    pub fn repeated(&self) -> Option<String> {
        let mut found: Vec<(f64, String)> = Vec::new();
        for cell in &self.cells {
            for flow in &cell.physics.flows {
                let repeats = mean(&self.values(cell, &format!("{}.retransmitted", flow.name)));
                let Some((repeats, losses)) = repeats.zip(mean(&self.losses(cell, flow))) else { continue };
                if repeats > MAX_REPEATS * losses.max(1.0) {
                    let levels = levels_text(&cell.factors, ", ");
                    let (name, engine) = (&flow.name, cell.physics.engine);
                    let (many, lost) = (significant(repeats, 3), significant(losses, 3));
                    let told = format!("{engine} [{levels}], flow {name}: {many} repeats for {lost} losses");
                    found.push((repeats / losses.max(1.0), told));
                }
            }
        }
        found.sort_by(|one, two| two.0.total_cmp(&one.0));
        let many = found.len();
        let named = first_of(found.into_iter().map(|(_, told)| told).collect());
        (many > 0).then(|| {
            format!(
                "more than {MAX_REPEATS} packets are repeated for each one that the path lost, which loads it \
                 with what the receiver has: {named}"
            )
        })
    }

    /// Returns how many packets the path dropped in each valid repetition: of the flow, or of all
    /// flows in its direction where the path counts no single flows.
    fn losses(&self, cell: &Cell, flow: &Flow) -> Vec<f64> {
        let direction = if flow.reverse { ".reverse.dropped-" } else { ".forward.dropped-" };
        let own = format!("{}.dropped", flow.name);
        let valid = self.of_cell(cell.id).filter(|record| record.status == Status::Ok);
        let all = |record: &Record| {
            let drops = record.metrics.iter().filter(|(name, _)| name.contains(direction));
            drops.map(|(_, packets)| *packets).sum()
        };
        valid.map(|record| record.metrics.get(&own).copied().unwrap_or_else(|| all(record))).collect()
    }
}

/// Returns the first of some texts, and how many there are beside them.
fn first_of(texts: Vec<String>) -> String {
    let further = texts.len().saturating_sub(MAX_NAMED_CELLS);
    let further = if further > 0 { format!("; and {further} further cells") } else { String::new() };
    texts.into_iter().take(MAX_NAMED_CELLS).collect::<Vec<_>>().join("; ") + &further
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::two_engines;

    /// Returns results of one cell in virtual time and one of the kernel, each with a repetition of
    /// every status.
    fn of_every_status() -> Results {
        let plan = two_engines("two", "{ name = \"lossy\", path.loss = \"1%\" }", "");
        let mut results = Results::default();
        for engine in [EngineKind::Virtual, EngineKind::Kernel] {
            let cell = plan.cells.iter().find(|cell| cell.physics.engine == engine).expect("a cell");
            let statuses = [Status::Ok, Status::HostLimited, Status::Failed("no route".to_owned())];
            for (rep, status) in (0..).zip(statuses) {
                let record = Record { status, ..Record::of(cell, rep, "a.goodput", 1.0) };
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
            results.cells.push(cell.clone());
        }
        results
    }

    #[test]
    fn more_than_three_repeats_for_a_loss_are_told() {
        let plan = two_engines("two", "{ name = \"lossy\", path.loss = \"1%\" }", "");
        let told = |repeats: f64, drops: f64, name: &str| {
            let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
            for cell in &plan.cells {
                let mut record = Record::of(cell, 0, "a.retransmitted", repeats);
                record.metrics.insert(name.to_owned(), drops);
                results.records.entry(cell.id).or_default().insert(0, record);
            }
            results.remarks()
        };
        let path = "link.forward.dropped-loss";
        assert!(told(30.0, 10.0, path).is_empty() && told(31.0, 10.0, "a.dropped").len() == 1);
        assert!(told(3.0, 0.0, path).is_empty() && told(4.0, 0.0, "link.reverse.dropped-loss").len() == 1);
        let [remark] = &told(156.0, 10.0, path)[..] else { panic!("one remark") };
        assert!(remark.starts_with("more than 3 packets are repeated for each one"), "{remark}");
        assert!(remark.contains("], flow a: 156 repeats for 10 losses"), "{remark}");
    }

    #[test]
    fn only_failures_in_real_time_run_again() {
        let mut results = of_every_status();
        let cells = results.cells.clone();
        for cell in &cells {
            results.forget_failures(cell);
        }
        let left = cells.iter().map(|cell| results.records[&cell.id].len());
        assert_eq!(left.collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn repetitions_that_are_not_stationary_are_counted_by_cell() {
        let mut results = of_every_status();
        assert_eq!(results.not_stationary(), None);
        for record in results.records.values_mut().flat_map(BTreeMap::values_mut) {
            if !record.engine.is_virtual() {
                record.metrics.insert("a.not-stationary".to_owned(), 1.0);
            }
        }
        let sentence = results.not_stationary().expect("a sentence");
        assert!(sentence.contains(" not stationary in 1 of 2 repetitions: "), "{sentence}");
        assert!(sentence.ends_with(" The cells: kernel [rtt=2ms] (1 of 1)."), "{sentence}");
    }

    #[test]
    fn factors_without_effect_are_named() {
        let plan = two_engines("two", "{ name = \"lossy\", path.loss = \"1%\" }", "");
        let remarks = |hashes: [Option<u64>; 2]| {
            let mut results = Results { cells: plan.cells.clone(), ..Results::default() };
            let cells = plan.cells.iter().filter(|cell| cell.physics.engine == EngineKind::Virtual);
            for (cell, hash) in cells.zip(hashes) {
                let record = Record { hash, ..Record::of(cell, 0, "a.goodput", 1.0) };
                results.records.entry(cell.id).or_default().insert(0, record);
            }
            results.remarks()
        };
        let same = remarks([Some(7), Some(7)]);
        assert_eq!(
            same,
            ["the factor rtt changed nothing in virtual time: with all its levels the same happened"]
        );
        assert!(remarks([Some(7), Some(8)]).is_empty() && remarks([Some(7), None]).is_empty());
    }

    #[test]
    fn remarks_count_failures_and_name_the_first() {
        let remarks = of_every_status().remarks();
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(remarks[0].starts_with("2 failed repetitions"), "{remarks:?}");
        assert!(remarks[0].contains("; the first is number 2 of "), "{remarks:?}");
        assert!(remarks[0].ends_with(" [rtt=2ms]: no route"), "{remarks:?}");
        assert!(remarks[1].starts_with("2 repetitions are left out"), "{remarks:?}");
        assert!(Results::default().remarks().is_empty());
    }
}
