//! Log of what the system refused, on the standard error, filtered by `RDT_LOG`.

use std::fmt;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::{talk, time};

/// Section of every program's help.
pub const ENVIRONMENT: &str = "\
Environment:
  RDT_LOG  level of the log on the standard error: off, error, warn (default), info, debug, trace;
           or levels of modules, as in RDT_LOG=info,rdt_udp=debug";

/// Starts the log. A wrong `RDT_LOG` leaves it at its default, and a sentence says so.
pub fn start(program: &str) {
    let text = std::env::var_os("RDT_LOG").unwrap_or_default();
    let text = text.to_string_lossy();
    let filter = filter(&text).unwrap_or_else(|| {
        talk(&format!(
            "{program}: RDT_LOG={text} is no filter, so the log is at warn: write a level (off, error, warn, info, debug, trace) or MODULE=LEVEL"
        ));
        Targets::new().with_default(LevelFilter::WARN)
    });
    let date: fn(&mut Writer<'_>) -> fmt::Result = |line| line.write_str(&time::local());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_timer(date);
    tracing_subscriber::registry().with(lines).with(filter).init();
}

/// Reads levels with commas between them. Modules without a level have that without a module, else
/// `warn`. A word that is neither is refused, because `tracing` would read it as a module.
fn filter(text: &str) -> Option<Targets> {
    let mut filter = Targets::new().with_default(LevelFilter::WARN);
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        filter = match word.split_once('=') {
            Some((module, level)) => {
                let module = module.trim_end();
                let is_module = !module.is_empty() && !module.contains(char::is_whitespace);
                filter.with_target(
                    is_module.then_some(module)?,
                    level.trim_start().parse::<LevelFilter>().ok()?,
                )
            }
            None => filter.with_default(word.parse::<LevelFilter>().ok()?),
        };
    }
    Some(filter)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn filter_has_levels_of_modules_and_of_the_rest() {
        for (text, module, level, is_logged) in [
            ("", "rdt_udp", Level::WARN, true),
            ("", "rdt_udp", Level::INFO, false),
            ("debug", "rdt_udp", Level::DEBUG, true),
            ("OFF", "rdt_udp", Level::ERROR, false),
            ("rdt_udp=debug", "rdt_udp::socket", Level::DEBUG, true),
            ("rdt_udp=debug", "rdt_emu", Level::WARN, true),
            ("rdt_udp=debug", "rdt_emu", Level::INFO, false),
            ("rdt_udp = off, info,", "rdt_emu", Level::INFO, true),
            ("rdt_udp=off, info,", "rdt_udp", Level::ERROR, false),
        ] {
            let filter = filter(text).unwrap();
            assert_eq!(filter.would_enable(module, &level), is_logged, "{text:?} {module} {level}");
        }
    }

    #[test]
    fn misspelled_level_is_refused() {
        for text in ["debgu", "rdt_udp", "rdt_udp=loud", "warn,=", "=info", "info rdt_udp=debug"] {
            assert!(filter(text).is_none(), "{text}");
        }
    }
}
