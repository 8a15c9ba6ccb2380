//! From results to what the report shows.
//!
//! | file | prepares |
//! |---|---|
//! | `select.rs` | groups of cells and their means |
//! | `means.rs` | figures of means: by level, against a factor, with models and published values |
//! | `designs.rs` | factorial designs: marginal means, effects, analysis of variance, heat maps |
//! | `over_time.rs` | figures of series, limits and distributions |
//! | `missing.rs` | metrics that some repetitions lack |
//! | `obvious.rs` | the figure of an experiment that asks for none |
//! | `limits.rs` | the limit that binds each flow, and the number that would lift it |
//! | `reasons.rs` | why a published value is outside of its tolerance |
//! | `tables.rs` | tables and sentences |
//! | `words.rs` | levels and units in words |

mod designs;
mod limits;
mod means;
mod missing;
mod obvious;
mod over_time;
mod reasons;
mod select;
mod tables;
mod words;

use crate::claim::Judgement;
use crate::experiment::{Experiment, Figure, FigureKind};
use crate::results::Results;

use super::html::anchor;
use super::scene::Scene;
use super::section::Section;
pub use limits::{Bound, LIMITS, limits};
pub use reasons::reason;
use select::View;
pub use tables::expected_values;

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
    let expected = expected_values(experiment, subject.results);
    Section {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        about: experiment.about.clone(),
        statements: tables::statements(subject),
        judgements: subject.judgements.to_vec(),
        predicates: experiment.claims.iter().map(|claim| (claim.id.clone(), claim.that.clone())).collect(),
        unmet: expected.iter().filter(|(_, it)| it.fails()).count(),
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
/// factor `panel`; without any, the obvious one. Figures without any data are left out.
pub fn figures(subject: &Subject<'_>) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (index, figure) in obvious::figures(subject).iter().enumerate() {
        let id = format!("{}-{}", subject.experiment.name, index + 1);
        let Some(factor) = &figure.panel else {
            scenes.extend(one(subject, figure, &id, ""));
            continue;
        };
        for (i, level) in select::levels(subject, factor).into_iter().enumerate() {
            let (id, suffix) = (format!("{id}-{}", i + 1), format!(", {factor} {level}"));
            let mut part = figure.clone();
            part.only.0.push((factor.clone(), level));
            scenes.extend(one(subject, &part, &id, &suffix));
        }
    }
    scenes.retain(|scene| scene.layers().next().is_some());
    scenes
}

fn one(subject: &Subject<'_>, figure: &Figure, id: &str, suffix: &str) -> Option<Scene> {
    let view = View::new(subject, figure)?;
    let title = figure.title.clone().unwrap_or_else(|| view.title());
    let scene = Scene::new(&anchor(id), &(title + suffix));
    match figure.kind {
        FigureKind::Means => Some(means::means(&view, scene, false)),
        FigureKind::Interaction => Some(means::means(&view, scene, true)),
        FigureKind::Lines => Some(means::lines(&view, scene)),
        FigureKind::Offered => means::offered(&view, scene),
        FigureKind::Marginals => Some(designs::marginals(&view, scene)),
        FigureKind::HalfNormal => designs::half_normal(&view, scene),
        FigureKind::Heat => designs::heat(&view, scene),
        FigureKind::Box => Some(over_time::spread(&view, scene)),
        FigureKind::Cdf => Some(over_time::distribution(&view, scene)),
        FigureKind::Ellipse => Some(over_time::ellipses(&view, scene)),
        FigureKind::Series => over_time::series(&view, scene),
        FigureKind::Sequence => over_time::sequence(&view, scene),
        FigureKind::Share => over_time::share(&view, scene),
        FigureKind::Limits => Some(over_time::parts(&view, scene, "limit.")),
        FigureKind::Airtime => Some(over_time::parts(&view, scene, "airtime.")),
        FigureKind::Table => None,
    }
}

#[cfg(test)]
mod tests;
