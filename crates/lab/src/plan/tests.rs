use std::collections::BTreeSet;

use super::*;

/// Returns the plan of the text of an experiment.
fn of_text(text: &str) -> Plan {
    Plan::new(&Experiment::from_toml(text).expect("a file"), &[]).expect("a plan")
}

/// Returns the plan of a TCP flow of 10 s with the engines `virtual` and `kernel`. The round-trip
/// time has the level 2 ms and another; `repeats` is the content of that table.
pub(crate) fn two_engines(name: &str, other_level: &str, repeats: &str) -> Plan {
    of_text(&format!(
        r#"
        schema = 1
        name = "{name}"
        title = "Two engines"
        engine = ["virtual", "kernel"]
        for = "10s"
        [path]
        rate = "8mbit"
        [[flow]]
        name = "a"
        kind = "tcp"
        [factors]
        path.rtt = ["2ms", {other_level}]
        [repeats]
        {repeats}
        "#
    ))
}

/// An experiment with 32 cells of different costs, and other tables after `tail`.
fn experiment(tail: &str) -> Experiment {
    let text = format!(
        r#"
        schema = 1
        name = "grid"
        title = "A grid"
        engine = "virtual"
        [path]
        rate = "8mbit"
        [[flow]]
        name = "a"
        bytes = "1mb"
        [factors]
        flow.a.sack = ["off", "on"]
        flow.a.bytes = ["10kb", "2mb"]
        flow.a.cc = ["reno", "cubic"]
        path.loss = ["0", "1%"]
        path.rtt = ["2ms", "50ms"]
        {tail}
        "#
    );
    Experiment::from_toml(&text).expect("a file")
}

fn plan(tail: &str) -> Plan {
    Plan::new(&experiment(tail), &[]).expect("a plan")
}

fn ids(plan: &Plan) -> Vec<CellId> {
    plan.cells.iter().map(|cell| cell.id).collect()
}

#[test]
fn shards_partition_cells_for_all_counts() {
    let plan = plan("");
    let reversed = Plan { cells: plan.cells.iter().rev().cloned().collect(), ..plan.clone() };
    let ids = |cells: &[&Cell]| cells.iter().map(|cell| cell.id).collect::<BTreeSet<CellId>>();
    for count in 1..40 {
        let mut all = Vec::new();
        let mut loads = Vec::new();
        for (index, cells) in (0..count).zip(plan.shards(count)) {
            assert_eq!(cells, plan.shard(index, count));
            assert_eq!(ids(&cells), ids(&reversed.shard(index, count)), "the order of cells does not matter");
            loads.push(cells.iter().map(|cell| plan.cost(cell).micros).sum::<u64>());
            all.extend(cells.iter().map(|cell| cell.id));
        }
        assert_eq!(all.len(), 32);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 32, "each cell is in one of {count} shards");
        let largest = plan.cells.iter().map(|cell| plan.cost(cell).micros).max().expect("cells");
        let spread = loads.iter().max().expect("shards") - loads.iter().min().expect("shards");
        assert!(spread <= largest, "{count} shards differ by {spread}");
    }
}

/// Each cell goes to the shard with the least cost, of equal ones to the first: a change of this
/// order would mix the shards of runs that were begun before.
#[test]
fn equal_cells_are_dealt_in_turn() {
    let windows: Vec<String> = (1..=7).map(|n| format!("'{n}00kb'")).collect();
    let plan = of_text(&format!(
        "schema = 1\nname = 'turn'\ntitle = 'x'\nengine = 'virtual'\nfor = '1s'\n[path]\nrate = '8mbit'\n\
         [[flow]]\nname = 'a'\n[factors]\nflow.a.receiver.window = [{}]",
        windows.join(", ")
    ));
    let mut ids = ids(&plan);
    ids.sort();
    let costs: BTreeSet<u64> = plan.cells.iter().map(|cell| plan.cost(cell).micros).collect();
    assert_eq!(costs.len(), 1, "the windows are larger than the path needs");
    let shards = plan.shards(3);
    for (index, id) in ids.iter().enumerate() {
        assert!(shards[index % 3].iter().any(|cell| cell.id == *id), "cell {index}");
    }
}

