use sha2::{Digest as _, Sha256};

use super::super::scene::Row;
use super::super::tests as samples;
use super::*;

/// Colours of classes of a heat map, from the lowest values to the highest: the blue-yellow scale
/// `cividis`, whose lightness grows evenly for everybody.
const HEAT: [&str; 9] =
    ["#00224E", "#123570", "#3B496C", "#575D6D", "#707173", "#8A8678", "#A59C74", "#C3B369", "#FDE737"];

#[test]
fn figures_are_valid_and_small() {
    for scene in samples::gallery() {
        let text = svg(&scene, Place::File);
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", scene.id));
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"));
        let told: Vec<&str> = ["title", "desc"]
            .iter()
            .filter_map(|name| {
                root.children().find(|child| child.has_tag_name(("http://www.w3.org/2000/svg", *name)))
            })
            .filter_map(|child| child.text())
            .collect();
        assert_eq!(told, [scene.title.as_str(), scene.description.as_str()]);
        assert!(text.len() < 200_000, "{}: {} bytes", scene.id, text.len());
        assert!(!text.contains("NaN") && !text.contains("inf ") && !text.contains("href"));
    }
}

#[test]
fn drawn_marks_equal_data() {
    for scene in samples::gallery() {
        let text = svg(&scene, Place::File);
        let document = roxmltree::Document::parse(&text).expect("valid");
        let class = |node: &roxmltree::Node<'_, '_>, word: &str| {
            node.attribute("class").is_some_and(|classes| classes.split(' ').any(|class| class == word))
        };
        let layers: Vec<_> = document.descendants().filter(|node| class(node, "layer")).collect();
        assert_eq!(layers.len(), scene.layers().count());
        let mut first = 0;
        for (node, (_, layer)) in layers.iter().zip(scene.layers()) {
            assert_eq!(node.attribute("data-rows"), Some(format!("{first} {}", layer.rows.len()).as_str()));
            first += layer.rows.len();
            let marks = node.children().filter(|child| class(child, "m")).count();
            if marks > 0 {
                assert_eq!(marks, layer.rows.len(), "{}", scene.id);
            }
        }
    }
}

#[test]
fn means_are_drawn_where_the_axis_says() {
    let text = svg(&samples::side_by_side(), Place::File);
    let document = roxmltree::Document::parse(&text).expect("valid");
    let attribute =
        |name: &str| document.descendants().find_map(|node| node.attribute(name)).expect("present");
    let numbers = |text: &str| text.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<f64>>();
    let area = numbers(attribute("data-box"));
    let axis = numbers(attribute("data-y"));
    let first = numbers(&attribute("transform").replace("translate(", "").replace(')', ""));
    assert_eq!(axis[..2], [0.0, 6e6]);
    let mark = document
        .descendants()
        .filter_map(|node| node.attribute("transform"))
        .nth(3)
        .map(|text| numbers(&text.replace("translate(", "").replace(')', "")))
        .expect("three keys of the legend, then the first mean");
    let value = (1.0 - (mark[1] - area[1]) / area[3]) * 6e6;
    assert!((value - 5_780_000.25).abs() < 6e6 / area[3] / 10.0, "{value} at {mark:?}, {first:?}");
}

#[test]
fn bins_are_steps_from_begin_to_end() {
    let axis = |label: &str| Axis::linear(label, super::super::scale::Unit::None, [0.0, 4.0], true);
    let mut scene = Scene::new("bins", "Bins");
    let mut panel = Panel::new(40.0, axis("x"), axis("y"));
    let series = scene.series("bins", 0, Origin::Measured);
    let value = |x: f64, y: f64| Row { low: Some(0.0), high: Some(y), ..Row::at(x, y) };
    let rows = vec![value(1.0, 4.0), value(2.0, 2.0), value(3.0, f64::NAN), value(4.0, 4.0)];
    panel.draw(series, Mark::Bins(1.0), rows.clone());
    panel.draw(series, Mark::Band(1.0), rows);
    scene.panels.push(panel);
    let text = svg(&scene, Place::File);
    let box_of = text.split("data-box=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a box");
    let numbers: Vec<f64> = box_of.split(' ').filter_map(|word| word.parse().ok()).collect();
    let (left, top, unit) = (px(numbers[0]), px(numbers[1]), numbers[2] / 4.0);
    let path = |class: &str| {
        text.split(&format!("class=\"{class}\" d=\""))
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("a path")
    };
    let steps = path("line");
    assert!(steps.starts_with(&format!("M{left} {top}l{} 0 0 20", px(unit))), "{steps} from {left} {top}");
    assert_eq!(steps.matches('M').count(), 2, "a bin without a value is a gap: {steps}");
    assert_eq!(path("area").matches('Z').count(), 2, "as in the band");
    assert!(
        steps.contains(&format!("M{} {top}", px(numbers[0] + 3.0 * unit))),
        "the last bin begins at 3: {steps}"
    );
}

