//! Makes room in the window: pure planners from a view to edits, cheap and lossless first.

mod oldest;

use std::fmt::Debug;
use std::sync::Arc;

use crate::protocol::{Edit, Message, MessageId};

pub use oldest::DropOldest;

/// Plans edits that make a conversation smaller. One belongs to one engine.
pub trait Compactor: Send + Sync + Debug {
    /// A plan after the service said that the conversation does not fit; empty if nothing can go.
    ///
    /// `marker` names the message that stands for what is taken out.
    fn overflowed(&mut self, messages: &[Arc<Message>], marker: MessageId) -> Vec<Edit>;
}

/// Takes nothing out.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepAll;

impl Compactor for KeepAll {
    fn overflowed(&mut self, _: &[Arc<Message>], _: MessageId) -> Vec<Edit> {
        Vec::new()
    }
}
