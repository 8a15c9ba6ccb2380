//! Frame of `rdt-send`, the same for transfers that their receiver stores and for those that are
//! measured alone: the data, the receiver, one transfer or several at once, the end.

use rdt_program::{Console, Failure, Stop};
use serde_json::Value;

use crate::args::target::Target;
use crate::args::{Given, SendArgs};
use crate::data::Data;
use crate::host::{Found, Local, find};
use crate::output::qlog_file::check_outputs;
use crate::output::status::{Status, Style};
use crate::parallel::{self, Ended};

/// One kind of transfers.
pub(crate) trait Kind: Sync {
    /// Returns the arguments, and whether a `-` among them selects the standard input.
    fn args(&self) -> (&SendArgs, bool);
    fn host(&self) -> &Given<Target>;
    /// Returns the name of the wire in JSON.
    fn wire(&self) -> &'static str;
    fn is_encrypted(&self) -> bool;
    fn status(&self, console: Console, style: Style) -> Status;
    /// Prints the first lines.
    fn announce(&self, status: &Status, data: &Data) -> Result<(), Failure>;
    /// Starts the receiver in this process (HOST `local`).
    fn start_local(&self) -> Result<Local, Failure>;
    /// Runs a transfer, and prints its last lines.
    fn run(&self, found: &Found, status: Status, data: Data, stop: &Stop) -> Result<Ended, Failure>;
    /// Returns the summary of a transfer that was not opened.
    fn unopened(&self, status: Status, failure: &Failure) -> Value;
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
    let start_local = || kind.start_local();
    let found =
        find(args, &kind.host().value, kind.is_encrypted(), start_local, &status).map_err(unopened)?;
    let finish = || found.local.as_ref().map_or(Ok(None), Local::finish);
    let stop = Stop::default();
    stop.on_interrupt();
    let ended = if args.parallel > 1 {
        let one = || {
            let silent = kind.status(Console::default(), Style::Silent);
            kind.run(&found, silent, Data::parse(args, is_stdin)?, &stop)
        };
        let ended = parallel::run_all(args.parallel, one);
        let report = finish()?;
        parallel::conclude(args, (kind.host().name(), kind.wire()), &status, ended, report.as_ref())
    } else {
        let ended = kind.run(&found, status, data, &stop).map_err(unopened)?;
        finish()?;
        ended.failure.map_or(Ok(()), Err)
    };
    ended?;
    console.finish(args.json).map_err(Failure::stdout)
}
