//! Foreign results: a table of a report or of another program, analysed as a factorial design.

use std::collections::BTreeMap;
use std::io::Read;

use crate::experiment::suggest;
use crate::plan::all_combinations;
use crate::statistics::{Effect, Lenth, effects, half_normal_scores, lenth, mean};

/// Columns of a table by what they mean.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Columns whose values are levels of factors.
    pub factors: Vec<String>,
    /// Columns of measured numbers.
    pub responses: Vec<String>,
    /// Columns whose values divide the table into designs that are analysed apart.
    pub each: Vec<String>,
}

/// Error in a table, as a sentence with the line where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TableError(String);

/// One full factorial design of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Columns that divide the table, with their values in this design.
    pub part: Vec<(String, String)>,
    /// Factors with their levels, in the order in which the table first has them.
    pub factors: Vec<(String, Vec<String>)>,
    /// Name of each response, and for each combination of levels the values of its rows. The last
    /// factor varies fastest.
    pub responses: Vec<(String, Vec<Vec<f64>>)>,
}

/// Mean of a response over all rows with a level of a factor.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct MarginalMean {
    /// Name of the factor.
    pub factor: String,
    /// Level of the factor.
    pub level: String,
    /// The mean.
    pub mean: f64,
    /// Number of rows.
    pub rows: usize,
}

/// Effect of a factor, or of an interaction, on a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrast {
    /// Names of the factors, joined by ` x `.
    pub name: String,
    /// The effect, in the unit of the response. It has no interval without repetitions.
    pub effect: Effect,
    /// Quantile of the half-normal distribution for the rank of the effect's size.
    pub score: f64,
    /// True if the effect is beyond Lenth's margin of error, or if its 95 % interval excludes zero.
    pub is_active: bool,
}

impl Design {
    /// Returns the number of rows of each combination of levels.
    pub fn repetitions(&self) -> usize {
        self.responses.first().and_then(|(_, values)| values.first()).map_or(0, Vec::len)
    }

    /// Returns the marginal means of a response: of each level of each factor.
    pub fn marginal_means(&self, values: &[Vec<f64>]) -> Vec<MarginalMean> {
        let mut means = Vec::new();
        let mut faster: usize = self.factors.iter().map(|(_, levels)| levels.len()).product();
        for (factor, levels) in &self.factors {
            faster /= levels.len();
            for (index, level) in levels.iter().enumerate() {
                let of_level = values.iter().enumerate().filter(|(i, _)| i / faster % levels.len() == index);
                let of_level: Vec<f64> = of_level.flat_map(|(_, values)| values.iter().copied()).collect();
                means.push(MarginalMean {
                    factor: factor.clone(),
                    level: level.clone(),
                    mean: mean(&of_level).unwrap_or(f64::NAN),
                    rows: of_level.len(),
                });
            }
        }
        means
    }

    /// Returns the effects of a response, the largest first, and for an unreplicated design Lenth's
    /// margins. Only factors with two levels have effects.
    pub fn contrasts(&self, values: &[Vec<f64>]) -> (Vec<Contrast>, Option<Lenth>) {
        let levels: Vec<usize> = self.factors.iter().map(|(_, levels)| levels.len()).collect();
        let effects = effects(&levels, values, levels.len()).unwrap_or_default();
        let margin = if self.repetitions() == 1 {
            lenth(&effects.iter().map(|effect| effect.estimate).collect::<Vec<_>>())
        } else {
            None
        };
        let mut sorted = effects;
        sorted.sort_by(|a, b| b.estimate.abs().total_cmp(&a.estimate.abs()));
        let scores = half_normal_scores(sorted.len());
        let contrasts = sorted.into_iter().zip(scores.into_iter().rev()).map(|(effect, score)| {
            let names = effect.factors.iter().map(|factor| self.factors[*factor].0.as_str());
            let is_active = match (margin, effect.interval) {
                (Some(it), _) => effect.estimate.abs() > it.margin,
                (None, Some(interval)) => !interval.contains(0.0),
                (None, None) => false,
            };
            Contrast { name: names.collect::<Vec<_>>().join(" x "), effect, score, is_active }
        });
        (contrasts.collect(), margin)
    }
}

