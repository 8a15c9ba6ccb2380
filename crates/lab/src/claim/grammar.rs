//! Notation of predicates.
//!
//! ```text
//! predicate  = "all" [selection] ":" predicate
//!            | "monotone" "(" metric "," factor "," ("up" | "down" | "flat" number) ")"
//!            | expression ("<" | ">") expression
//!            | expression "within" number "of" expression
//! expression = term { ("+" | "-") term }
//! term       = factor { ("*" | "/") factor }
//! factor     = number | "(" expression ")" | metric
//!            | "q" digits "(" metric ")"                  quantile over the repetitions
//!            | "effect" "(" metric "," factor { "," factor } ")"
//!            | "theory" "(" name ["," flow] ")" [selection]
//! metric     = [flow ":"] name [selection]
//! selection  = "[" factor "=" level { "," factor "=" level } "]"
//! number     = digits with an optional unit: 8mbit, 10ms, 16kib, 5%
//! ```
//!
//! A minus sign has a space before it, because names contain hyphens.

use winnow::ascii::{multispace0, multispace1};
use winnow::combinator::{
    alt, cut_err, delimited, fail, not, opt, peek, preceded, repeat, separated, terminated,
};
use winnow::error::{StrContext, StrContextValue};
use winnow::prelude::*;
use winnow::token::{one_of, take_while};

use crate::results::Selection;
use crate::statistics::number as number_of;

/// A metric of the cells that a selection matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric, after that of the flow if one is given: `b.goodput`.
    pub name: String,
    /// Levels that select the cells. The value is the mean over all cells that match.
    pub selection: Selection,
}

/// Arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// An expression with a value for each repetition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number in the unit of metrics: bits per second, seconds, bytes.
    Number(f64),
    /// A metric.
    Metric(Metric),
    /// Quantile over the repetitions, 0 to 1. It has one value for all repetitions.
    Quantile(f64, Metric),
    /// Ratio of geometric means: at the second level of a factor to those at the first. With
    /// several factors, cells where an even number of them is at the first level are above the
    /// line. The interaction of two is the root of the ratio of their ratios.
    Effect(Metric, Vec<String>),
    /// Prediction of a model, for a flow or the only one, as the mean over the cells that match.
    Theory(String, Option<String>, Selection),
    /// Two expressions and an operator.
    Binary(Box<Self>, Operator, Box<Self>),
}

impl Expression {
    /// Returns the parts that operators join, from left to right.
    pub(crate) fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Binary(left, _, right) => [left.operands(), right.operands()].concat(),
            operand => vec![operand],
        }
    }
}

/// Relation of two expressions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relation {
    /// The first expression is less than the second.
    Less,
    /// The first expression is more than the second.
    More,
    /// The expressions differ by at most this fraction of the second.
    WithinFraction(f64),
    /// The expressions differ by at most this much.
    WithinAmount(f64),
}

/// How a metric changes from level to level of a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Direction {
    /// The metric grows from each level to the next.
    Up,
    /// The metric falls from each level to the next.
    Down,
    /// The metric differs between neighbouring levels by at most this fraction.
    Flat(f64),
}

/// A statement that the measurements decide.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// Comparison of two expressions.
    Compare(Expression, Relation, Expression),
    /// Change of a metric from level to level of a factor, in the order of the experiment.
    Monotone(Metric, String, Direction),
    /// The predicate holds in each cell that matches.
    All(Selection, Box<Self>),
}

/// An error in a predicate. Its text is a sentence with the column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ClaimError {
    /// Column in the text, from 1, in characters.
    pub column: usize,
    /// The error.
    pub message: String,
}

/// Limit on the characters of a predicate. The parser and the judge recurse at most once for each
/// operator, so it also limits their stack.
const MAX_LENGTH: usize = 2_000;
/// Limit on parentheses within each other.
const MAX_DEPTH: usize = 50;

/// Returns an error if a text would exhaust the stack.
fn check_size(text: &str) -> Result<(), ClaimError> {
    let mut depth = 0_usize;
    for (index, c) in text.chars().enumerate() {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        let message = if index >= MAX_LENGTH {
            format!("a claim has at most {MAX_LENGTH} characters: make several of it")
        } else if depth > MAX_DEPTH {
            format!("parentheses stand at most {MAX_DEPTH} deep: leave out those that change nothing")
        } else {
            continue;
        };
        return Err(ClaimError { column: index + 1, message });
    }
    Ok(())
}

