//! Bottleneck model and its flows, in virtual time: random loss on arrival, drop-tail queue, rate,
//! delay. The receiver acknowledges each packet. A packet overtaken by three others is lost. Sizes
//! are payload.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::congestion::bbr::math::{PPM, draw, mul_div, volume};
use crate::congestion::bbr::tests::origin;
use crate::congestion::delivery_rate::{DeliveryRate, SentState};
use crate::congestion::{AckEvent, Cause, CongestionEvent, Controller};

pub(super) const MSS: u64 = 1200;
/// Reordering threshold, packets.
const REORDERING: u64 = 3;

/// Path parameters; the losses depend on the seed only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// Bytes per second.
    pub(super) rate: u64,
    pub(super) rtt: Duration,
    /// Queue limit, bytes, including the packet being transmitted.
    pub(super) queue: u64,
    /// Loss rate of arriving packets, parts per million.
    pub(super) loss: u64,
    pub(super) seed: u64,
    /// Largest random extra delay of a packet; the order is kept.
    pub(super) jitter: Duration,
    /// Random loss happens after the queue: lost packets have used link capacity.
    pub(super) loses_behind: bool,
}

impl Path {
    /// Returns a path with a queue of one bandwidth-delay product.
    pub(super) fn new(megabits: u64, rtt_millis: u64, loss: u64) -> Self {
        let (rate, rtt) = (megabits * 125_000, Duration::from_millis(rtt_millis));
        Self {
            rate,
            rtt,
            queue: mul_div(rate, rtt_millis, 1000),
            loss,
            seed: 1,
            jitter: Duration::ZERO,
            loses_behind: false,
        }
    }

    pub(super) fn bdp(&self) -> u64 {
        mul_div(self.rate, u64::try_from(self.rtt.as_millis()).unwrap(), 1000)
    }
}

/// Flow through the path.
pub(super) struct Flow {
    pub(super) controller: Box<dyn Controller>,
    rate: DeliveryRate,
    /// Transmissions neither acknowledged nor declared lost.
    outstanding: VecDeque<Transmission>,
    next_number: u64,
    in_flight: u64,
    next_send: Duration,
    cwnd_limited: bool,
    blocked: bool,
    recovery_until: Option<u64>,
    srtt: Duration,
    last_heard: Duration,
    /// Data rate of the application; `None` if unlimited.
    offer: Option<Offer>,
    /// Bytes sent, including retransmissions.
    pub(super) sent: u64,
    /// Phases in the order of entry.
    pub(super) phases: Vec<Phase>,
}

/// Constant application rate, with the start time and the bytes sent and delivered by then.
#[derive(Debug, Clone, Copy)]
struct Offer {
    rate: u64,
    from: Duration,
    base: u64,
}

/// Phase, with the state at its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    pub(super) at: Duration,
    pub(super) name: &'static str,
    pub(super) in_flight: u64,
    pub(super) queue: u64,
}

#[derive(Debug, Clone, Copy)]
struct Transmission {
    number: u64,
    sent_at: Instant,
    state: SentState,
}

#[derive(Debug, Clone, Copy)]
struct AckOnWire {
    at: Duration,
    flow: usize,
    number: u64,
}

/// Simulation of a path and its flows.
pub(super) struct World {
    path: Path,
    epoch: Instant,
    now: Duration,
    idle_at: Duration,
    acks: VecDeque<AckOnWire>,
    arrivals: u64,
    pub(super) flows: Vec<Flow>,
    /// Longest queue since the last reset to 0, bytes.
    pub(super) max_queue: u64,
    pub(super) overflowed: u64,
}

impl Flow {
    pub(super) fn delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// True if the flow is app-limited.
    pub(super) fn rate_limited(&self) -> bool {
        self.rate.app_limited()
    }

    pub(super) fn lost(&self) -> u64 {
        self.rate.lost()
    }
}

impl World {
    pub(super) fn new(path: Path) -> Self {
        Self {
            path,
            epoch: origin(),
            now: Duration::ZERO,
            idle_at: Duration::ZERO,
            acks: VecDeque::new(),
            arrivals: 0,
            flows: Vec::new(),
            max_queue: 0,
            overflowed: 0,
        }
    }

