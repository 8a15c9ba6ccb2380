use super::*;
use crate::probability::Probability;
use crate::queue::{CoDelConfig, PieConfig, RedConfig};
use rdt_testing::{Numbers, ms, ns};

fn read(text: &str) -> Discipline {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    text.parse::<Discipline>().unwrap_err().to_string()
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

#[test]
fn name_alone_gives_default_parameters() {
    for (text, expected) in [
        ("drop-tail", Discipline::DropTail),
        (" Drop-Head ", Discipline::DropHead),
        ("codel", Discipline::CoDel(CoDelConfig::default())),
        ("RED", Discipline::Red(RedConfig::default())),
        ("pie:", Discipline::Pie(PieConfig::default())),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    assert_eq!(Discipline::default(), Discipline::DropTail);
}

#[test]
fn parameters_change_what_they_name() {
    assert_eq!(
        read("codel:target=10ms, interval = 1s,ecn"),
        Discipline::CoDel(CoDelConfig { target: ms(10), interval: ms(1_000), ecn: true })
    );
    assert_eq!(
        read("red:min=30kb,max=90KB,p=20%,weight=0.01,gentle=no,ecn=yes"),
        Discipline::Red(RedConfig {
            min: 30_000,
            max: 90_000,
            max_p: probability(0.2),
            weight: probability(0.01),
            gentle: false,
            ecn: true
        })
    );
    assert_eq!(
        read("pie:target=20ms,tupdate=5ms,burst=0s,alpha=0.25,beta=2,ecn=no"),
        Discipline::Pie(PieConfig {
            target: ms(20),
            tupdate: ms(5),
            max_burst: ms(0),
            alpha: 0.25,
            beta: 2.0,
            ecn: false
        })
    );
}

#[test]
fn errors_name_parameter_and_fix() {
    for (text, message) in [
        ("drop-tail:ecn", "'ecn' is not a parameter of drop-tail, which has none"),
        ("codel:targt=5ms", "'targt' is not a parameter of codel, which has target, interval and ecn"),
        ("codel:,", "'' of codel is given twice"),
        ("codel:ecn,", "'' is not a parameter of codel, which has target, interval and ecn"),
        ("codel:target", "target of codel: '' is not a time such as 20ns, 250us, 100ms, 1.5s or 10min"),
        ("codel:target=5", "target of codel: '5' has no unit: write 5ns or 5us or 5ms or 5s or 5min"),
        ("codel:interval=0s", "interval of codel: it must be more than zero"),
        ("codel:target=0ms", "target of codel: it must be more than zero"),
        ("codel:ecn=perhaps", "ecn of codel: 'perhaps' is not yes or no"),
        ("codel:target=1ms,target=2ms", "'target' of codel is given twice"),
        ("red:max=5kb", "max of red: it must be more than min, which is 7500b"),
        ("red:p=2", "p of red: '2' is out of range: a probability is from 0 to 1, or from 0% to 100%"),
        ("pie:alpha=x", "alpha of pie: 'x' is not a number such as 0.125"),
        ("pie:beta=-1", "beta of pie: '-1' is not a number such as 0.125"),
        ("pie:beta=inf", "beta of pie: 'inf' is not a number such as 0.125"),
        ("pie:tupdate=99us", "tupdate of pie: it must be at least 100us"),
    ] {
        assert_eq!(refused(text), message, "{text}");
    }
    for text in ["fifo", ""] {
        let start = format!("'{text}' is not a queue discipline: write drop-tail, drop-head, codel, red");
        assert!(refused(text).starts_with(&start), "{}", refused(text));
    }
}

#[test]
fn display_reads_back_equal() {
    let shown = [
        "drop-tail",
        "drop-head",
        "codel:target=5ms,interval=100ms",
        "codel:target=1500us,interval=1s,ecn",
        "red:min=7500b,max=22500b,p=0.1,weight=0.002",
        "red:min=30kb,max=1mb,p=0.1,weight=0.5,gentle=no,ecn",
        "pie:target=15ms,tupdate=15ms,burst=150ms,alpha=0.125,beta=1.25",
        "pie:target=0ns,tupdate=100us,burst=1ns,alpha=0,beta=1e-9,ecn",
    ];
    for text in shown {
        let discipline = read(text);
        assert_eq!(read(&discipline.to_string()), discipline, "{text}");
    }
    assert_eq!(shown[..7], shown[..7].iter().map(|text| read(text).to_string()).collect::<Vec<_>>());

    let mut numbers = Numbers::new(1);
    for _ in 0..1_000 {
        let mut time = || ns(100_000 + numbers.below(10_u64.pow(15)));
        let (target, interval, max_burst) = (time(), time(), time());
        let ecn = numbers.below(2) == 0;
        let min = numbers.below(1_000_000);
        let red = RedConfig { min, max: min + 1 + numbers.below(1_000), ecn, ..RedConfig::default() };
        let pie = PieConfig { target, tupdate: interval, max_burst, ecn, ..PieConfig::default() };
        let codel = Discipline::CoDel(CoDelConfig { target, interval, ecn });
        for discipline in [codel, Discipline::Red(red), Discipline::Pie(pie)] {
            assert_eq!(read(&discipline.to_string()), discipline, "{discipline}");
        }
    }
}
