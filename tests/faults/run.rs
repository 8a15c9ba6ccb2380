//! Runs a plan and checks the result at both ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdt::emulator::{Ledger, Path};
use rdt::sim::payload;
use rdt::sim::{NodeId, Outcome, Simulation, Transfer, WireId};
use rdt::transport::wire::native::CloseReason;
use rdt::transport::{LossDetection, Phase, TransferError};

use crate::faults::bounds::{self, Facts};
use crate::faults::checker::{Checker, Shared};
use crate::faults::plan::{Kind, Plan, Restart};

/// Longer than any transfer takes to finish or fail.
pub(super) const LIMIT: Duration = Duration::from_secs(36_000);
/// Longer than the receiver's idle timeout.
const IDLE: Duration = Duration::from_secs(150);

/// Result of a plan that broke no rule.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) finished: bool,
    /// True if it had to finish.
    pub(super) must: bool,
    pub(super) datagrams: u64,
    /// Share of the time bound that it used.
    pub(super) share: f64,
}

struct Run<'a> {
    plan: &'a Plan,
    simulation: Simulation,
    sender: NodeId,
    server: NodeId,
    wire: WireId,
    shared: Shared,
}

/// Runs `plan`.
///
/// # Errors
/// Returns the rule that was broken.
pub(super) fn run(plan: &Plan) -> Result<Done, String> {
    let mut simulation = Simulation::new();
    let server = simulation.add_server(plan.server(1));
    let wire = simulation.add_wire(Path::new(plan.path.clone(), plan.seed));
    let sender = simulation.add_sender(plan.sender.clone(), server, plan.bytes).unwrap();
    simulation.route(sender, server, wire);
    let mut checker = Checker::new(sender, plan.bytes, plan.forged, plan.seed);
    checker.tahoe = plan.sender.recovery == LossDetection::Tahoe;
    let shared = Shared(Arc::new(Mutex::new(checker)));
    simulation.intercept(Box::new(shared.clone()));
    simulation.sender_mut(sender).sender.observe(Box::new(shared.clone()));
    let mut run = Run { plan, simulation, sender, server, wire, shared };
    run.all().map_err(|broken| format!("{broken}\n    {}", run.summary()))
}

fn crc_of_array(bytes: u64) -> u32 {
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    payload::fill(0, &mut data);
    crc32fast::hash(&data)
}

