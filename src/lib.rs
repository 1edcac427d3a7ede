//! reagent: a coding agent for the terminal.

pub mod compact;
pub mod config;
pub mod engine;
pub mod hook;
pub mod memory;
pub mod permission;
pub mod prompt;
pub mod protocol;
pub mod provider;
pub mod session;
pub mod tool;
pub mod trace;
