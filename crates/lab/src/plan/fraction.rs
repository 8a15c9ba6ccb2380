//! Fractions of two-level factorials: generators, resolution and aliases.
//!
//! Levels are coded -1 and +1. A generator `e = a*b*c` makes `a*b*c*e` equal to 1 in every run, so
//! that the contrasts of `e` and of `a*b*c` are the same (Box, Hunter and Hunter, "Statistics for
//! Experimenters", chapter 6).

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use super::full::all;
use super::{MAX_CELLS, PlanError};
use crate::experiment::{Factor, suggest};

/// Largest number of factors in an alias that the plan lists.
const MAX_ALIAS_FACTORS: u32 = 3;
/// Limit on the generators of a fraction: the defining relation has 2^generators - 1 words.
const MAX_GENERATORS: usize = 16;

/// Fraction of a factorial: effects that it cannot separate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fraction {
    /// Number of factors in the shortest word of the defining relation.
    pub resolution: u32,
    /// Words of the defining relation: products of factors that are constant over all runs, each
    /// with its sign: `a*b*c*e`, `-a*d*f`.
    pub relation: Vec<String>,
    /// Main effects and interactions of two factors, with their aliases of up to three factors.
    pub aliases: Vec<(String, Vec<String>)>,
}

/// A product of factors, as a set of their indices, and its sign in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word {
    factors: u128,
    negative: bool,
}

/// A generated factor and the product that sets its level.
struct Generator {
    factor: usize,
    from: Word,
}

impl Fraction {
    pub(super) fn to_json(&self) -> Value {
        let aliases: Map<String, Value> =
            self.aliases.iter().map(|(effect, others)| (effect.clone(), json!(others))).collect();
        json!({ "resolution": self.resolution, "relation": self.relation, "aliases": aliases })
    }

    fn new(factors: &[Factor], generators: &[Generator]) -> Self {
        let relation = relation(generators);
        let name = |word: Word| {
            let named = factors.iter().enumerate().filter(|(index, _)| word.factors >> index & 1 == 1);
            let names: Vec<&str> = named.map(|(_, factor)| factor.name.as_str()).collect();
            format!("{}{}", if word.negative { "-" } else { "" }, names.join("*"))
        };
        let mut aliases = Vec::new();
        for effect in effects(factors) {
            let mut others: Vec<Word> = relation.iter().map(|word| product(effect, *word)).collect();
            others.retain(|word| (1..=MAX_ALIAS_FACTORS).contains(&word.factors.count_ones()));
            others.sort_by_key(|word| (word.factors.count_ones(), Reverse(word.factors.reverse_bits())));
            if !others.is_empty() {
                aliases.push((name(effect), others.into_iter().map(name).collect()));
            }
        }
        Self {
            resolution: relation.iter().map(|word| word.factors.count_ones()).min().unwrap_or_default(),
            relation: relation.into_iter().map(name).collect(),
            aliases,
        }
    }

    /// Returns the aliases of an effect, such as `sack` or `sack*window`, in any order of factors.
    pub fn aliases_of(&self, effect: &str) -> &[String] {
        let sorted = |text: &str| {
            let mut names: Vec<String> = text.split('*').map(|name| name.trim().to_owned()).collect();
            names.sort();
            names
        };
        let wanted = sorted(effect);
        let found = self.aliases.iter().find(|(effect, _)| sorted(effect) == wanted);
        found.map_or(&[], |(_, aliases)| aliases)
    }
}

/// Returns the main effects and the interactions of two factors, among factors of two levels.
fn effects(factors: &[Factor]) -> Vec<Word> {
    let two_levels: Vec<usize> =
        (0..factors.len()).filter(|index| factors[*index].levels.len() == 2).collect();
    let word = |factors: u128| Word { factors, negative: false };
    let mut effects: Vec<Word> = two_levels.iter().map(|index| word(1 << index)).collect();
    for (position, one) in two_levels.iter().enumerate() {
        effects.extend(two_levels[position + 1..].iter().map(|two| word(1 << one | 1 << two)));
    }
    effects
}

fn product(one: Word, two: Word) -> Word {
    Word { factors: one.factors ^ two.factors, negative: one.negative != two.negative }
}

