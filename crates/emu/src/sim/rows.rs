//! Outcomes as lines of CSV or JSON, with the columns and keys documented in `docs/EMULATOR.md`.

use std::io::{self, Write};
use std::time::Duration;

use rdt_emulator::{Direction, DropCause, Ecn};
use rdt_program::json::{nanos, seed as seed_json, versioned};
use serde_json::{Value, json};

use crate::account::Account;
use crate::host::NAMES;
use crate::json;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Json,
}

/// Outcome of a packet, or of its duplicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Number of the packet in its direction, from 0 in the order of sending.
    pub(super) n: u64,
    pub(super) direction: Direction,
    /// Time of sending, since the start.
    pub(super) sent: Duration,
    /// Packet size, bytes.
    pub(super) size: usize,
    pub(super) outcome: Outcome,
    pub(super) is_copy: bool,
    pub(super) is_corrupted: bool,
    pub(super) ecn: Ecn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Due time since the start.
    Delivered(Duration),
    Dropped(DropCause),
}

pub(super) struct Rows<W> {
    out: W,
    format: Format,
}

impl<W: Write> Rows<W> {
    pub(super) const fn new(out: W, format: Format) -> Self {
        Self { out, format }
    }

    pub(super) fn head(&mut self) -> io::Result<()> {
        match self.format {
            Format::Csv => {
                writeln!(self.out, "n,direction,sent_ns,size_bytes,fate,due_ns,duplicate,corrupted,ecn")
            }
            Format::Json => Ok(()),
        }
    }

    pub(super) fn row(&mut self, row: &Row) -> io::Result<()> {
        let direction = NAMES[row.direction as usize];
        let ecn = match row.ecn {
            Ecn::NotEct => "not-ect",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        };
        let (fate, due) = match row.outcome {
            Outcome::Delivered(due) => ("delivered", Some(due)),
            Outcome::Dropped(cause) => (cause.name(), None),
        };
        let Row { n, sent, size, is_copy, is_corrupted, .. } = *row;
        match self.format {
            Format::Csv => {
                let due = due.map(|due| nanos(due).to_string()).unwrap_or_default();
                writeln!(
                    self.out,
                    "{n},{direction},{},{size},{fate},{due},{},{},{ecn}",
                    nanos(sent),
                    u8::from(is_copy),
                    u8::from(is_corrupted)
                )
            }
            Format::Json => {
                let object = versioned(json!({
                    "event": "packet",
                    "n": n,
                    "direction": direction,
                    "sent_ns": nanos(sent),
                    "size_bytes": size,
                    "fate": fate,
                    "due_ns": due.map(nanos),
                    "duplicate": is_copy,
                    "corrupted": is_corrupted,
                    "ecn": ecn,
                }));
                writeln!(self.out, "{object}")
            }
        }
    }

    /// Ends the output: in JSON with the accounts, whose array has forward first.
    pub(super) fn end(&mut self, seed: u64, elapsed: Duration, accounts: &[Account; 2]) -> io::Result<()> {
        if self.format == Format::Json {
            let [forward, reverse] = accounts.each_ref().map(direction);
            let object = versioned(json!({
                "event": "end",
                "mode": "sim",
                "seed": seed_json(seed),
                "time_ns": nanos(elapsed),
                "balances": accounts.iter().all(|account| account.ledger.balances()),
                "forward": forward,
                "reverse": reverse,
            }));
            writeln!(self.out, "{object}")?;
        }
        self.out.flush()
    }
}

/// Formats an account without lateness and refusals, which do not exist in virtual time.
fn direction(account: &Account) -> Value {
    let mut object = json::ledger(&account.ledger);
    json::extend(&mut object, json!({ "queue_delay_ns": json::percentiles(&account.queue_delays) }));
    object
}
