use sha2::{Digest as _, Sha256};

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
        digest, 0xd254_e8ce_ef96_583a,
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
