//! Runs a plan and checks the result at both ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdt::emulator::{Ledger, Path};
use rdt::sim::{Exchange, NodeId, Simulation, WireId};
use rdt::transport::{Connection, ConnectionId, ConnectionSetConfig, LossDetection};
use rdt::{Closed, SenderStats};

use crate::faults::bounds::{self, Facts};
use crate::faults::checker::{Checker, INITIATOR, RESPONDER, Watch};
use crate::faults::meddler::{Meddler, Shared};
use crate::faults::opening::{IDLE, Opening};
use crate::faults::plan::{Kind, Plan, Restart};

/// Longer than any connection takes to finish or fail.
const LIMIT: Duration = Duration::from_secs(36_000);
/// Longer than the idle timeout and all that a closed connection repeats.
const AFTERWARDS: Duration = Duration::from_secs(200);
/// Longer than an ended connection repeats its last answers.
const LINGER: Duration = Duration::from_secs(15);
/// Time of each control packet that may be lost, besides data.
const CONTROL: Duration = Duration::from_secs(2);

/// Times at which key updates fall due, of one seed in three: the first ones while the packets of
/// the update before may be lost or under way.
const KEY_UPDATES_MS: [u64; 10] = [30, 60, 90, 180, 270, 810, 2430, 7290, 21_870, 65_610];

/// Times at which the initiator gets another address, of four seeds in eleven.
const MOVES_MS: [u64; 3] = [50, 700, 9000];
/// Time that a move may cost: the peer hears of it by a keep-alive after at most 12 s, proves the
/// address, and sends what it had sent to the old one again.
const MOVE: Duration = Duration::from_secs(20);

/// Longest delay of an ACK, the default of a receiver.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

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
    opening: Opening,
    simulation: Simulation,
    initiator: NodeId,
    responder: NodeId,
    wire: WireId,
    /// Newest connection of the initiator.
    id: ConnectionId,
    meddler: Arc<Mutex<Meddler>>,
    /// `None` for a connection with a cipher.
    checker: Option<Arc<Mutex<Checker>>>,
}

/// Event of a plan.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The responder reads nothing until this time.
    Stall(Duration),
    Restart(Restart),
    UpdateKeys,
    Move,
}

/// Runs `plan`.
///
/// # Errors
/// Returns the rule that was broken.
pub(super) fn run(plan: &Plan) -> Result<Done, String> {
    let mut run = Run::new(plan)?;
    run.all().map_err(|broken| format!("{broken}\n    {}", run.summary()))
}

