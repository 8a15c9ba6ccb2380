//! Paths of destinations in a TOML text.

use std::fmt;

use super::PathSpec;
use super::document::Table;
use super::error::SpecError;

/// Path for the packets of one destination: a table `[to.NAME]` of a TOML text.
///
/// ```
/// use rdt_emulator::spec::PathSpec;
///
/// let text = "rtt = '5ms'\n[to.web]\ndestination = '10.1.0.1:443'\nrtt = '100ms'";
/// let (other, destinations) = PathSpec::with_destinations(text)?;
/// assert_eq!(destinations[0].destination, "10.1.0.1:443");
/// assert_ne!(destinations[0].path, other);
///
/// let error = destinations[0].error("there is no such host").to_string();
/// assert_eq!(error, "line 3, column 15: to.web.destination: there is no such host");
/// # Ok::<_, rdt_emulator::spec::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DestinationSpec {
    /// Name of the destination.
    pub name: String,
    /// Text that says which packets belong to it. The caller parses it.
    pub destination: String,
    /// Path of these packets.
    pub path: PathSpec,
    place: SpecError,
}

impl DestinationSpec {
    pub(super) fn new(table: Table) -> Result<Self, SpecError> {
        let Table { name, destination, place, assignments } = table;
        let mut path = PathSpec::default();
        path.assign(assignments)?;
        Ok(Self { name, destination, path, place })
    }

    /// Returns an error at the text [`destination`](Self::destination).
    pub fn error(&self, message: impl fmt::Display) -> SpecError {
        self.place.clone().because(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
rtt = '5ms'

[to.lte]
destination = '10.1.0.0/16'
preset = 'lte'
seed = 7

[to.lte.reverse]
loss = '1%'

[to.web]
destination = '[fd00::1]:443/tcp'
";

    fn complaint(text: &str) -> String {
        PathSpec::with_destinations(text).unwrap_err().to_string()
    }

    #[test]
    fn tables_describe_paths_of_destinations() {
        let (path, all) = PathSpec::with_destinations(TEXT).unwrap();
        assert_eq!(path, PathSpec::from_toml("rtt = '5ms'").unwrap());
        let named: Vec<_> = all.iter().map(|it| (it.name.as_str(), it.destination.as_str())).collect();
        assert_eq!(named, [("lte", "10.1.0.0/16"), ("web", "[fd00::1]:443/tcp")]);
        let lte = "preset = 'lte'\nseed = 7\n[reverse]\nloss = '1%'";
        assert_eq!(all[0].path, PathSpec::from_toml(lte).unwrap());
        assert_eq!(all[1].path, PathSpec::default());
    }

    #[test]
    fn written_tables_are_read_back() {
        let (path, all) = PathSpec::with_destinations(TEXT).unwrap();
        let written = all
            .iter()
            .fold(path.to_toml(), |text, it| text + &it.path.to_toml_for(&it.name, &it.destination));
        let (again, destinations) = PathSpec::with_destinations(&written).unwrap();
        assert_eq!(again, path, "{written}");
        for (read, known) in destinations.iter().zip(&all) {
            assert_eq!(
                (&read.name, &read.destination, &read.path),
                (&known.name, &known.destination, &known.path)
            );
        }
        assert_eq!(destinations.len(), 2);
    }

    #[test]
    fn mistakes_are_named_with_place_and_nearest_key() {
        for (text, expected) in [
            ("[too.a]", "line 1, column 2: there is no key 'too'; did you mean 'to'?"),
            ("to = '10.1.0.1'", "line 1, column 6: to: a destination is a table: write [to.NAME] on"),
            (
                "[to]\nrate = '1mbit'",
                "line 2, column 8: to.rate: a destination is a table: write [to.NAME] on",
            ),
            ("[[to]]\nrate = '1mbit'", "line 1, column 1: to: a destination is a table"),
            (
                "[to.a]\nrate = '1mbit'",
                "line 1, column 5: to.a: there is no destination: write destination = ",
            ),
            ("[to.a]\ndestination = 7", "line 2, column 15: to.a.destination: a text in quotes is wanted"),
            (
                "[to.a]\ndestinatoin = '::1'",
                "line 2, column 1: there is no key 'destinatoin'; did you mean 'destination'?",
            ),
            (
                "[to.a]\ndestination = '::1'\nbandwidth = 1",
                "there is no key 'bandwidth'; did you mean 'rate'?",
            ),
            ("[to.a]\ndestination = '::1'\nrate = '10'", "line 3, column 8: to.a.rate: '10' has no unit"),
            (
                "[to.a.revers]\nrate = '1mbit'",
                "line 1, column 7: there is no key 'revers'; did you mean 'reverse'?",
            ),
            ("[to.a.reverse]\nlos = '1%'", "line 2, column 1: there is no key 'los'; did you mean 'loss'?"),
            (
                "[to.a]\nreverse = 7",
                "line 2, column 11: to.a.reverse: it is a table: write [to.a.reverse] on",
            ),
            ("destination = '::1'", "there is no key 'destination'; the keys are preset, "),
        ] {
            let told = complaint(text);
            assert!(told.contains(expected), "{text}: {told}");
        }
    }

    #[test]
    fn one_path_has_no_destinations() {
        let error = PathSpec::from_toml(TEXT).unwrap_err();
        assert!(error.to_string().starts_with("line 4, column 15: to.lte.destination: "), "{error}");
    }
}