struct Row {
    /// Values of the columns that divide the table.
    part: Vec<String>,
    levels: Vec<String>,
    values: Vec<f64>,
}

/// Reads a table in CSV whose first line names the columns.
///
/// # Errors
/// A column is missing, a response is no finite number, or combinations of levels are missing or
/// have unequal numbers of rows.
pub fn read(mut table: impl Read, columns: &Columns) -> Result<Vec<Design>, TableError> {
    let mut bytes = Vec::new();
    table.read_to_end(&mut bytes).map_err(|error| TableError(error.to_string()))?;
    let content = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(content);
    let headers = reader.headers().map_err(|error| TableError(error.to_string()))?;
    let headers: Vec<String> = headers.iter().map(one_line).collect();
    let columns = &Columns {
        factors: columns.factors.iter().map(|it| one_line(it)).collect(),
        responses: columns.responses.iter().map(|it| one_line(it)).collect(),
        each: columns.each.iter().map(|it| one_line(it)).collect(),
    };
    let column = |name: &String| {
        headers.iter().position(|header| header == name).ok_or_else(|| {
            let nearest = suggest(name, headers.iter().map(String::as_str));
            TableError(format!("line 1: there is no column '{name}'; {nearest}"))
        })
    };
    let find = |names: &[String]| names.iter().map(column).collect::<Result<Vec<usize>, _>>();
    let (factors, responses, each) =
        (find(&columns.factors)?, find(&columns.responses)?, find(&columns.each)?);
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| TableError(error.to_string()))?;
        let text = |index: &usize| record.get(*index).unwrap_or_default().to_owned();
        let number = |index: &usize| {
            let text = text(index);
            text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
                let line = line_of(content, record.position());
                TableError(format!("line {line}: '{text}' in column {} is not a number", &headers[*index]))
            })
        };
        rows.push(Row {
            part: each.iter().map(text).collect(),
            levels: factors.iter().map(text).collect(),
            values: responses.iter().map(number).collect::<Result<_, _>>()?,
        });
    }
    let parts = in_order(rows.iter().map(|row| &row.part));
    if parts.is_empty() {
        return Err(TableError("the table has no rows".to_owned()));
    }
    parts.iter().map(|part| design(part, &rows, columns)).collect()
}

/// Returns the name of a column with a space for each line break and run of white space.
fn one_line(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the line of a record, from 1. The position of the reader is before empty lines.
fn line_of(bytes: &[u8], position: Option<&csv::Position>) -> usize {
    let start = position.and_then(|it| usize::try_from(it.byte()).ok()).unwrap_or(0).min(bytes.len());
    let blank = bytes[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    bytes[..start + blank].split(|byte| *byte == b'\n').count()
}

/// Returns the distinct values in the order of their first appearance.
fn in_order<'a, T: Clone + PartialEq + 'a>(values: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        if !seen.contains(value) {
            seen.push(value.clone());
        }
    }
    seen
}

fn design(part: &[String], rows: &[Row], columns: &Columns) -> Result<Design, TableError> {
    let place = if part.is_empty() { String::new() } else { format!("{}: ", named(&columns.each, part)) };
    let rows: Vec<&Row> = rows.iter().filter(|row| row.part == part).collect();
    let levels = |factor: usize| in_order(rows.iter().map(|row| &row.levels[factor]));
    let factors: Vec<(String, Vec<String>)> =
        columns.factors.iter().enumerate().map(|(index, name)| (name.clone(), levels(index))).collect();
    let mut by_levels: BTreeMap<&[String], Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        by_levels.entry(&row.levels).or_default().push(row);
    }
    let expected = by_levels.values().next().map_or(0, Vec::len);
    let counts: Vec<usize> = factors.iter().map(|(_, levels)| levels.len()).collect();
    // A complete table has a row for each combination, at least.
    if counts.iter().fold(1_usize, |all, count| all.saturating_mul(*count)) > rows.len() {
        let product = counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        return Err(TableError(format!(
            "{place}the factors have {product} levels and the table has only {} rows: name fewer factors, or divide the \
             table with --each",
            rows.len()
        )));
    }
    let mut responses: Vec<(String, Vec<Vec<f64>>)> =
        columns.responses.iter().map(|name| (name.clone(), Vec::new())).collect();
    for combination in all_combinations(&counts) {
        let levels = factors.iter().zip(combination);
        let combination: Vec<String> = levels.map(|((_, levels), level)| levels[level].clone()).collect();
        let rows = by_levels.get(combination.as_slice()).map_or(&[][..], Vec::as_slice);
        if rows.len() != expected {
            let words = named(&columns.factors, &combination);
            return Err(TableError(format!(
                "{place}the combination {words} has {} rows and another has {expected}: all need the same number",
                rows.len()
            )));
        }
        for (index, (_, values)) in responses.iter_mut().enumerate() {
            values.push(rows.iter().map(|row| row.values[index]).collect());
        }
    }
    let part = columns.each.iter().cloned().zip(part.iter().cloned()).collect();
    Ok(Design { part, factors, responses })
}