fn rule(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// True if the initiator changes its address. Not beside a restart, after which nothing moves.
fn moves(plan: &Plan) -> bool {
    plan.seed % 11 < 4 && plan.restart.is_none()
}

/// True if both sides update their keys.
fn updates_keys(plan: &Plan) -> bool {
    plan.seed % 3 == 1
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan) -> Result<Self, String> {
        let mut simulation = Simulation::new();
        let opening = Opening::of(plan);
        let set = set_config(plan);
        let initiator = simulation.add_connections(set, 2 * plan.seed);
        let responder = simulation.add_connections(set, 2 * plan.seed + 1);
        simulation.listen(responder, opening.responder.clone(), opening.answer);
        let wire = simulation.add_wire(Path::new(plan.path.clone(), plan.seed));
        simulation.route(initiator, responder, wire);
        let checker = opening.config.dangerously_unencrypted.then(|| {
            let tahoe = plan.sender.recovery == LossDetection::Tahoe;
            let (bytes, window) = ([plan.bytes, opening.answer], plan.window.initial);
            let has_auth = opening.keys.remote.is_none();
            let max_ack_delay = plan.must_finish.then_some(MAX_ACK_DELAY);
            let nodes = [initiator, responder];
            Arc::new(Mutex::new(Checker::new(nodes, bytes, window, tahoe, has_auth, max_ack_delay)))
        });
        let forging = (plan.forged, updates_keys(plan));
        let meddler = Meddler::new(plan.seed, forging, responder, checker.clone());
        let meddler = Arc::new(Mutex::new(meddler));
        simulation.intercept(Box::new(Shared(meddler.clone())));
        let (keys, config) = (opening.keys.clone(), opening.config.clone());
        let id = simulation
            .connect(initiator, responder, keys, config, plan.bytes)
            .map_err(|error| error.to_string())?;
        let mut run = Self { plan, opening, simulation, initiator, responder, wire, id, meddler, checker };
        run.watch();
        Ok(run)
    }

    /// Lets the checker observe both streams. After a restart, connections of two lives could be
    /// open at the responder.
    fn watch(&mut self) {
        let Some(checker) = self.checker.clone() else { return };
        let now = self.simulation.now();
        let watch = Box::new(Watch(checker.clone(), INITIATOR));
        self.simulation.connections_mut(self.initiator).observe(now, self.id, watch);
        if self.plan.restart.is_none() {
            let make = move || Box::new(Watch(checker.clone(), RESPONDER)) as _;
            self.simulation.observe_accepted(self.responder, make);
        }
    }

    fn all(&mut self) -> Result<Done, String> {
        let ended = self.play();
        self.on_the_wire()?;
        rule(ended, || format!("after {LIMIT:?} it neither finished nor failed"))?;
        let elapsed = self.simulation.elapsed();
        let finished = self.outcome()?;
        self.at_both_senders(finished)?;
        let share = self.in_time(elapsed)?;
        self.afterwards()?;
        let must = self.plan.must_finish && self.plan.restart.is_none();
        Ok(Done { finished, must, datagrams: self.simulation.datagrams(), share })
    }

    /// State of both ends and of the path, for debugging a fault.
    fn summary(&self) -> String {
        let here = self.here();
        let stats = |node, id| self.simulation.connections(node).set.get(id).map(Connection::stats);
        format!(
            "after {:?}\n    initiator {here:?}\n    {:?}\n    responder {:?}\n    {:?}\n    {:?}",
            self.simulation.elapsed(),
            stats(self.initiator, self.id),
            self.simulation.connections(self.responder).exchanges,
            self.simulation.connections(self.responder).set.stats(),
            self.simulation.wire(self.wire).forward.ledger(),
        )
    }

    fn here(&self) -> &Exchange {
        &self.simulation.connections(self.initiator).exchanges[&self.id]
    }

    fn play(&mut self) -> bool {
        let mut acts: Vec<(Duration, Act)> = Vec::new();
        acts.extend(self.plan.stall.map(|(from, until)| (from, Act::Stall(until))));
        acts.extend(self.plan.restart.map(|(at, who)| (at, Act::Restart(who))));
        if updates_keys(self.plan) {
            acts.extend(KEY_UPDATES_MS.map(|ms| (Duration::from_millis(ms), Act::UpdateKeys)));
        }
        if moves(self.plan) {
            acts.extend(MOVES_MS.map(|ms| (Duration::from_millis(ms), Act::Move)));
        }
        acts.sort_by_key(|(at, _)| *at);
        for (at, act) in acts {
            if self.simulation.run_connections(at) {
                break;
            }
            self.simulation.run_until(at);
            match act {
                Act::Stall(until) => self.simulation.stall(self.responder, until),
                Act::Restart(who) => self.restart(who),
                Act::UpdateKeys => self.update_keys(),
                Act::Move => {
                    self.initiator = self.simulation.move_node(self.initiator);
                    self.simulation.route(self.initiator, self.responder, self.wire);
                    if let Some(checker) = &self.checker {
                        checker.lock().unwrap().initiator = self.initiator;
                    }
                }
            }
        }
        self.simulation.run_connections(LIMIT)
    }

    /// Makes key updates due at both ends.
    fn update_keys(&mut self) {
        let now = self.simulation.now();
        for node in [self.initiator, self.responder] {
            let node = self.simulation.connections_mut(node);
            for id in node.exchanges.keys().copied().collect::<Vec<_>>() {
                node.set.with(now, id, Connection::use_up_key);
            }
        }
    }

    /// Restarts a program: it has no connection any more, but the same static key.
    fn restart(&mut self, who: Restart) {
        let (set, seed) = (set_config(self.plan), !self.plan.seed);
        match who {
            Restart::Initiator => {
                self.simulation.restart_connections(self.initiator, set, seed);
                let Opening { keys, config, .. } = &self.opening;
                let (keys, config) = (keys.clone(), config.clone());
                let (from, to) = (self.initiator, self.responder);
                self.id = self.simulation.connect(from, to, keys, config, self.plan.bytes).unwrap();
                self.watch();
            }
            Restart::Responder => {
                self.simulation.restart_connections(self.responder, set, seed);
                self.simulation.listen(self.responder, self.opening.responder.clone(), self.opening.answer);
                if let Some(checker) = &self.checker {
                    checker.lock().unwrap().forgotten = true;
                }
            }
        }
    }

    fn on_the_wire(&self) -> Result<(), String> {
        rule(rdt::crypto::reused_nonces() == 0, || "a key sealed two packets under one number".to_owned())?;
        let checked = self.checker.as_ref().and_then(|checker| checker.lock().unwrap().violation.clone());
        match checked.or_else(|| self.meddler.lock().unwrap().violation.clone()) {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// Checks both ends. Returns true if everything was delivered.
    fn outcome(&self) -> Result<bool, String> {
        let here = self.here();
        let there = &self.simulation.connections(self.responder).exchanges;
        for exchange in there.values().chain([here]) {
            rule(exchange.received.intact, || "a byte is wrong, missing or twice".to_owned())?;
        }
        // An empty stream is confirmed before a stalled application hears of it.
        let all_there =
            self.plan.bytes == 0 || there.values().any(|there| there.received.bytes == self.plan.bytes);
        let all_here = here.received.bytes == self.opening.answer;
        if here.delivered_at.is_some() {
            rule(all_there || self.forgetful(), || "delivered, but the responder misses bytes".to_owned())?;
        }
        for exchange in there.values().filter(|exchange| exchange.delivered_at.is_some()) {
            let all = all_here || self.plan.restart.is_some();
            rule(all && exchange.written() == self.opening.answer, || {
                "delivered, but the initiator misses bytes".to_owned()
            })?;
        }
        match here.closed {
            Some(Closed::Finished) => {
                rule((all_there || self.forgetful()) && all_here, || {
                    "finished, but bytes are missing".to_owned()
                })?;
                Ok(true)
            }
            Some(Closed::TimedOut(_) | Closed::Idle) => {
                let must = self.plan.must_finish || self.plan.must_hear;
                rule(!must, || format!("gave up although the path was good: {:?}", here.closed))?;
                Ok(false)
            }
            Some(Closed::Reset) => {
                let ended = there.values().all(|there| there.closed.is_some());
                rule(self.forgetful() || ended, || "a reset, but the responder lives".to_owned())?;
                rule(!self.plan.must_finish, || "reset although the path was good".to_owned())?;
                Ok(false)
            }
            Some(Closed::InvalidAcks | Closed::Peer { .. }) => {
                let beyond = self.senders().into_iter().any(|stats| stats.acks_beyond >= 100);
                rule(beyond, || "valid ACKs ended the connection".to_owned())?;
                Ok(false)
            }
            ref other => Err(format!("an undocumented end: {other:?}")),
        }
    }

    /// Counters of the outgoing streams of the newest connection, here and there.
    fn senders(&self) -> Vec<SenderStats> {
        let node = self.simulation.connections(self.responder);
        let newest = node.exchanges.iter().max_by_key(|(_, exchange)| exchange.opened_at).map(|(id, _)| *id);
        let here = (self.initiator, Some(self.id));
        let both = [here, (self.responder, newest)].into_iter();
        let stats = both.filter_map(|(node, id)| self.simulation.connections(node).set.get(id?));
        stats.map(|connection| connection.stats().sender).collect()
    }

    fn forgetful(&self) -> bool {
        matches!(self.plan.restart, Some((_, Restart::Responder)))
    }

    /// Checks the counters of both streams, if no change of address repeats what is in flight.
    fn at_both_senders(&self, finished: bool) -> Result<(), String> {
        if moves(self.plan) {
            return Ok(());
        }
        let stats = self.senders();
        for stats in &stats {
            let (min, rtt) = (stats.min_rtt, self.plan.rtt);
            rule(min.is_none_or(|min| min >= rtt), || {
                format!("a round trip of {min:?} on a path of {rtt:?}")
            })?;
        }
        // Base-only and Reno repair one hole of a window without a timeout.
        let repairs = !matches!(self.plan.sender.recovery, LossDetection::BaseOnly | LossDetection::Reno);
        if self.plan.kind == Kind::TwoLosses && repairs {
            let timeouts = stats.first().map_or(0, |stats| stats.timeouts);
            rule(finished && timeouts == 0, || {
                format!("{timeouts} timeouts for two losses in mid-transfer")
            })?;
        }
        let (plans, sides) =
            ([self.plan.clone(), self.plan.answer(self.opening.answer)], [INITIATOR, RESPONDER]);
        for ((plan, side), stats) in plans.iter().zip(sides).zip(&stats) {
            let Some(facts) = self.facts(side) else { return Ok(()) };
            let again = stats.retransmitted;
            let most = bounds::most_sent_again(plan, &facts).unwrap_or(f64::INFINITY);
            rule(again as f64 <= most, || {
                format!("{again} retransmissions of side {side}, at most {most:.0} expected")
            })?;
        }
        Ok(())
    }

    /// Ledgers of the links, forward and reverse. Each forged ACK has the number of an honest
    /// packet, which is then lost.
    fn ledgers(&self) -> (Ledger, Ledger) {
        let path = self.simulation.wire(self.wire);
        let forged = self.meddler.lock().unwrap().forged_acks;
        let with = |ledger: &Ledger| Ledger { corrupted: ledger.corrupted + forged, ..*ledger };
        (with(path.forward.ledger()), with(path.reverse.ledger()))
    }

    /// Facts about the stream of one side. `None` if the connection has a cipher.
    fn facts(&self, side: usize) -> Option<Facts> {
        let (forward, reverse) = self.ledgers();
        let (forward, reverse) = if side == INITIATOR { (forward, reverse) } else { (reverse, forward) };
        let checker = self.checker.as_ref()?.lock().unwrap();
        let (flow, controls) = (checker.flow(side), checker.controls());
        let (at_stake, in_a_row, early) = (flow.at_stake, flow.in_a_row, flow.early);
        let other = if side == INITIATOR { self.opening.answer } else { self.plan.bytes };
        Some(Facts { forward, reverse, at_stake, in_a_row, early, other, controls })
    }

    /// Checks the time bound; returns the share that was used. That of a stream alone is tight.
    fn in_time(&self, elapsed: Duration) -> Result<f64, String> {
        let alone = self.opening.is_plain() && self.plan.restart.is_none() && !moves(self.plan);
        let (elapsed, longest) = match self.facts(INITIATOR).filter(|_| alone) {
            Some(facts) => {
                let ended = self.here().closed_at.map(|at| at - self.simulation.epoch());
                (ended.unwrap_or(elapsed), bounds::longest(self.plan, &facts) + 2 * self.plan.rtt)
            }
            None => (elapsed, self.longest_of_both()),
        };
        let share = elapsed.as_secs_f64() / longest.as_secs_f64();
        rule(share <= 1.0, || format!("after {elapsed:?}, at most {longest:?} expected"))?;
        Ok(share)
    }

    /// Time bound of both streams with all repeated control packets.
    fn longest_of_both(&self) -> Duration {
        let (forward, reverse) = self.ledgers();
        let lost = |ledger: &Ledger| {
            ledger.dropped_loss
                + ledger.dropped_queue
                + ledger.dropped_outage
                + ledger.dropped_mtu
                + ledger.corrupted
        };
        let both = Plan { bytes: self.plan.bytes + self.opening.answer, ..self.plan.clone() };
        let controls = u32::try_from((lost(&forward) + lost(&reverse)).min(8)).unwrap_or(8);
        let facts = Facts { forward, reverse, at_stake: 0, in_a_row: 4, early: 0, other: 0, controls };
        let idle = if self.plan.restart.is_some() || !self.plan.must_finish { IDLE + LINGER } else { LINGER };
        let moving = if moves(self.plan) { MOVES_MS.iter().map(|_| MOVE).sum() } else { Duration::ZERO };
        2 * bounds::longest(&both, &facts) + idle + CONTROL + moving
    }

    /// Checks that no state remains.
    fn afterwards(&mut self) -> Result<(), String> {
        let stalled = self.plan.stall.map_or(Duration::ZERO, |(_, until)| until);
        let end = self.simulation.elapsed().max(stalled);
        self.simulation.run_until(end + AFTERWARDS);
        self.on_the_wire()?;
        for node in [self.initiator, self.responder] {
            let now = self.simulation.now();
            let node = self.simulation.connections_mut(node);
            let open = node.exchanges.values().filter(|exchange| exchange.closed.is_none()).count();
            let ids: Vec<_> = node.exchanges.keys().copied().collect();
            for id in ids {
                node.set.release(now, id);
            }
            let left = (open, node.set.half_open());
            rule(left == (0, 0), || {
                format!("{} connections and {} half-open ones are left", left.0, left.1)
            })?;
        }
        self.simulation.run_until(end + AFTERWARDS + LINGER);
        for node in [self.initiator, self.responder] {
            let node = self.simulation.connections(node);
            let left = (node.set.len(), node.set.memory());
            rule(left == (0, 0), || format!("{} connections and {} bytes are left", left.0, left.1))?;
        }
        let path = self.simulation.wire(self.wire);
        for ledger in [path.forward.ledger(), path.reverse.ledger()] {
            rule(ledger.balances() && ledger.in_flight == 0, || format!("the ledger is off: {ledger:?}"))?;
        }
        Ok(())
    }
}

fn set_config(plan: &Plan) -> ConnectionSetConfig<NodeId> {
    ConnectionSetConfig { connection_memory_limit: plan.memory, ..ConnectionSetConfig::default() }
}

#[test]
fn plans_move_initiators() {
    let moved = (0..44).map(|seed| {
        let plan = Plan::new(seed);
        let mut run = Run::new(&plan).unwrap();
        run.play();
        let moved = run.simulation.connections(run.responder).set.stats().moved;
        assert!(moved <= if moves(&plan) { MOVES_MS.len() as u64 } else { 0 }, "seed {seed}");
        moved
    });
    assert!(moved.sum::<u64>() >= 10);
}

/// Otherwise the search would say nothing about them.
#[test]
fn plans_update_keys_and_mix_secrets_and_ciphers() {
    let (mut phases, mut ciphers) = (BTreeSet::new(), BTreeSet::new());
    for seed in (1..200).step_by(3) {
        let plan = Plan::new(seed);
        let mut run = Run::new(&plan).unwrap();
        run.play();
        phases.insert(run.meddler.lock().unwrap().phases.len());
        ciphers.insert(run.opening.config.aead.map(rdt::crypto::Aead::name));
        assert_eq!(run.opening.keys.secret.is_some(), seed.is_multiple_of(4));
    }
    assert!(phases.contains(&4) && ciphers.len() == 3, "{phases:?}, {ciphers:?}");
}
