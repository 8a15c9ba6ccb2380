//! Completion scripts: those of `clap_complete`, with the values of options whose parsers `clap`
//! cannot ask, identities of experiments, and hosts of the file of known hosts.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use rdt_lab::experiment::builtin;

/// Values of options, by the option's name; a direction may follow the name.
pub(crate) const VALUES: [(&str, &[&str]); 6] = [
    ("cc", &["bbr", "cubic", "reno"]),
    ("compress", &["auto", "off"]),
    ("discipline", &["drop-tail", "drop-head", "codel", "red", "pie"]),
    ("engine", &["virtual", "packets", "kernel", "real", "command"]),
    ("preset", &["dsl", "lte", "satellite", "wifi-a", "wifi-b", "wifi-g", "ethernet-100", "classic"]),
    ("recovery", &["rack", "sack", "newreno", "reno", "tahoe", "base-only"]),
];

/// Words that an argument without an option may be.
#[derive(Debug, Clone, Copy)]
enum Words {
    /// Known hosts, each with these characters behind it.
    Hosts(&'static str),
    Experiments,
}

/// Program, its commands (none: the program itself), name of the argument, words beside files.
const POSITIONALS: [(&str, &[&str], &str, Words); 5] = [
    ("rdt-send", &[], "host", Words::Hosts("")),
    ("rdt-copy", &[], "paths", Words::Hosts("::")),
    ("rdt-tunnel", &["connect", "stdio"], "remote", Words::Hosts("")),
    ("rdt-lab", &["run", "plan", "show"], "experiments", Words::Experiments),
    ("rdt-lab", &["scale"], "experiment", Words::Experiments),
];

/// Stands for [`Words`] in the scripts of `clap_complete`.
const PLACE: &str = "rdt-words";

/// Functions of the scripts for bash and zsh: `_rdt_hosts SUFFIX`. A name with other characters is
/// left out: bash evaluates what is offered, and splits words at colons.
const HOSTS: &str = r#"_rdt_hosts() {
    local config="${XDG_CONFIG_HOME:-$HOME/.config}" host rest
    while read -r host rest; do
        case "$host" in
            ''|*[!A-Za-z0-9._-]*) ;;
            *) printf '%s%s\n' "$host" "$1" ;;
        esac
    done 2>/dev/null <"$config/rdt/known_hosts"
}
"#;

const FISH_HOSTS: &str = r#"function __rdt_hosts
    set -l config $XDG_CONFIG_HOME
    test -n "$config"; or set config ~/.config
    test -r "$config/rdt/known_hosts"; or return
    string match -r '^[A-Za-z0-9._-]+(?= )' <"$config/rdt/known_hosts" | sort -u | string replace -r '$' "$argv[1]"
end
"#;

impl Words {
    fn experiments() -> String {
        builtin().iter().map(|it| it.id).collect::<Vec<_>>().join(" ")
    }

    /// Returns what takes the place of [`PLACE`] in bash, whose words may be commands.
    fn bash(self) -> String {
        match self {
            Self::Hosts(suffix) => format!("$(_rdt_hosts '{suffix}')"),
            Self::Experiments => Self::experiments(),
        }
    }

    /// Returns the function that offers the words, and its text.
    fn zsh(self) -> (&'static str, String) {
        match self {
            Self::Hosts(suffix) => (
                "_rdt_words",
                format!(
                    "{HOSTS}_rdt_words() {{\n    compadd -q -S '' -- ${{(u)$(_rdt_hosts '{suffix}')}}\n    _files\n}}\n"
                ),
            ),
            Self::Experiments => (
                "_rdt_words",
                format!("_rdt_words() {{\n    compadd -- {}\n    _files\n}}\n", Self::experiments()),
            ),
        }
    }

