//! Numbers that a reader believes: statistics, plans, claims, tables and captures beside values
//! from outside of this program. Each value names its source: a table, a book, a document, scipy
//! 1.17, or arithmetic by hand.

mod capture;
mod claims;
mod comparison;
mod expectations;
mod factorial;
mod foreign;
mod intervals;
mod journal;
mod names;
mod plan;
mod scale;
mod stopping;
mod support;
mod tables;
mod theory;
mod trace;
