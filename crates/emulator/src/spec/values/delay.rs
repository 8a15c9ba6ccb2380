//! Text forms of times, jitter (`5ms`, `normal 2ms unordered`) and reordering (`1% by 5ms`).

use std::time::Duration;

use super::{NONE, Value, is_none, strip_last};
use crate::delay::{Jitter, JitterShape, Reorder};
use crate::probability::Probability;
use crate::units::{parse_duration, write_duration};

const UNIFORM: &str = "uniform";
const NORMAL: &str = "normal";
const UNORDERED: &str = "unordered";

impl Value for Duration {
    fn read(text: &str) -> Result<Self, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }

    fn write(&self) -> String {
        if self.is_zero() { "0s".to_owned() } else { write_duration(*self) }
    }
}

impl Value for Option<Jitter> {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(None);
        }
        let (shape, keeps_order) = strip_last(text, UNORDERED).map_or((text, true), |rest| (rest, false));
        let (name, time) = shape.split_once(char::is_whitespace).unwrap_or((UNIFORM, shape));
        let shape = match name.to_ascii_lowercase().as_str() {
            UNIFORM => JitterShape::Uniform(Duration::read(time.trim())?),
            NORMAL => JitterShape::Normal(Duration::read(time.trim())?),
            // `5 ms` with a space is a time too.
            _ => JitterShape::Uniform(Duration::read(shape)?),
        };
        Ok(Some(Jitter { shape, keeps_order }))
    }

    fn write(&self) -> String {
        let Some(Jitter { shape, keeps_order }) = self else { return NONE.to_owned() };
        let shape = match shape {
            JitterShape::Uniform(spread) => spread.write(),
            JitterShape::Normal(deviation) => format!("{NORMAL} {}", deviation.write()),
        };
        if *keeps_order { shape } else { format!("{shape} {UNORDERED}") }
    }
}

impl Value for Option<Reorder> {
    fn read(text: &str) -> Result<Self, String> {
        if is_none(text) {
            return Ok(None);
        }
        let Some((probability, extra)) = text.split_once(" by ") else {
            return Err(format!("'{text}' does not say by how much: write 1% by 5ms"));
        };
        let probability = Probability::read(probability.trim())?;
        Ok(Some(Reorder { probability, extra: Duration::read(extra.trim())? }))
    }

    fn write(&self) -> String {
        let written = |it: &Reorder| format!("{} by {}", it.probability.write(), it.extra.write());
        self.as_ref().map_or_else(|| NONE.to_owned(), written)
    }
}
