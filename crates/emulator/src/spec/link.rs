//! Values of the keys of one direction, and their conversion to a [`LinkConfig`].

use std::time::Duration;

use super::key::LinkKey;
use super::values::{MarkSpec, QueueSpec, RateSpec, Value};
use crate::bitrate::Bitrate;
use crate::config::LinkConfig;
use crate::delay::{Jitter, Reorder};
use crate::loss::Loss;
use crate::mtu::Mtu;
use crate::outage::Outage;
use crate::probability::Probability;
use crate::queue::{Discipline, Marking, Occupancy, QueueLimit, QueueSize};
use crate::rate::{Trace, VaryingRate};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LinkSpec {
    pub(super) rate: RateSpec,
    pub(super) delay: Duration,
    pub(super) jitter: Option<Jitter>,
    pub(super) loss: Loss,
    pub(super) outage: Outage,
    pub(super) queue: QueueSpec,
    pub(super) discipline: Discipline,
    pub(super) occupancy: Occupancy,
    pub(super) mark: Option<MarkSpec>,
    pub(super) mtu: Mtu,
    pub(super) duplicate: Probability,
    pub(super) corrupt: Probability,
    pub(super) reorder: Option<Reorder>,
    /// `None` if the key is not set: 0 bytes, unless
    /// [`PathSpec::assume_headers`](super::PathSpec::assume_headers) sets it.
    pub(super) headers: Option<u32>,
    pub(super) framing: u32,
}

/// Lower bound of the queue limit for the value `auto`: 64 KiB.
const MIN_AUTO_QUEUE_BYTES: u64 = 64 << 10;
/// Lower bound of a queue limit given in bandwidth-delay products: one packet.
const MIN_BDP_QUEUE_BYTES: u64 = 1_500;
const ONE_BDP: QueueSize = QueueSize::BdpMillionths(1_000_000);

impl LinkSpec {
    /// Parses the value of a key. The error is a sentence about `text`.
    pub(super) fn set(&mut self, key: LinkKey, text: &str) -> Result<(), String> {
        match key {
            LinkKey::Rate => read_into(&mut self.rate, text),
            LinkKey::Delay => read_into(&mut self.delay, text),
            LinkKey::Jitter => read_into(&mut self.jitter, text),
            LinkKey::Loss => read_into(&mut self.loss, text),
            LinkKey::Outage => read_into(&mut self.outage, text),
            LinkKey::Queue => read_into(&mut self.queue, text),
            LinkKey::Discipline => read_into(&mut self.discipline, text),
            LinkKey::Occupancy => read_into(&mut self.occupancy, text),
            LinkKey::Mark => read_into(&mut self.mark, text),
            LinkKey::Mtu => read_into(&mut self.mtu, text),
            LinkKey::Duplicate => read_into(&mut self.duplicate, text),
            LinkKey::Corrupt => read_into(&mut self.corrupt, text),
            LinkKey::Reorder => read_into(&mut self.reorder, text),
            LinkKey::Headers => read_into(self.headers.get_or_insert_default(), text),
            LinkKey::Framing => read_into(&mut self.framing, text),
        }
    }

    /// Returns the value of a key as text that [`set`](Self::set) parses.
    pub(super) fn text(&self, key: LinkKey) -> String {
        match key {
            LinkKey::Rate => self.rate.write(),
            LinkKey::Delay => self.delay.write(),
            LinkKey::Jitter => self.jitter.write(),
            LinkKey::Loss => self.loss.write(),
            LinkKey::Outage => self.outage.write(),
            LinkKey::Queue => self.queue.write(),
            LinkKey::Discipline => self.discipline.write(),
            LinkKey::Occupancy => self.occupancy.write(),
            LinkKey::Mark => self.mark.write(),
            LinkKey::Mtu => self.mtu.write(),
            LinkKey::Duplicate => self.duplicate.write(),
            LinkKey::Corrupt => self.corrupt.write(),
            LinkKey::Reorder => self.reorder.write(),
            // Empty if the key is not set. `0` would prevent `assume_headers`.
            LinkKey::Headers => self.headers.as_ref().map(Value::write).unwrap_or_default(),
            LinkKey::Framing => self.framing.write(),
        }
    }

    /// Returns the name of the trace file, if a trace gives the rate.
    pub(super) fn trace(&self) -> Option<&str> {
        match &self.rate {
            RateSpec::Trace(file) => Some(file),
            RateSpec::Steps(_) | RateSpec::Wifi(..) => None,
        }
    }

    /// Gives the trace file, if there is one, another name.
    pub(super) fn rename_trace(&mut self, rename: impl Fn(&str) -> String) {
        if let RateSpec::Trace(file) = &mut self.rate {
            *file = rename(file);
        }
    }

    /// Returns the link's configuration on a path of this RTT. An error is about the trace file.
    pub(super) fn to_config(
        &self,
        rtt: Duration,
        read_trace: &mut impl FnMut(&str) -> Result<String, String>,
    ) -> Result<LinkConfig, String> {
        let mut config = LinkConfig {
            jitter: self.jitter,
            loss: self.loss.clone(),
            outage: self.outage.clone(),
            discipline: self.discipline,
            occupancy: self.occupancy,
            mtu: self.mtu.clone(),
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            overhead: self.headers.unwrap_or_default(),
            framing: self.framing,
            ..LinkConfig::new(None, self.delay)
        };
        match &self.rate {
            RateSpec::Trace(file) => {
                let text = read_trace(file).map_err(|error| format!("trace '{file}': {error}"))?;
                let trace = Trace::parse(&text).map_err(|error| format!("trace '{file}': {error}"))?;
                config = config.trace(trace);
            }
            RateSpec::Wifi(cells, _) => config = config.wifi_schedule(cells.clone()),
            RateSpec::Steps(steps) => {
                config.rate = steps.parts().0;
                config.varying = (!steps.is_constant()).then(|| VaryingRate::Steps(steps.clone()));
            }
        }
        config.queue = self.queue_limit(config.rate, rtt);
        config.marking = self.mark.and_then(|mark| {
            let threshold = QueueLimit::of_size(mark.above, config.rate, rtt)?;
            Some(Marking { threshold, incapable: mark.incapable })
        });
        Ok(config)
    }

    fn queue_limit(&self, rate: Option<Bitrate>, rtt: Duration) -> QueueLimit {
        let (size, least) = match self.queue {
            QueueSpec::Unlimited => return QueueLimit::UNLIMITED,
            QueueSpec::Auto => (ONE_BDP, MIN_AUTO_QUEUE_BYTES),
            QueueSpec::Size(size @ QueueSize::BdpMillionths(_)) => (size, MIN_BDP_QUEUE_BYTES),
            QueueSpec::Size(size) => (size, 0),
        };
        let limit = QueueLimit::of_size(size, rate, rtt).unwrap_or(QueueLimit::UNLIMITED);
        QueueLimit { bytes: limit.bytes.map(|bytes| bytes.max(least)), ..limit }
    }
}

fn read_into<T: Value>(field: &mut T, text: &str) -> Result<(), String> {
    *field = T::read(text.trim())?;
    Ok(())
}
