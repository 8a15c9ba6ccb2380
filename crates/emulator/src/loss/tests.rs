use super::*;

const FORWARD: Direction = Direction::Forward;

fn bernoulli(probability: f64) -> Loss {
    Loss::Bernoulli(Probability::new(probability).unwrap())
}

#[test]
fn none_loses_nothing() {
    assert!((0..1_000).all(|n| !Loss::None.decide(5, FORWARD, n)));
}

#[test]
fn a_script_loses_exactly_its_packets() {
    let script = Loss::script([30, 7, 8, 7]);
    let lost: Vec<_> = (0..100).filter(|&n| script.decide(5, FORWARD, n)).collect();
    assert_eq!(lost, [7, 8, 30]);
    assert_eq!(script, Loss::Script(vec![7, 8, 30]));
}

/// Returns the deviation from 30 % of the losses among 100,000 packets, in standard deviations.
fn deviation(seed: u64, direction: Direction) -> f64 {
    let (count, probability) = (100_000_u32, 0.3);
    let model = bernoulli(probability);
    let lost: u32 = (0..count).map(|n| u32::from(model.decide(seed, direction, n.into()))).sum();
    let sigma = (f64::from(count) * probability * (1.0 - probability)).sqrt();
    (f64::from(lost) - f64::from(count) * probability) / sigma
}

#[test]
fn bernoulli_loses_its_share_within_three_sigma() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let deviation = deviation(0, direction);
        assert!(deviation.abs() < 3.0, "{direction:?}: {deviation} sigma");
    }
}

#[test]
fn bernoulli_variance_matches_independent_losses() {
    // The sum of k squared deviations has mean k and variance 2k.
    let runs = 100_u32;
    let squares: f64 = (0..runs).map(|seed| deviation(seed.into(), FORWARD).powi(2)).sum();
    let excess = (squares - f64::from(runs)) / (2.0 * f64::from(runs)).sqrt();
    assert!(excess.abs() < 4.0, "{excess} sigma");
}

#[test]
fn higher_probability_loses_superset() {
    let (low, high) = (bernoulli(0.1), bernoulli(0.2));
    assert!((0..10_000).all(|n| !low.decide(5, FORWARD, n) || high.decide(5, FORWARD, n)));
}

#[test]
fn zero_and_one_are_never_and_always() {
    assert!((0..1_000).all(|n| !bernoulli(0.0).decide(5, FORWARD, n)));
    assert!((0..1_000).all(|n| bernoulli(1.0).decide(5, FORWARD, n)));
}

