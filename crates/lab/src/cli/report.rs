//! `rdt-lab report` and `export`, and the report at the end of `run`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args::{ExportArgs, LimitsArgs, ReportArgs};
use super::failure::Failure;
use super::verdicts::{judged, of_folder};
use super::{output, talk};
use crate::experiment::builtin;
use crate::report::export::{csv, gnuplot, xplot};
use crate::report::{self, Bound, LIMITS, Place, Report, Scene, Section, Subject, html, section, svg, text};
use crate::run::EXPERIMENT_FILE;

/// Name of the report in a folder of results.
pub(super) const REPORT_FILE: &str = "report.html";

/// Returns the folders of results of single experiments: these, or those within them.
fn folders(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for folder in given {
        if folder.join(EXPERIMENT_FILE).exists() {
            found.push(folder.clone());
            continue;
        }
        let entries = fs::read_dir(folder).map_err(|error| Failure::Read(folder.clone(), error))?;
        let mut within: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        within.retain(|path| path.join(EXPERIMENT_FILE).exists());
        within.sort();
        if within.is_empty() {
            let message = format!("{} has no results; 'rdt-lab run ID' makes some", folder.display());
            return Err(Failure::Usage(message));
        }
        found.extend(within);
    }
    Ok(found)
}

fn sections(given: &[PathBuf]) -> Result<Vec<Section>, Failure> {
    let mut sections = Vec::new();
    for folder in folders(given)? {
        let (loaded, results, torn) = of_folder(&folder)?;
        for torn in &torn {
            talk(torn);
        }
        let judgements = judged(&loaded, &results);
        let shipped = builtin().iter().find(|it| it.text == loaded.experiment.text);
        let name = shipped.map_or(EXPERIMENT_FILE, |it| it.id);
        let mut engines: Vec<&str> = results.cells.iter().map(|cell| cell.physics.engine.word()).collect();
        engines.dedup();
        let command = format!("rdt-lab run {name} --engine {}", engines.join(","));
        let subject = Subject {
            experiment: &loaded.experiment,
            results: &results,
            judgements: &judgements,
            command: &command,
        };
        let mut section = section(&subject);
        if let Some(shipped) = shipped {
            shipped.id.clone_into(&mut section.name);
        }
        sections.push(section);
    }
    Ok(sections)
}

fn whole(given: &[PathBuf]) -> Result<Report, Failure> {
    let sections = sections(given)?;
    let title = match &sections[..] {
        [one] => one.title.clone(),
        several => format!("Report on {} experiments", several.len()),
    };
    Ok(Report { title, sections })
}

/// Writes a file as a whole or not at all.
pub(super) fn write(path: &Path, content: &str) -> Result<(), Failure> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let written = fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        Failure::Create(path.to_owned(), error)
    })
}

/// Writes the page for folders of results, and returns its content.
pub(super) fn page(given: &[PathBuf], path: &Path) -> Result<Report, Failure> {
    let report = whole(given)?;
    write(path, &html(&report))?;
    Ok(report)
}

pub(super) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    if args.text {
        output::text(&text(&whole(&args.folders)?))?;
        return Ok(0);
    }
    let path = args.output.clone().unwrap_or_else(|| args.folders[0].join(REPORT_FILE));
    page(&args.folders, &path)?;
    output::text(&format!("The report is {}\n", path.display()))?;
    Ok(0)
}

fn wanted(args: &ExportArgs, kind: &str) -> bool {
    match kind {
        "svg" => args.svg,
        "csv" => args.csv,
        "gnuplot" => args.gnuplot,
        _ => args.xplot,
    }
}

