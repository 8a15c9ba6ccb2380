//! Options that go with `--wire tcp` and `--wire udp`. All others are refused by name.

use super::Wire;
use super::datagram::{MAX_DATAGRAM, MIN_DATAGRAM};
use crate::args::native::MAX_GIVE_UP;
use crate::args::usage;
use crate::args::{SendArgs, target::Target};
use rdt_program::Failure;

/// Options of `rdt-send` about keys, for encrypted transfers over the network.
const KEYS: [&str; 3] = ["identity", "known-hosts", "secret-file"];
const LINK: [&str; 6] = ["rtt", "rate", "loss", "queue", "buffer", "seed"];

fn is_for_sender(option: &str, wire: Wire) -> bool {
    match option {
        "wire" | "reverse" | "power" | "bytes" | "time" | "omit" | "parallel" | "max-rate" | "interval"
        | "csv" | "force" | "quiet" | "json" | "connect-give-up" => true,
        "file" | "cc" | "no-progress" => wire == Wire::Tcp,
        "packet-size" => wire == Wire::Udp,
        "socket-buffer" => wire != Wire::Native,
        "give-up" => wire != Wire::Udp,
        _ => wire == Wire::Native && (option == "insecure" || KEYS.contains(&option)),
    }
}

fn is_for_receiver(option: &str, wire: Wire) -> bool {
    match option {
        "wire" | "bind" | "once" | "max-peers" | "max-per-source" | "no-reverse" | "max-rate" | "quiet"
        | "json" => true,
        "socket-buffer" => wire != Wire::Native,
        "measure" | "insecure" | "identity" | "allow" | "secret-file" | "open" | "ticket" | "advertise"
        | "ticket-lifetime" => wire == Wire::Native,
        _ => false,
    }
}

pub(super) fn check_send(args: &SendArgs, wire: Wire) -> Result<(), Failure> {
    let name = option(wire);
    let positional = args.window.is_some() || args.stdin.is_some();
    if args.given.iter().any(|option| LINK.contains(&option.as_str())) || args.rtt_s.is_some() {
        return Err(usage(format!(
            "{name} emulates no link: rdt-emu run --rtt 20ms --rate 50mbit --server 'rdt-recv {}' -- \
             sh -c 'rdt-send $RDT_PEER {name} ...'",
            option_of_receiver(wire)
        )));
    }
    if positional {
        return Err(usage(format!("{name} takes HOST alone: no window, and no standard input")));
    }
    refuse_others(&args.given, is_for_sender, wire, name)?;
    check_host(args, wire)?;
    check_data(args, name)?;
    match wire {
        Wire::Tcp => {}
        Wire::Udp => check_udp(args)?,
        Wire::Native => check_native(args)?,
    }
    match args.native.cc {
        Some(rdt_transport::congestion::Algorithm::Fixed(_)) => {
            Err(usage("--wire tcp takes --cc reno, cubic or bbr: the kernel has no fixed window"))
        }
        _ => Ok(()),
    }
}

fn check_host(args: &SendArgs, wire: Wire) -> Result<(), Failure> {
    match (&args.host, wire) {
        (None, _) => Err(usage("the following argument is missing: <HOST>; see --help")),
        (Some(host), Wire::Tcp | Wire::Udp) if matches!(host.value, Target::Ticket(_)) => {
            Err(usage(format!("{} has no keys, so a ticket is no HOST for it", option(wire))))
        }
        (Some(host), Wire::Native) if args.insecure && matches!(host.value, Target::Ticket(_)) => {
            Err(usage("a ticket is for encrypted transfers: leave out --insecure"))
        }
        _ => Ok(()),
    }
}

fn check_data(args: &SendArgs, name: &str) -> Result<(), Failure> {
    if args.file.as_deref().is_some_and(|path| path == std::path::Path::new("-")) {
        return Err(usage(format!(
            "{name} sends files and the array: the standard input goes with the native format"
        )));
    }
    if args.parallel > 1 && (args.csv.is_some() || args.interval.is_some()) {
        return Err(usage("--parallel goes neither with --csv nor with --interval"));
    }
    if args.reverse && args.given.iter().any(|option| option == "no-progress") {
        return Err(usage("--no-progress is for data that this side sends: with --reverse, --give-up"));
    }
    if args.reverse && args.file.is_some() {
        return Err(usage(
            "--reverse receives generated data: --time, --bytes or --power say how much, not --file",
        ));
    }
    Ok(())
}

fn check_udp(args: &SendArgs) -> Result<(), Failure> {
    let Some(rate) = args.max_rate else {
        return Err(usage("--wire udp sends at a constant rate: --max-rate RATE says which, such as 50mbit"));
    };
    if rate > u64::from(u32::MAX) * 64 {
        return Err(usage("--max-rate of --wire udp is at most 2000gbit"));
    }
    if !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&args.packet_size) {
        return Err(usage(format!(
            "--packet-size of --wire udp must be from {MIN_DATAGRAM} to {MAX_DATAGRAM} bytes"
        )));
    }
    Ok(())
}

