use super::super::scale::Unit;
use super::super::scene::{Layer, Mark};
use super::super::tests as samples;
use super::*;

#[test]
fn every_figure_describes_itself() {
    for scene in samples::gallery() {
        assert!(scene.description.len() > 30, "{}: {:?}", scene.id, scene.description);
    }
    let text = samples::side_by_side().description;
    assert!(
        text.starts_with("goodput (Mbit/s) against sack. Lowest: 4.3 Mbit/s (tahoe, sack off)"),
        "{text}"
    );
}

/// Two groups at offsets of -0.175 and 0.175 from each level.
#[test]
fn models_are_dashes_at_the_means_they_predict() {
    let rows = |y: f64| vec![Row::at(0.0, y), Row::at(1.0, y)];
    let curve = |look, y| Curve::measured(format!("group {look}"), look, rows(y));
    let model = Curve { origin: Origin::Theory, beside: vec![0, 1], outside: vec![1.0], ..curve(2, 5.5e6) };
    let levels = ["off", "on"].map(str::to_owned).to_vec();
    let curves = [curve(0, 5e6), curve(1, 6e6), model];
    let of = Quantity::of_metric("goodput");
    let scene = means(Scene::new("means", "Means"), &of, "sack", levels, &curves, false);
    let is_model = |layer: &&Layer| scene.series[layer.series].origin == Origin::Theory;
    let layers: Vec<&Layer> = scene.panels[0].layers.iter().filter(is_model).collect();
    let [inside, outside] = layers[..] else { panic!("a dash in the range and one outside: {layers:?}") };
    assert!(!inside.muted && outside.muted);
    let ends: Vec<(f64, f64)> = inside.rows.iter().take(2).map(|row| (row.x, row.y)).collect();
    assert!((ends[0].0 + 0.315).abs() < 1e-9 && (ends[1].0 - 0.315).abs() < 1e-9, "{ends:?}");
    assert_eq!((ends[0].1, ends[1].1), (5.5e6, 5.5e6));
    assert!(inside.rows[2].y.is_nan(), "dashes are not joined");
}

#[test]
fn descriptions_name_means_and_medians() {
    let of = |id: &str| samples::gallery().into_iter().find(|scene| scene.id == id).expect("in the gallery");
    let window = samples::against_window().description;
    assert!(window.contains("(virtual, window 5 kB)"), "{window}");
    let ellipse = of("ellipse").description;
    let (lowest, highest) = ellipse.split_once(", highest: ").expect("extremes");
    assert!(lowest.ends_with(highest.split(". ").next().expect("a sentence")), "no outline: {ellipse}");
    let spread = of("spread").description;
    assert!(spread.contains("Medians with 95 % intervals: reno ") && spread.contains(" cubic "), "{spread}");
    assert!(of("heat").description.starts_with("utilisation (%) for rate and loss"));
    assert!(of("marginals").description.contains("(delay low)"), "{}", of("marginals").description);
}

#[test]
fn residuals_are_relative_to_the_model() {
    let scene = samples::against_window();
    let panel = scene.panels.last().expect("a panel of residuals");
    assert_eq!(panel.y.label, "residual (%)");
    let plain = &panel.layers[0];
    assert!(matches!(plain.mark, Mark::Points));
    let last = plain.rows.last().expect("seven windows");
    assert!((last.y - (32.68 / 32.7 - 1.0)).abs() < 1e-9, "{last:?}");
    let (low, high) = (last.low.expect("an end"), last.high.expect("an end"));
    assert!(low < last.y && last.y < high);
}

#[test]
fn models_are_thin_outside_their_range() {
    let scene = samples::against_window();
    let grey = scene.panels[0].layers.iter().filter(|layer| layer.muted);
    assert!(grey.clone().count() == 2 && grey.flat_map(|l| &l.rows).all(|row| row.x < 9e3));
}

