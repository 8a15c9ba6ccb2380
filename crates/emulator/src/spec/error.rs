//! Errors in a path, with their place.

use std::fmt;

use super::Scope;

/// A sentence about an error in a path. It begins with the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// Line and column, from 1, the column in characters.
    position: Option<(usize, usize)>,
    /// The key or flag.
    subject: Option<String>,
    message: String,
}

impl SpecError {
    /// Line and column in a TOML text, from 1, the column in characters.
    pub const fn position(&self) -> Option<(usize, usize)> {
        self.position
    }

    /// The key with its table (`reverse.rate`) or the flag (`--rate-reverse`).
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// An error at byte `offset` of `text`, without a message.
    pub(super) fn at_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        let line = before.matches('\n').count() + 1;
        Self { position: Some((line, column)), subject: None, message: String::new() }
    }

    /// An error at a flag, without a message.
    pub(super) fn at_flag(scope: Scope, key: &str) -> Self {
        let direction = match scope {
            Scope::Both => "",
            Scope::Forward => "-forward",
            Scope::Reverse => "-reverse",
        };
        Self::of(format!("--{key}{direction}"))
    }

    /// An error about a key, without a message.
    pub(super) fn of(subject: String) -> Self {
        Self { position: None, subject: Some(subject), message: String::new() }
    }

    /// Adds the key.
    pub(super) fn about(self, subject: String) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// Adds the message.
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
