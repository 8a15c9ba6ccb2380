//! The report of experiments: figures as scenes, the page, text for a terminal, exported files.
//!
//! ```text
//! results -> prepare -> figure (builders) -> scene -> svg, export, png
//!                    -> page (sections)            -> html, text
//! ```
//!
//! Everything here is pure: the same results give the same bytes. Exception: `png` (a feature)
//! draws with the fonts of the host.

/// Appends formatted text to a string, as `write!` does, which cannot fail for strings.
macro_rules! put {
    ($out:expr, $($text:tt)+) => {{
        use std::fmt::Write as _;
        write!($out, $($text)+).expect("strings accept all text");
    }};
}
pub(crate) use put;

pub mod export;
pub mod figure;
pub mod html;
pub mod metrics;
pub mod palette;
#[cfg(feature = "png")]
pub mod png;
pub mod prepare;
pub mod scale;
pub mod scene;
pub mod section;
pub mod svg;
pub mod text;

#[cfg(test)]
mod tests;

pub use html::{Report, html};
pub use prepare::{Bound, LIMITS, Subject, expected_values, figures, limits, reason, section};
pub use scene::Scene;
pub use section::Section;
pub use svg::{Place, svg};
pub use text::{sentences, text};