fn check_native(args: &SendArgs) -> Result<(), Failure> {
    if args.native.give_up.is_some_and(|time| time > MAX_GIVE_UP) {
        return Err(usage("--give-up of a native transfer is at most a day (86400s)"));
    }
    let is_local = args.host.as_ref().is_some_and(|host| host.value == Target::Local);
    match args.given.iter().find(|option| KEYS.contains(&option.as_str())) {
        Some(option) if is_local => Err(usage(format!(
            "--{option} is for a receiver on the network: that of HOST local has a key for this run alone"
        ))),
        Some(option) if args.insecure => {
            Err(usage(format!("--{option} is for encrypted transfers: leave out --insecure")))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_recv(given: &[String], wire: Wire) -> Result<(), Failure> {
    if given.iter().any(|option| option == "output") {
        return Err(usage(format!(
            "{} counts what arrives and stores nothing: leave out --output",
            option_of_receiver(wire)
        )));
    }
    refuse_others(given, is_for_receiver, wire, option_of_receiver(wire))
}

fn refuse_others(
    given: &[String],
    is_for: fn(&str, Wire) -> bool,
    wire: Wire,
    name: &str,
) -> Result<(), Failure> {
    match given.iter().find(|option| !is_for(option, wire)) {
        Some(option) => Err(usage(format!("--{option} does not go with {name}"))),
        None => Ok(()),
    }
}

/// Returns the option of `rdt-send` that selects a wire.
fn option(wire: Wire) -> &'static str {
    match wire {
        Wire::Tcp => "--wire tcp",
        Wire::Udp => "--wire udp",
        Wire::Native => "--reverse",
    }
}

/// Returns the option of `rdt-recv` that selects a wire.
pub(super) fn option_of_receiver(wire: Wire) -> &'static str {
    match wire {
        Wire::Native => "--measure",
        other => option(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> Option<String> {
        let line = format!("rdt-send {line}");
        let args = SendArgs::read(line.split_whitespace().map(Into::into)).unwrap();
        let wire = args.kernel_wire().unwrap();
        check_send(&args, wire).err().map(|failure| failure.to_string())
    }

    #[test]
    fn options_without_meaning_are_refused_by_name() {
        for (line, part) in [
            ("h --wire tcp --rtt 20ms", "rdt-emu run"),
            ("h 1 0 0 1 --wire tcp", "rdt-emu run"),
            ("h --wire udp --max-rate 1mbit --seed 3", "rdt-emu run"),
            ("h - --wire tcp", "standard input"),
            ("h --file - --wire tcp", "standard input"),
            ("h --wire tcp --recovery rack", "--recovery does not go with --wire tcp"),
            ("h --wire tcp --insecure", "--insecure does not go"),
            ("h --wire tcp --packet-size 999", "--packet-size does not go"),
            ("h --wire tcp --identity k", "--identity does not go"),
            ("h --wire tcp --cc fixed:3", "no fixed window"),
            ("h --wire udp", "--max-rate RATE"),
            ("h --wire udp --max-rate 1mbit --cc reno", "--cc does not go with --wire udp"),
            ("h --wire udp --max-rate 1mbit --file f", "--file does not go with --wire udp"),
            ("h --wire udp --max-rate 1mbit --packet-size 79", "from 80 to 65507"),
            ("h --wire tcp --reverse --file f", "generated data"),
            ("h --wire tcp --reverse --no-progress 3s", "--give-up"),
            ("h --wire tcp --parallel 2 --csv f", "--csv"),
            ("h --reverse --parallel 2 --interval 1s", "--interval"),
            ("--wire tcp", "<HOST>"),
            ("h --reverse --cc bbr", "--cc does not go with --reverse"),
            ("h --reverse --rtt 1s", "rdt-recv --measure"),
            ("h --reverse --give-up 90000s", "at most a day"),
            ("h --reverse --insecure --identity k", "leave out --insecure"),
            ("local --reverse --identity k", "--identity is for a receiver on the network"),
            ("local --reverse --secret-file s", "--secret-file is for a receiver on the network"),
        ] {
            let sentence = refusal(line).unwrap_or_default();
            assert!(sentence.contains(part), "{line}: {sentence}");
        }
        for line in [
            "h --wire tcp --cc cubic --time 1s --omit 1s --parallel 3 --json --socket-buffer 1mib --max-rate 1mbit",
            "h --wire tcp --file f --interval 1s --csv c --force --quiet --give-up 3s",
            "h --reverse --time 1s --omit 1s --max-rate 1mbit --identity k --parallel 2",
            "h --reverse --insecure",
            "local --wire udp --max-rate 1mbit --bytes 1mb --packet-size 1400 --connect-give-up 2s --reverse",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}
