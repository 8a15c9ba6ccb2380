//! A value that changes at given times: `10mbit`, `0s:10mbit,5s:2mbit`.

use std::time::Duration;

use super::Word;

/// A first value and its successors, each from its own time on, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct Steps<T> {
    pub(in super::super) first: T,
    pub(in super::super) changes: Vec<(Duration, T)>,
}

impl<T: Word> Word for Steps<T> {
    fn read(text: &str) -> Result<Self, String> {
        let (first, rest) = text.split_once(',').map_or((text, None), |(first, rest)| (first, Some(rest)));
        let (None | Some(Duration::ZERO), first) = timed(first)? else {
            return Err(format!("'{}' leaves open what holds from 0s on", first.trim()));
        };
        let mut changes: Vec<(Duration, T)> = Vec::new();
        for text in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (Some(at), value) = timed(text)? else {
                return Err(format!("'{0}' has no time: write 5s:{0}", text.trim()));
            };
            if at <= changes.last().map_or(Duration::ZERO, |last| last.0) {
                return Err(format!("'{}' is no later than the step before it", text.trim()));
            }
            changes.push((at, value));
        }
        Ok(Self { first, changes })
    }

    fn write(&self) -> String {
        let changes = self.changes.iter().map(|(at, value)| format!(", {}:{}", at.write(), value.write()));
        std::iter::once(self.first.write()).chain(changes).collect()
    }
}

/// A value and the time before it, if there is one.
fn timed<T: Word>(text: &str) -> Result<(Option<Duration>, T), String> {
    match text.split_once(':') {
        Some((at, value)) => Ok((Some(Duration::read(at.trim())?), T::read(value.trim())?)),
        None => Ok((None, T::read(text.trim())?)),
    }
}
