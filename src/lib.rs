//! reagent: a coding agent for the terminal.
//!
//! # Where to start reading
//!
//! [`engine`] is the heart: `engine/query.rs` is the loop, top to bottom. [`protocol`] holds the words it is told in.
//! [`app`] puts the parts together; the front ends hold its [`app::Handle`] and nothing else.
//!
//! # The layers
//!
//! A module imports only from earlier rows; the modules of a row do not see each other. A test holds this.
//!
//! | row | modules | what they are |
//! |---|---|---|
//! | 0 | [`protocol`] | plain data, and the fold of a log into what the model sees |
//! | 1 | [`config`] [`process`] [`trace`] | settings, children of the process, TRACE |
//! | 2 | [`provider`] [`tool`] [`permission`] [`hook`] [`memory`] [`session`] | the parts, each behind a small trait |
//! | 3 | [`compact`] [`prompt`] | what the model sees of a long history, and before it |
//! | 4 | [`engine`] | the loop |
//! | 6 | [`app`] | the composition root, the actor, slash commands |
//! | 7 | [`headless`] [`repl`] [`demo`] | front ends |
//! | 8 | [`cli`] | flags, exit codes |
//!
//! # What never happens
//!
//! - The engine does no I/O of its own.
//! - No call goes without its one result, on no path.
//! - No turn ends without `TurnFinished`: a turn cannot fail, it ends.
//! - Nothing in a log is rewritten. What the model sees is a fold of it, so resume and a live turn are the same code.
//! - No hook lifts a deny rule, and no child agent may do what its parent may not.
//! - Nothing enters the model's context without a cap.
//! - No child process outlives its session.
//! - Nothing from a repository redirects a request or carries a key away.
//! - Foreign text reaches a terminal through [`app::visible`] alone.

pub mod app;
pub mod cli;
pub mod compact;
pub mod config;
pub mod demo;
pub mod engine;
pub mod headless;
pub mod hook;
pub mod memory;
pub mod permission;
pub mod process;
pub mod prompt;
pub mod protocol;
pub mod provider;
pub mod repl;
pub mod session;
pub mod tool;
pub mod trace;
