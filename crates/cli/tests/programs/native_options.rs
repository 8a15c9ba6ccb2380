//! Invalid options of the native format result in an error message of one line, and an exit code.

use super::bad_input::refused;
use super::process::{rdt_recv, rdt_send, send};

#[test]
fn contradictory_or_invalid_options_are_refused() {
    const POSITIONAL: &str = "local 10 0.1 0 100";
    for (args, word) in [
        ("local --wire classic", "<w> <rtt> <loss> <linkmbps>"),
        ("local - --power 3", "- and --power"),
        ("local - 0.1 0 100", "w must"),
        ("local 10", "<rtt> <loss> <linkmbps>"),
        ("local --buffer 9", "--queue"),
        ("local --attempts 9", "--give-up"),
        ("localhost --rwnd 1mib", "rdt-recv --rwnd"),
        ("localhost --seed 1", "rdt-recv --seed"),
        ("local --rwnd 1431", "at least 1432"),
        ("localhost --ack 1/0ms", "rdt-recv --ack"),
        ("local --ack 2", "count/time"),
        ("local --ack 0/1ms", "from 1 to 256"),
        ("local --ack 2/2s", "at most 1s"),
        ("local --ack 2/25", "has no unit"),
        ("local --rwnd x", "--rwnd"),
        ("local --cc vegas", "fixed:n, reno, cubic or bbr"),
        ("local --cc fixed", "fixed:64"),
        ("local --cc fixed:0", "fixed:64"),
        ("local --cc reno:3", "just reno"),
        ("local --cc fixed:1000000", "--memory"),
        ("local --memory 10", "--memory must hold a packet"),
        ("local --recovery best", "rack, sack, newreno, reno, tahoe or base-only"),
        ("local --sack maybe", "--sack"),
        ("local --sack off --recovery rack", "--sack off"),
        ("local --sack off --recovery sack", "--sack off"),
        ("local --sack on --recovery newreno", "--sack on"),
        ("local --initial-window 0", "at least 1"),
        ("local --initial-window -1", "at least 1"),
        ("local --initial-window x", "at least 1"),
        ("local --initial-window 3 --cc fixed:3", "fixed"),
        ("local --sack on --recovery tahoe", "--sack on"),
        ("local --cc reno --loss-window 2", "--loss-window must be 1 or initial"),
        ("local --loss-window 1", "bbr has its own window"),
        ("local --loss-window initial --cc fixed:3", "--cc reno or cubic"),
        ("local --min-rto 0s", "at least 1ms"),
        ("local --parallel 2 --csv table.csv", "--csv"),
        ("local --parallel 2 --idle-rtt 3", "--idle-rtt"),
        ("local --max-rto 1", "has no unit"),
        ("local --pacing 1", "--pacing"),
        ("local --ecn 1", "--ecn"),
        ("local --ecn on --cc fixed:3", "does not go with --cc fixed:3"),
        ("local --give-up 5", "has no unit"),
        ("local --give-up 10ms", "at least 1s"),
        ("local --packet-size 127", "from 128"),
        ("local --packet-size 65508", "65507"),
        ("local --rtt 100", "100ms"),
        ("local --rtt 30s", "below 30 s"),
        ("local --rate 10", "10mbit"),
        ("local --rate 0mbit", "more than zero"),
        ("local --rate 1001gbit", "1000 gbit/s"),
        ("local --loss 100%", "--loss must be below 100 %"),
        ("local --loss 1%/200%", "probability"),
        ("local --loss x", "--loss"),
        ("local --queue 1x", "25p (packets), 64kb or 1.5bdp"),
        ("local --queue 25", "25p or 25bdp"),
        ("local --queue 0p", "--queue must be more than 0"),
        ("local --queue 0kb", "--queue must be more than 0"),
        ("local --rtt 10ms --rate 1mbit --queue 0bdp", "--queue must be more than 0"),
        ("local --wire best", "--wire"),
        ("local --secret-file s", "a key for this run alone"),
        ("localhost --insecure --identity k", "leave out --insecure"),
        ("localhost --give-up 90000s", "at most a day"),
    ] {
        assert_eq!(refused("rdt-send", &mut rdt_send(args), 64, word).stdout, b"", "{args}");
    }
    for (options, word) in [
        ("--rtt 50ms", "rtt is given twice: as 0.1 and as --rtt 50ms"),
        ("--rate 1mbit", "linkmbps is given twice"),
        ("--loss 1%", "loss is given twice"),
        ("--wire native --buffer 3 --queue 3p", "twice"),
        ("--queue 3p", "--queue is for the native format"),
        ("--cc bbr", "--wire native"),
        ("--recovery rack", "--wire native"),
        ("--sack off", "--wire native"),
        ("--initial-window 3", "--wire native"),
        ("--loss-window 1", "--wire native"),
        ("--min-rto 1s", "--wire native"),
        ("--pacing off", "--wire native"),
        ("--ecn off", "--wire native"),
        ("--rwnd 1mib", "--wire native"),
        ("--give-up 3s", "--wire native"),
        ("--wire native --attempts 3", "--give-up"),
        ("--insecure", "classic packets are never encrypted"),
        ("--known-hosts k", "--wire native"),
        ("--wire native --initial-window 3", "fixed:10"),
        ("--wire native --recovery best", "rack, sack"),
    ] {
        refused("rdt-send", &mut rdt_send(&format!("{POSITIONAL} {options}")), 64, word);
    }
    for (args, word) in [
        ("local 0 0.1 0 100", "window"),
        ("local 10 30 0 100", "rtt"),
        ("local 10 0.1 1 100", "loss"),
        ("local 10 0.1 0 10001", "link rate"),
        ("local 10 0.1 0 0.0000001", "link rate"),
    ] {
        refused("rdt-send", &mut rdt_send(&format!("{args} --wire native")), 64, word);
    }
}

