//! The recovery rules as a user meets them: the real binary against a server that misbehaves, in both protocols.

mod limits;
mod replies;
mod retries;
mod streams;
mod timers;

use crate::support::Protocol;

pub(crate) use streams::results;

const BOTH: [Protocol; 2] = [Protocol::Messages, Protocol::Chat];
