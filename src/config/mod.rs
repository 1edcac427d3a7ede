//! What a run was asked to do: layers of settings folded into one `Config`, each value knowing its source.

mod endpoint;

pub use endpoint::{Effort, Endpoint, Protocol, Retry, Secret, Timers};