/// Returns the files of a figure of the kinds svg, csv, gnuplot and xplot: endings and contents.
pub(super) fn files(scene: &Scene, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut files = Vec::new();
    if wanted("svg") {
        files.push(("svg".to_owned(), svg(scene, Place::File)));
    }
    if wanted("csv") {
        files.push(("csv".to_owned(), csv(scene)));
    }
    if wanted("gnuplot") {
        let gnuplot = gnuplot(scene);
        files.extend([("gp".to_owned(), gnuplot.commands), ("dat".to_owned(), gnuplot.data)]);
    }
    if wanted("xplot") {
        let panels = (0..scene.panels.len()).filter_map(|i| Some((i, xplot(scene, i)?)));
        files.extend(panels.map(|(i, text)| (format!("{}.xpl", i + 1), text)));
    }
    files
}

pub(super) fn limits(args: &LimitsArgs) -> Result<u8, Failure> {
    for folder in folders(&args.folders)? {
        let (loaded, results, torn) = of_folder(&folder)?;
        for torn in &torn {
            talk(torn);
        }
        let experiment = &loaded.experiment;
        let subject = Subject { experiment, results: &results, judgements: &[], command: "" };
        let bounds = report::limits(&subject);
        if args.json {
            for it in &bounds {
                output::json(&limits_object(&experiment.name, it))?;
            }
        } else {
            output::text(&limits_table(&experiment.name, &bounds))?;
        }
    }
    Ok(0)
}

fn limits_object(experiment: &str, it: &Bound) -> Value {
    let shares = LIMITS.iter().zip(it.shares).map(|((word, _), share)| ((*word).to_owned(), share.into()));
    json!({
        "experiment": experiment,
        "levels": it.levels,
        "engine": it.engine.word(),
        "flow": it.flow,
        "shares": Value::Object(shares.collect()),
        "largest": it.largest().0,
        "remedy": it.remedy,
    })
}

/// Returns a table with a line for each flow of each cell. Limits that bind no flow are left out.
fn limits_table(experiment: &str, bounds: &[Bound]) -> String {
    let binds = |i: usize| bounds.iter().any(|it| it.shares[i] >= 0.0005);
    let columns: Vec<usize> = (0..LIMITS.len()).filter(|i| binds(*i)).collect();
    let head = ["cell", "engine", "flow"].map(str::to_owned).into_iter();
    let head = head.chain(columns.iter().map(|i| LIMITS[*i].0.to_owned())).chain(["lifted by".to_owned()]);
    let mut rows = vec![head.collect::<Vec<String>>()];
    rows.extend(bounds.iter().map(|it| {
        let words = [it.levels.clone(), it.engine.to_string(), it.flow.clone()].into_iter();
        let shares = columns.iter().map(|i| format!("{:.1} %", it.shares[*i] * 100.0));
        words.chain(shares).chain([it.remedy.clone().unwrap_or_default()]).collect()
    }));
    format!("{experiment}: share of each flow's life by what limits it\n{}", output::table(&rows))
}

pub(super) fn export(args: &ExportArgs) -> Result<u8, Failure> {
    let all = !(args.svg || args.csv || args.gnuplot || args.xplot);
    fs::create_dir_all(&args.output).map_err(|error| Failure::Create(args.output.clone(), error))?;
    let mut count = 0;
    for section in sections(&args.folders)? {
        for scene in &section.figures {
            let files = files(scene, |kind| all || wanted(args, kind));
            for (end, content) in files {
                write(&args.output.join(format!("{}.{end}", scene.id)), &content)?;
                count += 1;
            }
        }
    }
    output::text(&format!("{count} files in {}\n", args.output.display()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_within_a_folder_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let error = folders(&[root.path().to_owned()]).expect_err("nothing there");
        assert!(error.to_string().contains("has no results; 'rdt-lab run ID' makes some"), "{error}");
        for name in ["b", "a"] {
            fs::create_dir(root.path().join(name)).expect("a folder");
            fs::write(root.path().join(name).join(EXPERIMENT_FILE), "").expect("a file");
        }
        let found = folders(&[root.path().to_owned()]).expect("two folders");
        assert_eq!(found, ["a", "b"].map(|name| root.path().join(name)));
        assert_eq!(folders(&found[1..]).expect("the folder itself"), &found[1..]);
    }
}
