//! Made-up figures, one of each kind, for tests of the writers.

use super::figure::{self, Column, Curve, Effect, EventTimes, FactorMeans, Lines, Quantity, TimePanel};
use super::scale::{Tick, Unit, level_value};
use super::scene::{Origin, Row, Scene};

fn quantity(name: &str, unit: Unit) -> Quantity {
    Quantity { name: name.to_owned(), unit }
}

fn row(x: f64, y: f64, low: f64, high: f64, n: u32) -> Row {
    Row { x, y, low: Some(low), high: Some(high), n: Some(n) }
}

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns a number between 0 and 1 that looks random and is the same for the same `i`.
fn drawn(i: u32) -> f64 {
    f64::from(i.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24)
}

/// Means with intervals, beside published values.
pub(super) fn side_by_side() -> Scene {
    let newreno = vec![row(0.0, 5_780_000.25, 5.7e6, 5_860_000.5, 20), row(1.0, 5.61e6, 5.5e6, 5.7e6, 20)];
    let tahoe = vec![row(0.0, 4.3e6, 4.1e6, 4.5e6, 20), row(1.0, 5.43e6, 5.4e6, 5.46e6, 20)];
    let published = vec![Row::at(0.0, 1.239e6), Row::at(1.0, 1.7803e6)];
    figure::means(
        Scene::new("means", "Goodput with and without SACK & <windows>"),
        &Quantity::of_metric("goodput"),
        "sack",
        names(&["off", "on"]),
        &[
            Curve::measured("newreno".to_owned(), 0, newreno),
            Curve::measured("tahoe".to_owned(), 1, tahoe),
            Curve { origin: Origin::Published, ..Curve::measured("report 000".to_owned(), 1, published) },
        ],
        false,
    )
}

/// Rate against window with two models and residuals.
pub(super) fn against_window() -> Scene {
    let windows = ["5kb", "10kb", "16kb", "25kb", "40kb", "50kb", "60kb"];
    let bytes = windows.map(|window| level_value(window).expect("a size").0);
    let rates = [2.23e6, 6.46e6, 11.13e6, 17.80e6, 28.91e6, 32.68e6, 32.68e6];
    let rows = bytes.iter().zip(rates).map(|(w, r)| row(*w, r, r * 0.99, r * 1.01, 10)).collect();
    let places = || (0..60).map(|i| 5e3 * 12_f64.powf(f64::from(i) / 59.0)).chain([60e3]);
    let model = |name: &str, look, rate: &dyn Fn(f64) -> f64| Curve {
        origin: Origin::Theory,
        beside: vec![0],
        outside: places().filter(|w| *w < 8e3).collect(),
        ..Curve::measured(name.to_owned(), look, places().map(|w| Row::at(w, rate(w))).collect())
    };
    let lines = Lines {
        of: Quantity::of_metric("goodput"),
        x: quantity("window", Unit::Bytes),
        levels: bytes.iter().zip(windows).map(|(at, w)| Tick { at: *at, label: w.to_owned() }).collect(),
        log_x: true,
        log_y: false,
        curves: vec![
            Curve::measured("virtual".to_owned(), 0, rows),
            model("min(W/RTT, C)", 0, &|w| (w * 8.0 / 0.010).min(32.7e6)),
            model("an ACK for two", 1, &|w| ((w - 1448.0) * 8.0 / 0.010_37).min(32.7e6)),
        ],
        limits: vec![("link".to_owned(), 34e6)],
    };
    figure::lines(Scene::new("window", "Goodput against the receiver's window"), &lines)
}

fn effects() -> Vec<Scene> {
    let of = quantity("effect on throughput (MB/s)", Unit::None);
    let effect = |i: u32| Effect {
        name: format!("effect {i}"),
        value: if i == 3 { -1.53 } else { drawn(i) * 0.19 },
        stands_out: i == 3,
    };
    let margins = |factor: &str, low: f64, high: f64, within_noise| FactorMeans {
        factor: factor.to_owned(),
        levels: vec![
            ("low".to_owned(), row(0.0, low, low - 0.1, low + 0.1, 16)),
            ("high".to_owned(), row(0.0, high, high - 0.1, high + 0.1, 16)),
        ],
        within_noise,
    };
    vec![
        figure::half_normal(
            Scene::new("half-normal", "Effects of 31 contrasts"),
            &of,
            &(0..31).map(effect).collect::<Vec<_>>(),
            Some(0.2),
        ),
        figure::marginals(
            Scene::new("marginals", "Marginal means"),
            &of,
            &[margins("delay", 2.276, 0.745, false), margins("window", 1.46, 1.56, true)],
        ),
    ]
}