/// Parses a predicate.
pub fn parse(text: &str) -> Result<Predicate, ClaimError> {
    check_size(text)?;
    terminated(predicate, multispace0).parse(text).map_err(|error| {
        let column = text[..error.offset()].chars().count() + 1;
        let message = error.inner().to_string().replace('\n', ", ");
        let message = match message.as_str() {
            "" => "a comparison such as 'goodput[sack=on] > goodput[sack=off]' is wanted".to_owned(),
            _ => message,
        };
        ClaimError { column, message }
    })
}

/// Parses an expression without a comparison.
pub fn parse_expression(text: &str) -> Result<Expression, ClaimError> {
    check_size(text)?;
    terminated(expression, multispace0).parse(text).map_err(|error| {
        let column = text[..error.offset()].chars().count() + 1;
        ClaimError {
            column,
            message: "an expression such as 'goodput' or 'effect(goodput, sack)' is wanted".to_owned(),
        }
    })
}

fn wanted(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

/// Parses a fixed word or sign after white space.
fn sign<'i>(text: &'static str) -> impl FnMut(&mut &'i str) -> ModalResult<&'i str> {
    move |input| preceded(multispace0, text).parse_next(input)
}

/// Parses a name: letters, digits, dots and hyphens, beginning with a letter.
fn name(input: &mut &str) -> ModalResult<String> {
    let first = one_of('a'..='z');
    let rest = take_while(0.., |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_')
    });
    preceded(multispace0, (first, rest).take()).map(str::to_owned).parse_next(input)
}

/// Parses a function's name and its opening parenthesis.
fn function<'i>(text: &'static str) -> impl FnMut(&mut &'i str) -> ModalResult<()> {
    move |input| (multispace0, text, multispace0, '(').void().parse_next(input)
}

fn predicate(input: &mut &str) -> ModalResult<Predicate> {
    alt((all, monotone, comparison)).parse_next(input)
}

fn all(input: &mut &str) -> ModalResult<Predicate> {
    let mut head = (sign("all"), opt(selection), sign(":"));
    let (_, selection, _) = head.parse_next(input)?;
    let inner = cut_err(predicate).parse_next(input)?;
    Ok(Predicate::All(selection.unwrap_or_default(), Box::new(inner)))
}

fn monotone(input: &mut &str) -> ModalResult<Predicate> {
    function("monotone").parse_next(input)?;
    let parts = (metric, sign(","), name, sign(","), direction, sign(")"));
    let (metric, _, factor, _, direction, _) =
        cut_err(parts).context(wanted("a metric, a factor, and up, down or 'flat 2%'")).parse_next(input)?;
    Ok(Predicate::Monotone(metric, factor, direction))
}

fn direction(input: &mut &str) -> ModalResult<Direction> {
    alt((
        sign("up").value(Direction::Up),
        sign("down").value(Direction::Down),
        preceded((sign("flat"), multispace1), number).map(|(value, _)| Direction::Flat(value)),
    ))
    .parse_next(input)
}

fn comparison(input: &mut &str) -> ModalResult<Predicate> {
    let left = expression.parse_next(input)?;
    let relation = cut_err(relation).context(wanted("<, > or 'within 5% of'")).parse_next(input)?;
    let right = cut_err(expression).context(wanted("a metric, a number or a function")).parse_next(input)?;
    Ok(Predicate::Compare(left, relation, right))
}

fn relation(input: &mut &str) -> ModalResult<Relation> {
    let within = delimited((sign("within"), multispace1), number, (multispace1, "of", multispace1));
    let within =
        within.map(
            |(value, is_fraction)| {
                if is_fraction { Relation::WithinFraction(value) } else { Relation::WithinAmount(value) }
            },
        );
    alt((sign("<").value(Relation::Less), sign(">").value(Relation::More), within)).parse_next(input)
}

fn expression(input: &mut &str) -> ModalResult<Expression> {
    let first = term.parse_next(input)?;
    let operator = alt((sign("+").value(Operator::Add), sign("-").value(Operator::Subtract)));
    chain(first, operator, term, input)
}

fn term(input: &mut &str) -> ModalResult<Expression> {
    let first = factor.parse_next(input)?;
    let operator = alt((sign("*").value(Operator::Multiply), sign("/").value(Operator::Divide)));
    chain(first, operator, factor, input)
}

