//! From results to what the report shows.
//!
//! | file | prepares |
//! |---|---|
//! | `select.rs` | groups of cells and their means |
//! | `means.rs` | figures of means: by level, against a factor, with models and published values |
//! | `designs.rs` | factorial designs: marginal means, effects, analysis of variance, heat maps |
//! | `over_time.rs` | figures of series, limits and distributions |
//! | `limits.rs` | the limit that binds each flow, and the number that would lift it |
//! | `tables.rs` | tables and sentences |

mod designs;
mod limits;
mod means;
mod over_time;
mod select;
mod tables;

use crate::claim::Judgement;
use crate::experiment::{Experiment, Figure, FigureKind};
use crate::results::Results;

use super::figure::Heading;
use super::scene::Scene;
use super::section::Section;
pub use limits::{Bound, LIMITS, limits};
use select::View;

/// An experiment with everything that the report needs.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Cells of the experiment with their records, of all engines.
    pub results: &'a Results,
    /// Verdicts of the experiment's claims, of all engines.
    pub judgements: &'a [Judgement],
    /// Command that makes these results again.
    pub command: &'a str,
}

/// Returns the content of the report about an experiment.
pub fn section(subject: &Subject<'_>) -> Section {
    let experiment = subject.experiment;
    Section {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        about: experiment.about.clone(),
        statements: tables::statements(subject),
        judgements: subject.judgements.to_vec(),
        predicates: experiment.claims.iter().map(|claim| (claim.id.clone(), claim.that.clone())).collect(),
        unmet: tables::unmet(subject),
        results: tables::results(subject),
        figures: figures(subject),
        limits: tables::limits(subject),
        losses: tables::losses(subject),
        models: tables::models(subject),
        run: tables::run(subject),
        counts: tables::counts(subject),
        command: subject.command.to_owned(),
        toml: experiment.text.clone(),
        versions: tables::versions(subject),
        cells: tables::cells(subject),
        raw: tables::raw(subject),
    }
}

/// Returns the figures of an experiment: one for each `[[figure]]`, or one for each level of its
/// factor `panel`. Figures without any data are left out.
pub fn figures(subject: &Subject<'_>) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (index, figure) in subject.experiment.figures.iter().enumerate() {
        let levels = figure.panel.as_ref().map(|factor| select::levels(subject, factor));
        let Some(levels) = levels else {
            scenes.extend(one(subject, figure, &format!("{}-{}", subject.experiment.name, index + 1), ""));
            continue;
        };
        for (i, level) in levels.iter().enumerate() {
            let factor = figure.panel.clone().unwrap_or_default();
            let mut part = figure.clone();
            part.only.0.push((factor.clone(), level.clone()));
            let id = format!("{}-{}-{}", subject.experiment.name, index + 1, i + 1);
            scenes.extend(one(subject, &part, &id, &format!(", {factor} {level}")));
        }
    }
    scenes.retain(|scene| scene.layers().next().is_some());
    scenes
}

fn one(subject: &Subject<'_>, figure: &Figure, id: &str, suffix: &str) -> Option<Scene> {
    let view = View::new(subject, figure)?;
    let id = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let title = figure.title.clone().unwrap_or_else(|| view.title(figure.kind));
    let heading = Heading { id, title: title + suffix };
    match figure.kind {
        FigureKind::Means => Some(means::means(&view, heading, false)),
        FigureKind::Interaction => Some(means::means(&view, heading, true)),
        FigureKind::Lines => Some(means::lines(&view, heading)),
        FigureKind::Offered => means::offered(&view, &heading),
        FigureKind::Marginals => Some(designs::marginals(&view, &heading)),
        FigureKind::HalfNormal => designs::half_normal(&view, &heading),
        FigureKind::Heat => designs::heat(&view, &heading),
        FigureKind::Box => Some(over_time::spread(&view, &heading)),
        FigureKind::Cdf => Some(over_time::distribution(&view, &heading)),
        FigureKind::Ellipse => Some(over_time::ellipses(&view, &heading)),
        FigureKind::Series => over_time::series(&view, heading),
        FigureKind::Sequence => over_time::sequence(&view, heading),
        FigureKind::Share => over_time::share(&view, heading),
        FigureKind::Limits => Some(over_time::parts(&view, heading, "limit.")),
        FigureKind::Airtime => Some(over_time::parts(&view, heading, "airtime.")),
        FigureKind::Table => None,
    }
}

#[cfg(test)]
mod tests;