fn named(names: &[String], values: &[String]) -> String {
    names.iter().zip(values).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(factors: &[&str], responses: &[&str], each: &[&str]) -> Columns {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Columns { factors: own(factors), responses: own(responses), each: own(each) }
    }

    #[test]
    fn marginal_means_average_over_other_factors() {
        let table = "a,b,y\n0,x,1\n0,z,2\n0,w,3\n1,x,5\n1,z,6\n1,w,10\n";
        let designs = read(table.as_bytes(), &columns(&["a", "b"], &["y"], &[])).expect("a design");
        let means = designs[0].marginal_means(&designs[0].responses[0].1);
        let found: Vec<_> = means.iter().map(|it| (it.level.as_str(), it.mean)).collect();
        assert_eq!(found, [("0", 2.0), ("1", 7.0), ("x", 3.0), ("z", 4.0), ("w", 6.5)]);
    }

    #[test]
    fn column_names_may_have_line_breaks() {
        let table = "\u{feff}a,\"loss,\r\n %\" ,y\r\n0,x,1\r\n0,z,2\r\n1,x,5\r\n1,z,6\r\n";
        for names in [["a", "loss, %", "y"], ["a\r", "loss,\r\n %", "y\r\n"]] {
            let [a, b, y] = names;
            let designs = read(table.as_bytes(), &columns(&[a, b], &[y], &[])).expect("a design");
            let found: Vec<&str> = designs[0].factors.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!((found, designs[0].responses[0].0.as_str()), (vec!["a", "loss, %"], "y"));
        }
    }

    #[test]
    fn errors_name_line_and_remedy() {
        let error = |table: &str, columns: &Columns| read(table.as_bytes(), columns).expect_err("a table").0;
        let all = columns(&["a", "b"], &["y"], &[]);
        assert!(error("a,bb,y\n1,2,3\n", &all).contains("'b'"));
        assert!(error("a,b,y\n1,2,x\n", &all).starts_with("line 2: 'x'"));
        assert!(error("a,b,y\n\n\"1\n\",2,3\n\n1,2,x\n", &all).starts_with("line 6: 'x'"));
        assert!(error("a,b,y\r\n1,2,3\r\n1,2,x\r\n", &all).starts_with("line 3: 'x'"));
        assert!(error("a,b,y\n0,0,1\n1,1,1\n", &all).contains("2 x 2 levels"));
        let message = error("a,b,y\n0,0,1\n0,1,1\n1,0,1\n0,0,1\n1,0,3\n", &all);
        assert!(message.contains("a=0, b=1 has 1 rows"), "{message}");
        assert!(error("a,b,y\n", &all).contains("no rows"));
    }
}
