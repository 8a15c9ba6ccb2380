//! `--help` and `--version`.

use super::process::{Program, rdt_recv, rdt_send};

#[test]
fn help_lists_options_exit_codes_and_examples() {
    for (command, name, options) in [
        (
            &mut rdt_send("--help"),
            "rdt-send",
            &[
                "--power",
                "--bytes",
                "--file",
                "--seed",
                "--buffer",
                "--packet-size",
                "--interval",
                "--attempts",
                "--insecure",
                "--known-hosts",
                "50 x 40 ms = 2 s",
                "--memory",
            ][..],
        ),
        (&mut rdt_recv("--help"), "rdt-recv", &["--bind", "--dummy", "--no-link", "--output", "--once"]),
    ] {
        let run = Program::start(command).ended().with_code(0);
        let text = String::from_utf8(run.stdout.clone()).unwrap();
        for wanted in [options, &["--json", "--quiet", "Exit codes:", "RDT_LOG", " 74 ", " 130 "]].concat() {
            assert!(text.contains(wanted), "{wanted}");
        }
        let (_, examples) = text.split_once("Examples:\n").expect("examples");
        assert!(examples.trim_end().lines().all(|line| line.contains(name)), "{examples}");
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn help_is_no_host_name() {
    for program in [rdt_send, rdt_recv] {
        let run = Program::start(&mut program("help")).ended().with_code(0);
        assert_eq!(run.stdout, Program::start(&mut program("--help")).ended().stdout);
    }
}

#[test]
fn version_prints_name_and_number() {
    for (command, name) in [(&mut rdt_send("--version"), "rdt-send"), (&mut rdt_recv("-V"), "rdt-recv")] {
        let run = Program::start(command).ended().with_code(0);
        assert_eq!(run.lines(), [format!("{name} {}", rdt_program::VERSION)]);
    }
}

#[test]
fn wrong_log_level_is_explained() {
    let run = Program::start(rdt_send("--version").env("RDT_LOG", "debgu")).ended().with_code(0);
    assert!(run.stderr.starts_with("rdt-send: RDT_LOG=debgu is no filter"), "{}", run.stderr);
}

#[test]
fn local_examples_of_help_run() {
    let help = Program::start(&mut rdt_send("--help")).ended();
    let examples = help.lines().into_iter().filter_map(|l| l.trim().strip_prefix("rdt-send local "));
    let runs: Vec<_> = examples
        .map(|example| {
            let args = example.split("   ").next().unwrap();
            // Fewer bytes than in the example, to save time.
            let args = args.replace("--power 23", "");
            Program::start(&mut rdt_send(&format!("local {args} --bytes 100 --seed 1")))
        })
        .collect();
    assert!(runs.len() >= 2);
    for run in runs {
        run.ended().with_code(0);
    }
}
