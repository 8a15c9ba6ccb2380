//! Numbers as readers see them: units, rounding, and ticks of axes.

use rdt_lab::report::scale::{Axis, Scale, Unit, fixed, level_value, significant};

use crate::support::near;

#[test]
fn values_have_prefix_and_unit_of_their_size() {
    for (unit, value, text) in [
        (Unit::Rate, 0.0, "0 bit/s"),
        (Unit::Rate, 999.0, "999 bit/s"),
        (Unit::Rate, 1_000.0, "1 kbit/s"),
        (Unit::Rate, 5_618_490.0, "5.618 Mbit/s"),
        (Unit::Rate, -5_618_490.0, "-5.618 Mbit/s"),
        (Unit::Rate, 94.148e6, "94.15 Mbit/s"),
        (Unit::Rate, 1.25e9, "1.25 Gbit/s"),
        (Unit::Time, 1.5, "1.5 s"),
        (Unit::Time, 0.0523, "52.3 ms"),
        (Unit::Time, 0.001, "1 ms"),
        (Unit::Time, 0.000_052, "52 \u{b5}s"),
        (Unit::Time, 90.0, "90 s"),
        (Unit::Bytes, 1_500.0, "1500 B"),
        (Unit::Bytes, 10_000.0, "10 kB"),
        (Unit::Bytes, 16_384.0, "16.38 kB"),
        (Unit::Bytes, 2.5e6, "2.5 MB"),
        (Unit::Bytes, 4e9, "4 GB"),
        (Unit::Share, 0.025, "2.5 %"),
        (Unit::Share, 1.0, "100 %"),
        (Unit::Share, 0.000_123, "0.0123 %"),
        (Unit::Count, 12.5, "12.5 packets"),
        (Unit::None, 0.979_12, "0.9791"),
    ] {
        assert_eq!(unit.text(value), text);
    }
}

/// The fourth digit is rounded to the nearest, and trailing zeros go.
#[test]
fn numbers_are_rounded_to_their_digits() {
    for (value, digits, text) in [
        (1.0, 4, "1"),
        (1.000_4, 4, "1"),
        (1.000_6, 4, "1.001"),
        (0.999_96, 4, "1"),
        (12.345_6, 4, "12.35"),
        (123.44, 4, "123.4"),
        (123.46, 4, "123.5"),
        (1_234.4, 4, "1234"),
        (9_999.6, 4, "10000"),
        (0.012_345, 3, "0.0123"),
        (0.1, 2, "0.1"),
        (0.099_9, 2, "0.1"),
        (-2.716_28, 3, "-2.72"),
        (1e-5, 3, "0.00001"),
        (9.9e-6, 3, "9.90e-6"),
        (123_456_789.0, 3, "123456789"),
        (1e9, 3, "1.00e9"),
        (2.997_924_58e8, 4, "299792458"),
        (f64::INFINITY, 4, "inf"),
        (f64::NEG_INFINITY, 4, "-inf"),
    ] {
        assert_eq!(significant(value, digits), text, "{value} with {digits} digits");
    }
    for (value, decimals, text) in
        [(1.50, 2, "1.5"), (-0.001, 2, "0"), (2.0, 0, "2"), (10.0, 1, "10"), (0.05, 1, "0.1")]
    {
        assert_eq!(fixed(value, decimals), text, "{value} with {decimals} decimals");
    }
}

#[test]
fn levels_are_numbers_in_base_units() {
    for (level, expected) in [
        ("8mbit", Some((8e6, Unit::Rate))),
        ("1.5gbit", Some((1.5e9, Unit::Rate))),
        ("250us", Some((250e-6, Unit::Time))),
        ("2min", Some((120.0, Unit::Time))),
        ("64kib", Some((65_536.0, Unit::Bytes))),
        ("64kb", Some((64_000.0, Unit::Bytes))),
        ("50p", Some((50.0, Unit::Count))),
        ("0.5%", Some((0.005, Unit::Share))),
        ("wifi-a:54mbit", Some((54e6, Unit::Rate))),
        ("1.2.3", None),
        ("fast", None),
        ("", None),
        ("8 mbit", None),
    ] {
        let ours = level_value(level);
        match (ours, expected) {
            (Some((value, unit)), Some((number, wanted))) => {
                near(value, number, 1e-12);
                assert_eq!(unit, wanted, "{level}");
            }
            _ => assert_eq!(ours, expected, "{level}"),
        }
    }
}

/// A label is the value at its tick in the unit of the axis, ticks ascend, and the ends of the
/// scale hold all values.
#[test]
fn labels_of_linear_axes_are_tick_values() {
    for (unit, values) in [
        (Unit::Rate, [0.0, 5.7e6]),
        (Unit::Rate, [1.2e9, 1.3e9]),
        (Unit::Time, [0.0101, 0.0119]),
        (Unit::Time, [0.0, 90.0]),
        (Unit::Share, [0.994, 0.998]),
        (Unit::Bytes, [1_460.0, 65_535.0]),
        (Unit::None, [-3.0, 4.0]),
        (Unit::Count, [7.0, 7.0]),
        (Unit::None, [1e-6, 3e-6]),
    ] {
        for from_zero in [false, true] {
            let axis = Axis::linear("x", unit, values, from_zero);
            let (low, high) = axis.scale.ends();
            assert!(low <= values[0] && values[1] <= high, "{values:?}: {low} to {high}");
            assert!(!from_zero || low <= 0.0 && high >= 0.0);
            assert!((2..=12).contains(&axis.ticks.len()), "{axis:?}");
            assert!(axis.ticks.is_sorted_by(|a, b| a.at < b.at));
            let steps: Vec<f64> = axis.ticks.windows(2).map(|it| it[1].at - it[0].at).collect();
            for (tick, step) in axis.ticks.iter().zip(steps.iter().chain(steps.last())) {
                let shown: f64 = tick.label.parse().expect("a number");
                assert!(
                    (shown - tick.at * axis.factor).abs() < 0.01 * step * axis.factor,
                    "{tick:?} of {axis:?}"
                );
            }
        }
    }
}

#[test]
fn logarithmic_axes_have_equal_distances_for_equal_ratios() {
    let axis = Axis::log("window", Unit::Bytes, [1_000.0, 1_000_000.0]);
    let at = |value: f64| axis.scale.position(value);
    near(at(10_000.0) - at(1_000.0), at(1_000_000.0) - at(100_000.0), 1e-9);
    near(at(2_000.0) - at(1_000.0), at(8_000.0) - at(4_000.0), 1e-9);
    for tick in &axis.ticks {
        let shown: f64 = tick.label.parse().expect("a number");
        near(tick.at * axis.factor, shown, 1e-9);
    }
    let Scale::Log { low, high } = axis.scale else { panic!("a logarithmic scale") };
    assert!(low > 0.0 && low <= 1_000.0 && high >= 1_000_000.0);
    let none = Axis::log("x", Unit::None, [0.0, -5.0]);
    assert!(none.scale.ends().0 > 0.0, "no value is positive: {none:?}");
}

#[test]
fn names_stand_in_the_middle_of_their_parts() {
    let axis = Axis::names("cc", ["reno", "cubic", "bbr", "fixed"].map(str::to_owned).to_vec());
    for (value, position, name) in [(0.0, 0.125, "reno"), (1.0, 0.375, "cubic"), (3.0, 0.875, "fixed")] {
        near(axis.scale.position(value), position, 1e-12);
        assert_eq!(axis.shown(value), name);
    }
    assert_eq!(axis.scale.name(4.0), None);
}
