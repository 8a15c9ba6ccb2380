//! What real shells offer. A shell that this host lacks is skipped by name.

use std::path::Path;
use std::process::{Command, Stdio};

use super::written;

/// Line up to the cursor, words that are offered, and one that is not.
const CASES: [(&str, &[&str], &str); 17] = [
    ("rdt-emu ", &["run", "proxy", "sim", "set"], "flood"),
    ("rdt-emu run --pre", &["--preset"], "--rtt"),
    ("rdt-emu run --preset ", &["lte", "dsl", "ethernet-100"], "codel"),
    ("rdt-emu run --rtt 5ms --discipline ", &["codel", "pie"], "lte"),
    ("rdt-emu proxy --per", &["--per-client"], "--preset"),
    ("rdt-lab ", &["run", "plan", "trace"], "load"),
    ("rdt-lab run --qu", &["--quick", "--quiet"], "--all"),
    ("rdt-lab run 000-", &["000-A"], "001-A"),
    ("rdt-lab plan --engine ", &["virtual", "kernel"], "000-A"),
    ("rdt-tunnel ", &["serve", "connect", "stdio"], "sim"),
    ("rdt-tunnel serve --max", &["--max-rate"], "--to"),
    ("rdt-tunnel stdio ho", &["host.example", "host-2"], "other"),
    ("rdt-send --cc ", &["bbr", "cubic", "reno"], "rack"),
    ("rdt-send h --recovery ", &["rack", "base-only"], "bbr"),
    ("rdt-send ot", &["other"], "host-2"),
    ("rdt-copy file ho", &["host.example::", "host-2::"], "other::"),
    ("rdt-recv --ticket-l", &["--ticket-lifetime"], "--ticket"),
];

/// The last name has to be read as text.
const KNOWN: &str = "\
# a comment
host.example 22345 rdt-key-1 KEY 2026-11-23
host.example 22346 rdt-key-1 KEY 2026-11-23
host-2 22345 rdt-key-1 KEY 2026-11-23
other 22345 rdt-key-1 KEY 2026-11-23
2001:db8::1 22345 rdt-key-1 KEY 2026-11-23
host$(touch${IFS}marked) 22345 rdt-key-1 KEY 2026-11-23
";

const BASH: &str = r#"
line=$1; read -ra COMP_WORDS <<<"$line"
[[ "$line" == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
source "$SCRIPTS/bash/${COMP_WORDS[0]}"
function=$(complete -p "${COMP_WORDS[0]}" | sed 's/.*-F \([^ ]*\).*/\1/')
"$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"#;

const FISH: &str = r"
set -l program (string split -f 1 ' ' -- $argv[1])
source $SCRIPTS/fish/$program.fish
complete -C $argv[1] | string split -f 1 \t
";

/// Types the line and a tab into an interactive zsh on a terminal of its own, whose completion
/// prints each word that matches. Waits at most 20 s.
const ZSH: &str = r#"
zmodload zsh/zpty
wait_for() {
    local part; text=
    repeat 400; do
        while zpty -r -t shell part; do text+=$part; done
        [[ $text == *"$1"* ]] && break
        sleep 0.05
    done
}
zpty -b shell zsh -f -i
zpty -w shell "PROMPT= RPROMPT=; fpath=($SCRIPTS/zsh \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell 'compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
    local -a hits; builtin compadd -A hits "$@"; local hit
    for hit in $hits; do print -r -- "<$hit>"; done
    builtin compadd "$@"
}'
zpty -w shell 'ended() { print "<end>"; exit }; zle -N ended; bindkey "^X" ended; bindkey "^I" complete-word; LISTMAX=1000; print "<"ready">"'
wait_for '<ready>'
zpty -w -n shell "$1"$'\t'$'\x18'
wait_for '<end>'
print -r -- "$text" | tr '<>' '\n\n'
"#;

fn offered(shell: &str, script: &str, line: &str, scripts: &Path) -> Option<Vec<String>> {
    let output = Command::new(shell)
        .args(match shell {
            "bash" => vec!["--norc", "-c", script, "bash", line],
            "zsh" => vec!["-f", "-c", script, "zsh", line],
            _ => vec!["--no-config", "-c", script, line],
        })
        .env("SCRIPTS", scripts)
        .env("XDG_CONFIG_HOME", scripts.join("config"))
        .env("HOME", scripts)
        .env("TERM", "xterm")
        .current_dir(scripts)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = output.ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().map(|it| it.trim().to_owned()).collect())
}

fn check(shell: &str, script: &str) {
    let folder = written();
    let config = folder.path().join("config/rdt");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("known_hosts"), KNOWN).unwrap();
    for (line, expected, unwanted) in CASES {
        let Some(words) = offered(shell, script, line, folder.path()) else {
            println!("skipped: completions in {shell}, which this host lacks");
            return;
        };
        for word in expected {
            assert!(words.iter().any(|it| it == word), "{shell}: {line}: {word} is not in {words:?}");
        }
        assert!(!words.iter().any(|it| it == unwanted), "{shell}: {line}: {unwanted} is in {words:?}");
    }
    assert!(!folder.path().join("marked").exists(), "{shell} ran the name of a host");
}

#[test]
fn bash_completes_commands_values_and_hosts() {
    check("bash", BASH);
}

#[test]
fn zsh_completes_commands_values_and_hosts() {
    check("zsh", ZSH);
}

#[test]
fn fish_completes_commands_values_and_hosts() {
    check("fish", FISH);
}
