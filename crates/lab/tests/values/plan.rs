//! Cells, seeds and shards of plans, and the fractions of textbooks.

use std::collections::{BTreeMap, BTreeSet};

use rdt_lab::cell::CellId;
use rdt_lab::experiment::Experiment;
use rdt_lab::plan::Plan;
use rdt_lab::{Cell, EngineKind};

use crate::support::experiment;

fn plan(tail: &str) -> Plan {
    Plan::new(&experiment(tail), &[]).expect("a plan")
}

fn error(tail: &str) -> String {
    Plan::new(&experiment(tail), &[]).expect_err("an error").to_string()
}

/// Levels of a cell in the order of factors, joined by spaces.
fn levels(cell: &Cell) -> String {
    cell.factors.iter().map(|(_, level)| level.as_str()).collect::<Vec<_>>().join(" ")
}

fn all_levels(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(levels).collect()
}

const THREE: &str =
    "flow.a.sack = ['off', 'on']\npath.rtt = ['1ms', '2ms', '3ms']\nflow.a.initial-window = [1, 4]\n";

#[test]
fn full_design_counts_like_an_odometer() {
    let mut expected = Vec::new();
    for sack in ["off", "on"] {
        for rtt in ["1ms", "2ms", "3ms"] {
            expected.extend(["1", "4"].map(|window| format!("{sack} {rtt} {window}")));
        }
    }
    assert_eq!(all_levels(&plan(THREE)), expected);
}

#[test]
fn one_at_a_time_changes_one_level() {
    let found = all_levels(&plan(&format!("{THREE}[design]\nkind = 'one-at-a-time'")));
    assert_eq!(found, ["off 1ms 1", "on 1ms 1", "off 2ms 1", "off 3ms 1", "off 1ms 4"]);
}

#[test]
fn random_designs_draw_without_repetition() {
    let whole: BTreeSet<String> = all_levels(&plan(THREE)).into_iter().collect();
    for wanted in 1..=12 {
        let mut seen = BTreeMap::new();
        for seed in 1..=40 {
            let drawn =
                all_levels(&plan(&format!("{THREE}[design]\nkind = 'random:{wanted}'\nseed = {seed}")));
            let distinct: BTreeSet<String> = drawn.iter().cloned().collect();
            assert_eq!((drawn.len(), distinct.len()), (wanted, wanted), "seed {seed}");
            assert!(distinct.is_subset(&whole), "{distinct:?}");
            for cell in drawn {
                *seen.entry(cell).or_insert(0) += 1;
            }
        }
        // Each of 12 cells is drawn 40 * wanted / 12 times on average; 4.5 standard deviations are
        // allowed.
        let share = f64::from(u32::try_from(wanted).expect("small")) / 12.0;
        let spread = 4.5 * (40.0 * share * (1.0 - share)).sqrt();
        for cell in &whole {
            let count = f64::from(seen.get(cell).copied().unwrap_or(0));
            assert!(
                (count - 40.0 * share).abs() <= spread + 1e-9,
                "{cell}: {count} of 40 for {wanted} of 12"
            );
        }
    }
}

#[test]
fn engines_skip_levels_that_exclude_them() {
    let text = "schema = 1\nname = 'x'\ntitle = 'X'\nengine = ['virtual', 'kernel']\nfor = '1s'\n[path]\nrate = '8mbit'\n\
                [[flow]]\nname = 'a'\nkind = 'tcp'\n[factors]\n\
                path.rtt = ['1ms', { name = 'slow', path.rtt = '9ms', engine = 'virtual' }]\n";
    let experiment = Experiment::from_toml(text).expect("an experiment");
    let found: Vec<_> = Plan::new(&experiment, &[])
        .expect("a plan")
        .cells
        .iter()
        .map(|cell| (cell.physics.engine, levels(cell)))
        .collect();
    let of = |engine, level: &str| (engine, level.to_owned());
    let expected =
        [of(EngineKind::Virtual, "1ms"), of(EngineKind::Virtual, "slow"), of(EngineKind::Kernel, "1ms")];
    assert_eq!(found, expected);
    let twice = Plan::new(&experiment, &[EngineKind::Kernel, EngineKind::Kernel]).expect("a plan");
    assert_eq!(twice.cells.len(), 1, "an engine that is named twice runs once");
}

