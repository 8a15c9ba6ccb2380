//! Senders that a receiver admits: the formats it takes, and the rules for encrypted transfers.

use std::net::SocketAddr;
use std::sync::Arc;

use rdt_crypto::StaticKey;
use rdt_driver::{Remote, clock};
use rdt_identity::os_entropy;
use rdt_server::Server;
use rdt_transport::{ConnectionConfig, ConnectionSetConfig, ResponderConfig};
use rdt_trust::{Gate, ListenOptions, Surroundings, TicketUse, TrustError, reachable};

use crate::Failure;
use crate::args::{RecvArgs, WireArg};
use crate::output::log::EventLog;

/// Options that say who may send, for the sentence of [`TrustError::Unprotected`].
const OPTIONS: &str = "--ticket, --allow or --secret-file";

/// Decision of a receiver about its senders, for all its threads.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Rules for encrypted transfers.
    gate: Arc<Gate>,
    /// True if formats without encryption are taken.
    pub(crate) unauthenticated: bool,
    /// True if every host that reaches the receiver can store files.
    is_exposed: bool,
    ticket: Option<String>,
    address: SocketAddr,
}

/// Rules that follow from the options, before any file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rules {
    /// Whether formats without encryption are taken.
    unauthenticated: bool,
    /// Whether every encrypted sender is admitted.
    is_open: bool,
}

impl Rules {
    fn new(args: &RecvArgs, address: SocketAddr) -> Self {
        let trust = &args.trust;
        let is_limited = args.ticket || trust.allow.is_some() || trust.secret_file.is_some();
        let is_safe = args.output.is_none() || address.ip().to_canonical().is_loopback();
        Self {
            unauthenticated: args.wire != Some(WireArg::Native)
                && (args.insecure || (is_safe && !is_limited)),
            is_open: trust.open || (!is_limited && (args.insecure || args.output.is_none())),
        }
    }
}

impl Admission {
    /// Reads the own key, the allowed keys and the secret. `address` is the local one of the socket.
    /// Remarks about refused senders go to `log`, which does not wait for its reader.
    pub(crate) fn new(args: &RecvArgs, address: SocketAddr, log: &EventLog) -> Result<Self, Failure> {
        let Rules { unauthenticated, is_open } = Rules::new(args, address);
        let (remarks, log) = (log.clone(), log.clone());
        let is_quiet = args.quiet;
        let surroundings = Surroundings {
            say: Arc::new(move |line| {
                if !is_quiet {
                    remarks.talk(line);
                }
            }),
            warn: Arc::new(move |line| log.talk(line)),
            unix_time_s: Arc::new(clock::unix_time_s),
        };
        let trust = ListenOptions { open: is_open, ..args.trust.clone() };
        let gate = Arc::new(trust.gate(address, args.ticket, OPTIONS, &surroundings)?);
        let ticket = if args.ticket {
            let addresses = reachable(address, &args.advertise);
            let ticket = gate.issue(&addresses, TicketUse::OneClient, args.ticket_lifetime.as_secs())?;
            Some(ticket.to_string())
        } else {
            None
        };
        let is_exposed = args.output.is_some() && !address.ip().to_canonical().is_loopback();
        Ok(Self { gate, unauthenticated, is_exposed: is_exposed && unauthenticated, ticket, address })
    }

    /// Returns the ticket that the receiver prints.
    pub(crate) fn ticket(&self) -> Option<&str> {
        self.ticket.as_deref()
    }

    /// Returns the own key.
    pub(crate) fn identity(&self) -> &StaticKey {
        self.gate.identity()
    }

    /// Returns a warning if every host that reaches the receiver can store and change files.
    pub(crate) fn warning(&self) -> Option<String> {
        self.is_exposed.then(|| {
            format!(
                "--insecure: every host that reaches {} can store files here, and hosts on the path can change them unnoticed",
                self.address
            )
        })
    }

    /// Lets the server of thread `index` accept encrypted transfers.
    pub(crate) fn open(&self, index: usize, server: &mut Server<Remote>) -> Result<(), Failure> {
        let entropy = os_entropy().map_err(TrustError::Entropy)?;
        let responder: ResponderConfig = self.gate.responder(ConnectionConfig::default());
        let environment = ConnectionSetConfig {
            ip_of: Some(|remote: &Remote| remote.addr.ip()),
            unix_time: Some((clock::now(), clock::unix_time_s())),
            // A packet may reach the socket of another thread after its sender's address changed.
            reset_scope: ConnectionSetConfig::<Remote>::reset_scope_of(self.address, index),
            ..ConnectionSetConfig::default()
        };
        server.listen(responder, environment, entropy);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Returns whether formats without encryption are taken, and whether every sender is admitted.
    fn rules(options: &str, address: &str) -> (bool, bool) {
        let line = format!("rdt-recv {options}");
        let args = RecvArgs::try_parse_from(line.split_whitespace()).unwrap();
        let rules = Rules::new(&args, address.parse().unwrap());
        (rules.unauthenticated, rules.is_open)
    }

    #[test]
    fn options_and_address_decide_who_may_send() {
        let (any, local) = ("[::]:22345", "127.0.0.1:22345");
        for (options, address, expected) in [
            ("", any, (true, true)),
            ("--wire native", any, (false, true)),
            ("--output d", any, (false, false)),
            ("--output d", local, (true, false)),
            ("--output d", "[::ffff:127.0.0.1]:1", (true, false)),
            ("--output d --open", any, (false, true)),
            ("--output d --insecure", any, (true, true)),
            ("--output d --insecure --allow k", any, (true, false)),
            ("--output d --allow k", any, (false, false)),
            ("--output d --ticket", local, (false, false)),
            ("--secret-file s", any, (false, false)),
            ("--wire native --output d", local, (false, false)),
        ] {
            assert_eq!(rules(options, address), expected, "{options} {address}");
        }
    }
}
