//! Encrypted connections over the drawn paths: a stream each way, with copied, changed and
//! reflected packets, key updates and changes of address besides the faults of the plan.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt::crypto::{Entropy, PublicKey, SharedSecret, StaticKey};
use rdt::emulator::Path;
use rdt::sim::{Exchange, Interceptor, NodeId, Simulation, WireId};
use rdt::transport::{
    Closed, Confirm, Connection, ConnectionConfig, ConnectionId, ConnectionSetConfig, InitiatorConfig,
    ReceiverConfig, ResponderConfig,
};

use super::bounds::{self, Facts};
use super::plan::{Plan, Restart};
use super::run::{Done, LIMIT, rule};

/// Idle timeout of both sides: longer than a sender waits for an answer.
const IDLE: Duration = Duration::from_secs(120);
/// Longer than the idle timeout and all that a closed connection repeats.
const AFTERWARDS: Duration = Duration::from_secs(200);
/// Longer than an ended connection repeats its last answers.
const LINGER: Duration = Duration::from_secs(15);
/// Bytes of the clear header of a sealed packet: with it a nonce is used once.
const HEADER: usize = 16;
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

/// What is opened by a seed.
struct Opening {
    keys: InitiatorConfig,
    config: ConnectionConfig,
    responder: ResponderConfig,
    /// Length of the responder's stream, bytes.
    answer: u64,
}