/// Returns a plan with cells of very different costs, some of which share their physics.
fn uneven() -> Plan {
    plan(
        "flow.a.bytes = ['1kb', '10kb', '100kb', '1mb', '10mb', '100mb']\npath.rtt = ['1ms', '2ms', '3ms']\n\
         place = [{ name = 'x', flow.a.packet = 1500 }, { name = 'y', flow.a.packet = 1500 }, \
         { name = 'z', flow.a.packet = 900 }]",
    )
}

#[test]
fn shards_lose_and_repeat_no_cell() {
    let plan = uneven();
    let wanted: BTreeSet<CellId> = plan.cells.iter().map(|cell| cell.id).collect();
    assert_eq!((plan.cells.len(), wanted.len()), (54, 36));
    for count in [1, 2, 3, 5, 7, 36, 37, 100] {
        let mut dealt = Vec::new();
        for index in 0..count {
            dealt.extend(plan.shard(index, count).iter().map(|cell| cell.id));
        }
        let distinct: BTreeSet<CellId> = dealt.iter().copied().collect();
        assert_eq!((dealt.len(), &distinct), (36, &wanted), "{count} shards");
        assert!(plan.shard(count, count).is_empty(), "there is no shard {count} of {count}");
    }
}

/// Graham (1969): list scheduling takes at most the mean of m shards, and 1 - 1/m of the largest
/// cell more.
#[test]
fn longest_shard_is_within_grahams_bound() {
    let plan = uneven();
    let cost = |cell: &Cell| plan.cost(cell).seconds();
    let whole: f64 = plan.distinct().map(cost).sum();
    let largest = plan.distinct().map(cost).fold(0.0, f64::max);
    for count in 1..=20_u32 {
        let shards = plan.shards(count);
        let loads = shards.iter().map(|cells| cells.iter().map(|cell| cost(cell)).sum::<f64>());
        let (longest, count) = (loads.fold(0.0, f64::max), f64::from(count));
        assert!(longest <= whole / count + (1.0 - 1.0 / count) * largest + 1e-9, "{longest} s of {count}");
        assert!(longest >= (whole / count).max(largest) - 1e-9);
    }
}

/// Graham's rule gives each cell to the shard with the least load, the most costly first. So
/// without its cheapest cell a shard has at most the load of any other.
#[test]
fn shards_are_even_but_for_their_cheapest_cell() {
    let plan = uneven();
    for count in [2, 3, 5, 7, 11] {
        let costs = plan.shards(count).into_iter().map(|cells| {
            let costs: Vec<u64> = cells.iter().map(|cell| plan.cost(cell).micros).collect();
            (costs.iter().sum::<u64>(), costs.iter().copied().min().unwrap_or(0))
        });
        let costs: Vec<(u64, u64)> = costs.collect();
        let least = costs.iter().map(|(load, _)| *load).min().expect("shards");
        assert!(costs.iter().all(|(load, cheapest)| load - cheapest <= least), "{count}: {costs:?}");
    }
}

#[test]
fn shards_keep_the_order_of_the_plan() {
    let plan = uneven();
    let place: BTreeMap<CellId, usize> =
        plan.distinct().enumerate().map(|(index, cell)| (cell.id, index)).collect();
    for shard in plan.shards(4) {
        let places: Vec<usize> = shard.iter().map(|cell| place[&cell.id]).collect();
        assert!(places.is_sorted() && !places.is_empty(), "{places:?}");
    }
}

#[test]
fn seeds_of_repetitions_never_meet() {
    for seeds in ["common", "independent"] {
        let plan = plan(&format!("{THREE}[design]\nseeds = '{seeds}'"));
        let mut seen = BTreeSet::new();
        for rep in 0..500 {
            let of_cells: BTreeSet<u64> = plan.cells.iter().map(|cell| plan.seed(cell, rep)).collect();
            assert_eq!(of_cells.len(), if seeds == "common" { 1 } else { 12 }, "{seeds} {rep}");
            for seed in of_cells {
                assert!(seen.insert(seed), "{seeds}: {seed} is there twice");
            }
        }
        assert_eq!(plan.is_paired(), seeds == "common");
    }
}

#[test]
fn seeds_do_not_depend_on_other_cells() {
    for tail in ["", "[design]\nseeds = 'independent'"] {
        let less = plan(&format!("{THREE}{tail}"));
        let more = plan(&format!("{}{tail}", THREE.replace("'3ms'", "'3ms', '4ms'")));
        for cell in &less.cells {
            let same = more.cells.iter().find(|it| it.id == cell.id).expect("further levels keep the cell");
            assert_eq!(more.seed(same, 9), less.seed(cell, 9), "{:?}", cell.factors);
        }
    }
}

