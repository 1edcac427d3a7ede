//! reagent: a coding agent for the terminal.

pub mod compact;
pub mod config;
pub mod engine;
pub mod hook;
pub mod permission;
pub mod process;
pub mod protocol;
pub mod provider;
pub mod tool;
pub mod trace;
