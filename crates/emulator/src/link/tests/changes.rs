//! Changes of the settings while packets are inside.

use super::*;
use crate::ChangeError;
use crate::queue::Discipline;
use crate::wifi::WifiConfig;

fn changeable(config: LinkConfig) -> Link {
    let mut link = link(config);
    link.allow_changes();
    link
}

#[test]
fn new_rate_serves_packets_after_old_ones() {
    let now = epoch();
    let mut link = changeable(rate(1_000_000));
    burst(&mut link, now, 2, 500);
    link.change(now + ms(5), rate(2_000_000)).unwrap();
    burst(&mut link, now + ms(5), 1, 500);
    assert_eq!(due_times(&mut link, now), [ms(4), ms(8), ms(10)]);
}

#[test]
fn idle_link_serves_at_once_after_change() {
    let now = epoch();
    for config in [rate(2_000_000), rate(2_000_000).rate_steps([(ms(500), Bitrate::from_bps(1))])] {
        let mut link = changeable(rate(1_000_000));
        burst(&mut link, now, 1, 500);
        link.change(now + ms(50), config).unwrap();
        burst(&mut link, now + ms(60), 1, 500);
        assert_eq!(due_times(&mut link, now), [ms(4), ms(62)]);
    }
}

#[test]
fn steps_count_from_start_of_link() {
    let now = epoch();
    let mut link = changeable(rate(1_000_000));
    link.start(now);
    link.change(now + ms(5), rate(1_000_000).rate_steps([(ms(10), Bitrate::from_bps(2_000_000))])).unwrap();
    burst(&mut link, now + ms(12), 1, 500);
    assert_eq!(due_times(&mut link, now), [ms(14)]);
}

#[test]
fn draws_stay_the_same_after_change() {
    let now = epoch();
    let fates = |first: f64, then: f64| -> Vec<bool> {
        let lossy = |share| LinkConfig { loss: bernoulli(share), ..LinkConfig::default() };
        let mut link = changeable(lossy(first));
        (0..1_000)
            .map(|n| {
                if n == 500 {
                    link.change(now, lossy(then)).unwrap();
                }
                link.push(now, vec![0]).is_ok()
            })
            .collect()
    };
    let (rare, often) = (fates(0.1, 0.1), fates(0.5, 0.5));
    let changed = fates(0.1, 0.5);
    assert_eq!((&changed[..500], &changed[500..]), (&rare[..500], &often[500..]));
}

#[test]
fn packets_after_shorter_delay_overtake() {
    let now = epoch();
    let delayed = |delay| LinkConfig { delay, ..LinkConfig::default() };
    let mut link = changeable(delayed(ms(50)));
    link.push(now, vec![1]).unwrap();
    link.change(now + ms(10), delayed(ms(5))).unwrap();
    link.push(now + ms(10), vec![2]).unwrap();
    let order: Vec<_> = drain(&mut link).into_iter().map(|it| (it.due - now, it.packet[0])).collect();
    assert_eq!(order, [(ms(15), 2), (ms(50), 1)]);
}

#[test]
fn new_queue_limit_counts_packets_inside() {
    let now = epoch();
    let mut link = changeable(rate(1_000_000).queue(QueueLimit::packets(10)));
    assert_eq!(burst(&mut link, now, 5, 500), 5);
    // One is in service, so 2000 bytes wait.
    link.change(now, rate(1_000_000).queue(QueueLimit::bytes(2_500))).unwrap();
    assert_eq!(burst(&mut link, now, 5, 500), 1);
}

#[test]
fn refused_change_leaves_link_as_it_is() {
    let now = epoch();
    let mut link = changeable(rate(1_000_000));
    let refused = [
        (LinkConfig::default().wifi(WifiConfig::g()), ChangeError::Cell),
        (rate(9).discipline(Discipline::DropHead), ChangeError::Discipline),
        (rate(9).occupancy(Occupancy::WaitingAndInFlight), ChangeError::Occupancy),
    ];
    for (config, error) in refused {
        assert_eq!(link.change(now, config), Err(error));
    }
    burst(&mut link, now, 1, 500);
    assert_eq!(due_times(&mut link, now), [ms(4)]);
}

#[test]
fn idle_average_of_red_decays_at_new_rate() {
    let now = epoch();
    // The average is the queue itself, and packets above `min` are dropped for sure above `max`.
    let red = "red:min=1kb,max=2kb,p=1,weight=0.5,gentle=no".parse::<Discipline>().unwrap();
    let admitted = |rate_then: u64| {
        let mut link = changeable(rate(1_000_000_000).discipline(red));
        burst(&mut link, now, 100, 1_000);
        link.change(now + ms(2), rate(rate_then).discipline(red)).unwrap();
        // Idle for a small packet's time at 1 Mbit/s, a thousand of them at 1 Gbit/s.
        burst(&mut link, now + ms(6), 1, 1_000)
    };
    assert_eq!((admitted(1_000_000), admitted(1_000_000_000)), (0, 1));
}

#[test]
fn waiting_packets_of_codel_get_new_rate() {
    let now = epoch();
    let codel = "codel".parse::<Discipline>().unwrap();
    let mut link = changeable(rate(1_000_000).discipline(codel));
    burst(&mut link, now, 3, 500);
    link.change(now + ms(1), rate(2_000_000).discipline(codel)).unwrap();
    // The first is in service.
    assert_eq!(due_times(&mut link, now), [ms(4), ms(6), ms(8)]);
}