#[test]
fn steps_use_probability_at_arrival() {
    let at = |seconds| Duration::from_secs(seconds);
    let [low, high] = [bernoulli(0.1), bernoulli(0.4)];
    let steps = Loss::steps(probability(0.1), [(at(10), probability(0.4)), (at(20), Probability::ZERO)]);
    for n in 0..2_000 {
        let lost = |elapsed| steps.decide_at(elapsed, 5, FORWARD, n);
        // The draws are those of constant loss, so each packet has the fate that it has there.
        assert_eq!(lost(Duration::ZERO), low.decide(5, FORWARD, n), "packet {n}");
        assert_eq!(lost(Duration::from_nanos(9_999_999_999)), low.decide(5, FORWARD, n), "packet {n}");
        assert_eq!(lost(at(10)), high.decide(5, FORWARD, n), "packet {n}");
        assert!(!lost(at(20)), "packet {n}");
    }
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Returns for each of the first `count` packets whether a link would lose it.
fn fates(loss: &Loss, seed: u64, count: u64) -> Vec<bool> {
    let mut memory = LossState::default();
    let draws = |index| Draws { seed, direction: FORWARD, index };
    (0..count).map(|index| memory.decide(loss, draws(index), || Duration::ZERO)).collect()
}

/// Returns the lengths of the runs of consecutive losses.
fn runs(fates: &[bool]) -> Vec<usize> {
    fates.split(|&lost| !lost).map(<[bool]>::len).filter(|&len| len > 0).collect()
}

fn lost(fates: &[bool]) -> f64 {
    f64::from(fates.iter().map(|&lost| u32::from(lost)).sum::<u32>())
}

fn channel(p: f64, r: f64, loss_good: f64, loss_bad: f64) -> GilbertElliott {
    GilbertElliott {
        p: probability(p),
        r: probability(r),
        loss_good: probability(loss_good),
        loss_bad: probability(loss_bad),
    }
}

#[test]
fn every_nth_loses_last_of_n() {
    let lost: Vec<_> = (0..10).filter(|&n| Loss::every_nth(3).decide(5, FORWARD, n)).collect();
    assert_eq!(lost, [2, 5, 8]);
    assert!((0..10).all(|n| Loss::every_nth(1).decide(5, FORWARD, n)));
    assert_eq!(Loss::every_nth(0), Loss::None);
    assert!(!Loss::every_nth(2).decide(5, FORWARD, u64::MAX - 1));
    assert!(Loss::every_nth(2).decide(5, FORWARD, u64::MAX));
}

#[test]
fn bounded_run_is_reached_but_not_exceeded() {
    for max_run in [1, 2, 5] {
        let fates = fates(&Loss::bounded(probability(0.7), max_run), 3, 20_000);
        assert_eq!(runs(&fates).into_iter().max(), Some(max_run as usize));
    }
    let certain = fates(&Loss::bounded(Probability::ONE, 2), 3, 7);
    assert_eq!(certain, [true, true, false, true, true, false, true]);
    assert_eq!(Loss::bounded(Probability::ONE, 0), Loss::None);
}

#[test]
fn bound_only_removes_losses() {
    let free = fates(&bernoulli(0.6), 8, 5_000);
    let bounded = fates(&Loss::bounded(probability(0.6), 2), 8, 5_000);
    assert!(free.iter().zip(&bounded).all(|(free, bounded)| *free || !bounded));
    assert!(lost(&bounded) < lost(&free));
    // A bound that no run reaches changes no loss.
    assert_eq!(fates(&Loss::bounded(probability(0.6), u32::MAX), 8, 5_000), free);
}

#[test]
fn bounded_loss_has_documented_share() {
    let (p, max_run) = (0.5_f64, 2);
    let share = (p - p.powi(3)) / (1.0 - p.powi(3));
    let lost = lost(&fates(&Loss::bounded(probability(p), max_run), 8, 90_000));
    // A cycle is a run of losses and the packet that ends it. It has 0, 1 or 2 losses with
    // probabilities 1/2, 1/4 and 1/4, so on average 3/4 losses (variance 11/16) in 7/4 packets. By
    // the renewal-reward theorem the losses among n packets have a variance of n / (7/4) * 11/16 *
    // (1 - share)^2.
    let count = 90_000.0_f64;
    let sigma = (count / 1.75 * (11.0 / 16.0)).sqrt() * (1.0 - share);
    let deviation = (lost - count * share) / sigma;
    assert!(deviation.abs() < 4.0, "{lost}: {deviation} sigma");
}

#[test]
fn gilbert_elliott_loses_mean_within_four_sigma() {
    for (n, model) in [
        channel(0.01, 0.2, 0.0, 1.0),
        channel(0.05, 0.3, 0.01, 0.6),
        channel(0.9, 0.8, 0.0, 1.0),
        channel(0.5, 0.5, 0.2, 0.2),
    ]
    .into_iter()
    .enumerate()
    {
        let count = 200_000_u32;
        let (p, r) = (model.p.as_f64(), model.r.as_f64());
        let (good, bad) = (model.loss_good.as_f64(), model.loss_bad.as_f64());
        let (share_bad, memory) = (p / (p + r), 1.0 - p - r);
        // The number of packets in the bad state has the variance of independent packets times (1 +
        // memory) / (1 - memory). The random losses within each state add `within`.
        let between = (bad - good).powi(2) * share_bad * (1.0 - share_bad) * (1.0 + memory) / (1.0 - memory);
        let within = share_bad * bad * (1.0 - bad) + (1.0 - share_bad) * good * (1.0 - good);
        let sigma = (f64::from(count) * (between + within)).sqrt();
        for seed in 0..5 {
            let lost = lost(&fates(&Loss::GilbertElliott(model), seed, count.into()));
            let deviation = (lost - f64::from(count) * model.mean_loss()) / sigma;
            assert!(deviation.abs() < 4.0, "channel {n}, seed {seed}: {deviation} sigma");
        }
    }
}

#[test]
fn burst_lengths_are_geometric() {
    let (p, r) = (0.02, 0.25);
    let model = GilbertElliott::all_or_nothing(probability(p), probability(r));
    let runs = runs(&fates(&Loss::GilbertElliott(model), 6, 200_000));
    let count = f64::from(u32::try_from(runs.len()).unwrap());
    let mean = runs.iter().map(|&len| f64::from(u32::try_from(len).unwrap())).sum::<f64>() / count;
    let sigma = ((1.0 - r) / (r * r) / count).sqrt();
    assert!(((mean - 1.0 / r) / sigma).abs() < 4.0, "mean burst {mean}, sigma {sigma}");
    assert!((2_500.0..5_000.0).contains(&count), "{count} bursts");
}

#[test]
fn channel_starts_good() {
    let flip = channel(1.0, 1.0, 0.0, 1.0);
    assert_eq!(fates(&Loss::GilbertElliott(flip), 1, 6), [false, true, false, true, false, true]);
    let stuck = channel(1.0, 0.0, 0.0, 1.0);
    assert_eq!(fates(&Loss::GilbertElliott(stuck), 1, 4), [false, true, true, true]);
    let good = channel(0.0, 0.5, 0.0, 1.0);
    assert!(!fates(&Loss::GilbertElliott(good), 1, 1_000).contains(&true));
    assert!(good.mean_loss().abs() < 1e-12);
    assert!((channel(0.0, 0.0, 0.25, 1.0).mean_loss() - 0.25).abs() < 1e-12);
}

#[test]
fn memoryless_channel_is_bernoulli() {
    let model = channel(0.3, 0.7, 0.1, 0.1);
    assert_eq!(fates(&Loss::GilbertElliott(model), 2, 5_000), fates(&bernoulli(0.1), 2, 5_000));
}

#[test]
fn decide_does_not_depend_on_call_order() {
    let models = [
        Loss::GilbertElliott(channel(0.2, 0.3, 0.05, 0.8)),
        Loss::bounded(probability(0.8), 3),
        Loss::every_nth(4),
        bernoulli(0.5),
    ];
    for model in models {
        let fates = fates(&model, 12, 200);
        for index in (0..200).rev() {
            let expected = fates[usize::try_from(index).unwrap()];
            assert_eq!(model.decide(12, FORWARD, index), expected, "{model:?}, packet {index}");
        }
    }
}