/// Parses further operands and combines them from left to right.
fn chain<'i>(
    first: Expression,
    operator: impl Parser<&'i str, Operator, winnow::error::ErrMode<winnow::error::ContextError>>,
    operand: fn(&mut &'i str) -> ModalResult<Expression>,
    input: &mut &'i str,
) -> ModalResult<Expression> {
    let rest: Vec<(Operator, Expression)> = repeat(0.., (operator, cut_err(operand))).parse_next(input)?;
    let combine = |left, (operator, right)| Expression::Binary(Box::new(left), operator, Box::new(right));
    Ok(rest.into_iter().fold(first, combine))
}

fn factor(input: &mut &str) -> ModalResult<Expression> {
    alt((
        number.map(|(value, _)| Expression::Number(value)),
        delimited(sign("("), expression, cut_err(sign(")"))),
        quantile,
        effect,
        theory,
        metric.map(Expression::Metric),
    ))
    .parse_next(input)
}

fn quantile(input: &mut &str) -> ModalResult<Expression> {
    let mut digits = delimited((multispace0, 'q'), take_while(1..=3, '0'..='9'), (multispace0, '('));
    let digits: &str = digits.parse_next(input)?;
    // q5 and q50 are hundredths, q999 is 0.999.
    let value: f64 = digits.parse().unwrap_or(f64::NAN);
    let p = value / if digits.len() == 3 { 1000.0 } else { 100.0 };
    let metric = cut_err(terminated(metric, sign(")"))).context(wanted("a metric")).parse_next(input)?;
    Ok(Expression::Quantile(p, metric))
}

fn effect(input: &mut &str) -> ModalResult<Expression> {
    function("effect").parse_next(input)?;
    let factors = repeat(1.., preceded(sign(","), name));
    let (metric, factors) = cut_err(terminated((metric, factors), sign(")")))
        .context(wanted("a metric and factors"))
        .parse_next(input)?;
    Ok(Expression::Effect(metric, factors))
}

fn theory(input: &mut &str) -> ModalResult<Expression> {
    function("theory").parse_next(input)?;
    let parts = terminated((name, opt(preceded(sign(","), name))), sign(")"));
    let (model, flow) = cut_err(parts).context(wanted("the name of a model")).parse_next(input)?;
    if crate::theory::model(&model).is_none() {
        return cut_err(fail).context(wanted("the name of a model")).parse_next(input);
    }
    let selection = opt(selection).parse_next(input)?.unwrap_or_default();
    Ok(Expression::Theory(model, flow, selection))
}

fn metric(input: &mut &str) -> ModalResult<Metric> {
    let (flow, name) = (opt(terminated(name, ':')), name).parse_next(input)?;
    let selection = opt(selection).parse_next(input)?.unwrap_or_default();
    let name = flow.map_or(name.clone(), |flow| format!("{flow}.{name}"));
    Ok(Metric { name, selection })
}

fn selection(input: &mut &str) -> ModalResult<Selection> {
    let level = take_while(1.., |c: char| !matches!(c, ',' | ']')).map(|text: &str| text.trim().to_owned());
    let pair = (terminated(name, sign("=")), level);
    let levels = separated(1.., pair, ',');
    preceded('[', cut_err(terminated(levels, ']')).context(wanted("[factor=level, ...]")))
        .map(Selection)
        .parse_next(input)
}

/// Parses a number with its unit. The second value is true for a percentage.
fn number(input: &mut &str) -> ModalResult<(f64, bool)> {
    let digits = take_while(1.., |c: char| c.is_ascii_digit() || c == '.');
    let exponent = opt(('e', opt('-'), take_while(1.., '0'..='9')));
    let (digits, unit) = preceded(
        multispace0,
        (
            (opt(terminated('-', peek(not(' ')))), digits, exponent).take(),
            take_while(0.., |c: char| c.is_ascii_alphabetic() || c == '%'),
        ),
    )
    .parse_next(input)?;
    match with_unit(digits, unit) {
        Some(value) => Ok((value, unit == "%")),
        None => cut_err(fail)
            .context(wanted("a number with a unit such as 8mbit, 10ms, 16kib or 5%"))
            .parse_next(input),
    }
}