    /// Returns the lines for fish, for which `clap_complete` offers nothing here.
    fn fish(self, program: &str, commands: &[&str]) -> String {
        let using = format!("__fish_{}_using_subcommand", program.replace('-', "_"));
        let condition = match commands {
            [] => String::new(),
            commands => format!(" -n \"{using} {}\"", commands.join(" ")),
        };
        let words = match self {
            Self::Hosts(suffix) => format!("(__rdt_hosts '{suffix}')"),
            Self::Experiments => Self::experiments(),
        };
        format!("complete -c {program}{condition} -a \"{words}\"\n")
    }
}

/// Returns the words of a program's arguments, and the commands that have them.
fn words_of(program: &str) -> impl Iterator<Item = (&'static [&'static str], Words)> {
    POSITIONALS.into_iter().filter(move |it| it.0 == program).map(|(_, commands, _, words)| (commands, words))
}

/// Returns the script of a shell. PowerShell completes no arguments without options.
pub(crate) fn script(shell: Shell, command: &Command) -> String {
    let program = command.get_name().to_owned();
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut completed(command, &program), &program, &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        Shell::Bash => bash(&program, &text),
        Shell::Zsh => zsh(&program, &text),
        Shell::Fish => fish(&program, text),
        _ => text,
    }
}

fn bash(program: &str, text: &str) -> String {
    // clap_complete 4.6 writes the labels of commands with "__subcmd__" for the hyphen in the
    // program's name, and looks for them with "__".
    let text = text.replace(
        &format!("{}__subcmd__", program.replace('-', "__subcmd__")),
        &format!("{}__subcmd__", program.replace('-', "__")),
    );
    let Some((_, words)) = words_of(program).next() else { return text };
    let hosts = if matches!(words, Words::Hosts(_)) { HOSTS } else { "" };
    let no_space = match words {
        Words::Hosts("::") => {
            "[[ \"${COMPREPLY[0]}\" == *:: ]] && compopt -o nospace\n                return 0"
        }
        _ => "return 0",
    };
    format!("{hosts}{}", text.replace(PLACE, &words.bash()).replace("return 0", no_space))
}

fn zsh(program: &str, text: &str) -> String {
    let Some((_, words)) = words_of(program).next() else { return text.to_owned() };
    let (name, function) = words.zsh();
    let text = text.replace(&format!("({PLACE})"), name);
    // The first line has to stay the first one.
    text.replacen('\n', &format!("\n\n{function}"), 1)
}

fn fish(program: &str, mut text: String) -> String {
    if words_of(program).any(|(_, words)| matches!(words, Words::Hosts(_))) {
        text.push_str(FISH_HOSTS);
    }
    for (commands, words) in words_of(program) {
        text.push_str(&words.fish(program, commands));
    }
    text
}

/// Returns what completions need of a command, whose values have names. `clap_complete` would also
/// complete hidden subcommands, and clap can remove none.
fn completed(command: &Command, program: &str) -> Command {
    let name = command.get_name();
    let mut copy = Command::new(name.to_owned())
        .args(command.get_arguments().map(|it| with_words(it.clone(), program, name)))
        .groups(command.get_groups().cloned())
        .subcommands(
            command.get_subcommands().filter(|it| !it.is_hide_set()).map(|it| completed(it, program)),
        );
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(version.to_owned());
    }
    copy
}

fn with_words(arg: Arg, program: &str, command: &str) -> Arg {
    let id = arg.get_id().as_str();
    let has_words = POSITIONALS.iter().any(|(owner, commands, argument, _)| {
        (*owner, *argument) == (program, id) && (commands.is_empty() || commands.contains(&command))
    });
    if has_words {
        return arg.value_parser(PossibleValuesParser::new([PLACE]));
    }
    let long = arg.get_long().unwrap_or_default();
    let key = long.strip_suffix("-forward").or_else(|| long.strip_suffix("-reverse")).unwrap_or(long);
    match VALUES.iter().find(|(name, _)| *name == key) {
        Some((_, values)) => arg.value_parser(PossibleValuesParser::new(*values)),
        None => arg,
    }
}
