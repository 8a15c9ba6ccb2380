//! rdt.