    /// Adds a flow that starts now, after its handshake.
    pub(super) fn add(&mut self, controller: Box<dyn Controller>) {
        self.flows.push(Flow {
            controller,
            rate: DeliveryRate::new(self.epoch),
            outstanding: VecDeque::new(),
            next_number: 0,
            in_flight: 0,
            next_send: self.now,
            cwnd_limited: false,
            blocked: false,
            recovery_until: None,
            srtt: self.path.rtt,
            last_heard: self.now,
            offer: None,
            sent: 0,
            phases: Vec::new(),
        });
    }

    /// Limits the application of the only flow to `rate` bytes per second from now on.
    pub(super) fn offer(&mut self, rate: u64) {
        let flow = &mut self.flows[0];
        let base = flow.delivered() + flow.in_flight;
        flow.offer = Some(Offer { rate, from: self.now, base });
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn set_rate(&mut self, rate: u64) {
        self.path.rate = rate;
    }

    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        self.path.rtt = rtt;
    }

    /// Bytes queued or being transmitted.
    fn queued(&self) -> u64 {
        let nanos = u64::try_from(self.idle_at.saturating_sub(self.now).as_nanos()).unwrap();
        mul_div(self.path.rate, nanos, 1_000_000_000)
    }

    pub(super) fn run_until(&mut self, end: Duration) {
        self.run_while(end, |_| true);
    }

    /// Runs until `end`, or until `more` returns false.
    pub(super) fn run_while(&mut self, end: Duration, more: impl Fn(&Self) -> bool) {
        while more(self) {
            let ack = self.acks.front().map_or(Duration::MAX, |ack| ack.at);
            let (flow, send) = self.next_send();
            let next = ack.min(send);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if ack <= send {
                let ack = self.acks.pop_front().unwrap();
                self.on_ack(ack.flow, ack.number);
            } else {
                self.try_send(flow);
            }
        }
    }

    /// Next flow to send, by pacing, window or timeout, and the time.
    fn next_send(&self) -> (usize, Duration) {
        let due = |flow: &Flow| {
            if flow.blocked { flow.last_heard + flow.srtt * 3 } else { flow.next_send.max(self.now) }
        };
        let flows = self.flows.iter().enumerate().map(|(index, flow)| (index, due(flow)));
        flows.min_by_key(|&(_, at)| at).unwrap_or((0, Duration::MAX))
    }

    fn try_send(&mut self, index: usize) {
        let now = self.epoch + self.now;
        let flow = &mut self.flows[index];
        if flow.blocked {
            return self.on_timeout(index);
        }
        if let Some(offer) = flow.offer
            && flow.delivered() + flow.in_flight + MSS
                > offer.base + volume(offer.rate, self.now.saturating_sub(offer.from))
        {
            flow.rate.set_app_limited(flow.in_flight);
            flow.next_send = self.now + Duration::from_nanos(MSS * 1_000_000_000 / offer.rate);
            return;
        }
        if flow.in_flight + MSS > flow.controller.cwnd() {
            flow.cwnd_limited = true;
            flow.blocked = true;
            return;
        }
        let state = flow.rate.on_sent(now, MSS, flow.in_flight);
        flow.in_flight += MSS;
        flow.sent += MSS;
        let number = flow.next_number;
        flow.next_number += 1;
        flow.outstanding.push_back(Transmission { number, sent_at: now, state });
        flow.controller.on_sent(now, MSS, flow.in_flight, state.app_limited());
        if let Some(rate) = flow.controller.pacing_rate() {
            let gap = Duration::from_nanos(mul_div(MSS, 1_000_000_000, rate.max(1)));
            flow.next_send = flow.next_send.max(self.now) + gap;
        }
        self.enter(index, number);
    }

