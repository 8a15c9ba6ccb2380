//! JSON values of qlog records, with members in alphabetical order.
//!
//! Not `serde_json`: where it is linked, integers compare with its values, and `assert_eq!(list,
//! [])` or `sum()` no longer infer their types anywhere in this crate.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// A JSON value. A number that is not finite is written as `null`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    Array(Vec<Self>),
    Object(BTreeMap<&'static str, Self>),
}

/// `object! { "name": value, ... }`: an object whose values are anything that converts to [`Json`].
macro_rules! object {
    ($($name:literal: $value:expr),* $(,)?) => {
        Json::Object(std::collections::BTreeMap::from([$(($name, Json::from($value))),*]))
    };
}
pub(super) use object;

impl Json {
    /// Returns this object with one more member, unless `value` is `None`.
    pub(super) fn with(mut self, name: &'static str, value: Option<impl Into<Self>>) -> Self {
        self.insert(name, value);
        self
    }

    /// Adds a member to this object, unless `value` is `None`.
    pub(super) fn insert(&mut self, name: &'static str, value: Option<impl Into<Self>>) {
        if let (Self::Object(members), Some(value)) = (self, value) {
            members.insert(name, value.into());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Object(members) if members.is_empty())
    }
}

macro_rules! from {
    ($($kind:ty => $variant:ident),*) => {$(
        impl From<$kind> for Json {
            fn from(value: $kind) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
from!(bool => Bool, u16 => Integer, u32 => Integer, u64 => Integer, i64 => Integer, f64 => Float, &str => Text);

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::Integer(value as i128)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(values: Vec<T>) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Json {
    fn from(values: [T; N]) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}

impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) if !value.is_finite() => f.write_str("null"),
            // Short in both ranges, and `.0` marks a whole number as a float.
            Self::Float(value) if *value != 0.0 && (value.abs() < 1e-5 || value.abs() >= 1e16) => {
                write!(f, "{value:e}")
            }
            Self::Float(value) if value.fract() == 0.0 => write!(f, "{value:.1}"),
            Self::Float(value) => value.fmt(f),
            Self::Text(text) => quoted(text, f),
            Self::Array(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}\"{name}\":{value}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Writes a string literal (RFC 8259, section 7).
fn quoted(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\0'..' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            _ => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_json() {
        let value = object! {
            "text": "a\"\\\n",
            "list": vec![1_u64, 2],
            "floats": [0.0, 1.5, 3.0, 1e-6, 0.00001, 1e16, f64::NAN],
            "flag": true,
        };
        let value = value.with("left_out", None::<u64>).with("inner", Some(object! {}));
        assert_eq!(
            value.to_string(),
            r#"{"flag":true,"floats":[0.0,1.5,3.0,1e-6,0.00001,1e16,null],"inner":{},"list":[1,2],"text":"a\"\\\u000a"}"#
        );
    }
}
