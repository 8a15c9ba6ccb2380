//! Frame of `rdt-send`, the same for transfers that their receiver stores and for those that are
//! measured alone: the data, the receiver, one transfer or several at once, the end.

use rdt_program::{Console, Stop};
use serde_json::Value;

use crate::Failure;
use crate::args::SendArgs;
use crate::data::Data;
use crate::host::Found;
use crate::output::qlog_file::check_outputs;
use crate::output::receiver_report::ReceiverReport;
use crate::output::status::{Status, Style};
use crate::parallel::{self, Ended};

/// One kind of transfers.
pub(crate) trait Kind: Sync {
    /// Receiver in this process (HOST `local`).
    type Local: Sync;

    /// Returns the arguments, and whether a `-` among them selects the standard input.
    fn args(&self) -> (&SendArgs, bool);
    /// Returns the names of the host and, in JSON, of the wire.
    fn names(&self) -> (String, &'static str);
    fn status(&self, console: Console, style: Style) -> Status;
    /// Prints the first lines.
    fn announce(&self, status: &Status, data: &Data) -> Result<(), Failure>;
    /// Finds the receiver, or starts the one in this process.
    fn find(&self, status: &Status) -> Result<Found<Self::Local>, Failure>;
    /// Runs a transfer, and prints its last lines.
    fn run(
        &self,
        found: &Found<Self::Local>,
        status: Status,
        data: Data,
        stop: &Stop,
    ) -> Result<Ended, Failure>;
    /// Returns the summary of a transfer that was not opened.
    fn unopened(&self, status: Status, failure: &Failure) -> Value;
    /// Ends the receiver in this process, if it has not ended. Returns its report, if it has one.
    fn finish(local: &Self::Local) -> Result<Option<ReceiverReport>, Failure>;
}

/// Runs the program for transfers of this kind.
pub(crate) fn run(kind: &impl Kind) -> Result<(), Failure> {
    let (args, is_stdin) = kind.args();
    let data = Data::parse(args, is_stdin)?;
    check_outputs(args, &data)?;
    let console = Console::default();
    let new_status = || kind.status(console.clone(), Style::of(args));
    let status = new_status();
    kind.announce(&status, &data)?;
    let unopened = |failure| {
        new_status().summary(kind.unopened(new_status(), &failure));
        failure
    };
    let found = kind.find(&status).map_err(unopened)?;
    let stop = Stop::default();
    stop.on_interrupt();
    let ended = if args.parallel > 1 {
        let one = || {
            let silent = kind.status(Console::default(), Style::Silent);
            kind.run(&found, silent, Data::parse(args, is_stdin)?, &stop)
        };
        let ended = parallel::run_all(args.parallel, one);
        let report = finish(kind, &found)?;
        parallel::conclude(args, kind.names(), &status, ended, report.as_ref())
    } else {
        let ended = kind.run(&found, status, data, &stop).map_err(unopened)?;
        finish(kind, &found)?;
        ended.failure.map_or(Ok(()), Err)
    };
    ended?;
    console.finish(args.json).map_err(Failure::stdout)
}

fn finish<K: Kind>(_: &K, found: &Found<K::Local>) -> Result<Option<ReceiverReport>, Failure> {
    found.local.as_ref().map_or(Ok(None), K::finish)
}