#[test]
fn words_for_readers_keep_identities() {
    let one = plan("");
    let other = plan(
        "[[figure]]\nkind = 'means'\nof = 'goodput'\n[[claim]]\nid = 'x'\nsays = 'y'\nthat = 'goodput > 0'\n\
         [repeats]\nleast = 3\n[measure]\nseries = '1s'",
    );
    assert_eq!(ids(&one), ids(&other));
}

#[test]
fn physics_word_changes_only_its_cells() {
    let one = plan("");
    let text = experiment("").text.replace("\"2mb\"", "\"3mb\"");
    let other = of_text(&text);
    let changed: Vec<&Cell> =
        one.cells.iter().zip(&other.cells).filter(|(a, b)| a.id != b.id).map(|(a, _)| a).collect();
    assert_eq!(changed.len(), 16);
    assert!(changed.iter().all(|cell| cell.level("bytes") == Some("2mb")));
}

#[test]
fn common_seeds_are_equal_in_all_cells() {
    let common = plan("");
    let independent = plan("[design]\nseeds = 'independent'");
    let [one, two] = [&common.cells[0], &common.cells[1]];
    assert_eq!(common.seed(one, 3), common.seed(two, 3));
    assert_ne!(common.seed(one, 3), common.seed(one, 4));
    assert_ne!(independent.seed(one, 3), independent.seed(two, 3));
    assert_ne!(common.seed(one, 3), plan("[design]\nseed = 2").seed(one, 3));
}

#[test]
fn equal_physics_is_one_cell() {
    let plan = plan(
        "place = [{ name = 'x', flow.a.packet = 1500 }, { name = 'y', flow.a.packet = 1500 }, { name = 'z', flow.a.packet = 1000 }]",
    );
    assert_eq!((plan.cells.len(), plan.distinct().count()), (96, 64));
}

#[test]
fn fraction_lists_aliases() {
    let plan = plan("[design]\nkind = 'fraction'\ngenerators = ['rtt = sack*bytes*cc*loss']");
    assert_eq!(plan.cells.len(), 16);
    let fraction = plan.fraction.expect("a fraction");
    assert_eq!(fraction.resolution, 5);
    assert_eq!(fraction.relation, ["sack*bytes*cc*loss*rtt"]);
    assert_eq!(fraction.aliases_of("bytes*sack"), ["cc*loss*rtt"]);
    assert!(fraction.aliases_of("sack").is_empty(), "aliases of four factors are not listed");
    let sign = |level: &str| if ["off", "10kb", "reno", "0", "2ms"].contains(&level) { -1 } else { 1 };
    for cell in &plan.cells {
        assert_eq!(cell.factors.iter().map(|(_, level)| sign(level)).product::<i32>(), 1);
    }
}

#[test]
fn quarter_fraction_has_three_words() {
    let plan = plan("[design]\nkind = 'fraction'\ngenerators = ['d = a*b', 'e = -a*c']");
    assert_eq!(plan.cells.len(), 8);
    let fraction = plan.fraction.expect("a fraction");
    assert_eq!(fraction.resolution, 3);
    assert_eq!(fraction.relation, ["sack*bytes*loss", "-sack*cc*rtt", "-bytes*cc*loss*rtt"]);
    assert_eq!(fraction.aliases_of("sack"), ["bytes*loss", "-cc*rtt"]);
}

#[test]
fn claims_on_aliased_effects_are_refused() {
    let claim = |effect: &str| {
        format!(
            "[design]\nkind = 'fraction'\ngenerators = ['d = a*b', 'e = -a*c']\n[[claim]]\nid = 'x'\nsays = 'y'\n\
             that = 'effect(goodput, {effect}) > 1'"
        )
    };
    let error = Plan::new(&experiment(&claim("bytes, loss")), &[]).expect_err("an alias").to_string();
    assert!(error.contains("the effect of bytes and loss cannot be told from that of sack: "), "{error}");
    let five = claim("bytes, loss").replace("'d = a*b', 'e = -a*c'", "'rtt = sack*bytes*cc*loss'");
    assert!(Plan::new(&experiment(&five), &[]).is_ok(), "aliases of three factors are taken for none");
}

