//! Metrics that the flows, links and engines of an experiment can have, so that a typing error is
//! found before anything runs.

use rdt_emulator::DropCause;

use super::document::{Item, Section};
use super::error::{ExperimentError, Place, suggest};
use super::{Experiment, Until};
use crate::cell::EngineKind;
use crate::claim::{Expression, Metric, Predicate};
use crate::flow::FlowKind;
use crate::theory::AIRTIME_PARTS;

/// Kinds of flows that have a metric.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    All,
    Transport,
    Udp,
}

/// Engines whose results have a metric: all, those of virtual time, those over sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    All,
    Virtual,
    Sockets,
}

/// Metrics of a flow.
const FLOW: [(Of, By, &str); 7] = [
    (Of::All, By::All, "goodput bytes failed lost"),
    (Of::All, By::Virtual, "resumed step-lag"),
    (
        Of::Transport,
        By::All,
        "acks-received bytes-in-bins bytes-written completion convergence cwnd-max cwnd-mean ecn-reductions \
         first-byte handshake-rtt in-flight-mean limit.application limit.cwnd limit.host limit.link \
         limit.recovery limit.start limit.window longest-pause not-stationary packets-sent recoveries \
         retransmitted rtt-max rtt-mean rtt-min share spurious timeouts waited-window warm-up",
    ),
    (
        Of::Transport,
        By::Virtual,
        "ack-window-error bytes-unacked cwnd-after-timeout cwnd-min dropped growth-per-rtt halving-error \
         recovered-error rtt-p50 rtt-p90 rtt-p99 rwnd-min timeout-1 timeout-2 timeout-3 timeout-4 timeout-5 \
         timeout-6 waited-application waited-cwnd waited-pacing",
    ),
    (Of::Transport, By::Sockets, "dsacked lost-receiver-socket mss waited-buffer"),
    (
        Of::Udp,
        By::All,
        "blocked delay-max delay-mean delivered jitter longest-gap loss offered reordered sent",
    ),
    (Of::Udp, By::Sockets, "refused"),
];

/// Columns of series that are no metrics, of flows and of the first direction of links.
const COLUMNS: [&str; 7] = ["cwnd", "in-flight", "queue", "rto", "rwnd", "srtt", "ssthresh"];

/// Metrics of a direction of a link.
const LINK: [(By, &str); 3] = [
    (By::All, "bytes-per-packet delivered marked sent utilisation"),
    (By::Virtual, "busy-per-packet queue-max queue-mean"),
    (By::Sockets, "lateness-p99 lost-before queue-delay-max queue-delay-p50 queue-delay-p99"),
];

impl By {
    fn includes(self, engine: EngineKind) -> bool {
        match self {
            Self::All => engine != EngineKind::Command,
            Self::Virtual => engine.is_virtual(),
            Self::Sockets => !engine.is_virtual() && engine != EngineKind::Command,
        }
    }
}

/// Names that an experiment's results can have.
struct Names<'a> {
    experiment: &'a Experiment,
}

