//! A network link as a state machine. The caller pushes a packet with its arrival time and pops it
//! with the exact nanosecond at which the modelled link delivers it.
//!
//! The crate opens no socket, reads no clock and has no random generator. Time is always an
//! argument. Whether packet `n` is lost is a pure function of a seed and `n`. The same link
//! therefore behaves identically in a virtual-time simulation, in a real-time proxy and in a
//! server, and a seed repeats a run.
//!
//! # The model
//!
//! ```text
//!          +--------------------------- Link, one direction ---------------------------+
//!          |                                                                           |
//!   push --+--> loss --------> queue --------> serialiser -------------> propagation --+--> pop
//!    now   |   draw for     drop-tail, waits   8 * size / rate,          fixed delay,  |    due
//!          |   packet n     for the serialiser one packet at a time      in order      |
//!          |    |              |                                                       |
//!          +----|--------------|-------------------------------------------------------+
//!               v              v
//!             Loss     QueueFull, Memory            (each drop is named in the Ledger)
//!
//!   wire time of a packet:    enters      starts           ends              due
//!                               |--waiting--|--in service----|--on the wire----|
//!                               now         previous end     + 8 * size/rate   + delay
//! ```
//!
//! Each of these effects is off by default and has its own random draws. Enabling one effect
//! changes no decision of the others.
//!
//! | at | effect | counted as |
//! |----|--------|------------|
//! | arrival | [`Loss`]: independent, in steps, in bursts, every n-th, scripted | `dropped_loss` |
//! | arrival | [`Outage`]: arriving packets are dropped for a time | `dropped_outage` |
//! | arrival | [`Mtu`]: long packets are dropped or fragmented | `dropped_mtu`, `fragments` |
//! | queue | [`Marking`]: ECN marks above a threshold | `marked`, `dropped_congestion` |
//! | queue | [`Discipline`]: drop-head, CoDel, RED, PIE | `dropped_head`, `dropped_aqm`, `marked` |
//! | queue | duplication: a second copy follows the packet | `duplicated` |
//! | serialiser | [`VaryingRate`]: steps, a recorded trace, or an 802.11 cell ([`WifiConfig`]) | |
//! | propagation | [`Jitter`]: the delay varies | |
//! | propagation | [`Reorder`]: single packets get an extra delay | `reordered` |
//! | propagation | corruption: one bit is flipped | `corrupted` |
//!
//! With drop-tail, RED and PIE the link computes a packet's drop or due time when the packet
//! arrives. Drop-head and CoDel decide when a packet leaves the queue, so the link stores waiting
//! packets. Each call serves them at their times in the model, so the outcome does not depend on
//! how late the call is.
//!
//! Besides the counters of the [`Ledger`], a link can measure queueing delays
//! ([`Link::measure_queue_delays`]) and return packets that it drops after the push succeeded
//! ([`Link::keep_dropped`]).
//!
//! A [`Path`] is two links, one in each direction. To chain links, push each packet that the first
//! delivers into the second, at its due time.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use rdt_emulator::{Bitrate, Direction, Link, LinkConfig};
//!
//! let config = LinkConfig::new(Bitrate::from_bps(1_000_000), Duration::from_millis(50));
//! let mut link = Link::new(config, 7, Direction::Forward);
//!
//! let now = Instant::now();
//! link.push(now, vec![0; 500]).expect("nothing is lost on this link");
//!
//! // 500 bytes take 4 ms at 1 Mbit/s, and then travel for 50 ms.
//! assert_eq!(link.next_wakeup(), Some(now + Duration::from_millis(54)));
//! assert!(link.pop(now + Duration::from_millis(53)).is_none());
//! let delivery = link.pop(now + Duration::from_millis(60)).expect("it is due");
//! assert_eq!(delivery.due, now + Duration::from_millis(54));
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bitrate;
mod config;
mod delay;
mod delay_histogram;
mod draw;
mod impairments;
mod ledger;
mod link;
mod loss;
mod mtu;
mod outage;
mod packet;
mod path;
#[cfg(feature = "spec")]
mod preset;
mod probability;
mod queue;
mod rate;
mod schedule;
#[cfg(feature = "spec")]
pub mod spec;
mod time;
mod units;
mod wifi;

pub use bitrate::Bitrate;
pub use config::{DEFAULT_MEMORY_LIMIT_BYTES, LinkConfig};
pub use delay::{Jitter, JitterShape, Reorder};
pub use delay_histogram::DelayHistogram;
pub use draw::{Direction, child_seed};
pub use ledger::{DropCause, Ledger};
pub use link::{BusyPeriod, ChangeError, Delivery, Dropped, LateDrop, Link, MIN_PACKET_CHARGE_BYTES, Queued};
pub use loss::{GilbertElliott, Loss};
pub use mtu::{Frames, Mtu, Oversize};
pub use outage::Outage;
pub use packet::Packet;
pub use path::{ClassicLink, Path, PathConfig};
pub use probability::Probability;
pub use queue::*;
pub use rate::{TRACE_OPPORTUNITY_BYTES, Trace, VaryingRate};
pub use rdt_datagram::Ecn;
pub use schedule::Schedule;
pub use units::{
    NotationError, UnitError, parse_bitrate, parse_bytes, parse_duration, parse_probability, parse_queue_size,
};
pub use wifi::{
    Air, AirtimeParts, BackOff, NoStation, Preamble, SlotTime, WifiConfig, WifiRate, WifiStandard,
};
