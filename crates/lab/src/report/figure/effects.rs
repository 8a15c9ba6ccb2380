//! Half-normal plot of the effects of a factorial design.

use crate::statistics::half_normal_scores;

use super::super::palette::DARKEST;
use super::super::scale::{Axis, Unit};
use super::super::scene::{Mark, Note, Origin, Panel, Row, Scene};
use super::{HEIGHT, Quantity};

/// Effect of a factor or of an interaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Name: `sack` or `sack x delay`.
    pub name: String,
    /// Change of the response from the low to the high level.
    pub value: f64,
    /// True if the effect differs from zero by the test of the design.
    pub stands_out: bool,
}

/// Draws the magnitudes of the effects against the quantiles that noise alone would have. Effects
/// of noise are on a line through the origin; effects that stand out are named. `margin` is Lenth's
/// margin of error, if the design is not replicated.
pub fn half_normal(mut scene: Scene, of: &Quantity, all: &[Effect], margin: Option<f64>) -> Scene {
    let mut effects: Vec<&Effect> = all.iter().collect();
    effects.sort_by(|a, b| a.value.abs().total_cmp(&b.value.abs()));
    let scores = half_normal_scores(effects.len());
    let place = |i: usize| Row::at(scores[i], effects[i].value.abs());
    let (out, noise): (Vec<usize>, Vec<usize>) = (0..effects.len()).partition(|i| effects[*i].stands_out);
    let x =
        Axis::linear("quantile of the half-normal distribution", Unit::None, scores.iter().copied(), true);
    let values = effects.iter().map(|effect| effect.value.abs()).chain(margin);
    let mut panel = Panel::new(HEIGHT, x, Axis::linear(&of.name, of.unit, values, true));
    let series = scene.series("effects that stand out", 1, Origin::Measured);
    panel.draw(series, Mark::Points, out.iter().map(|i| place(*i)).collect());
    let series = scene.series("effects within the noise", 0, Origin::Measured);
    panel.draw(series, Mark::Points, noise.iter().map(|i| place(*i)).collect());
    panel.layers.iter_mut().filter(|layer| layer.series == series).for_each(|layer| layer.muted = true);
    if let Some(margin) = margin {
        let series = scene.series("margin of error (Lenth)", DARKEST, Origin::Theory);
        panel.draw(series, Mark::Levels, vec![Row::at(0.0, margin)]);
    }
    // The largest effects are named first. The writer leaves out names that find no place.
    for i in out.iter().rev() {
        let Row { x, y, .. } = place(*i);
        let sign = if effects[*i].value < 0.0 { "\u{2212}" } else { "+" };
        panel.notes.push(Note { x, y, text: format!("{sign} {}", effects[*i].name) });
    }
    scene.panels.push(panel);
    let names: Vec<&str> = out.iter().rev().map(|i| effects[*i].name.as_str()).collect();
    scene.description = if names.is_empty() {
        format!("None of {} effects stands out of the noise.", effects.len())
    } else {
        let test = if margin.is_some() { "Lenth's margin of error" } else { "its own 95 % interval" };
        let (count, names) = (effects.len(), names.join(", "));
        format!("Of {count} effects these stand out, each by {test}, the largest first: {names}.")
    };
    scene
}