/// Factors `a` to `g` of the textbooks, under names of their own.
const SEVEN: &str = "flow.a.sack = ['off', 'on']\npath.rtt = ['1ms', '2ms']\nflow.a.initial-window = [1, 4]\n\
                     path.loss = ['0', '1%']\npath.rate = ['1mbit', '2mbit']\nflow.a.cc = ['reno', 'cubic']\n\
                     flow.a.packet = [1500, 900]\n";
const LETTERS: [(&str, char); 7] = [
    ("sack", 'A'),
    ("rtt", 'B'),
    ("initial-window", 'C'),
    ("loss", 'D'),
    ("rate", 'E'),
    ("cc", 'F'),
    ("packet", 'G'),
];

/// Returns products of factors as the books write them: `-ABD`, sorted.
fn books<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let one = |word: &String| {
        let (sign, word) = word.strip_prefix('-').map_or(("", word.as_str()), |rest| ("-", rest));
        let letter = |name: &str| LETTERS.iter().find(|(it, _)| *it == name).expect("a factor").1;
        let mut letters: Vec<char> = word.split('*').map(letter).collect();
        letters.sort_unstable();
        format!("{sign}{}", letters.iter().collect::<String>())
    };
    let mut words: Vec<String> = words.into_iter().map(one).collect();
    words.sort();
    words
}

/// Returns the first level of a factor.
fn low(factor: &str) -> &'static str {
    const LOW: [&str; 7] = ["off", "1ms", "1", "0", "1mbit", "reno", "1500"];
    LOW[LETTERS.iter().position(|(name, _)| *name == factor).expect("a factor")]
}

fn fraction(factors: usize, generators: &[&str]) -> Plan {
    let tables: Vec<&str> = SEVEN.lines().take(factors).collect();
    let generators = generators.iter().map(|it| format!("'{it}'")).collect::<Vec<_>>().join(", ");
    plan(&format!("{}\n[design]\nkind = 'fraction'\ngenerators = [{generators}]", tables.join("\n")))
}

/// Montgomery, "Design and Analysis of Experiments", appendix X: resolution, runs and defining
/// relation.
#[test]
fn defining_relations_equal_the_books() {
    for (factors, generators, runs, resolution, relation) in [
        (3, &["c = a*b"][..], 4, 3, &["ABC"][..]),
        (4, &["d = a*b*c"], 8, 4, &["ABCD"]),
        (5, &["d = a*b", "e = a*c"], 8, 3, &["ABD", "ACE", "BCDE"]),
        (6, &["e = a*b*c", "f = b*c*d"], 16, 4, &["ABCE", "ADEF", "BCDF"]),
        (6, &["d = a*b", "e = a*c", "f = b*c"], 8, 3, &["ABD", "ABEF", "ACDF", "ACE", "BCDE", "BCF", "DEF"]),
        (
            7,
            &["e = a*b*c", "f = b*c*d", "g = a*c*d"],
            16,
            4,
            &["ABCE", "ABFG", "ACDG", "ADEF", "BCDF", "BDEG", "CEFG"],
        ),
    ] {
        let plan = fraction(factors, generators);
        let found = plan.fraction.expect("a fraction");
        assert_eq!((plan.cells.len(), found.resolution), (runs, resolution), "{generators:?}");
        assert_eq!(books(&found.relation), relation, "{generators:?}");
        // Every word of the relation is constant over the runs: the product of levels -1 and 1.
        for word in &found.relation {
            let sign = |cell: &Cell, name: &str| if cell.level(name) == Some(low(name)) { -1 } else { 1 };
            let of = |cell: &Cell| word.split('*').map(|name| sign(cell, name)).product::<i32>();
            assert!(plan.cells.iter().all(|cell| of(cell) == 1), "{word} of {generators:?}");
        }
    }
}

/// Box, Hunter and Hunter, table 6.1: the saturated design for seven factors in eight runs, with
/// the aliases of A.
#[test]
fn seven_factors_fit_into_eight_runs() {
    let plan = fraction(7, &["d = a*b", "e = a*c", "f = b*c", "g = a*b*c"]);
    let found = plan.fraction.as_ref().expect("a fraction");
    assert_eq!((plan.cells.len(), found.resolution, found.relation.len()), (8, 3, 15));
    let two: Vec<String> = books(found.aliases_of("sack")).into_iter().filter(|it| it.len() == 2).collect();
    assert_eq!(two, ["BD", "CE", "FG"]);
    // Every column has each level four times, and every pair of columns each pair of levels twice.
    for one in 0..7 {
        for two in 0..one {
            let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
            for cell in &plan.cells {
                *counts.entry((cell.factors[one].1.as_str(), cell.factors[two].1.as_str())).or_default() += 1;
            }
            assert_eq!(counts.values().copied().collect::<Vec<_>>(), [2; 4], "columns {one} and {two}");
        }
    }
}

