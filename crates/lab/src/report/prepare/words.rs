//! Levels as readers see them.

use crate::cell::Cell;
use crate::experiment::{Experiment, Factor, Level};

use super::super::scale::{Unit, level_value, significant};
use super::super::scene::Row;
use super::super::section::Entry;

/// Returns the levels of a cell for readers: `sack on, rate 8mbit`.
pub(super) fn levels(cell: &Cell) -> String {
    if cell.factors.is_empty() { "all".to_owned() } else { words(&cell.factors) }
}

/// Returns levels as words: `sack on, rate 8mbit`.
pub(super) fn words<'a>(levels: impl IntoIterator<Item = &'a (String, String)>) -> String {
    let words = levels.into_iter().map(|(factor, level)| format!("{factor} {level}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns a level for a legend: what it sets if that has words, `cubic` without the factor if all
/// of its levels are words, else with it: `sack on`.
pub(super) fn in_legend(factor: Option<&Factor>, name: &str, level: &str) -> String {
    let levels = factor.map_or(&[][..], |factor| factor.levels.as_slice());
    let acks: Option<Vec<String>> = levels.iter().map(acknowledged).collect();
    let place = levels.iter().position(|it| it.name == level);
    if let (Some(acks), Some(place)) = (acks, place)
        && acks.iter().filter(|it| **it == acks[place]).count() == 1
    {
        return acks[place].clone();
    }
    let is_word = |level: &str| level.starts_with(|c: char| c.is_ascii_alphabetic()) && level.len() > 3;
    if levels.iter().all(|it| is_word(&it.name)) && is_word(level) {
        level.to_owned()
    } else {
        format!("{name} {level}")
    }
}

/// Returns the rule by which the receiver acknowledges, if the level sets nothing else: `2/25ms`
/// is an ACK for two packets, after 25 ms at the latest.
fn acknowledged(level: &Level) -> Option<String> {
    let [only] = &level.settings[..] else { return None };
    let (packets, delay) = only.value.split_once('/').unwrap_or((&only.value, ""));
    let packets: u32 = packets.parse().ok().filter(|_| only.word == "receiver.ack")?;
    Some(match (packets, delay) {
        (1, _) => "an ACK for each packet".to_owned(),
        (_, "") => format!("an ACK for {packets} packets"),
        _ => format!("an ACK for {packets} packets or after {}", Unit::Time.text(level_value(delay)?.0)),
    })
}

/// One unit for all values of a column: that of the largest.
pub(super) struct InUnit {
    pub(super) factor: f64,
    name: &'static str,
}

impl InUnit {
    pub(super) fn of(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let (factor, name) = unit.shown(values.into_iter().map(f64::abs).fold(0.0, f64::max));
        Self { factor, name }
    }

    /// Returns the heading of the column: `goodput (Mbit/s)`.
    pub(super) fn heading(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{name} ({})", self.name) }
    }

    /// Returns a mean with its interval: `5.61 ± 0.05`.
    pub(super) fn entry(&self, row: &Row) -> Entry {
        let value = row.y * self.factor;
        Entry::number(significant(value, 4) + &row.interval_text(self.factor), value)
    }
}

/// Settings whose bare numbers are bytes, and those whose bare numbers are packets.
const BARE: [(Unit, &str); 2] = [
    (Unit::Bytes, "window receiver.window send-buffer mtu size packet headers bytes rts rate.rts mss"),
    (Unit::Count, "initial-window loss-window limit queue"),
];

/// Returns the unit of bare numbers by what a factor sets: `receiver.window = 5000` is in bytes.
pub(super) fn unit_of_setting(experiment: &Experiment, factor: &str) -> Unit {
    let factor = experiment.factors.iter().find(|it| it.name == factor);
    let words = || factor.iter().flat_map(|it| &it.levels).flat_map(|level| &level.settings);
    let is_of = |names: &str| {
        let known = |word: &str| names.split(' ').any(|name| name == word);
        words().next().is_some() && words().all(|setting| known(&setting.word))
    };
    BARE.iter().find(|(_, names)| is_of(names)).map_or(Unit::None, |(unit, _)| *unit)
}

/// Returns the name of an axis whose levels stand side by side, with the unit of bare numbers.
pub(super) fn axis_name(experiment: &Experiment, factor: &str) -> String {
    let levels = experiment.factors.iter().filter(|it| it.name == factor).flat_map(|it| &it.levels);
    let is_bare = levels.clone().next().is_some() && levels.clone().all(|it| it.name.parse::<f64>().is_ok());
    match unit_of_setting(experiment, factor) {
        Unit::Bytes if is_bare => format!("{factor} (bytes)"),
        Unit::Count if is_bare => format!("{factor} (packets)"),
        _ => factor.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(factors: &str) -> Experiment {
        let head = "schema = 1\nname = 'x'\ntitle = 'x'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '1mbit'\n\
                    [[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\n";
        Experiment::from_toml(&format!("{head}{factors}\n")).expect("an experiment")
    }

    #[test]
    fn bare_numbers_have_the_unit_of_their_setting() {
        for (factor, unit) in [
            ("flow.a.receiver.window = [5000, 10000]", Unit::Bytes),
            ("flow.a.initial-window = [1, 10]", Unit::Count),
            (
                "size = [{ name = '5', flow.a.packet = 500 }, { name = '9', flow.a.packet = 900 }]",
                Unit::Bytes,
            ),
            ("flow.a.cc = ['fixed:1', 'fixed:2']", Unit::None),
        ] {
            let experiment = experiment(factor);
            assert_eq!(unit_of_setting(&experiment, &experiment.factors[0].name), unit, "{factor}");
        }
        for (levels, name) in [("[5000, 10000]", "window (bytes)"), ("[5000, '10kb']", "window")] {
            let experiment = experiment(&format!("flow.a.receiver.window = {levels}"));
            assert_eq!(axis_name(&experiment, "window"), name);
        }
    }

    #[test]
    fn legends_say_what_levels_are() {
        for (factor, wanted) in [
            (
                "ack = [{ name = 'each', flow.a.receiver.ack = '1' }, { name = 'two', flow.a.receiver.ack = '2/25ms' }]",
                ["an ACK for each packet", "an ACK for 2 packets or after 25 ms"],
            ),
            ("flow.a.cc = ['reno', 'cubic']", ["reno", "cubic"]),
            ("flow.a.sack = ['off', 'on']", ["sack off", "sack on"]),
            ("to = [{ name = 'north' }, { name = 'far' }]", ["to north", "to far"]),
        ] {
            let experiment = experiment(factor);
            let factor = &experiment.factors[0];
            let names: Vec<String> =
                factor.levels.iter().map(|it| in_legend(Some(factor), &factor.name, &it.name)).collect();
            assert_eq!(names, wanted);
        }
    }
}