fn with_unit(digits: &str, unit: &str) -> Option<f64> {
    let plain: f64 = digits.parse().ok()?;
    let text = format!("{digits}{unit}");
    match unit {
        "" => Some(plain),
        "%" => Some(plain / 100.0),
        _ if unit.contains("bit") => {
            rdt_emulator::parse_bitrate(&text).ok().map(rdt_emulator::Bitrate::as_bps_f64)
        }
        _ if unit.ends_with('s') || unit == "min" => {
            rdt_emulator::parse_duration(&text).ok().map(|time| time.as_secs_f64())
        }
        _ => rdt_emulator::parse_bytes(&text).ok().map(number_of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, levels: &[(&str, &str)]) -> Metric {
        let levels =
            levels.iter().map(|(factor, level)| ((*factor).to_owned(), (*level).to_owned())).collect();
        Metric { name: name.to_owned(), selection: Selection(levels) }
    }

    fn of(name: &str, levels: &[(&str, &str)]) -> Expression {
        Expression::Metric(metric(name, levels))
    }

    #[test]
    fn comparisons_have_two_sides() {
        let text = "goodput[sack=on, initial-window=1] > goodput[sack=off, initial-window=4]";
        let on = of("goodput", &[("sack", "on"), ("initial-window", "1")]);
        let off = of("goodput", &[("sack", "off"), ("initial-window", "4")]);
        assert_eq!(parse(text), Ok(Predicate::Compare(on, Relation::More, off)));
        let text = "udp:goodput within 0.5% of 95.7mbit";
        let expected = Predicate::Compare(
            of("udp.goodput", &[]),
            Relation::WithinFraction(0.005),
            Expression::Number(95.7e6),
        );
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn products_bind_closer_than_sums() {
        let sum = parse("a.goodput < 94.15mbit - 2 * 9.84mbit").expect("a predicate");
        let number = |value| Box::new(Expression::Number(value));
        let product = Expression::Binary(number(2.0), Operator::Multiply, number(9.84e6));
        let right = Expression::Binary(number(94.15e6), Operator::Subtract, Box::new(product));
        assert_eq!(sum, Predicate::Compare(of("a.goodput", &[]), Relation::Less, right));
    }

    #[test]
    fn functions_have_their_forms() {
        let monotone = parse("monotone(limit.link.utilisation[loss=2.5%], rate, down)").expect("a predicate");
        let expected = metric("limit.link.utilisation", &[("loss", "2.5%")]);
        assert_eq!(monotone, Predicate::Monotone(expected, "rate".to_owned(), Direction::Down));
        let flat = parse("monotone(goodput, window, flat 2%)").expect("a predicate");
        assert!(matches!(flat, Predicate::Monotone(_, _, Direction::Flat(by)) if (by - 0.02).abs() < 1e-12));
        let all = parse("all[window=16kib]: goodput within 1% of theory(window)").expect("a predicate");
        assert!(matches!(all, Predicate::All(Selection(levels), _) if levels.len() == 1));
        let effect = parse("effect(goodput, sack, drop) > 1.2").expect("a predicate");
        assert!(
            matches!(effect, Predicate::Compare(Expression::Effect(_, factors), ..) if factors.len() == 2)
        );
        let median = parse("q50(completion[drop=5%]) within 1% of q50(completion[drop=0.5%])");
        assert!(matches!(median, Ok(Predicate::Compare(Expression::Quantile(..), ..))), "{median:?}");
        assert!(parse("q999(rtt) < 20ms").is_ok());
    }

    #[test]
    fn size_and_depth_are_limited() {
        let error = |text: String| parse(&text).expect_err("an error").to_string();
        assert!(error("(".repeat(10_000)).starts_with("column 51: parentheses"));
        assert!(error("all: ".repeat(10_000)).starts_with("column 2001: a claim has at most 2000"));
        assert!(error("goodput + ".repeat(10_000)).starts_with("column 2001"));
        let deep = format!("{}goodput{} > 1", "(".repeat(50), ")".repeat(50));
        assert!(parse(&deep).is_ok());
        assert!(parse(&("all: ".repeat(380) + "goodput > 1")).is_ok());
    }

    #[test]
    fn errors_have_a_column_and_a_remedy() {
        let cases = [
            ("goodput", 8, "<, > or"),
            ("goodput >", 10, "a metric, a number"),
            ("goodput[sack on] > 1", 14, "factor=level"),
            ("goodput > 8mbyte", 17, "8mbit"),
            ("goodput > theory(nonsense)", 27, "name of a model"),
            ("goodput > 1 extra", 13, ""),
        ];
        for (text, column, word) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.column == column && error.message.contains(word), "{text}: {error}");
        }
    }
}
