//! Emulated link requested by a classic SYN: its properties and the ranges that receivers accept.

use crate::ConfigError;

/// Largest accepted rate, bits per second.
const MAX_SPEED_BPS: f32 = 1e10;
/// Exclusive upper limit of the RTT, seconds.
const RTT_END_S: f32 = 30.0;
/// Largest accepted buffer, packets.
const MAX_BUFFER: u32 = 1_000_000;

/// Properties of the emulated link as the SYN carries them (32-bit floats on the wire).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkProperties {
    /// Round-trip propagation time in seconds, 0 up to but not including 30.
    pub rtt_s: f32,
    /// Rate of each direction in bits per second, above 0 up to 1e10.
    pub speed_bps: f32,
    /// Probability that a packet towards the receiver is lost, 0 up to but not including 1.
    pub loss_forward: f32,
    /// Loss probability of packets towards the sender.
    pub loss_reverse: f32,
    /// Queue limit of each direction in packets, 1 to 1,000,000.
    pub buffer: u32,
}

impl LinkProperties {
    /// Checks every value against the range that receivers accept. They ignore a SYN with any other
    /// value.
    ///
    /// # Errors
    /// [`ConfigError::Link`] with a sentence that names the value and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sentence = if !(self.rtt_s >= 0.0 && self.rtt_s < RTT_END_S) {
            "the RTT must be a number of seconds from 0 to below 30"
        } else if !(self.speed_bps > 0.0 && self.speed_bps <= MAX_SPEED_BPS) {
            "the link rate must be above 0 and at most 10000 Mbps (10 Gbit/s)"
        } else if !(self.loss_forward >= 0.0 && self.loss_forward < 1.0) {
            "the forward loss must be a probability from 0 to below 1"
        } else if !(self.loss_reverse >= 0.0 && self.loss_reverse < 1.0) {
            "the reverse loss must be a probability from 0 to below 1"
        } else if !(1..=MAX_BUFFER).contains(&self.buffer) {
            "the router buffer must be from 1 to 1000000 packets"
        } else {
            return Ok(());
        };
        Err(ConfigError::Link(sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: LinkProperties =
        LinkProperties { rtt_s: 0.1, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 60 };

    #[test]
    fn limits_are_those_measured_at_the_reference_receiver() {
        let with = |change: fn(&mut LinkProperties)| {
            let mut link = GOOD;
            change(&mut link);
            link.validate().is_ok()
        };
        assert!(with(|_| ()));
        assert!(with(|l| l.speed_bps = 1e10) && with(|l| l.speed_bps = 0.5));
        assert!(
            with(|l| l.loss_forward = 0.9999) && with(|l| l.buffer = 1_000_000) && with(|l| l.rtt_s = 29.99)
        );
        assert!(
            !with(|l| l.speed_bps = 0.0) && !with(|l| l.speed_bps = 1.01e10) && !with(|l| l.speed_bps = -1.0)
        );
        assert!(!with(|l| l.rtt_s = 30.0) && !with(|l| l.rtt_s = -0.001));
        assert!(
            !with(|l| l.loss_forward = 1.0)
                && !with(|l| l.loss_reverse = 1.0)
                && !with(|l| l.loss_reverse = -0.1)
        );
        assert!(!with(|l| l.buffer = 0) && !with(|l| l.buffer = 1_000_001));
    }

    #[test]
    fn nan_and_infinity_are_refused_in_every_field() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for field in 0..4 {
                let mut link = GOOD;
                *[&mut link.rtt_s, &mut link.speed_bps, &mut link.loss_forward, &mut link.loss_reverse]
                    [field] = bad;
                assert!(link.validate().is_err(), "field {field} = {bad}");
            }
        }
    }
}
