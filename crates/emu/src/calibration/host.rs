//! Identity of the host on which a calibration was measured.

use serde_json::Value;

use super::Unfit;

/// Identity of a host. A change invalidates a calibration, except for fewer processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(super) name: String,
    pub(super) system: String,
    /// Processors that this program may use.
    pub(super) processors: u64,
}

impl Host {
    pub(crate) fn here() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let (name, system) = names();
        Self { name, system, processors }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn json(&self) -> Value {
        serde_json::json!({ "name": self.name, "system": self.system, "processors": self.processors })
    }

    pub(super) fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| Some(value[key].as_str()?.to_owned());
        Some(Self { name: text("name")?, system: text("system")?, processors: value["processors"].as_u64()? })
    }

    /// Checks that results measured on this host apply to `here`. `here` may have fewer processors:
    /// a rate that failed then fails all the more, and other rates cause a warning.
    pub(super) fn tells_of(&self, here: &Self) -> Result<(), Unfit> {
        let changed = |what, was: &dyn ToString, is: &dyn ToString| {
            Err(Unfit::Changed { what, was: was.to_string(), is: is.to_string() })
        };
        if self.name != here.name {
            changed("the name of the host", &self.name, &here.name)
        } else if self.system != here.system {
            changed("the kernel", &self.system, &here.system)
        } else if self.processors < here.processors {
            changed("the number of processors", &self.processors, &here.processors)
        } else {
            Ok(())
        }
    }
}

#[cfg(target_os = "linux")]
fn names() -> (String, String) {
    let uname = rustix::system::uname();
    let [name, system, release] =
        [uname.nodename(), uname.sysname(), uname.release()].map(std::ffi::CStr::to_string_lossy);
    (name.into_owned(), format!("{system} {release}"))
}

/// `calibrate` exists only on Linux, so other systems need no precise identity.
#[cfg(not(target_os = "linux"))]
fn names() -> (String, String) {
    (String::new(), std::env::consts::OS.to_owned())
}