#[test]
fn wrong_generators_are_refused() {
    let wrong = |generator: &str| {
        let tail = format!("[design]\nkind = 'fraction'\ngenerators = ['{generator}']");
        Plan::new(&experiment(&tail), &[]).expect_err("an error").to_string()
    };
    assert_eq!(
        wrong("x = sack*bytes"),
        "generator 'x = sack*bytes': there is no factor 'x'; did you mean 'cc'?"
    );
    assert_eq!(wrong("rtt = rtt*cc"), "generator 'rtt = rtt*cc': rtt is on both sides");
    assert_eq!(wrong("rtt"), "generator 'rtt': write it as e = a*b*c");
}

/// The defining relation of 18 generators has 2^18 - 1 words.
#[test]
fn fractions_with_many_generators_are_refused() {
    let lines = |line: fn(u32) -> String| (0..20).map(line).collect::<String>();
    let generators: Vec<String> =
        (2..20).map(|n| format!("'flow.f{n}.bytes = flow.f0.bytes*flow.f1.bytes'")).collect();
    let text = format!(
        "schema = 1\nname = 'many'\ntitle = 'x'\nengine = 'virtual'\n[path]\nrate = '8mbit'\n{}[factors]\n{}\
         [design]\nkind = 'fraction'\ngenerators = [{}]",
        lines(|n| format!("[[flow]]\nname = 'f{n}'\n")),
        lines(|n| format!("flow.f{n}.bytes = ['1kb', '2kb']\n")),
        generators.join(", ")
    );
    let experiment = Experiment::from_toml(&text).expect("a file");
    let error = Plan::new(&experiment, &[]).expect_err("too many").to_string();
    assert!(error.starts_with("generator 'flow.f18.bytes = "), "{error}");
    assert!(error.contains("a fraction has at most 16 generators"), "{error}");
}

#[test]
fn other_designs_choose_their_cells() {
    assert_eq!(plan("[design]\nkind = 'one-at-a-time'").cells.len(), 6);
    let cell = "{ sack = 'on', bytes = '2mb', cc = 'reno', loss = '0', rtt = '2ms' }";
    assert_eq!(plan(&format!("[design]\nkind = 'list'\ncells = [{cell}]")).cells.len(), 1);
    for wanted in [3, 20] {
        let one = plan(&format!("[design]\nkind = 'random:{wanted}'"));
        assert_eq!(one.distinct().count(), wanted);
        assert_eq!(ids(&one), ids(&plan(&format!("[design]\nkind = 'random:{wanted}'"))));
        assert_ne!(ids(&one), ids(&plan(&format!("[design]\nkind = 'random:{wanted}'\nseed = 2"))));
    }
}

#[test]
fn grids_of_a_billion_cells_are_refused() {
    let levels: Vec<String> = (200..1200).map(|n| format!("{n}")).collect();
    let levels = levels.join(", ");
    let words = ["packet", "initial-window"].map(|word| format!("flow.a.{word} = [{levels}]")).join("\n");
    let error = Plan::new(&experiment(&words), &[]).expect_err("too many").to_string();
    assert!(error.starts_with("the design has 32000000 cells and the limit is 100000: "), "{error}");
    assert_eq!(plan(&format!("{words}\n[design]\nkind = 'random:50'")).cells.len(), 50);
}

#[test]
fn estimate_follows_bytes_and_rates() {
    let plan = plan("");
    let packets = |bytes| {
        plan.cells.iter().find(|cell| cell.level("bytes") == Some(bytes)).map(|c| plan.cost(c).packets)
    };
    assert_eq!(packets("2mb"), Some(1_333));
    let json = plan.to_json();
    assert_eq!(json["distinct_cells"], 32);
    assert_eq!(json["cells"][0]["factors"]["rtt"], "2ms");
    // Without loss nothing is random, and two repetitions show it.
    assert_eq!(json["estimate"]["journal_bytes"], (16 * 10 + 16 * 2) * 1_500);
}

#[test]
fn engine_that_is_not_named_is_refused() {
    let error = Plan::new(&experiment(""), &[EngineKind::Kernel]).expect_err("an error").to_string();
    assert_eq!(error, "the experiment does not run with engine kernel; its engines are virtual");
}

/// A plan in which one of the two levels is random, and the kernel has five repetitions.
fn limited(name: &str, least: u32) -> Plan {
    two_engines(name, "{ name = \"lossy\", path.loss = \"1%\" }", &format!("least = {least}\nkernel = 5"))
}