fn key(seed: u64, side: u8) -> Arc<StaticKey> {
    let mut bytes = [side; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Arc::new(StaticKey::generate(&mut Entropy::from_seed(bytes)))
}

impl Opening {
    fn of(plan: &Plan) -> Self {
        let seed = plan.seed;
        let one_way = seed.is_multiple_of(5);
        let config = ConnectionConfig {
            sender: plan.sender.clone(),
            receiver: ReceiverConfig {
                stream_window: plan.window,
                checksum: false,
                keep_payload: true,
                ..ReceiverConfig::reference()
            },
            idle_timeout: IDLE,
            confirm: Confirm::OnRead,
            one_way,
            aead: None,
        };
        let (ours, theirs) = (key(seed, 1), key(seed, 2));
        let remote: Option<PublicKey> = (!seed.is_multiple_of(3)).then(|| theirs.public());
        let secret = seed.is_multiple_of(4).then(|| Arc::new(SharedSecret::from_array(&[9; 32])));
        let local = (seed % 3 != 1).then_some(ours);
        let keys = InitiatorConfig { local, remote, secret: secret.clone(), ..InitiatorConfig::default() };
        let secrets = Arc::new(secret.into_iter().collect::<Vec<_>>());
        let responder = ResponderConfig { config: config.clone(), secrets, ..ResponderConfig::open(theirs) };
        let answer = match seed % 7 {
            _ if one_way => 0,
            0 | 1 => plan.bytes,
            2 | 3 => plan.bytes / 9,
            4 => 1,
            _ => 0,
        };
        Self { keys, config, responder, answer }
    }
}

/// Copies, changes and reflects packets, and looks for a header that was sealed twice.
#[derive(Debug)]
struct Meddler {
    rng: SmallRng,
    /// Arrivals in a thousand that are followed by a forged packet.
    forged: u32,
    old: Vec<Vec<u8>>,
    responder: NodeId,
    /// Whether the responder sent it, and header with key phase and number, of each sealed packet.
    headers: BTreeSet<(bool, [u8; HEADER])>,
    /// Key phases of sealed packets.
    phases: BTreeSet<u8>,
    violation: Option<String>,
}

#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Meddler>>);

impl Interceptor for Shared {
    fn on_sent(&mut self, _: Instant, from: NodeId, _: NodeId, datagram: &[u8]) {
        let mut meddler = self.0.lock().unwrap();
        let Some(header) = datagram.first_chunk::<HEADER>() else { return };
        let is_sealed = matches!(header[1], 4 | 6..=9 | 12);
        if is_sealed {
            meddler.phases.insert(header[2] & 3);
        }
        // Type and flags may differ for one nonce; space and number may not.
        let mut nonce = *header;
        nonce[1] = u8::from(matches!(header[1], 4 | 7));
        nonce[2..4].fill(0);
        let is_from_responder = from == meddler.responder;
        if is_sealed && !meddler.headers.insert((is_from_responder, nonce)) {
            meddler.violation.get_or_insert_with(|| format!("a nonce was used twice: {header:02x?}"));
        }
    }

    fn on_arrived(&mut self, _: Instant, _: NodeId, _: NodeId, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut meddler = self.0.lock().unwrap();
        let Meddler { rng, forged, old, .. } = &mut *meddler;
        if !rng.random_bool(f64::from(*forged) / 1000.0) {
            return Vec::new();
        }
        // Reflected packets and packets of the other direction are among the old ones.
        if old.len() < 64 {
            old.push(datagram.to_vec());
        } else {
            let at = rng.random_range(0..old.len());
            old[at] = datagram.to_vec();
        }
        let mut changed = match rng.random_range(0..3) {
            0 => datagram.to_vec(),
            1 => old[rng.random_range(0..old.len())].clone(),
            _ => {
                let mut changed = datagram.to_vec();
                let at = rng.random_range(0..changed.len());
                changed[at] ^= 1 << rng.random_range(0..8);
                changed
            }
        };
        if rng.random_bool(0.1) {
            changed.truncate(rng.random_range(0..=changed.len()));
        }
        vec![changed]
    }
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
    shared: Shared,
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

/// Runs `plan` as an encrypted connection.
///
/// # Errors
/// Returns the rule that was broken.
pub(super) fn run(plan: &Plan) -> Result<Done, String> {
    let mut run = Run::new(plan)?;
    run.all().map_err(|broken| format!("encrypted: {broken}\n    {}", run.summary()))
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan) -> Result<Self, String> {
        let mut simulation = Simulation::new();
        let opening = Opening::of(plan);
        let set =
            ConnectionSetConfig { connection_memory_limit: plan.memory, ..ConnectionSetConfig::default() };
        let initiator = simulation.add_connections(set, 2 * plan.seed);
        let responder = simulation.add_connections(set, 2 * plan.seed + 1);
        simulation.listen(responder, opening.responder.clone(), opening.answer);
        let wire = simulation.add_wire(Path::new(plan.path.clone(), plan.seed));
        simulation.route(initiator, responder, wire);
        let rng = SmallRng::seed_from_u64(plan.seed ^ 0x5EED);
        let (forged, headers) = (plan.forged, BTreeSet::new());
        let (old, phases) = (Vec::new(), BTreeSet::new());
        let meddler = Meddler { rng, forged, old, responder, headers, phases, violation: None };
        let shared = Shared(Arc::new(Mutex::new(meddler)));
        simulation.intercept(Box::new(shared.clone()));
        let (keys, config) = (opening.keys.clone(), opening.config.clone());
        let id = simulation
            .connect(initiator, responder, keys, config, plan.bytes)
            .map_err(|error| error.to_string())?;
        Ok(Self { plan, opening, simulation, initiator, responder, wire, id, shared })
    }

    fn all(&mut self) -> Result<Done, String> {
        let ended = self.play();
        self.on_the_wire()?;
        rule(ended, || format!("after {LIMIT:?} it neither finished nor failed"))?;
        let elapsed = self.simulation.elapsed();
        let finished = self.outcome()?;
        let share = self.in_time(elapsed)?;
        self.afterwards()?;
        let must = self.plan.must_finish && self.plan.restart.is_none();
        Ok(Done { finished, must, datagrams: self.simulation.datagrams(), share })
    }

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
        if self.plan.seed % 3 == 1 {
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
                Act::Stall(until) => self.simulation.stall_connections(self.responder, until),
                Act::Restart(who) => self.restart(who),
                Act::UpdateKeys => self.update_keys(),
                Act::Move => {
                    self.initiator = self.simulation.move_connections(self.initiator);
                    self.simulation.route(self.initiator, self.responder, self.wire);
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
        let set = ConnectionSetConfig {
            connection_memory_limit: self.plan.memory,
            ..ConnectionSetConfig::default()
        };
        let seed = !self.plan.seed;
        match who {
            Restart::Sender => {
                self.simulation.restart_connections(self.initiator, set, seed);
                let Opening { keys, config, .. } = &self.opening;
                let (keys, config) = (keys.clone(), config.clone());
                let (from, to) = (self.initiator, self.responder);
                self.id = self.simulation.connect(from, to, keys, config, self.plan.bytes).unwrap();
            }
            Restart::Receiver { .. } => {
                self.simulation.restart_connections(self.responder, set, seed);
                self.simulation.listen(self.responder, self.opening.responder.clone(), self.opening.answer);
            }
        }
    }

    fn on_the_wire(&self) -> Result<(), String> {
        rule(rdt::crypto::reused_nonces() == 0, || "a key sealed two packets under one number".to_owned())?;
        match &self.shared.0.lock().unwrap().violation {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// Checks both ends. Returns true if everything was delivered.
    fn outcome(&self) -> Result<bool, String> {
        let here = self.here();
        let there = &self.simulation.connections(self.responder).exchanges;
        for exchange in there.values().chain([here]) {
            rule(!exchange.is_corrupt, || "a byte is wrong, missing or twice".to_owned())?;
        }
        // An empty stream is confirmed before a stalled application hears of it.
        let all_there = self.plan.bytes == 0 || there.values().any(|there| there.read == self.plan.bytes);
        let all_here = here.read == self.opening.answer;
        if here.delivered_at.is_some() {
            rule(all_there || self.forgetful(), || "delivered, but the responder misses bytes".to_owned())?;
        }
        for exchange in there.values().filter(|exchange| exchange.delivered_at.is_some()) {
            let all = all_here || self.plan.restart.is_some();
            rule(all && exchange.bytes == self.opening.answer, || {
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
            ref other => Err(format!("an undocumented end: {other:?}")),
        }
    }

    fn forgetful(&self) -> bool {
        matches!(self.plan.restart, Some((_, Restart::Receiver { .. })))
    }

    /// Checks the time bound, that of a transfer of both streams with all repeated control packets.
    fn in_time(&self, elapsed: Duration) -> Result<f64, String> {
        let path = self.simulation.wire(self.wire);
        let (forward, reverse) = (*path.forward.ledger(), *path.reverse.ledger());
        let lost = |ledger: &rdt::emulator::Ledger| {
            ledger.dropped_loss
                + ledger.dropped_queue
                + ledger.dropped_outage
                + ledger.dropped_mtu
                + ledger.corrupted
        };
        let both = Plan { bytes: self.plan.bytes + self.opening.answer, ..self.plan.clone() };
        let controls = u32::try_from((lost(&forward) + lost(&reverse)).min(8)).unwrap_or(8);
        let facts = Facts { forward, reverse, at_stake: 0, in_a_row: 4, without_syn: 0, controls };
        let idle = if self.plan.restart.is_some() || !self.plan.must_finish { IDLE + LINGER } else { LINGER };
        let moving = if moves(self.plan) { MOVES_MS.iter().map(|_| MOVE).sum() } else { Duration::ZERO };
        let longest = 2 * bounds::longest(&both, &facts) + idle + CONTROL + moving;
        let share = elapsed.as_secs_f64() / longest.as_secs_f64();
        rule(share <= 1.0, || format!("after {elapsed:?}, at most {longest:?} expected"))?;
        Ok(share)
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
        Ok(())
    }
}

/// True if the initiator changes its address. Not beside a restart, after which nothing moves.
fn moves(plan: &Plan) -> bool {
    plan.seed % 11 < 4 && plan.restart.is_none()
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
fn plans_update_keys_and_mix_secrets() {
    let mut phases = BTreeSet::new();
    for seed in (1..40).step_by(3) {
        let plan = Plan::new(seed);
        let mut run = Run::new(&plan).unwrap();
        run.play();
        phases.insert(run.shared.0.lock().unwrap().phases.len());
        assert_eq!(run.opening.keys.secret.is_some(), seed.is_multiple_of(4));
    }
    assert!(phases.contains(&4), "{phases:?}");
}
