//! reagent: a coding agent for the terminal.

pub mod protocol;