#[test]
fn models_are_thin_where_they_do_not_hold() {
    let rows: Vec<Row> = (0..6).map(|x| Row::at(f64::from(x), 1e6)).collect();
    let measured = Curve::measured("measured".to_owned(), 0, rows.clone());
    let model = Curve { outside: vec![2.0], ..Curve::measured("model".to_owned(), 1, rows) };
    let lines = Lines {
        of: Quantity::of_metric("goodput"),
        x: Quantity { name: "x".to_owned(), unit: Unit::None },
        levels: Vec::new(),
        log_x: false,
        log_y: false,
        curves: vec![measured, Curve { origin: Origin::Theory, beside: vec![0], ..model }],
        limits: Vec::new(),
    };
    let scene = lines_scene(&lines);
    let of_model = |layer: &&Layer| scene.series[layer.series].origin == Origin::Theory;
    let drawn: Vec<(bool, f64, f64)> = scene.panels[0]
        .layers
        .iter()
        .filter(of_model)
        .map(|layer| (layer.muted, layer.rows[0].x, layer.rows.last().expect("an end").x))
        .collect();
    assert_eq!(drawn, [(false, 0.0, 1.0), (true, 1.0, 3.0), (false, 3.0, 5.0)]);
    let residuals = &scene.panels[1].layers[0].rows;
    assert!(residuals.len() == 5 && residuals.iter().all(|row| (row.x - 2.0).abs() > 0.5));
}

fn lines_scene(data: &Lines) -> Scene {
    lines(Scene::new("x", "x"), data)
}

#[test]
fn published_values_of_several_sources_stand_apart() {
    let at = |look, y| Curve::measured(format!("source {look}"), look, vec![Row::at(0.0, y)]);
    let published = |look, y| Curve { origin: Origin::Published, beside: vec![0], ..at(look, y) };
    let curves = [at(0, 1e6), at(1, 1e6), published(2, 1e6), published(3, 1e6)];
    let of = Quantity::of_metric("goodput");
    let scene = means(Scene::new("x", "x"), &of, "x", vec!["all".to_owned()], &curves, false);
    let places: Vec<f64> = scene.panels[0].layers.iter().map(|layer| layer.rows[0].x).collect();
    let [first, second, one, two] = places[..] else { panic!("{places:?}") };
    assert!(first < one && one < two && two < second, "{places:?}");
}

#[test]
fn distributions_step_from_nothing_to_all() {
    let of = |id: &str| samples::gallery().into_iter().find(|scene| scene.id == id).expect("in the gallery");
    for (id, first, last) in [("cdf", 0.0, 1.0), ("ccdf", 1.0, 0.025)] {
        let rows = &of(id).panels[0].layers[0].rows;
        assert_eq!((rows[0].y, rows.last().expect("40 values").y), (first, last), "{id}");
        assert!(rows[0].x >= rows[1].x, "the first step is at the first value");
    }
}

#[test]
fn half_normal_names_effects_that_stand_out() {
    let scene =
        samples::gallery().into_iter().find(|scene| scene.id == "half-normal").expect("in the gallery");
    let notes: Vec<&str> = scene.panels[0].notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(notes, ["\u{2212} effect 3"]);
    let drawn: usize = scene.panels[0].layers.iter().map(|layer| layer.rows.len()).sum();
    assert_eq!(drawn, 31 + 1, "31 effects and the margin");
}

#[test]
fn stacked_shares_add_up() {
    let scene = samples::gallery().into_iter().find(|scene| scene.id == "share").expect("in the gallery");
    let layers = &scene.panels[0].layers;
    for (below, above) in layers[0].rows.iter().zip(&layers[1].rows) {
        assert_eq!(below.high, above.low);
    }
    let begun = layers[1].rows.iter().find(|row| row.y.is_finite()).expect("the second flow");
    let Mark::Band(width) = layers[1].mark else { panic!("a band") };
    assert!((begun.x - width - 2.1).abs() < 1e-9, "it begins in bin 21: {begun:?}");
    assert_eq!(jain_of(&scene, 0), None, "a flow alone has no index");
    let both = jain_of(&scene, 30).expect("two flows");
    assert!((both - 120.0_f64.powi(2) / (2.0 * (8100.0 + 900.0))).abs() < 1e-9);
}

fn jain_of(scene: &Scene, bin: usize) -> Option<f64> {
    Some(scene.panels[1].layers[0].rows[bin].y).filter(|y| y.is_finite())
}