/// Returns the words of the defining relation: all products of the generators' words.
fn relation(generators: &[Generator]) -> Vec<Word> {
    let mut words = Vec::new();
    for Generator { factor, from } in generators {
        let own = Word { factors: from.factors ^ 1 << factor, negative: from.negative };
        let products: Vec<Word> = words.iter().map(|word| product(*word, own)).collect();
        words.push(own);
        words.extend(products);
    }
    words
}

/// Returns the combinations of the fraction. `limit` checks their number before they are made.
pub(super) fn combinations(
    factors: &[Factor],
    generators: &[String],
    limit: impl Fn(u128) -> Result<(), PlanError>,
) -> Result<(Vec<Vec<usize>>, Fraction), PlanError> {
    let mut read: Vec<Generator> = Vec::new();
    for text in generators {
        let wrong = |message: String| PlanError::Generator { generator: text.clone(), message };
        if read.len() == MAX_GENERATORS {
            return Err(wrong(format!(
                "a fraction has at most {MAX_GENERATORS} generators: add runs instead"
            )));
        }
        let generator = parse(factors, text).map_err(wrong)?;
        if read.iter().any(|other| other.factor == generator.factor) {
            return Err(wrong(format!("{} is generated twice", factors[generator.factor].name)));
        }
        read.push(generator);
    }
    let generated = |index: usize| read.iter().find(|generator| generator.factor == index);
    for (generator, text) in read.iter().zip(generators) {
        if let Some(index) = (0..factors.len())
            .find(|index| generator.from.factors >> index & 1 == 1 && generated(*index).is_some())
        {
            let message = format!("{} is itself generated: name only the other factors", factors[index].name);
            return Err(PlanError::Generator { generator: text.clone(), message });
        }
    }
    // A generated factor has one level in a combination, which is filled in afterwards.
    let free = |index: usize| if generated(index).is_some() { 1 } else { factors[index].levels.len() };
    let counts: Vec<usize> = (0..factors.len()).map(free).collect();
    limit(counts.iter().fold(1_u128, |product, count| product.saturating_mul(*count as u128)))?;
    debug_assert!(counts.iter().product::<usize>() <= MAX_CELLS, "the limit is checked");
    let mut combinations = all(&counts);
    for combination in &mut combinations {
        for Generator { factor, from } in &read {
            let low = combination.iter().enumerate();
            let low = low.filter(|(index, level)| from.factors >> index & 1 == 1 && **level == 0).count();
            combination[*factor] = usize::from((low % 2 == 0) != from.negative);
        }
    }
    combinations.sort();
    Ok((combinations, Fraction::new(factors, &read)))
}

/// Parses `e = a*b*c` or `e = -a*b`: names of factors, or letters in the order of the factors.
fn parse(factors: &[Factor], text: &str) -> Result<Generator, String> {
    if factors.len() > 128 {
        return Err("a fraction has at most 128 factors".to_owned());
    }
    let (name, from) = text.split_once('=').ok_or("write it as e = a*b*c")?;
    let factor = index(factors, name.trim())?;
    let (negative, from) = match from.trim().strip_prefix('-') {
        Some(from) => (true, from),
        None => (false, from.trim()),
    };
    let mut word = Word { factors: 0, negative };
    for name in from.split('*') {
        let bit = 1 << index(factors, name.trim())?;
        if word.factors & bit != 0 {
            return Err(format!("{} is there twice", name.trim()));
        }
        word.factors |= bit;
    }
    if word.factors >> factor & 1 == 1 {
        return Err(format!("{} is on both sides", name.trim()));
    }
    Ok(Generator { factor, from: word })
}

fn index(factors: &[Factor], name: &str) -> Result<usize, String> {
    let by_name = factors.iter().position(|factor| factor.name == name || factor.path == name);
    let by_letter = || match name.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a')).filter(|index| *index < factors.len()),
        _ => None,
    };
    let Some(index) = by_name.or_else(by_letter) else {
        let hint = suggest(name, factors.iter().map(|factor| factor.name.as_str()));
        return Err(format!("there is no factor '{name}'; {hint}"));
    };
    match factors[index].levels.len() {
        2 => Ok(index),
        levels => {
            Err(format!("{} has {levels} levels: a generator needs factors of two", factors[index].name))
        }
    }
}
