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
//! A [`Path`] is two links, one each way. Chaining links is a matter of pushing what one pops, at
//! the time it was due.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use rdt_emulator::{Bitrate, Direction, Link, LinkConfig};
//!
//! let config = LinkConfig {
//!     rate: Some(Bitrate::from_bps(1_000_000)),
//!     delay: Duration::from_millis(50),
//!     ..LinkConfig::default()
//! };
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
//! | `fate`   | the hash that stands in for randomness                             |
//! | `loss`   | [`Loss`]: which packets never enter                                |
//! | `queue`  | [`QueueLimit`], [`Occupancy`]: who may wait                        |
//! | `rate`   | the serialiser: when service starts and ends                       |
//! | `delay`  | the propagation delay                                              |
//! | `link`   | [`Link`]: the stages in order, and the packets inside              |
//! | `ledger` | [`Ledger`]: what became of every packet                            |
//! | `path`   | [`Path`]: two links, and the usual ways to configure them          |
//! | `time`   | addition to an `Instant` that saturates                            |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod delay;
mod fate;
mod ledger;
mod link;
mod loss;
mod path;
mod queue;
mod rate;
#[cfg(test)]
mod testing;
mod time;
mod units;

pub use fate::{Direction, Stage, child_seed, fate};
pub use ledger::{DropCause, Ledger};
pub use link::{DEFAULT_MEMORY_LIMIT, Delivery, Dropped, Link, LinkConfig, MIN_PACKET_CHARGE};
pub use loss::Loss;
pub use path::{ClassicLink, Path, PathConfig};
pub use queue::{Occupancy, QueueLimit};
pub use units::{
    Bitrate, Probability, UnitError, parse_bitrate, parse_bytes, parse_duration, parse_probability,
};
