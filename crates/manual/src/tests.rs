#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod shells;

use super::*;

fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path()).unwrap();
    folder
}

/// Calls `check` with the name of each page and the command, hidden ones left out.
fn for_each_command(check: &mut impl FnMut(&str, &Command)) {
    fn visit(name: &str, command: &Command, check: &mut impl FnMut(&str, &Command)) {
        check(name, command);
        for sub in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
            visit(&format!("{name}-{}", sub.get_name()), sub, check);
        }
    }
    for mut command in command_lines() {
        command.build();
        visit(command.get_name(), &command, check);
    }
}

#[test]
fn pages_name_every_option() {
    let folder = written();
    let mut options = 0;
    for_each_command(&mut |name, command| {
        let page = fs::read_to_string(folder.path().join(format!("man/{name}.1"))).unwrap();
        for long in command.get_arguments().filter(|it| !it.is_hide_set()).filter_map(|it| it.get_long()) {
            assert!(page.contains(&format!("\\-\\-{}", long.replace('-', "\\-"))), "{name}: --{long}");
            options += 1;
        }
    });
    assert!(options > 100, "{options} options");
}

#[test]
fn pages_end_with_exit_codes_and_examples() {
    let folder = written();
    for program in ["rdt-send", "rdt-recv", "rdt-copy", "rdt-lab", "rdt-tunnel"] {
        let page = fs::read_to_string(folder.path().join(format!("man/{program}.1"))).unwrap();
        assert!(page.contains("\n.SH EXIT CODES"), "{program}");
        assert!(page.contains("\n.SH EXAMPLES\n.nf\n"), "{program}");
    }
}

#[test]
fn completions_offer_options_but_no_hidden_command() {
    let folder = written();
    let script = |shell: &str, file: &str| fs::read_to_string(folder.path().join(shell).join(file)).unwrap();
    for (shell, file) in [("bash", "rdt-recv"), ("zsh", "_rdt-recv"), ("fish", "rdt-recv.fish")] {
        assert!(script(shell, file).contains("ticket-lifetime"), "{shell}");
    }
    for (shell, file) in [("bash", "rdt-emu"), ("zsh", "_rdt-emu"), ("fish", "rdt-emu.fish")] {
        let script = script(shell, file);
        assert!(script.contains("proxy"), "{shell}");
        assert!(!script.contains("flood"), "{shell}: a hidden command");
    }
}

#[test]
fn completed_values_are_all_that_programs_take() {
    let mut compared = 0;
    for_each_command(&mut |name, command| {
        for (option, values) in completions::VALUES {
            let Some(argument) = command.get_arguments().find(|it| it.get_long() == Some(option)) else {
                continue;
            };
            let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
            if ["preset", "discipline"].contains(&option) {
                let all = values.join(", ").replace(&format!(", {}", values[values.len() - 1]), " or ");
                assert!(help.contains(&all), "{name}: {help}");
            }
            compared += 1;
        }
    });
    assert!(compared > 10, "{compared} options");
    let [engines, rules] =
        ["engine", "recovery"].map(|name| completions::VALUES.iter().find(|it| it.0 == name).unwrap().1);
    assert_eq!(engines, rdt_lab::EngineKind::ALL.map(rdt_lab::EngineKind::word));
    for rule in rules {
        assert!(
            rdt_cli::command_lines()[0]
                .clone()
                .try_get_matches_from(["rdt-send", "h", "--recovery", rule])
                .is_ok()
        );
    }
}

#[test]
fn lines_that_roff_would_read_are_escaped() {
    assert_eq!(escaped(".SH\n'x\na\\b --c"), "\\&.SH\n\\&'x\na\\eb \\-\\-c");
}
