//! The report on folders of results: its sections, and its page.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::files::write;
use super::folder::of_folder;
use super::load::all_results;
use super::verdicts::judged;
use crate::experiment::builtin;
use crate::report::{Report, Section, Subject, html, section};
use crate::run::EXPERIMENT_FILE;

/// Name of the report in a folder of results.
pub(super) const REPORT_FILE: &str = "report.html";

/// Returns the sections of the report on folders of results, one for each experiment.
pub(super) fn sections(given: &[PathBuf]) -> Result<Vec<Section>, Failure> {
    let mut sections = Vec::new();
    for folder in all_results(given)? {
        let (loaded, results) = of_folder(&folder)?;
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

/// Returns the report on folders of results.
pub(super) fn whole(given: &[PathBuf]) -> Result<Report, Failure> {
    let sections = sections(given)?;
    let title = match &sections[..] {
        [one] => one.title.clone(),
        several => format!("Results of {} experiments", several.len()),
    };
    Ok(Report { title, sections })
}

/// Writes the page for folders of results, and returns the report.
pub(super) fn page(given: &[PathBuf], path: &Path) -> Result<Report, Failure> {
    let report = whole(given)?;
    write(path, html(&report))?;
    Ok(report)
}
