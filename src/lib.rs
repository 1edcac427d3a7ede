//! reagent: a coding agent for the terminal.

pub mod config;
pub mod protocol;
pub mod provider;
pub mod tool;
