//! The report on folders of results: its sections, and its page.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::files::write;
use super::folder::of_folder;
use super::load::{all_results, results_in};
use super::talk;
use super::verdicts::judged;
use crate::experiment::builtin;
use crate::report::{Report, Section, Subject, html, section};
use crate::run::EXPERIMENT_FILE;

/// Name of the report in a folder of results.
pub(super) const REPORT_FILE: &str = "report.html";

/// Returns the sections of the report on folders of results, one for each experiment.
pub(super) fn sections(given: &[PathBuf]) -> Result<Vec<Section>, Failure> {
    all_results(given)?.iter().map(|folder| section_of(folder)).collect()
}

/// Returns the section of the report on one folder of results.
fn section_of(folder: &Path) -> Result<Section, Failure> {
    let (loaded, results) = of_folder(folder)?;
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
    Ok(section)
}

/// Returns the report on folders of results.
pub(super) fn whole(given: &[PathBuf]) -> Result<Report, Failure> {
    let sections = sections(given)?;
    Ok(Report { title: title(&sections), sections })
}

fn title(sections: &[Section]) -> String {
    match sections {
        [one] => one.title.clone(),
        several => format!("Results of {} experiments", several.len()),
    }
}

/// Writes the page for all results in a folder, and returns the sections of those in `ran`. Results
/// that others left there and that cannot be read are named, and not on the page.
pub(super) fn page(output: &Path, ran: &[PathBuf]) -> Result<Vec<Section>, Failure> {
    let (mut all, mut own) = (Vec::new(), Vec::new());
    for folder in results_in(output)? {
        match section_of(&folder) {
            Ok(section) if ran.contains(&folder) => {
                own.push(section.clone());
                all.push(section);
            }
            Ok(section) => all.push(section),
            Err(error) if ran.contains(&folder) => return Err(error),
            Err(error) => talk(&format!("{} is not in the report: {error}", folder.display())),
        }
    }
    write(&output.join(REPORT_FILE), html(&Report { title: title(&all), sections: all }))?;
    Ok(own)
}