pub(super) fn rule(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Run<'_> {
    fn all(&mut self) -> Result<Done, String> {
        let ended = self.play();
        self.on_the_wire()?;
        rule(ended, || format!("after {LIMIT:?} it neither finished nor failed"))?;
        let elapsed = self.simulation.elapsed();
        let outcome = self.simulation.sender(self.sender).outcome.clone();
        let received = self.received();
        let finished = self.outcome(&outcome, &received)?;
        self.at_the_sender(finished)?;
        let share = self.in_time(&outcome, elapsed)?;
        self.afterwards(finished)?;
        Ok(Done { finished, must: self.plan.must_finish, datagrams: self.simulation.datagrams(), share })
    }

    /// State of both ends and of the path, for debugging a fault.
    fn summary(&self) -> String {
        let node = self.simulation.sender(self.sender);
        let listener = self.simulation.server(self.server).server.listener().stats();
        let path = self.simulation.wire(self.wire);
        let drops = |ledger: &Ledger| {
            let Ledger { sent, dropped_loss, dropped_queue, dropped_outage, dropped_mtu, .. } = *ledger;
            format!(
                "{sent} sent, lost {dropped_loss} queue {dropped_queue} outage {dropped_outage} mtu {dropped_mtu}"
            )
        };
        format!(
            "{:?} after {:?}\n    {:?}\n    {listener:?}\n    forward {}\n    reverse {}",
            node.outcome,
            self.simulation.elapsed(),
            node.sender.stats(),
            drops(path.forward.ledger()),
            drops(path.reverse.ledger()),
        )
    }

    /// Runs the plan; returns true if the sender's transfer ended.
    fn play(&mut self) -> bool {
        let mut acts: Vec<(Duration, Option<Restart>)> = Vec::new();
        acts.extend(self.plan.stall.map(|(from, _)| (from, None)));
        acts.extend(self.plan.restart.map(|(at, who)| (at, Some(who))));
        acts.sort_by_key(|(at, _)| *at);
        for (at, restart) in acts {
            if self.simulation.run_senders(at) {
                break;
            }
            self.simulation.run_until(at);
            match (restart, self.plan.stall) {
                (Some(who), _) => self.restart(who),
                (None, Some((_, until))) => self.simulation.stall_server(self.server, until),
                (None, None) => {}
            }
        }
        self.simulation.run_senders(LIMIT)
    }

    fn restart(&mut self, who: Restart) {
        match who {
            Restart::Sender => {
                let config = self.plan.second_sender();
                self.simulation.restart_sender(self.sender, config, self.plan.bytes).unwrap();
                let observer = Box::new(self.shared.clone());
                self.simulation.sender_mut(self.sender).sender.observe(observer);
            }
            Restart::Receiver { new_secret } => {
                let secret = if new_secret { 2 } else { 1 };
                self.simulation.restart_server(self.server, self.plan.server(secret));
                self.shared.0.lock().unwrap().forgotten = true;
            }
        }
    }

    fn on_the_wire(&self) -> Result<(), String> {
        match &self.shared.0.lock().unwrap().violation {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    fn received(&self) -> Transfer {
        self.simulation.server(self.server).transfers.get(&self.sender).cloned().unwrap_or_default()
    }

    fn forgetful(&self) -> bool {
        matches!(self.plan.restart, Some((_, Restart::Receiver { .. })))
    }

    /// Checks that every byte arrived once and in order, or that the error is documented. Returns
    /// true if the transfer finished.
    fn outcome(&self, outcome: &Outcome, received: &Transfer) -> Result<bool, String> {
        rule(received.intact, || "a byte is wrong, missing or twice".to_owned())?;
        match outcome {
            Outcome::Finished { crc } => {
                let expected = crc_of_array(self.plan.bytes);
                rule(*crc == expected, || format!("CRC {crc:#x} instead of {expected:#x}"))?;
                let all = received.bytes == self.plan.bytes && received.crc == Some(*crc);
                rule(all || self.forgetful(), || format!("finished, but {received:?}"))?;
                Ok(true)
            }
            Outcome::Failed { phase, error: TransferError::Timeout { .. } } => {
                let must = self.plan.must_finish || self.plan.must_hear;
                rule(!must, || format!("gave up in {phase} although the path was good"))?;
                // After a restart of the sender, the first transfer may be complete.
                let again = matches!(self.plan.restart, Some((_, Restart::Sender)));
                let open = received.crc.is_none() || *phase == Phase::Close || again;
                rule(open, || format!("finished at one end, failed in {phase} at the other"))?;
                Ok(false)
            }
            Outcome::Failed { phase, error: TransferError::Closed(CloseReason::NoConnection) } => {
                rule(!self.plan.must_finish, || format!("reset in {phase} although the path was good"))?;
                // The receiver restarted, or its idle timeout expired.
                let forgot = self.forgetful() || received.closed.is_some();
                rule(forgot, || format!("stateless reset in {phase}, but {received:?}"))?;
                Ok(false)
            }
            Outcome::Failed { error: TransferError::InvalidAcks, .. } => {
                let stats = self.simulation.sender(self.sender).sender.stats();
                let forged = self.plan.forged > 0 && stats.acks_beyond >= 100;
                rule(forged, || "valid ACKs ended the transfer".to_owned())?;
                Ok(false)
            }
            other => Err(format!("an undocumented end: {other:?}")),
        }
    }

    fn at_the_sender(&self, finished: bool) -> Result<(), String> {
        let stats = self.simulation.sender(self.sender).sender.stats();
        let (min, rtt) = (stats.min_rtt, self.plan.rtt);
        rule(min.is_none_or(|min| min >= rtt), || format!("a round trip of {min:?} on a path of {rtt:?}"))?;
        // Base-only and Reno repair one hole of a window without a timeout.
        let repairs = !matches!(self.plan.sender.recovery, LossDetection::BaseOnly | LossDetection::Reno);
        if self.plan.kind == Kind::TwoLosses && repairs {
            rule(finished && stats.timeouts == 0, || {
                format!("{} timeouts for two losses in mid-transfer", stats.timeouts)
            })?;
        }
        let again = stats.retransmitted;
        match bounds::most_sent_again(self.plan, &self.facts()) {
            Some(most) => {
                rule(again as f64 <= most, || format!("{again} retransmissions, at most {most:.0} expected"))
            }
            None => Ok(()),
        }
    }

    fn facts(&self) -> Facts {
        let path = self.simulation.wire(self.wire);
        let (forward, reverse) = (*path.forward.ledger(), *path.reverse.ledger());
        let checker = self.shared.0.lock().unwrap();
        let (in_a_row, controls) = checker.repeated();
        let without_syn = self.simulation.server(self.server).server.listener().stats().no_connection;
        Facts { forward, reverse, at_stake: checker.at_stake(), in_a_row, without_syn, controls }
    }

    /// Checks the time bound; returns the share that was used.
    fn in_time(&self, outcome: &Outcome, elapsed: Duration) -> Result<f64, String> {
        let longest = bounds::longest(self.plan, &self.facts());
        let share = elapsed.as_secs_f64() / longest.as_secs_f64();
        rule(share <= 1.0, || format!("{outcome:?} after {elapsed:?}, at most {longest:?} expected"))?;
        Ok(share)
    }

    /// Checks that no state remains and that both ends agree on the result.
    fn afterwards(&mut self, finished: bool) -> Result<(), String> {
        let stalled = self.plan.stall.map_or(Duration::ZERO, |(_, until)| until);
        let end = self.simulation.elapsed().max(stalled);
        self.simulation.run_until(end + IDLE);
        self.on_the_wire()?;
        let node = self.simulation.server(self.server);
        let left = (node.server.listener().active(), node.server.memory());
        rule(left == (0, 0), || format!("{} peers and {} bytes are left", left.0, left.1))?;
        let received = self.received();
        let closed = received == Transfer::default() || received.closed == Some(received.crc.is_none());
        rule(closed, || format!("the receiver did not see the end: {received:?}"))?;
        let got_all = received.crc.is_some() || self.forgetful();
        rule(!finished || got_all, || format!("finished at the sender, but {received:?}"))?;
        let path = self.simulation.wire(self.wire);
        for ledger in [path.forward.ledger(), path.reverse.ledger()] {
            rule(ledger.balances() && ledger.in_flight == 0, || format!("the ledger is off: {ledger:?}"))?;
        }
        Ok(())
    }
}