#[test]
fn title_of_an_axis_is_above_its_highest_label() {
    for scene in samples::gallery() {
        let text = svg(&scene, Place::File);
        let document = roxmltree::Document::parse(&text).expect("valid");
        let axes = document.descendants().filter(|node| node.attribute("class") == Some("axis y"));
        for axis in axes {
            let base =
                |node: roxmltree::Node<'_, '_>| node.attribute("y").and_then(|y| y.parse::<f64>().ok());
            let texts =
                || axis.children().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
            let is_name = |node: &roxmltree::Node<'_, '_>| node.attribute("class") == Some("name");
            let name = texts().find(is_name).and_then(base).expect("a name");
            let highest = texts().filter(|it| !is_name(it)).filter_map(base).fold(f64::INFINITY, f64::min);
            assert!(highest - name >= 12.0, "{}: {name} above {highest}", scene.id);
        }
    }
}

#[test]
fn distances_are_written_without_needless_characters() {
    let mut path = String::new();
    let points = [(1.0, 20.0), (1.5, 19.6), (1.6, 19.9), (2.6, 20.1), (13.0, 20.1), (13.04, 20.1)];
    marks::relative(&mut path, points.into_iter());
    marks::relative(&mut path, [(5.0, 5.0)].into_iter());
    assert_eq!(path, "M1 20l.5-.4.1.3 1 .2 10.4 0 0 0M5 5");
}

#[test]
fn many_rules_are_one_path() {
    let mut scene = samples::side_by_side();
    let layer = &mut scene.panels[0].layers[0];
    (layer.mark, layer.rows) = (Mark::Rules, vec![layer.rows[0]; 41]);
    let text = svg(&scene, Place::File);
    let rules = text.split("layer rules").nth(1).and_then(|rest| rest.split("</g>").next()).expect("a layer");
    assert!(rules.matches("<path").count() == 1 && rules.matches('M').count() == 1, "{rules}");
}

#[test]
fn bytes_are_stable() {
    let scene = samples::side_by_side();
    assert_eq!(svg(&scene, Place::Page), svg(&scene, Place::Page));
    let digest = Sha256::digest(svg(&scene, Place::Page).as_bytes());
    let digest = u64::from_be_bytes(digest[..8].try_into().expect("32 bytes"));
    assert_eq!(
        digest, 0x62dd_fa00_d0cf_de9f,
        "a change of the writer changes the pictures of old reports: {digest:#x}"
    );
}

#[test]
fn style_has_the_colours_of_the_palette() {
    for (i, colour) in super::super::palette::LIGHT.iter().enumerate() {
        let colour = colour.to_lowercase();
        assert!(STYLE.contains(&format!(".s{i}{{color:{colour};color:var(--s{i},{colour})}}")), "{colour}");
    }
    for (i, colour) in HEAT.iter().enumerate() {
        assert!(STYLE.contains(&format!(".h{i} .fill{{fill:{}}}", colour.to_lowercase())), "{colour}");
    }
}

#[test]
#[ignore = "writes the gallery to the folder RDT_LAB_GALLERY, to look at it"]
fn write_gallery() {
    let folder = std::env::var("RDT_LAB_GALLERY").expect("a folder");
    for scene in samples::gallery() {
        let path = format!("{folder}/{}.svg", scene.id);
        std::fs::write(path, svg(&scene, Place::File)).expect("a folder to write to");
    }
}
