//! Random specifications, written and parsed again, and random texts, which must not panic.

use super::*;
use crate::queue::{Discipline, QueueSize};
use crate::schedule::Schedule;
use crate::spec::values::{MarkSpec, QueueSpec, RateSpec};
use rdt_testing::Numbers;

/// Source of random values for every key.
struct Values(Numbers);

impl Values {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_of<T>(&mut self, choices: Vec<T>) -> T {
        let place = usize::try_from(self.below(choices.len() as u64)).unwrap();
        choices.into_iter().nth(place).unwrap()
    }

    /// Returns a number of a random order of magnitude.
    fn any(&mut self) -> u64 {
        let shift = self.below(64);
        self.below(u64::MAX) >> shift
    }

    fn number(&mut self) -> u32 {
        u32::try_from(self.any() >> 32).unwrap()
    }

    fn time(&mut self) -> Duration {
        let unit = self.one_of(vec![1, 1_000, 1_000_000, 1_000_000_000]);
        ns(self.below(100_000) * unit)
    }

    #[expect(clippy::cast_precision_loss, reason = "any will do")]
    fn share(&mut self) -> Probability {
        let value = self.any() as f64 / u64::MAX as f64;
        self.one_of(vec![Probability::ZERO, Probability::ONE, probability(value)])
    }

    #[expect(clippy::cast_precision_loss, reason = "any will do")]
    fn bitrate(&mut self) -> Option<Bitrate> {
        Bitrate::from_bps_f64(self.any() as f64 / 1e4)
    }

    fn steps<T: Copy>(&mut self, mut value: impl FnMut(&mut Self) -> T) -> Schedule<T> {
        let first = value(self);
        let mut at = Duration::ZERO;
        let count = self.below(4);
        let changes = (0..count).map(|_| {
            at += self.time() + ns(1);
            (at, value(self))
        });
        Schedule::new(first, changes)
    }

    fn rate(&mut self) -> RateSpec {
        let steps = RateSpec::Steps(self.steps(Self::bitrate));
        let words = self.one_of(vec!["WiFi-g: stations=2", "wifi-a:rate=0s:54mbit + 1.5s:6mbit,rts"]);
        let wifi = RateSpec::Wifi(words.parse().unwrap(), words.to_owned());
        self.one_of(vec![steps, wifi, RateSpec::Trace("a \"b\"\\c\té\u{7f}/x:1,2".to_owned())])
    }

    fn loss(&mut self) -> Loss {
        let share = self.share();
        let bursts =
            GilbertElliott { p: share, r: self.share(), loss_good: self.share(), loss_bad: self.share() };
        let script: Vec<_> = (0..=self.below(20)).map(|_| self.below(30)).collect();
        let (every, run) = (1 + self.any() / 2, 1 + self.number() / 2);
        let steps = self.steps(Self::share);
        let steps = if steps.is_constant() { Loss::Bernoulli(steps.parts().0) } else { Loss::Steps(steps) };
        self.one_of(vec![
            Loss::None,
            Loss::Bernoulli(share),
            steps,
            Loss::bounded(share, run),
            Loss::GilbertElliott(bursts),
            Loss::every_nth(every),
            Loss::script(script),
        ])
    }

    fn outage(&mut self) -> Outage {
        let (down, more) = (self.time(), self.time() + ns(1));
        let periodic = Outage::periodic(down + more, down, self.time());
        let mut begin = Duration::ZERO;
        let intervals = (0..=self.below(3)).map(|_| {
            let from = begin + self.time();
            begin = from + self.time() + ns(1);
            (from, begin)
        });
        let mut intervals: Vec<_> = intervals.collect();
        intervals.reverse();
        let intervals = Outage::Intervals(intervals);
        self.one_of(vec![Outage::None, periodic, intervals])
    }

    fn size(&mut self) -> QueueSize {
        let (packets, any) = (self.number(), self.any());
        self.one_of(vec![QueueSize::Packets(packets), QueueSize::Bytes(any), QueueSize::BdpMillionths(any)])
    }

    fn discipline(&mut self) -> Discipline {
        let target = 1 + self.below(1_000);
        self.one_of(vec![
            Discipline::DropTail,
            Discipline::DropHead,
            format!("codel:target={target}us,ecn").parse().unwrap(),
            format!("red:min={target}b,max={}b", target * 3).parse().unwrap(),
            format!("pie:target={target}us").parse().unwrap(),
        ])
    }