impl Names<'_> {
    fn has(&self, by: By) -> bool {
        self.experiment.engines.iter().any(|engine| by.includes(*engine))
    }

    /// Returns the kinds that the flows of a table have: several if levels set them.
    fn kinds(&self, table: &str) -> Vec<FlowKind> {
        let own = self.experiment.flows.iter().find(|flow| flow.name == table);
        let fixed = own.into_iter().flat_map(|flow| &flow.settings);
        let levels = self.experiment.factors.iter().flat_map(|factor| &factor.levels);
        let varied = levels.flat_map(|level| &level.settings).filter(|it| super::read::sets_kind(it, table));
        let named = fixed.filter(|it| it.word == "kind").chain(varied);
        let all = [FlowKind::Rdt, FlowKind::Classic, FlowKind::Tcp, FlowKind::Udp];
        let kinds: Vec<FlowKind> =
            named.filter_map(|it| all.into_iter().find(|kind| kind.word() == it.value)).collect();
        if kinds.is_empty() { vec![FlowKind::Rdt] } else { kinds }
    }

    /// Returns the metrics of the flows of a table.
    fn of_flow(&self, table: &str) -> Vec<String> {
        let kinds = self.kinds(table);
        let is_of = |of: Of| match of {
            Of::All => true,
            Of::Udp => kinds.contains(&FlowKind::Udp),
            Of::Transport => kinds.iter().any(|kind| *kind != FlowKind::Udp),
        };
        let rows = FLOW.iter().filter(|(of, by, _)| is_of(*of) && self.has(*by));
        let mut words: Vec<String> =
            rows.flat_map(|(_, _, words)| words.split(' ')).map(str::to_owned).collect();
        if self.has(By::Virtual) {
            words.extend(AIRTIME_PARTS.iter().map(|(part, _)| format!("airtime.{part}")));
            if is_of(Of::Udp) {
                words.extend(DropCause::ALL.map(|cause| format!("lost-{}", cause.name())));
            }
        }
        words
    }

    fn of_links(&self) -> Vec<String> {
        let is_command = self.experiment.engines.contains(&EngineKind::Command);
        let has = |by: By| by == By::All || self.has(by) || is_command && by == By::Sockets;
        let rows = LINK.iter().filter(|(by, _)| has(*by));
        let plain = rows.flat_map(|(_, words)| words.split(' ')).map(str::to_owned);
        let words: Vec<String> =
            plain.chain(DropCause::ALL.map(|cause| format!("dropped-{}", cause.name()))).collect();
        let count = self.experiment.links.len();
        let links = (1..=count).map(|n| if count == 1 { "link".to_owned() } else { format!("link{n}") });
        let ways = links.flat_map(|link| ["forward", "reverse"].map(|way| format!("{link}.{way}")));
        ways.flat_map(|way| words.iter().map(move |word| format!("{way}.{word}"))).collect()
    }

    /// Returns the metrics of a run, which belong to no flow.
    fn of_run(&self) -> Vec<String> {
        let mut words = self.of_links();
        let mut add = |is_there: bool, names: &[&str]| {
            words.extend(names.iter().filter(|_| is_there).map(|name| (*name).to_owned()));
        };
        add(self.has(By::All), &["sum", "jain"]);
        add(self.has(By::Sockets), &["processor"]);
        let is_command = self.experiment.engines.contains(&EngineKind::Command);
        add(is_command, &["run-time"]);
        words.extend(self.experiment.command.iter().flat_map(|it| &it.metrics).map(|(name, _)| name.clone()));
        words
    }

    /// Returns the table of a flow: its name, or that of a table with a count.
    fn table(&self, flow: &str) -> Option<&str> {
        let is_of = |name: &&str| {
            flow.strip_prefix(*name).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let names = || self.experiment.flows.iter().map(|flow| flow.name.as_str());
        names().find(|name| *name == flow).or_else(|| names().find(is_of))
    }

    /// Returns an error if no result can have a metric. A name without a flow is that of the only
    /// flow. A figure may also name columns of series, and leave the flow out to show all.
    fn check(&self, metric: &str, for_figure: bool) -> Result<(), String> {
        let run = self.of_run();
        let is_column = COLUMNS.contains(&metric.rsplit('.').next().unwrap_or(metric));
        if run.iter().any(|known| known == metric) || for_figure && is_column {
            return Ok(());
        }
        let flows: Vec<&str> = self.experiment.flows.iter().map(|flow| flow.name.as_str()).collect();
        if let Some((flow, word)) = metric.split_once('.')
            && let Some(table) = self.table(flow)
        {
            let known = self.of_flow(table);
            if known.iter().any(|known| known == word) || is_of_capture(word, self.experiment) {
                return Ok(());
            }
            let hint = nearest(word, known.iter().map(String::as_str));
            return Err(format!("no flow {flow} has the metric '{word}'{hint}"));
        }
        let known: Vec<String> = flows.iter().flat_map(|flow| self.of_flow(flow)).collect();
        let is_known = known.iter().any(|known| known == metric) || is_of_capture(metric, self.experiment);
        match (is_known, &flows[..]) {
            (true, [_]) => Ok(()),
            (true, _) if for_figure => Ok(()),
            (true, [first, ..]) => Err(format!(
                "'{metric}' belongs to a flow, and there are {}: write {first}:{metric}, or another of {}",
                flows.len(),
                flows.join(", ")
            )),
            _ => {
                let of_flows =
                    flows.iter().flat_map(|flow| known.iter().map(move |it| format!("{flow}.{it}")));
                let all: Vec<String> = known.iter().cloned().chain(of_flows).chain(run).collect();
                Err(format!(
                    "no result has the metric '{metric}'{}",
                    nearest(metric, all.iter().map(String::as_str))
                ))
            }
        }
    }
}

