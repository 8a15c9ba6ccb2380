//! Places of texts: none covers a mark or another text.

use super::super::scale::{Axis, Scale, number};
use super::super::scene::{Mark, Note, Panel};
use super::{Area, WIDTH};

/// Mean width of a letter.
const LETTER: f64 = 6.2;
/// Height of a line of text.
const LINE: f64 = 11.0;
/// Distance of a text from its mark.
const ASIDE: f64 = 6.0;
/// Half the size of a marker.
const MARKER: f64 = 4.5;
/// Most lines of the labels below an axis of names.
const MAX_LINES: usize = 6;

pub(super) fn text_width(text: &str) -> f64 {
    number(text.chars().count()) * LETTER
}

/// Returns a text that is at most so wide: a longer one lacks its middle, because names differ most
/// at their ends.
pub(super) fn fit(text: &str, width: f64) -> String {
    let letters: Vec<char> = text.chars().collect();
    let room = (0..letters.len()).take_while(|count| number(*count + 1) * LETTER <= width).count().max(3);
    if letters.len() <= room {
        return text.to_owned();
    }
    let (head, tail) = (room / 2, room - room / 2 - 1);
    let ends = letters[..head].iter().chain(&['\u{2026}']).chain(&letters[letters.len() - tail..]);
    ends.collect()
}

/// Rectangle in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Block {
    fn covers(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// Returns what a text may not cover: markers with their error bars, and horizontal lines.
fn marks(panel: &Panel, area: &Area) -> Vec<Block> {
    let mut blocks = Vec::new();
    for layer in &panel.layers {
        for row in layer.rows.iter().filter(|row| row.y.is_finite()) {
            let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
            let ends = [row.low, row.high].map(|end| end.map_or(y, |end| area.y(panel, end)));
            blocks.extend(match layer.mark {
                Mark::Points | Mark::Dots | Mark::Segments => Some(Block {
                    left: x - MARKER,
                    right: x + MARKER,
                    top: ends[1].min(y - MARKER),
                    bottom: ends[0].max(y + MARKER),
                }),
                Mark::Levels => {
                    Some(Block { left: area.x, right: area.x + area.w, top: y - 1.0, bottom: y + 1.0 })
                }
                _ => None,
            });
        }
    }
    blocks
}

/// Returns the notes that find a place beside their points, each with its left end and baseline.
pub(super) fn notes<'a>(panel: &'a Panel, area: &Area) -> Vec<(&'a Note, f64, f64)> {
    let mut taken = marks(panel, area);
    let mut placed = Vec::new();
    for note in &panel.notes {
        let (x, y, width) = (area.x(panel, note.x), area.y(panel, note.y), text_width(&note.text));
        let sides = [x + ASIDE, x - ASIDE - width, x - width / 2.0];
        let heights = [y - 4.0, y + 4.0, y + LINE + 2.0, y - 8.0, y + LINE + 7.0, y - LINE - 8.0];
        let places = heights.iter().flat_map(|base| sides.map(|left| (left, *base)));
        let block = |(left, base): (f64, f64)| Block {
            left,
            right: left + width,
            top: base - LINE + 2.0,
            bottom: base + 2.0,
        };
        let fits = |place: &(f64, f64)| {
            let block = block(*place);
            let is_inside = block.left >= area.x && block.right <= WIDTH;
            let is_inside = is_inside && block.top >= area.y - 4.0 && block.bottom <= area.y + area.h;
            is_inside && !taken.iter().any(|other| other.covers(&block))
        };
        if let Some(place) = places.into_iter().find(fits) {
            taken.push(block(place));
            placed.push((note, place.0, place.1));
        }
    }
    placed
}

