use std::fs;
use std::time::Duration;

use clap::Parser;
use rdt_emulator::{Bitrate, Loss};

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    path: PathArgs,
}

fn parse(line: &[&str]) -> Result<PathArgs, String> {
    let program = Program::try_parse_from(["program"].iter().chain(line));
    program.map(|program| program.path).map_err(|error| error.to_string())
}

/// Returns the configuration of the links for these arguments, or the error.
fn config(line: &[&str]) -> Result<PathConfig, String> {
    parse(line)?.describe().and_then(|described| described.config()).map_err(|failure| {
        assert_eq!(failure.code(), rdt_program::exit::USAGE, "{failure}");
        failure.to_string()
    })
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("rdt-emu-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file.into_os_string().into_string().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn default_path_is_perfect_and_keys_are_flags() {
    assert_eq!(config(&[]).unwrap(), PathConfig::default());
    let path =
        config(&["--rtt", "20ms", "--rate", "10mbit", "--rate-reverse", "1mbit", "--loss", "1%/0"]).unwrap();
    assert_eq!(path.rtt(), Duration::from_millis(20));
    let rates = [&path.forward, &path.reverse].map(|link| link.rate);
    assert_eq!(rates, [10_000_000, 1_000_000].map(|bps| Some(Bitrate::from_bps(bps))));
    assert_ne!(path.forward.loss, path.reverse.loss);
    for key in Key::all() {
        for (scope, suffix) in SCOPES {
            let flag = format!("--{}{suffix}=x", key.name());
            let is_flag = scope == Scope::Both || key.is_per_direction();
            assert_eq!(parse(&[&flag]).is_ok(), is_flag, "{flag}");
        }
    }
}

#[test]
fn flags_override_file_overrides_preset() {
    let folder = Folder::new("layers");
    let file = folder.put("path.toml", "preset = 'dsl'\nseed = 7\nheaders = 28\n[reverse]\nloss = '2%'");
    let described = parse(&["--path", &file, "--headers", "48", "--rtt=1ms"]).unwrap().describe().unwrap();
    assert_eq!(described.seed(), 7);
    let path = described.config().unwrap();
    assert_eq!((path.forward.overhead, path.rtt()), (48, Duration::from_millis(1)));
    assert_eq!(path.forward.rate, Some(Bitrate::from_bps(384_000)));
    assert!(matches!(path.reverse.loss, Loss::Bernoulli(_)));
}

#[test]
fn trace_path_is_relative_to_its_file() {
    let folder = Folder::new("traces");
    folder.put("cell.down", "1\n");
    let file = folder.put("path.toml", "rate = 'trace:cell.down'");
    let expected = Some(Bitrate::from_bps(12_000_000));
    assert_eq!(config(&["--path", &file]).unwrap().forward.rate, expected);
    let flag = format!("trace:{}", folder.put("other", "1\n"));
    assert_eq!(config(&["--rate", &flag]).unwrap().reverse.rate, expected);
    let missing = config(&["--rate-forward", "trace:cell.down"]).unwrap_err();
    assert!(missing.starts_with("rate (forward): trace '") && missing.contains("cell.down': "), "{missing}");
    folder.put("cell.down", "1\nx\n");
    let wrong = config(&["--path", &file]).unwrap_err();
    assert!(wrong.contains("cell.down") && wrong.contains("line 2"), "{wrong}");
}

#[test]
fn trace_of_flag_leaves_other_direction_alone() {
    let folder = Folder::new("directions");
    folder.put("cell", "1\n");
    folder.put("up", "1\n1\n");
    let file = folder.put("path.toml", "[forward]\nrate = 'trace:cell'");
    let rates = |path: PathConfig| [path.forward.rate, path.reverse.rate];
    let expected = [12_000_000, 36_000_000].map(|bps| Some(Bitrate::from_bps(bps)));
    let described = parse(&["--path", &file]).unwrap().describe().unwrap();
    let other = Folder::new("directions-other");
    // The same name is another file in another folder, and one name may be part of the other.
    for name in ["cell", "cell.up", "ell"] {
        other.put(name, "1\n1\n1\n");
        let setting = (Scope::Reverse, Key::Link(LinkKey::Rate), format!("trace:{name}"));
        let changed = described.changed(&[setting], &other.0).unwrap();
        assert_eq!(rates(changed.config().unwrap()), expected, "{name}");
        // From any folder.
        let again = Described::of(PathSpec::from_toml(&changed.path.to_toml()).unwrap(), &other.0);
        assert_eq!(rates(again.config().unwrap()), expected, "{name}");
    }
}

#[test]
fn path_errors_name_the_place() {
    let folder = Folder::new("wrong");
    let file = |name, text: &[u8]| folder.put(name, text);
    let cases: [(&[&str], &str); 9] = [
        (&["--rate-reverse", "10"], "--rate-reverse: '10' has no unit"),
        (&["--preset", "dls"], "--preset: there is no preset 'dls'; did you mean 'dsl'?"),
        (&["--seed=-1"], "--seed: '-1' is not a whole number"),
        (&["--rtt=1ms", "--delay=1ms"], "rtt and delay exclude each other"),
        (&["--path", "/there/is/none"], "--path /there/is/none: No such file"),
        (
            &["--path", &file("a", b"rate = '1mbit'\nlos = '1%'")],
            "a: line 2, column 1: there is no key 'los'",
        ),
        (&["--path", &file("b", b"rate = ")], "b: line 1, column 8: "),
        (&["--path", &file("c", b"\xff")], "UTF-8"),
        (&["--path", &file("d", &vec![b'#'; 1 + (1 << 20)])], "it is longer than 1048576 bytes"),
    ];
    for (line, part) in cases {
        let error = config(line).unwrap_err();
        assert!(error.contains(part), "{line:?}: {error}");
    }
}

#[test]
fn help_lists_every_key_once() {
    let mut command = <Program as clap::CommandFactory>::command();
    for help in [command.render_help().to_string(), command.render_long_help().to_string()] {
        for key in Key::all() {
            let flag = format!("--{} <", key.name());
            assert_eq!(help.matches(&flag).count(), 1, "{flag}");
        }
        assert!(!help.contains("--rate-reverse <") && help.contains("--rate-reverse 1mbit"), "{help}");
    }
}
