//! When a cell has enough repetitions, and which level a claim may use if it is examined several
//! times.

/// First two numbers of repetitions after which a cell is examined. Each further one is twice the
/// last but one.
const LOOKS: [u32; 2] = [10, 15];

/// Returns the first number of repetitions, of 10, 15, 20, 30, 40, 60, 80, ... and between the
/// bounds, that is above `done`. `None` if `done` is `most` or more.
pub fn next_look(done: u32, least: u32, most: u32) -> Option<u32> {
    let mut look = LOOKS;
    loop {
        let candidate = look[0].clamp(least, most);
        if candidate > done {
            return Some(candidate);
        }
        if look[0] >= most {
            return None;
        }
        look = [look[1], look[0].saturating_mul(2)];
    }
}

/// Returns the part of `alpha` that a claim may use at a look at `done` repetitions, after a look
/// at `before` (0 at the first look), if there are at most `most`. The parts of all looks sum to at
/// most `alpha`, so repeated looks do not make a false claim more likely than `alpha`. The level is
/// spent as in Pocock's boundaries (Lan and DeMets 1983).
pub fn spent_level(alpha: f64, before: u32, done: u32, most: u32) -> f64 {
    let spent = |n: u32| {
        let share = f64::from(n.min(most)) / f64::from(most.max(1));
        alpha * (1.0 + (std::f64::consts::E - 1.0) * share).ln()
    };
    spent(done) - spent(before)
}

/// Standard errors between an estimate and its bound at which a comparison is decided.
const DECIDED: f64 = 1.96;
/// Normal quantile of 0.8, the probability that the proposed repetitions decide a comparison.
const SURE: f64 = 0.84;

/// Returns a number of repetitions after which a comparison is decided with a probability of 0.8,
/// if its estimate after `done` repetitions lies `errors` standard errors from its bound.
/// `u32::MAX` if no number has that probability.
///
/// The mean of N repetitions, given the first n, has the standard deviation s sqrt(1/n - 1/N)
/// around their mean (a predictive distribution without prior knowledge).
pub fn runs_to_decide(done: u32, errors: f64) -> u32 {
    if errors.is_nan() || errors <= SURE {
        return u32::MAX;
    }
    // n / N; what the estimate must exceed rises with it up to its highest point.
    let must_exceed = |share: f64| DECIDED * share.sqrt() + SURE * (1.0 - share).sqrt();
    let highest = DECIDED * DECIDED / (DECIDED * DECIDED + SURE * SURE);
    let (mut enough, mut too_large) = (0.0, highest);
    if errors >= must_exceed(highest) {
        return done.saturating_add(1);
    }
    for _ in 0..60 {
        let share = f64::midpoint(enough, too_large);
        if must_exceed(share) <= errors {
            enough = share;
        } else {
            too_large = share;
        }
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let runs = (f64::from(done) / too_large).ceil() as u32;
    runs.max(done.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::super::distribution::normal_quantile;
    use super::super::t_interval;
    use super::*;
    use rdt_emulator::child_seed;

    #[test]
    fn looks_grow_by_about_the_half() {
        let mut looks = vec![0];
        while let Some(look) = next_look(looks[looks.len() - 1], 10, 100) {
            looks.push(look);
        }
        assert_eq!(looks, [0, 10, 15, 20, 30, 40, 60, 80, 100]);
        assert_eq!(next_look(0, 3, 3), Some(3));
        assert_eq!(next_look(3, 3, 3), None);
        assert_eq!(next_look(0, 25, 400), Some(25));
    }

    #[test]
    fn parts_of_a_level_sum_to_the_level() {
        let looks = [0, 10, 20, 40, 80, 160];
        let parts: f64 = looks.windows(2).map(|it| spent_level(0.05, it[0], it[1], 160)).sum();
        assert!((parts - 0.05).abs() < 1e-12, "{parts}");
    }

    /// Standard normal value i of an experiment.
    fn normal(experiment: u64, i: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a random number of 53 bits")]
        let uniform = ((child_seed(experiment, i) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        normal_quantile(uniform)
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        let experiments = 4000;
        let covered = (0..experiments).filter(|&seed| {
            let values: Vec<f64> = (0..12).map(|i| 5.0 + normal(seed, i)).collect();
            t_interval(&values, 0.95).is_some_and(|it| it.contains(5.0))
        });
        let covered = covered.count();
        assert!((3740..=3860).contains(&covered), "{covered} of {experiments}: 93.5 to 96.5 %");
    }

    #[test]
    fn stopping_at_a_width_keeps_coverage() {
        let experiments = 2000;
        let covered = (0..experiments).filter(|&seed| {
            let (mut values, mut done) = (Vec::new(), 0);
            while let Some(look) = next_look(done, 10, 400) {
                values.extend((done..look).map(|i| 5.0 + normal(seed, i.into())));
                done = look;
                if t_interval(&values, 0.95).is_some_and(|it| it.half_width() <= 0.3) {
                    break;
                }
            }
            t_interval(&values, 0.95).is_some_and(|it| it.contains(5.0))
        });
        let covered = covered.count();
        assert!(covered >= 1860, "{covered} of {experiments}: at least 93 %");
    }

    #[test]
    fn proposed_runs_decide_four_of_five() {
        // Effects that a tenth of the repetitions rarely shows.
        for effect in [0.2, 0.3, 0.5] {
            let (mut proposals, mut decided) = (0, 0);
            for seed in 0..1000 {
                let errors = |n: u32| {
                    let values: Vec<f64> = (0..n).map(|i| effect + normal(seed, i.into())).collect();
                    let mean = super::super::mean(&values).expect("values");
                    let deviation = super::super::standard_deviation(&values).expect("values");
                    mean.abs() / (deviation / f64::from(n).sqrt())
                };
                let first = errors(20);
                let runs = runs_to_decide(20, first);
                if first < DECIDED && runs <= 2000 {
                    proposals += 1;
                    decided += u32::from(errors(runs) >= DECIDED);
                }
            }
            assert!(proposals > 100, "effect {effect}: {proposals}");
            assert!(decided * 10 >= proposals * 8, "effect {effect}: {decided} of {proposals}");
        }
    }

    #[test]
    fn no_number_of_runs_is_proposed_without_a_sign() {
        assert_eq!(runs_to_decide(10, 0.8), u32::MAX);
        assert_eq!(runs_to_decide(10, f64::NAN), u32::MAX);
        assert_eq!(runs_to_decide(10, f64::INFINITY), 11);
        assert_eq!(runs_to_decide(10, 2.2), 11);
        let fewer = [1.0, 1.2, 1.5, 1.9].map(|errors| runs_to_decide(10, errors));
        assert!(fewer.is_sorted_by(|a, b| a > b) && fewer[3] > 11, "{fewer:?}");
    }
}