/// Returns the labels below a horizontal axis with their middle and the line in which each stands.
/// Names share the fewest lines in which none touches another. Numbers have one line, and those
/// that would touch their left neighbour are left out, as are names that find no place.
pub(super) fn below<'a>(axis: &'a Axis, area: &Area) -> Vec<(&'a str, f64, usize)> {
    let most = if matches!(axis.scale, Scale::Names(_)) { MAX_LINES } else { 1 };
    let in_lines = |lines: usize| {
        let mut ends = vec![f64::NEG_INFINITY; lines];
        let ticks = axis.ticks.iter().enumerate().filter(|(_, tick)| !tick.label.is_empty());
        let mut placed = Vec::new();
        for (i, tick) in ticks {
            let half = text_width(&tick.label) / 2.0;
            let middle = area.x + area.w * axis.scale.position(tick.at);
            // A label may not reach beyond the figure.
            let middle = middle.min(WIDTH - half - 2.0).max(half + 2.0);
            if middle - half >= ends[i % lines] + 3.0 {
                ends[i % lines] = middle + half;
                placed.push((tick.label.as_str(), middle, i % lines));
            }
        }
        placed
    };
    let labels = axis.ticks.iter().filter(|tick| !tick.label.is_empty()).count();
    let tries = (1..=most).map(in_lines);
    let fits = |placed: &Vec<(&str, f64, usize)>| placed.len() == labels;
    tries.clone().find(fits).or_else(|| tries.clone().next_back()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::super::scale::Unit;
    use super::super::super::scene::Origin;
    use super::super::super::scene::{Row, Scene};
    use super::*;

    const AREA: Area = Area { x: 40.0, y: 30.0, w: 420.0, h: 200.0 };

    fn panel(rows: Vec<Row>) -> Panel {
        let mut scene = Scene::new("x", "x");
        let axis = |name: &str| Axis::linear(name, Unit::None, [0.0, 10.0], true);
        let mut panel = Panel::new(200.0, axis("x"), axis("y"));
        let series = scene.series("effects", 0, Origin::Measured);
        panel.notes =
            rows.iter().map(|row| Note { x: row.x, y: row.y, text: format!("effect {}", row.y) }).collect();
        panel.draw(series, Mark::Points, rows);
        panel.draw(series, Mark::Levels, vec![Row::at(0.0, 5.0)]);
        panel
    }

    #[test]
    fn notes_cover_no_mark_and_no_other_note() {
        // A cluster, a crowd at one place, and both edges.
        let rows =
            [(4.0, 5.1), (4.1, 5.3), (4.2, 5.2), (4.3, 4.9), (10.0, 9.9), (9.9, 9.8), (0.0, 0.1), (0.2, 0.2)];
        let panel = panel(rows.map(|(x, y)| Row::at(x, y)).to_vec());
        let placed = notes(&panel, &AREA);
        assert!(placed.len() >= 6, "most find a place: {}", placed.len());
        let block = |(note, left, base): &(&Note, f64, f64)| Block {
            left: *left,
            right: left + text_width(&note.text),
            top: base - 7.0,
            bottom: *base,
        };
        let blocks: Vec<Block> = placed.iter().map(block).collect();
        for (i, one) in blocks.iter().enumerate() {
            assert!(marks(&panel, &AREA).iter().all(|mark| !mark.covers(one)), "{one:?} lies on a mark");
            assert!(blocks[i + 1..].iter().all(|other| !other.covers(one)), "{one:?} lies on a name");
            assert!(one.left >= AREA.x && one.right <= WIDTH, "{one:?} leaves the figure");
        }
        let many = (0..300).map(|i| Row::at(5.0 + f64::from(i) * 1e-6, 5.0)).collect();
        assert!(notes(&self::panel(many), &AREA).len() < 30, "names without a place are left out");
    }

    #[test]
    fn names_below_an_axis_do_not_touch() {
        for (count, letters) in [(2, 5), (8, 12), (12, 20), (40, 10)] {
            let names = (0..count).map(|i| format!("{i:0letters$}")).collect();
            let axis = Axis::names("x", names);
            let placed = below(&axis, &AREA);
            assert!(
                count == 40 || placed.len() == count,
                "{count} names of {letters} letters: {}",
                placed.len()
            );
            for (i, (text, x, line)) in placed.iter().enumerate() {
                let half = text_width(text) / 2.0;
                let touches = |(other, at, of): &(&str, f64, usize)| {
                    of == line && (at - x).abs() < half + text_width(other) / 2.0 + 2.9
                };
                assert!(!placed[i + 1..].iter().any(touches), "{text} in line {line} of {count}");
                assert!(x - half >= 0.0 && x + half <= WIDTH);
            }
        }
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(fit("window 5000, ack each", 400.0), "window 5000, ack each");
        let short = fit("window 5000, an ACK for each packet, virtual", 100.0);
        assert!(
            text_width(&short) <= 100.0 && short.starts_with("window") && short.ends_with("virtual"),
            "{short}"
        );
    }
}