fn spreads() -> Vec<Scene> {
    let values = |from: u32| (from..from + 40).map(|i| 4e6 + 2e6 * drawn(i)).collect::<Vec<f64>>();
    let groups = vec![("reno".to_owned(), values(0)), ("cubic".to_owned(), values(100))];
    let cumulative = |id: &str, complementary| {
        figure::distribution(
            Scene::new(id, "Distribution of goodput"),
            &Quantity::of_metric("goodput"),
            &groups,
            complementary,
        )
    };
    vec![
        figure::spread(Scene::new("spread", "Repetitions"), &Quantity::of_metric("goodput"), "cc", &groups),
        figure::ellipses(
            Scene::new("ellipse", "Throughput and delay"),
            &Quantity::of_metric("rtt-mean"),
            &Quantity::of_metric("goodput"),
            &[("reno".to_owned(), values(7).iter().zip(values(70)).map(|(x, y)| (x / 1e8, y)).collect())],
        ),
        cumulative("cdf", false),
        cumulative("ccdf", true),
    ]
}

fn wholes() -> Vec<Scene> {
    let cells = (0..3)
        .flat_map(|y| (0..5).map(move |x| (x, y, 0.1 + 0.05 * f64::from(u8::try_from(x * y).unwrap_or(0)))));
    vec![
        figure::partition(
            Scene::new("limits", "What limits each flow"),
            &quantity("share of the flow's life", Unit::Share),
            &names(&["receiver window", "congestion window", "link"]),
            &[("a".to_owned(), vec![0.88, 0.02, 0.1]), ("b".to_owned(), vec![0.0, 0.25, 0.75])],
        ),
        figure::heat(
            Scene::new("heat", "Utilisation"),
            &quantity("utilisation", Unit::Share),
            ("rate", &names(&["1mbit", "2mbit", "4mbit", "8mbit", "16mbit"])),
            ("loss", &names(&["0.1%", "1%", "5%"])),
            &cells.collect::<Vec<_>>(),
        ),
        figure::offered(
            Scene::new("offered", "Offered and delivered"),
            &[Curve::measured(
                "UDP".to_owned(),
                0,
                (1..=10)
                    .map(|i| row(1e7 * f64::from(i), (1e7 * f64::from(i)).min(95.7e6), 0.0, 96e6, 10))
                    .collect(),
            )],
            &[Curve::measured("UDP".to_owned(), 0, vec![Row::at(1e7, 0.0), Row::at(1e8, 0.043)])],
            vec![("link".to_owned(), 95.7e6)],
            None,
        ),
    ]
}

/// Series over time with a gap, events, and shares.
fn over_time() -> Vec<Scene> {
    let column = |name: &str, look, values: &dyn Fn(u32) -> Option<f64>| Column {
        name: name.to_owned(),
        look,
        values: (0..4000).map(values).collect(),
    };
    vec![
        figure::time_series(
            Scene::new("series", "Goodput and window over time"),
            (0.0, 0.025),
            &[
                TimePanel {
                    of: Quantity::of_metric("goodput"),
                    at_ends: false,
                    columns: vec![column("goodput", 0, &|i| (i != 50).then(|| 8e6 * drawn(i)))],
                },
                TimePanel {
                    of: Quantity::of_metric("cwnd"),
                    at_ends: true,
                    columns: vec![column("cwnd", 1, &|i| Some(1448.0 * f64::from(2 + i % 9)))],
                },
            ],
            &[EventTimes { name: "timeout".to_owned(), look: 4, times: vec![3.5, 60.0] }],
        ),
        figure::share(
            Scene::new("share", "Three flows"),
            0.1,
            &[
                Column { name: "a".to_owned(), look: 0, values: vec![Some(9e7); 40] },
                Column {
                    name: "b".to_owned(),
                    look: 1,
                    values: (0..40).map(|i| (i > 20).then_some(3e7)).collect(),
                },
            ],
            &[Row::at(0.0, 94.15e6), Row::at(4.0, 94.15e6)],
        ),
    ]
}

/// Returns a figure of each kind.
pub(super) fn gallery() -> Vec<Scene> {
    let mut scenes = vec![side_by_side(), against_window()];
    scenes.extend(effects());
    scenes.extend(spreads());
    scenes.extend(wholes());
    scenes.extend(over_time());
    scenes
}
