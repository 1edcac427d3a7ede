//! What integration tests share: a scripted model server that misbehaves on request.
//!
//! ```ignore
//! let server = ModelServer::start(vec![
//!     Reply::text("Looking.").call("Read", json!({"file_path": "a.txt"})),
//!     Reply::http(429).header("retry-after", "1"),
//!     Reply::text("It says hello.").usage(1200, 30, 1000, 0),
//! ])
//! .await;
//! // ... point the agent at server.url(), with or without a path before `/v1/messages` or `/chat/completions` ...
//! assert_eq!(server.requests().len(), 3);
//! assert_eq!(server.illegal(), Vec::<String>::new());
//! ```

#![allow(dead_code, reason = "a toolbox: a fault without a test of its own today may have one tomorrow")]

mod connection;
mod errors;
mod legal;
mod legal_test;
mod play;
mod project;
mod reply;
mod server;
mod sse;

pub(crate) use project::{Finished, KEY, Pointed, Project, code, finish, finish_with_stdin, finished};
pub(crate) use reply::Reply;
pub(crate) use server::{ModelServer, Recorded};

/// The two wire protocols, told apart by the end of the request path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Anthropic Messages: `…/v1/messages`.
    Messages,
    /// `OpenAI` Chat Completions: `…/chat/completions`.
    Chat,
}

impl Protocol {
    /// The protocol that is served at a request target; a query is ignored.
    pub(crate) fn of(target: &str) -> Option<Self> {
        let path = target.split('?').next().unwrap_or(target);
        if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else {
            None
        }
    }
}