    fn mtu(&mut self) -> Mtu {
        let limit = self.steps(|it| it.one_of(vec![None, Some(1_280), Some(9_000)]));
        Mtu { limit, oversize: self.one_of(vec![Oversize::Drop, Oversize::Fragment]) }
    }

    fn link(&mut self) -> LinkSpec {
        let jitter = [Jitter::uniform(self.time()), Jitter::normal(self.time()).unordered()];
        let mark =
            MarkSpec { above: self.size(), incapable: self.one_of(vec![Incapable::Pass, Incapable::Drop]) };
        let reorder = Reorder { probability: self.share(), extra: self.time() };
        let room = QueueSpec::Size(self.size());
        LinkSpec {
            rate: self.rate(),
            delay: self.time(),
            jitter: self.one_of(vec![None, Some(jitter[0]), Some(jitter[1])]),
            loss: self.loss(),
            outage: self.outage(),
            queue: self.one_of(vec![QueueSpec::Auto, QueueSpec::Unlimited, room]),
            discipline: self.discipline(),
            occupancy: self.one_of(vec![Occupancy::Waiting, Occupancy::WaitingAndInFlight]),
            mark: self.one_of(vec![None, Some(mark)]),
            mtu: self.mtu(),
            duplicate: self.share(),
            corrupt: self.share(),
            reorder: self.one_of(vec![None, Some(reorder)]),
            headers: Some(self.number()),
            framing: self.number(),
        }
    }

    /// Returns a path whose directions have about half of their values in common.
    fn path(&mut self) -> PathSpec {
        let forward = self.link();
        let mut reverse = self.link();
        for key in LinkKey::ALL {
            if self.below(2) == 0 {
                reverse.set(key, &forward.text(key)).unwrap();
            }
        }
        let seed = self.any();
        PathSpec { seed: self.one_of(vec![None, Some(seed)]), forward, reverse }
    }
}

#[test]
fn random_paths_survive_toml_round_trip() {
    for seed in 0..3_000 {
        let path = Values(Numbers::new(seed)).path();
        let text = path.to_toml();
        assert_eq!(PathSpec::from_toml(&text).as_ref(), Ok(&path), "seed {seed}:\n{text}");
        assert_eq!(text, path.to_string());
    }
}

#[test]
fn flags_and_toml_give_the_same_path() {
    for seed in 0..500 {
        let path = Values(Numbers::new(seed)).path();
        let texts: Vec<_> = LinkKey::ALL
            .into_iter()
            .flat_map(|key| {
                let each = [(Scope::Forward, &path.forward), (Scope::Reverse, &path.reverse)];
                each.map(|(scope, link)| (scope, key.name(), link.text(key)))
            })
            .collect();
        let mut flags = PathSpec::default();
        flags.set_all(texts.iter().map(|(scope, key, text)| (*scope, *key, text.as_str()))).unwrap();
        assert_eq!(PathSpec { seed: path.seed, ..flags }, path, "seed {seed}");
    }
}

/// Words of which the random texts consist.
const PIECES: [&str; 36] = [
    "rate",
    "=",
    "'",
    "\"",
    "\n",
    "[forward]",
    "[",
    "]",
    "10mbit",
    "0s:",
    ",",
    "loss",
    "packets ",
    "1-",
    "9e9",
    "every ",
    "é",
    "%",
    " by ",
    "none",
    "trace:",
    " fragment",
    "preset",
    "lte",
    "{",
    "}",
    "1",
    ".",
    "-",
    "gilbert-elliott p=1 r=",
    "\u{0}",
    "outage",
    "mtu",
    "18446744073709551616",
    "rtt",
    "5ms",
];

#[test]
fn no_text_makes_reading_panic() {
    for seed in 0..20_000 {
        let mut values = Values(Numbers::new(seed));
        let text: String = (0..values.below(12)).map(|_| values.one_of(PIECES.to_vec())).collect();
        if let Err(error) = PathSpec::from_toml(&text) {
            assert!(!error.to_string().is_empty(), "seed {seed}: {text:?}");
        }
        for key in Key::all() {
            let _ = PathSpec::default().set(Scope::Both, key.name(), &text);
        }
    }
}
