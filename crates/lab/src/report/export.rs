//! Exported files of a figure: CSV, gnuplot, xplot.

use super::scale::{Axis, Scale};
use super::scene::{Layer, Mark, Panel, Row, Scene};

/// Header of exported tables.
const HEADER: [&str; 9] = ["panel", "series", "kind", "mark", "x", "value", "low", "high", "n"];

/// Returns records of equal length as CSV.
pub(crate) fn records<T: AsRef<[u8]>>(
    records: impl IntoIterator<Item = impl IntoIterator<Item = T>>,
) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        writer.write_record(record).expect("a vector accepts all records");
    }
    let bytes = writer.into_inner().expect("a vector accepts all records");
    String::from_utf8(bytes).expect("all fields are texts")
}

fn cell(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

/// Returns a value on an axis: on an axis of names, the name.
fn on_axis(axis: &Axis, value: f64) -> String {
    axis.scale.name(value).map_or_else(|| cell(value), str::to_owned)
}

/// Returns the data of all marks as CSV: one line for each row of each layer, in the order of
/// drawing. Values have all digits and are in base units (bits per second, seconds, bytes, shares
/// of 1).
pub fn csv(scene: &Scene) -> String {
    let of_layer = |(panel, layer): (&Panel, &Layer)| {
        let series = &scene.series[layer.series];
        let words = [panel.y.label.as_str(), &series.name, series.origin.word(), layer.mark.words()[1]];
        let record = |row: &Row| {
            let [low, high] = [row.low, row.high].map(|end| end.map_or_else(String::new, cell));
            let n = row.n.map_or_else(String::new, |n| n.to_string());
            let numbers = [on_axis(&panel.x, row.x), on_axis(&panel.y, row.y), low, high, n];
            words.map(str::to_owned).into_iter().chain(numbers).collect::<Vec<String>>()
        };
        layer.rows.iter().map(record).collect::<Vec<_>>()
    };
    let header = HEADER.map(str::to_owned).to_vec();
    records(std::iter::once(header).chain(scene.layers().flat_map(of_layer)))
}

fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn axis_commands(name: &str, axis: &Axis) -> String {
    let mut out = format!("set {name}label {}\n", string(&axis.label));
    let (low, high) = axis.scale.ends();
    let factor = if matches!(axis.scale, Scale::Names(_)) { 1.0 } else { axis.factor };
    let log = if matches!(axis.scale, Scale::Log { .. }) { "set" } else { "unset" };
    put!(out, "{log} logscale {name}\nset {name}range [{}:{}]\n", low * factor, high * factor);
    let ticks: Vec<String> =
        axis.ticks.iter().map(|tick| format!("{} {}", string(&tick.label), tick.at * factor)).collect();
    out + &format!("set {name}tics ({})\n", ticks.join(", "))
}

/// Returns two files that draw the panels of a scene below each other with gnuplot, in shown units:
/// `ID.gp` has the commands, and `ID.dat` the data in blocks.
pub fn gnuplot(scene: &Scene) -> [String; 2] {
    let id = &scene.id;
    let mut data = format!("# {}\n# columns: x value low high n\n", scene.title);
    let mut commands = format!(
        "# gnuplot {id}.gp writes {id}.pdf\nset terminal pdfcairo size 12cm,{}cm font \",8\"\n\
         set output \"{id}.pdf\"\nset key outside top horizontal\nset grid\nset multiplot layout {},1\n",
        8 + 4 * (scene.panels.len().saturating_sub(1)),
        scene.panels.len().max(1)
    );
    let mut block = 0;
    for panel in &scene.panels {
        commands += &axis_commands("x", &panel.x);
        commands += &axis_commands("y", &panel.y);
        let mut plots = Vec::new();
        for layer in &panel.layers {
            let series = &scene.series[layer.series];
            put!(data, "\n\n# {}: {}\n", panel.y.label, series.name);
            for row in &layer.rows {
                data += &data_line(row, panel.x.factor, panel.y.factor);
            }
            let colour = super::palette::LIGHT[series.look % super::palette::LIGHT.len()];
            let [.., columns, style] = layer.mark.words();
            plots.push(format!(
                "  \"{id}.dat\" index {block} using {columns} with {style} lc rgb \"{colour}\" title {}",
                string(&series.name)
            ));
            block += 1;
        }
        put!(
            commands,
            "plot \\\n{}\n",
            if plots.is_empty() { "  0".to_owned() } else { plots.join(", \\\n") }
        );
    }
    commands += "unset multiplot\n";
    [commands, data]
}

fn data_line(row: &Row, x: f64, y: f64) -> String {
    let number = |value: f64| if value.is_finite() { format!("{value}") } else { "nan".to_owned() };
    let end = |value: Option<f64>| number(value.map_or(row.y, |end| end) * y);
    let n = row.n.map_or_else(|| "nan".to_owned(), |n| n.to_string());
    format!("{} {} {} {} {n}\n", number(row.x * x), number(row.y * y), end(row.low), end(row.high))
}

/// Colours of xplot, in the order of series.
const XPLOT: [&str; 7] = ["blue", "red", "green", "magenta", "white", "purple", "orange"];

/// Returns a panel for xplot, the viewer of tcptrace's graphs: lines, dots, intervals as bars.
/// `None` if there is no such panel or its axes have names.
pub fn xplot(scene: &Scene, panel: usize) -> Option<String> {
    let panel = scene.panels.get(panel)?;
    if [&panel.x, &panel.y].iter().any(|axis| matches!(axis.scale, Scale::Names(_))) {
        return None;
    }
    let mut out = format!(
        "double double\ntitle\n{}\nxlabel\n{}\nylabel\n{}\n",
        scene.title, panel.x.label, panel.y.label
    );
    let at = |row: &Row| (row.x * panel.x.factor, row.y * panel.y.factor);
    for layer in &panel.layers {
        put!(out, "{}\n", XPLOT[scene.series[layer.series].look % XPLOT.len()]);
        let finite: Vec<&Row> =
            layer.rows.iter().filter(|row| row.x.is_finite() && row.y.is_finite()).collect();
        for row in &finite {
            let (x, y) = at(row);
            if let (Some(low), Some(high), Mark::Points | Mark::Segments) = (row.low, row.high, layer.mark) {
                put!(out, "line {x} {} {x} {}\n", low * panel.y.factor, high * panel.y.factor);
            }
            match layer.mark {
                Mark::Points => put!(out, "diamond {x} {y}\n"),
                Mark::Dots => put!(out, "dot {x} {y}\n"),
                Mark::Rules => put!(out, "utick {x} {y}\n"),
                _ => {}
            }
        }
        if let Mark::Bins(width) = layer.mark {
            for (x, y) in finite.iter().map(|row| at(row)) {
                put!(out, "line {} {y} {x} {y}\n", x - width * panel.x.factor);
            }
        }
        if matches!(layer.mark, Mark::Line | Mark::Steps) {
            for pair in finite.windows(2) {
                let ((a, b), (c, d)) = (at(pair[0]), at(pair[1]));
                if layer.mark == Mark::Steps {
                    put!(out, "line {a} {b} {c} {b}\nline {c} {b} {c} {d}\n");
                } else {
                    put!(out, "line {a} {b} {c} {d}\n");
                }
            }
        }
    }
    Some(out + "go\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests as samples;
    use super::*;

    #[test]
    fn csv_has_a_line_for_each_row() {
        for scene in samples::gallery() {
            let rows: usize = scene.layers().map(|(_, layer)| layer.rows.len()).sum();
            let text = csv(&scene);
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let records: Vec<csv::StringRecord> =
                reader.records().collect::<Result<_, _>>().expect("a valid table");
            assert_eq!(records.len(), rows, "{}", scene.id);
        }
        let text = csv(&samples::side_by_side());
        assert!(text.contains("newreno,measured,point,off,5780000.25,5700000,5860000.5,20\n"), "{text}");
    }

    #[test]
    fn gnuplot_reads_a_block_for_each_layer() {
        let [commands, data] = gnuplot(&samples::against_window());
        let blocks = data.matches("\n\n\n# ").count();
        assert_eq!(commands.matches(" index ").count(), blocks);
        assert!(commands.contains("set logscale x"));
        assert!(data.lines().all(|line| !line.contains("inf")));
    }

    #[test]
    fn xplot_ends_with_go() {
        let text = xplot(&samples::against_window(), 0).expect("numeric axes");
        assert!(text.starts_with("double double\ntitle\n") && text.ends_with("\ngo\n"));
        assert_eq!(xplot(&samples::side_by_side(), 0), None, "names are no numbers");
    }
}
