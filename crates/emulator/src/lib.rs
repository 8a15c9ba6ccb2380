//! A network link as a state machine: packets go in with a time, and come out with the exact
//! nanosecond at which a real link would have delivered them.
//!
//! Nothing here opens a socket, reads a clock or keeps a random generator. Time is always an
//! argument, and whether packet `n` is lost is a pure function of a seed and `n`. The same link
//! therefore behaves identically in a virtual-time simulation, behind a real-time proxy and inside
//! a server, and a run can be repeated from its seed.
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
//! Each of the following is off unless asked for, and draws for itself: turning one on changes what the
//! others do to no packet.
//!
//! | at | effect | counted as |
//! |----|--------|------------|
//! | arrival | [`Loss`]: independent, in bursts, every n-th, by script | `dropped_loss` |
//! | arrival | [`Outage`]: dead at times | `dropped_outage` |
//! | arrival | [`Mtu`]: refuses the long ones or cuts them, may change | `dropped_mtu`, `fragmented`, `fragments` |
//! | queue | [`Marking`]: congestion is told by a mark | `marked`, `dropped_congestion` |
//! | queue | [`Discipline`]: in place of drop-tail another, drop-head, CoDel, RED or PIE | `dropped_head`, `dropped_aqm`, `marked` |
//! | queue | a second copy of a packet enters after it | `duplicated` |
//! | serialiser | [`VaryingRate`]: steps, a recorded trace, or the air of an 802.11 cell ([`WifiConfig`]) | |
//! | propagation | [`Jitter`]: the delay varies | |
//! | propagation | [`Reorder`]: a packet is held back | `reordered` |
//! | propagation | a bit is flipped | `corrupted` |
//!
//! With drop-tail, RED and PIE a packet's fate is settled when it arrives. Drop-head and CoDel decide when a
//! packet leaves the queue, so there packets wait in the link, which serves them by model time whenever it
//! is called: the outcome is the same however late that is.
//!
//! Beyond the [`Ledger`] a link measures how long packets wait ([`Link::measure_queue_delays`]) and keeps
//! what it drops after it took it ([`Link::keep_dropped`]), where asked to.
//!
//! A [`Path`] is two links, one each way. Chaining links is a matter of pushing what one pops, at
//! the time it was due.
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
//! assert!(link.pop(now + Duration::from_millis(60)).is_some_and(|d| d.due == now + Duration::from_millis(54)));
//! ```
//!
//! # Map
//!
//! | module   | owns                                                               |
//! |----------|--------------------------------------------------------------------|
//! | `units`  | [`Bitrate`], [`Probability`] and the parsers for text              |
//! | `packet` | [`Packet`], [`Ecn`]: what is carried                               |
//! | `fate`   | the hash that stands in for randomness                             |
//! | `schedule` | [`Schedule`]: a value that changes at given times                |
//! | `config` | [`LinkConfig`]: what a link does, and the words to say it          |
//! | `loss`   | [`Loss`]: which packets never enter                                |
//! | `outage`, `mtu` | [`Outage`], [`Mtu`]: who else never enters                  |
//! | `impair` | the effects that most links do without: these two, copies, wrong bits |
//! | `queue`  | [`QueueLimit`], [`Occupancy`], [`Marking`], [`Discipline`]: who may wait; [`QueueDelays`]: for how long |
//! | `rate`   | the serialiser: when service starts and ends                       |
//! | `medium` | [`WifiConfig`]: the air of an 802.11 cell, which both directions share |
//! | `delay`  | the propagation delay, [`Jitter`], [`Reorder`]                     |
//! | `link`   | [`Link`]: the stages in order, and the packets inside              |
//! | `ledger` | [`Ledger`]: what became of every packet                            |
//! | `path`   | [`Path`]: two links, and the usual ways to configure them          |
//! | `describe`, `preset` | a path in words, and paths by name (feature `describe`) |
//! | `time`   | addition to an `Instant` that saturates                            |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod delay;
#[cfg(feature = "describe")]
pub mod describe;
mod fate;
mod impair;
mod ledger;
mod link;
mod loss;
mod medium;
mod mtu;
mod outage;
mod packet;
mod path;
#[cfg(feature = "describe")]
mod preset;
mod queue;
mod rate;
mod schedule;
#[cfg(test)]
mod testing;
mod time;
mod units;

pub use config::{DEFAULT_MEMORY_LIMIT, LinkConfig};
pub use delay::{Jitter, JitterShape, Reorder};
pub use fate::{Direction, Stage, child_seed, fate};
pub use ledger::{DropCause, Ledger};
pub use link::{Delivery, Dropped, LateDrop, Link, MIN_PACKET_CHARGE};
pub use loss::{GilbertElliott, Loss};
pub use medium::{BackOff, Preamble, SlotTime, WifiConfig, WifiError, WifiRate, WifiStandard};
pub use mtu::{Frames, Mtu, Oversize};
pub use outage::Outage;
pub use packet::{Ecn, Packet};
pub use path::{ClassicLink, Path, PathConfig};
#[cfg(feature = "describe")]
pub use preset::{Preset, UnknownPreset};
pub use queue::{
    CoDelConfig, Discipline, DisciplineError, Incapable, Marking, Occupancy, PieConfig, QueueDelays,
    QueueLimit, QueueSize, RedConfig,
};
pub use rate::{OPPORTUNITY, Trace, TraceError, VaryingRate};
pub use schedule::Schedule;
pub use units::{
    Bitrate, Probability, UnitError, parse_bitrate, parse_bytes, parse_duration, parse_probability,
    parse_queue_size,
};