#[test]
fn invalid_measurements_and_names_are_refused() {
    for (args, word) in [
        ("local --max-rate 50", "has no unit"),
        ("local --max-rate 7bit", "at least 8bit"),
        ("local --parallel 0", "from 1 to 128"),
        ("local --parallel 2 -", "standard input"),
        ("local --parallel 2 --debug", "--debug"),
        ("local --time 1s --bytes 3", "cannot be used with"),
        ("local - --time 1s", "choose one"),
        ("local --time 0s", "from 1ms to a day"),
        ("local --omit 2", "has no unit"),
        ("local --idle-rtt 0", "--idle-rtt"),
        ("local --name a --no-name", "cannot be used with"),
    ] {
        assert_eq!(refused("rdt-send", &mut rdt_send(args), 64, word).stdout, b"", "{args}");
    }
    for (options, word) in [
        ("--name a", "a classic transfer has no name"),
        ("--no-name", "a classic transfer has no name"),
        ("--idle-rtt 3", "--idle-rtt is for the native format"),
    ] {
        let args = format!("local 10 0.1 0 100 {options}");
        refused("rdt-send", &mut rdt_send(&args), 64, word);
    }
}

#[test]
fn invalid_options_of_receiver_are_refused() {
    for (args, word) in [
        ("--rwnd x", "--rwnd"),
        ("--rwnd 1kb", "at least 1432"),
        ("--ack 1", "count/time"),
        ("--rwnd 1gib --memory 1gib", "8 times"),
        ("--rwnd 1mib --memory 1mib", "8 times"),
    ] {
        refused("rdt-recv", &mut rdt_recv(args), 64, word);
    }
}

#[test]
fn compatible_options_are_accepted() {
    for args in [
        "local 5 0.001 0 100 --wire native --queue 5p",
        "local 5 0.001 0 100 --wire native --cc cubic --buffer 9",
        "local --insecure --sack off --recovery base-only --cc fixed:5",
        "local --sack off --recovery base-only --cc fixed:5",
        "local --sack on --recovery sack",
        "local --sack off --recovery reno --cc cubic --loss-window initial",
        "local --recovery tahoe --cc reno --loss-window 1 --min-rto 1s --max-rto 60s",
        "local --queue 1bdp --rtt 1ms --rate 10mbit --loss 0/0",
        "local --ecn off --cc fixed:3",
        "local --max-rate 1gbit --insecure --pacing off",
        "local 50 0.001 0 100 --max-rate 1gbit",
        "local --ecn on --cc reno",
        "local --give-up 1s --initial-window 1 --rwnd 1432 --ack 1/0ms --pacing on",
    ] {
        send(&format!("{args} --bytes 9000 --quiet")).with_code(0);
    }
}
