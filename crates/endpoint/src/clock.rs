//! Clock of an endpoint.

use std::time::Instant;

/// Clock of an endpoint: that of the system, or tokio's, which a test may pause.
pub(crate) type Clock = fn() -> Instant;
