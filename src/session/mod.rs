//! The journal: one append-only file of JSON lines per session, private to the user, never rewritten.

mod log;
mod store;

pub use log::{Log, SessionError, read};
pub use store::{SessionFile, Store};