/// Returns the end of a sentence with the nearest name, or nothing: there are too many to list.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let hint = suggest(name, known);
    if hint.starts_with("did you mean") { format!("; {hint}") } else { "; LAB.md lists all".to_owned() }
}

/// True if a metric comes from the capture of a flow.
fn is_of_capture(word: &str, experiment: &Experiment) -> bool {
    experiment.measure.capture && word.starts_with("trace.")
}

/// Checks every metric that an experiment names.
pub(super) fn check(file: &Section<'_, '_>, experiment: &Experiment) -> Result<(), ExperimentError> {
    let names = Names { experiment };
    for claim in &experiment.claims {
        let metrics = of_predicate(&claim.predicate);
        for metric in metrics {
            let error = |message| within(claim.place, &claim.that, &metric.name, "claim.that", message);
            names.check(&metric.name, false).map_err(error)?;
        }
    }
    for expect in &experiment.expects {
        for metric in of_expression(&expect.expression) {
            let error = |message| within(expect.place, &expect.of, &metric.name, "expect.of", message);
            names.check(&metric.name, false).map_err(error)?;
        }
    }
    for figure in &experiment.figures {
        for name in &figure.of {
            names.check(&name.replace(':', "."), true).map_err(|it| figure.place.error("figure.of", it))?;
        }
    }
    if let Until::Width { of, .. } = &experiment.repeats.until {
        let section = file.get("repeats").map(Item::section).transpose()?;
        let place = section.as_ref().and_then(|section| section.get("until")).map(Item::place);
        let error = |message| place.unwrap_or_default().error("repeats.until", message);
        names.check(of, false).map_err(error)?;
    }
    Ok(())
}

/// Returns an error at the place of a metric inside of a text, which begins after its quote.
fn within(place: Place, text: &str, metric: &str, subject: &str, message: String) -> ExperimentError {
    let word = metric.rsplit('.').next().unwrap_or(metric);
    let before = text.find(word).map_or(0, |at| text[..at].chars().count() + 1);
    Place { column: place.column + before, ..place }.error(subject, message)
}

fn of_predicate(predicate: &Predicate) -> Vec<&Metric> {
    match predicate {
        Predicate::Compare(left, _, right) => [of_expression(left), of_expression(right)].concat(),
        Predicate::Monotone(metric, ..) => vec![metric],
        Predicate::All(_, inner) => of_predicate(inner),
    }
}

fn of_expression(expression: &Expression) -> Vec<&Metric> {
    let mut metrics = Vec::new();
    for operand in expression.operands() {
        if let Expression::Metric(metric) | Expression::Quantile(_, metric) | Expression::Effect(metric, _) =
            operand
        {
            metrics.push(metric);
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engine;
    use crate::plan::Plan;

    /// Every metric that the engines of virtual time produce is a name that experiments may use.
    #[test]
    fn names_of_results_are_known() {
        let rdt = "[[flow]]\nname = 'a'\ncc = 'reno'\n[[flow]]\nname = 'b'\nstart = '1s'";
        let classic = "[[flow]]\nname = 'a'\nkind = 'classic'\ncc = 'fixed:10'\nbytes = 100000";
        let udp = "[[flow]]\nname = 'u'\nkind = 'udp'\nrate = '20mbit'";
        let steps = "rate = '8mbit'\nrtt = '20ms'\nloss = '2%'\noutage = '1s-2s'";
        let wifi = "rate = 'wifi-a'\nrtt = '1ms'\nqueue = '10p'";
        for (flows, path, warm_up) in
            [(rdt, steps, "auto"), (classic, "rtt = '9ms'", "0s"), (udp, wifi, "0s"), (udp, steps, "1s")]
        {
            let text = format!(
                "schema = 1\nname = 'x'\ntitle = 'X'\nengine = 'virtual'\nfor = '6s'\n[path]\n{path}\n{flows}\n\
                 [measure]\nwarm-up = '{warm_up}'\n"
            );
            let experiment = Experiment::from_toml(&text).expect("an experiment");
            let cell = Plan::new(&experiment, &[]).expect("a plan").cells.remove(0);
            let engine = engine(EngineKind::Virtual).expect("an engine");
            let run = engine.run(&cell, 1, &experiment.measure, &rdt_program::Stop::default(), None);
            let names = Names { experiment: &experiment };
            for metric in run.expect("a run").metrics.keys() {
                assert_eq!(names.check(metric, false), Ok(()), "{metric}");
            }
        }
    }
}
