//! Files of reports and figures.

use std::fs;
use std::path::Path;

use super::failure::Failure;
use crate::journal::write_whole;
use crate::report::export::{csv, gnuplot, xplot};
use crate::report::{Place, Scene, svg};

/// Writes a file that appears whole or not at all.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let written = write_whole(path, |file| fs::write(file, content));
    written.map_err(|error| Failure::Create(path.to_owned(), error))
}

/// Returns the files of a figure, each with its ending and content. `wanted` selects the kinds
/// `svg`, `csv`, `gnuplot` and `xplot`.
pub(super) fn files(scene: &Scene, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut files = Vec::new();
    if wanted("svg") {
        files.push(("svg".to_owned(), svg(scene, Place::File)));
    }
    if wanted("csv") {
        files.push(("csv".to_owned(), csv(scene)));
    }
    if wanted("gnuplot") {
        files.extend(["gp", "dat"].map(str::to_owned).into_iter().zip(gnuplot(scene)));
    }
    if wanted("xplot") {
        let panels = (0..scene.panels.len()).filter_map(|i| Some((i, xplot(scene, i)?)));
        files.extend(panels.map(|(i, text)| (format!("{}.xpl", i + 1), text)));
    }
    files
}
