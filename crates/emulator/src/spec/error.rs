//! Errors in the specification of a path, with their place in the input.

use std::fmt;

use super::Scope;

/// An error in the specification of a path. Its text is a sentence that begins with the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// Line and column in the TOML text, from 1, the column in characters. `None` if the error is
    /// not in a TOML text.
    position: Option<(usize, usize)>,
    /// The key or flag. `None` if the TOML text has a syntax error or an unknown key.
    subject: Option<String>,
    message: String,
}

impl SpecError {
    /// Returns the key with its table (`reverse.rate`) or the flag (`--rate-reverse`). `None` if
    /// the TOML text has a syntax error or an unknown key.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns an error at byte `offset` of a TOML text, without a message.
    pub(super) fn at_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        let line = before.matches('\n').count() + 1;
        Self { position: Some((line, column)), subject: None, message: String::new() }
    }

    /// Returns an error at the flag of a key, without a message.
    pub(super) fn at_flag(scope: Scope, key: &str) -> Self {
        let direction = match scope {
            Scope::Both => "",
            Scope::Forward => "-forward",
            Scope::Reverse => "-reverse",
        };
        Self::of(format!("--{key}{direction}"))
    }

    /// Returns an error about a key or flag, without a place and a message.
    pub(super) fn of(subject: String) -> Self {
        Self { position: None, subject: Some(subject), message: String::new() }
    }

    pub(super) fn about(self, subject: String) -> Self {
        Self { subject: Some(subject), ..self }
    }

    pub(super) fn because(self, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), ..self }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(subject) = &self.subject {
            write!(f, "{subject}: ")?;
        }
        f.write_str(&self.message)
    }
}