    fn enter(&mut self, flow: usize, number: u64) {
        self.arrivals += 1;
        let lost = draw(self.path.seed, self.arrivals, PPM) < self.path.loss;
        if lost && !self.path.loses_behind {
            return;
        }
        if self.queued() + MSS > self.path.queue {
            self.overflowed += 1;
            return;
        }
        let service = Duration::from_nanos(mul_div(MSS, 1_000_000_000, self.path.rate));
        self.idle_at = self.idle_at.max(self.now) + service;
        self.max_queue = self.max_queue.max(self.queued());
        let jitter = u64::try_from(self.path.jitter.as_nanos()).unwrap();
        let jitter = Duration::from_nanos(draw(!self.path.seed, self.arrivals, jitter));
        let before = self.acks.back().map_or(Duration::ZERO, |ack| ack.at);
        let at = before.max(self.idle_at + self.path.rtt + jitter);
        if !lost {
            self.acks.push_back(AckOnWire { at, flow, number });
        }
    }

    fn on_ack(&mut self, index: usize, number: u64) {
        let (now, queue) = (self.epoch + self.now, self.queued());
        let flow = &mut self.flows[index];
        let prior_in_flight = flow.in_flight;
        let position = flow.outstanding.partition_point(|packet| packet.number < number);
        let packet = flow.outstanding.remove(position).expect("each is acknowledged once");
        assert_eq!(packet.number, number, "timeouts wait for all ACKs");
        flow.rate.on_delivered(now, &packet.state, MSS);
        flow.in_flight -= MSS;
        let rtt = now - packet.sent_at;
        flow.srtt = (flow.srtt * 7 + rtt) / 8;
        let lost = Self::detect_loss(flow, now, number);
        if flow.recovery_until.is_some_and(|until| number >= until) && lost == 0 {
            flow.recovery_until = None;
        }
        let event = AckEvent {
            now,
            acked: MSS,
            lost,
            prior_in_flight,
            in_flight: flow.in_flight,
            cwnd_limited: flow.cwnd_limited,
            episode: flow.recovery_until.map(|_| Cause::Loss),
            latest_rtt: Some(rtt),
            srtt: flow.srtt,
            way_back: Duration::ZERO,
            min_rtt: self.path.rtt,
            delivered: flow.delivered(),
            rate: flow.rate.sample(self.path.rtt),
        };
        flow.controller.on_ack(&event);
        flow.cwnd_limited = false;
        flow.blocked = false;
        flow.last_heard = self.now;
        if flow.phases.last().is_none_or(|phase| phase.name != flow.controller.phase()) {
            flow.phases.push(Phase {
                at: self.now,
                name: flow.controller.phase(),
                in_flight: flow.in_flight,
                queue,
            });
        }
    }

    fn detect_loss(flow: &mut Flow, now: Instant, acked: u64) -> u64 {
        let mut lost = 0;
        while let Some(packet) = flow.outstanding.front()
            && packet.number + REORDERING <= acked
        {
            let packet = *packet;
            flow.outstanding.pop_front();
            flow.rate.on_lost(MSS);
            flow.controller.on_packet_lost(&flow.rate.lost_packet(now, &packet.state, MSS));
            lost += MSS;
        }
        if lost > 0 && flow.recovery_until.is_none() {
            flow.recovery_until = Some(flow.next_number);
            let flight_size = flow.in_flight;
            flow.controller.on_congestion(&CongestionEvent { now, cause: Cause::Loss, flight_size });
        }
        flow.in_flight -= lost;
        lost
    }

    /// Declares all data in flight lost after three RTTs without an ACK.
    fn on_timeout(&mut self, index: usize) {
        let now = self.epoch + self.now;
        let flow = &mut self.flows[index];
        flow.last_heard = self.now;
        if self.acks.iter().any(|ack| ack.flow == index) {
            return;
        }
        let flight_size = flow.in_flight;
        for packet in std::mem::take(&mut flow.outstanding) {
            flow.rate.on_lost(MSS);
            flow.controller.on_packet_lost(&flow.rate.lost_packet(now, &packet.state, MSS));
        }
        flow.in_flight = 0;
        flow.blocked = false;
        flow.recovery_until = Some(flow.next_number);
        flow.controller.on_congestion(&CongestionEvent { now, cause: Cause::Timeout, flight_size });
    }
}