#[test]
fn negative_generators_give_the_other_half() {
    let (principal, other) = (fraction(4, &["d = a*b*c"]), fraction(4, &["d = -a*b*c"]));
    let mut both: Vec<CellId> = principal.cells.iter().chain(&other.cells).map(|cell| cell.id).collect();
    both.sort();
    both.dedup();
    assert_eq!(both.len(), 16, "the halves have no common cell");
    assert_eq!(books(&other.fraction.expect("a fraction").relation), ["-ABCD"]);
}

#[test]
fn wrong_generators_say_what_is_wrong() {
    let wrong =
        |generators: &str| error(&format!("{SEVEN}[design]\nkind = 'fraction'\ngenerators = [{generators}]"));
    for (generators, part) in [
        ("'d = a*b', 'd = a*c'", "loss is generated twice"),
        ("'d = a*b', 'e = a*d'", "loss is itself generated: name only the other factors"),
        ("'d = a*a'", "a is there twice"),
        ("'d = z*b'", "there is no factor 'z'"),
    ] {
        let error = wrong(generators);
        assert!(error.contains(part), "{generators}: {error}");
    }
    let three = error(&format!("{THREE}[design]\nkind = 'fraction'\ngenerators = ['c = a*b']"));
    assert!(three.contains("rtt has 3 levels: a generator needs factors of two"), "{three}");
}

/// A transfer of 1.2 MB in packets of 1,500 bytes is 800 packets; at 8 Mbit/s it takes 1.2 s.
#[test]
fn cost_follows_from_bytes_and_rate() {
    let plan = plan("flow.a.bytes = ['1200kb', '2400kb']").cells;
    let full = self::plan("flow.a.bytes = ['1200kb', '2400kb']");
    let packets: Vec<u64> = plan.iter().map(|cell| full.cost(cell).packets).collect();
    // The run ends after 1 s, in which 8 Mbit are 667 packets.
    assert_eq!(packets, [667, 667]);
    let long = Experiment::from_toml(
        &experiment("flow.a.bytes = ['1200kb', '2400kb']").text.replace("'1s'", "'9s'"),
    );
    let long = Plan::new(&long.expect("an experiment"), &[]).expect("a plan");
    let packets: Vec<u64> = long.cells.iter().map(|cell| long.cost(cell).packets).collect();
    assert_eq!(packets, [800, 1600]);
}

#[test]
fn repetitions_multiply_costs_and_saturate() {
    let plan = plan("flow.a.sack = ['off', 'on']");
    let one = plan.cost(&plan.cells[0]);
    assert_eq!((one.times(7).packets, one.times(7).micros), (one.packets * 7, one.micros * 7));
    let mut huge = rdt_lab::plan::Cost { packets: u64::MAX - 1, micros: 5 };
    huge.add(rdt_lab::plan::Cost { packets: 7, micros: 6 });
    assert_eq!((huge.packets, huge.micros), (u64::MAX, 11));
}

/// LAB.md: alpha spending over rounds that double; the whole 5 % where the number is fixed.
#[test]
fn levels_of_rounds_are_spent_in_turn() {
    let plan = plan("flow.a.sack = ['off', 'on']\n[repeats]\nleast = 10\nmost = 80\nuntil = 'claims'");
    // 0.05 ln(1 + (e - 1) t) at t = 1/8, 1/4, 1/2 and 1.
    let spent = [0.009_728_36, 0.017_868_70, 0.031_005_73, 0.05];
    let mut before = 0.0;
    for (look, spent) in [10, 20, 40, 80].into_iter().zip(spent) {
        let level = plan.level(EngineKind::Virtual, look);
        assert!((level - (spent - before)).abs() < 1e-7, "{look}: {level}");
        before = spent;
    }
    let fixed = self::plan("flow.a.sack = ['off', 'on']\n[repeats]\nleast = 10\nmost = 10\nuntil = 'claims'");
    assert!((fixed.level(EngineKind::Virtual, 10) - 0.05).abs() < 1e-12);
}
