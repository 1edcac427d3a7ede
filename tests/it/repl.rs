//! The line session in a real pseudo-terminal, as a person uses it.

mod input;
mod leave;
mod questions;
mod turns;
