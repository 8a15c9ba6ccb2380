//! Text of loss models: `1%`, `0s:0%, 10s:1%`, `1% max-run=3`, `gilbert-elliott p=1% r=25%`,
//! `every 100`, `packets 7,9-12`.

use std::num::{NonZeroU32, NonZeroU64};

use super::{NONE, Value, is_none};
use crate::loss::{GilbertElliott, Loss};
use crate::probability::Probability;
use crate::schedule::Schedule;

const GILBERT_ELLIOTT: &str = "gilbert-elliott";
const EVERY: &str = "every";
const PACKETS: &str = "packets";
const MAX_RUN: &str = "max-run=";

/// Limit on the packets of a script, so that a mistyped range cannot exhaust the memory.
const MAX_SCRIPT_PACKETS: usize = 1_000_000;

impl Value for Loss {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(Self::None);
        }
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match name.to_ascii_lowercase().as_str() {
            GILBERT_ELLIOTT => gilbert_elliott(rest).map(Self::GilbertElliott),
            EVERY => every(rest.trim()).map(Self::EveryNth),
            PACKETS => script(rest).map(Self::script),
            _ => independent(text),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::None => NONE.to_owned(),
            Self::Bernoulli(probability) => probability.write(),
            Self::Steps(schedule) => schedule.write(),
            Self::Bounded { probability, max_run } => format!("{} {MAX_RUN}{max_run}", probability.write()),
            Self::GilbertElliott(GilbertElliott { p, r, loss_good, loss_bad }) => {
                format!("{GILBERT_ELLIOTT} p={p} r={r} good={loss_good} bad={loss_bad}")
            }
            Self::EveryNth(n) => format!("{EVERY} {n}"),
            Self::Script(indices) => format!("{PACKETS} {}", ranges(indices)),
        }
    }
}

fn independent(text: &str) -> Result<Loss, String> {
    if text.contains([',', ':']) {
        let steps = Schedule::read(text)?;
        return Ok(if steps.is_constant() { Loss::Bernoulli(steps.parts().0) } else { Loss::Steps(steps) });
    }
    let Some((probability, max_run)) = text.split_once(MAX_RUN) else {
        return Probability::read(text).map(Loss::Bernoulli);
    };
    let max_run: NonZeroU32 =
        max_run.trim().parse().map_err(|_| format!("'{max_run}' is not a number of packets from 1 on"))?;
    Ok(Loss::Bounded { probability: Probability::read(probability.trim())?, max_run })
}

fn every(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number of packets from 1 on"))
}

fn gilbert_elliott(text: &str) -> Result<GilbertElliott, String> {
    let (mut p, mut r) = (None, None);
    let (mut loss_good, mut loss_bad) = (Probability::ZERO, Probability::ONE);
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return Err(format!("'{word}' is not p=, r=, good= or bad= with a probability"));
        };
        let value = Probability::read(value)?;
        match name {
            "p" => p = Some(value),
            "r" => r = Some(value),
            "good" => loss_good = value,
            "bad" => loss_bad = value,
            _ => return Err(format!("'{name}' is not p, r, good or bad")),
        }
    }
    let missing =
        |name, meaning| format!("{name}= is missing: the probability of going from {meaning} after a packet");
    Ok(GilbertElliott {
        p: p.ok_or_else(|| missing("p", "good to bad"))?,
        r: r.ok_or_else(|| missing("r", "bad to good"))?,
        loss_good,
        loss_bad,
    })
}

fn script(text: &str) -> Result<Vec<u64>, String> {
    let mut indices = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |text: &str| {
            let number = text.trim().parse::<u64>();
            number.map_err(|_| format!("'{part}' is not a packet's number, from 0, or a range such as 30-35"))
        };
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(format!("'{part}' goes backwards"));
        }
        if to - from >= (MAX_SCRIPT_PACKETS - indices.len()) as u64 {
            return Err(format!("'{part}' makes more than {MAX_SCRIPT_PACKETS} packets"));
        }
        indices.extend(from..=to);
    }
    Ok(indices)
}

/// Writes ascending numbers, with consecutive numbers as a range: `7,30-35`.
fn ranges(indices: &[u64]) -> String {
    let runs = indices.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let texts = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    texts.collect::<Vec<_>>().join(",")
}
