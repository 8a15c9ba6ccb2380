//! Tables of others: levels, means and effects of the rows, in whatever order they stand.

use rdt_lab::foreign::{Columns, Design, read};

use crate::support::near;

fn columns(factors: &[&str], responses: &[&str], each: &[&str]) -> Columns {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Columns { factors: own(factors), responses: own(responses), each: own(each) }
}

fn designs(table: &str, columns: &Columns) -> Vec<Design> {
    read(table.as_bytes(), columns).expect("a table")
}

/// Pilot plant of Box, Hunter and Hunter (1978): temperature, concentration, catalyst and yield,
/// the mean of two runs.
const PILOT: &str = "temperature,concentration,catalyst,yield\n160,20,A,60\n180,20,A,72\n160,40,A,54\n180,40,A,68\n\
                     160,20,B,52\n180,20,B,83\n160,40,B,45\n180,40,B,80\n";

#[test]
fn effects_of_a_table_equal_the_book() {
    let table = designs(PILOT, &columns(&["temperature", "concentration", "catalyst"], &["yield"], &[]));
    let (contrasts, lenth) = table[0].contrasts(&table[0].responses[0].1);
    let found: Vec<(&str, f64)> = contrasts.iter().map(|it| (it.name.as_str(), it.effect.estimate)).collect();
    let expected = [
        ("temperature", 23.0),
        ("temperature x catalyst", 10.0),
        ("concentration", -5.0),
        ("catalyst", 1.5),
        ("temperature x concentration", 1.5),
        ("temperature x concentration x catalyst", 0.5),
        ("concentration x catalyst", 0.0),
    ];
    for ((name, size), (ours, theirs)) in found.iter().zip(expected) {
        assert_eq!(*name, ours);
        near(*size, theirs, 1e-9);
    }
    // Lenth: 1.5 times the median is 2.25, sizes below 2.5 * 2.25 have the median 1.5, t(0.975;
    // 7/3) = 3.7641.
    let lenth = lenth.expect("one run each");
    near(lenth.pseudo_standard_error, 2.25, 1e-12);
    near(lenth.margin, 2.25 * 3.764_123_072, 1e-8);
    let active: Vec<&str> = contrasts.iter().filter(|it| it.is_active).map(|it| it.name.as_str()).collect();
    assert_eq!(active, ["temperature", "temperature x catalyst"]);
    assert!(contrasts.is_sorted_by(|a, b| a.score >= b.score), "the largest effect has the largest score");
}

#[test]
fn order_of_rows_changes_no_effect() {
    let of = |table: &str| {
        let designs =
            designs(table, &columns(&["temperature", "concentration", "catalyst"], &["yield"], &[]));
        let (contrasts, _) = designs[0].contrasts(&designs[0].responses[0].1);
        let mut found: Vec<(String, String)> = contrasts
            .iter()
            .map(|it| (it.name.clone(), format!("{:.6}", it.effect.estimate.abs())))
            .collect();
        found.sort();
        found
    };
    let (head, rows) = PILOT.split_once('\n').expect("rows");
    let mut rows: Vec<&str> = rows.lines().collect();
    let plain = of(PILOT);
    for turn in 1..8 {
        rows.rotate_left(turn);
        assert_eq!(of(&format!("{head}\n{}\n", rows.join("\n"))), plain, "{rows:?}");
    }
}

#[test]
fn first_level_is_the_first_in_the_table() {
    let sign = |table: &str| {
        let designs = designs(table, &columns(&["sack"], &["y"], &[]));
        designs[0].contrasts(&designs[0].responses[0].1).0[0].effect.estimate
    };
    near(sign("sack,y\noff,1\non,4\n"), 3.0, 1e-12);
    near(sign("sack,y\non,4\noff,1\n"), -3.0, 1e-12);
}

/// Repetitions give an interval instead of Lenth's margin: contrasts of 3 and 5 are 4 +- 12.706.
#[test]
fn repeated_rows_give_an_interval() {
    let table = "sack,y\noff,1\noff,2\non,4\non,7\n";
    let designs = designs(table, &columns(&["sack"], &["y"], &[]));
    assert_eq!(designs[0].repetitions(), 2);
    let (contrasts, lenth) = designs[0].contrasts(&designs[0].responses[0].1);
    let interval = contrasts[0].effect.interval.expect("two repetitions");
    near(interval.estimate, 4.0, 1e-12);
    near(interval.half_width(), 12.706_204_736, 1e-9);
    assert!(lenth.is_none() && !contrasts[0].is_active);
    let clear = self::designs("sack,y\noff,1\noff,1.1\non,4\non,4.2\n", &columns(&["sack"], &["y"], &[]));
    assert!(clear[0].contrasts(&clear[0].responses[0].1).0[0].is_active, "3.05 +- 0.64");
}

#[test]
fn parts_are_analysed_apart() {
    let table = "size, sack ,y,z\n1,off,10,1\n1,on,20,1\n2,off,5,1\n2,on,1,3\n";
    let designs = designs(table, &columns(&["sack"], &["y", "z"], &["size"]));
    let parts: Vec<_> = designs.iter().map(|it| it.part[0].1.as_str()).collect();
    assert_eq!(parts, ["1", "2"]);
    let effect = |part: usize, response: usize| {
        designs[part].contrasts(&designs[part].responses[response].1).0[0].effect.estimate
    };
    for (part, response, expected) in [(0, 0, 10.0), (0, 1, 0.0), (1, 0, -4.0), (1, 1, 2.0)] {
        near(effect(part, response), expected, 1e-12);
    }
    let means = designs[1].marginal_means(&designs[1].responses[0].1);
    let means: Vec<_> = means.iter().map(|it| (it.level.as_str(), it.mean, it.rows)).collect();
    assert_eq!(means, [("off", 5.0, 1), ("on", 1.0, 1)]);
}

#[test]
fn tables_that_are_no_design_are_refused() {
    let all = columns(&["a", "b"], &["y"], &[]);
    for (table, part) in [
        ("a,b,y\n0,0,1\n0,1,2\n1,0,3\n", "2 x 2 levels and the table has only 3 rows"),
        ("a,b,y\n0,0,1\n0,1,2\n1,0,3\n1,0,4\n", "the combination a=1, b=0 has 2 rows and another has 1"),
        ("a,b,y\n0,0,inf\n", "line 2: 'inf' in column y is not a number"),
        ("a,b,y\n0,0,\n", "line 2: '' in column y is not a number"),
        ("a,b,y\n0,0,1,9\n", "found record with 4 fields"),
        ("a,b\n0,0\n", "line 1: there is no column 'y'"),
        ("", "line 1: there is no column 'a'"),
    ] {
        let error = read(table.as_bytes(), &all).expect_err("no design").to_string();
        assert!(error.contains(part), "{table:?}: {error}");
    }
}