#[test]
fn totals_respect_limits_of_engines() {
    let plan = limited("one", 40);
    assert_eq!(limited("few", 2).repeats.range(EngineKind::Kernel), (5, 5));
    let json = plan.to_json();
    assert_eq!(json["engines"]["kernel"]["repeats"]["most"], 5);
    assert_eq!(json["engines"]["kernel"]["repetitions"], 10);
    let seconds = json["engines"]["kernel"]["time_s"].as_f64().expect("a number");
    assert!((100.0..110.0).contains(&seconds), "{seconds}");
    // Nothing is random in one of the two cells.
    assert_eq!(json["engines"]["virtual"]["repetitions"], 40 + 2);
}

#[test]
fn fixed_repetitions_are_judged_once() {
    let plan = limited("one", 2);
    assert!((plan.level(EngineKind::Kernel, 5) - 0.05).abs() < 1e-12);
    // One of the repetitions may be invalid.
    assert!((plan.level(EngineKind::Kernel, 4) - 0.05).abs() < 1e-12);
}

/// The last round may be shorter than a doubling.
#[test]
fn levels_of_all_rounds_sum_to_the_error() {
    for (least, most) in [(10, 400), (3, 20), (5, 40), (7, 7)] {
        let plan = plan(&format!("[repeats]\nleast = {least}\nmost = {most}\nuntil = 'claims'"));
        let (mut sum, mut look) = (0.0, least);
        loop {
            sum += plan.level(EngineKind::Virtual, look);
            if look == most {
                break;
            }
            look = (look * 2).min(most);
        }
        assert!((sum - 0.05).abs() < 1e-12, "{least} to {most}: {sum}");
    }
}

#[test]
fn totals_count_shared_cells_once() {
    let mut totals = Totals::default();
    totals.add(&limited("one", 3));
    totals.add(&limited("two", 40));
    let kernel = totals.by_engine()[&EngineKind::Kernel];
    assert_eq!((kernel.cells, kernel.repetitions), (2, 10));
}

#[test]
fn mtus_above_all_packets_are_no_factor() {
    let plan = |word: &str, levels: &str, size: u32| {
        let udp = format!("[[flow]]\nname = 'u'\nkind = 'udp'\nrate = '1mbit'\nsize = {size}");
        let head = "schema = 1\nname = 'n'\ntitle = 't'\nengine = ['virtual', 'kernel']\nfor = '1s'";
        let text = format!("{head}\n[path]\nrate = '8mbit'\n{udp}\n[factors]\n{word} = [{levels}]");
        Plan::new(&Experiment::from_toml(&text).expect("a file"), &[]).map(drop).map_err(|it| it.to_string())
    };
    let error = plan("path.mtu", "9000, 9500", 1000).expect_err("no packet of 9000 bytes");
    assert_eq!(
        error,
        "line 14, column 6: path.mtu: nothing uses this factor: no packet is longer than its MTUs"
    );
    assert!(plan("path.reverse.mtu", "9000, 'none'", 1000).is_err());
    assert_eq!(plan("path.mtu", "9000, 9500", 9000), Ok(()), "packets of 9028 bytes");
    assert_eq!(plan("path.mtu", "9000, 1400", 1000), Ok(()), "packets of 1500 bytes may be on their way");
    assert_eq!(plan("path.mtu", "9000, '9000, 1s:500'", 1000), Ok(()), "one of them falls");
    assert_eq!(plan("path.rate", "'1mbit', '8mbit'", 1000), Ok(()));
}

#[test]
fn datagrams_in_virtual_time_need_the_end_of_the_run() {
    let plan = |tail: &str| {
        let udp = "[[flow]]\nname = \"u\"\nkind = \"udp\"\nrate = \"1mbit\"\nstop = \"2s\"";
        let text =
            format!("schema = 1\nname = \"n\"\ntitle = \"t\"\n{tail}\n[path]\nrate = \"8mbit\"\n{udp}");
        Plan::new(&Experiment::from_toml(&text).expect("a file"), &[]).map(drop)
    };
    let error = plan("engine = \"virtual\"").expect_err("no end").to_string();
    assert!(error.starts_with("line 7, column 1: flow u: ") && error.contains("for = "), "{error}");
    assert!(plan("engine = \"virtual\"\nfor = \"3s\"").is_ok());
    assert!(plan("engine = \"kernel\"").is_ok());
}
