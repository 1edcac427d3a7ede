//! Hides keys wherever text enters or leaves: in a text, in JSON, in a whole event.

use std::fmt;
use std::sync::{Arc, RwLock};

use serde_json::Value;

use super::event::{Event, StateChange};
use super::message::Block;
use super::op::PermissionRequest;
use super::outcome::TurnOutcome;

/// Values that must never be seen: keys, and whatever else was declared secret.
///
/// Clones share the list, so a key that enters late is masked everywhere from then on.
#[derive(Clone, Default)]
pub struct Mask(Arc<RwLock<Vec<String>>>);

/// Shorter values are too common in ordinary text to be blotted out.
const SHORTEST_SECRET: usize = 8;

impl Mask {
    /// Adds a value.
    pub fn add(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < SHORTEST_SECRET {
            return;
        }
        let mut list = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !list.iter().any(|s| s == secret) {
            list.push(secret.to_owned());
            // The longest first: a key that contains another must go as a whole.
            list.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }

    /// Adds the password of a URL such as `http://user:password@host/`, if it has one.
    pub fn add_password(&self, url: &str) {
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        let password = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
        if let Some((_, password)) = password {
            self.add(password);
        }
    }

    /// The text without secrets, or `None` if it holds none.
    #[must_use]
    pub fn masked(&self, text: &str) -> Option<String> {
        let list = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !list.iter().any(|secret| text.contains(secret.as_str())) {
            return None;
        }
        Some(list.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***")))
    }

    /// Takes secrets out of a text in place.
    pub fn apply(&self, text: &mut String) {
        if let Some(clean) = self.masked(text) {
            *text = clean;
        }
    }
}

/// Structures.
impl Mask {
    /// Takes secrets out of every string of a JSON value; keys of objects stay.
    pub fn apply_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.apply(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_json(item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.apply_json(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Takes secrets out of an event before anyone sees it.
    pub fn apply_event(&self, event: &mut Event) {
        match event {
            Event::MessageAdded { message } => self.apply_blocks(&mut message.blocks),
            Event::ToolStarted { call } => self.apply_json(&mut call.input),
            Event::ToolFinished { result } => {
                self.apply_blocks(&mut result.content);
                self.apply_json(&mut result.details);
            }
            Event::Delta { text, .. } | Event::ToolProgress { text, .. } | Event::Notice { text } => {
                self.apply(text);
            }
            Event::Retrying { reason, .. } => self.apply(reason),
            Event::PermissionAsked { request } => self.apply_request(request),
            Event::StateChanged { change } => self.apply_change(change),
            Event::TurnFinished { outcome } => self.apply_outcome(outcome),
            Event::SessionStarted { .. }
            | Event::TurnStarted
            | Event::Compacted { .. }
            | Event::DeltaReset
            | Event::UsageUpdated { .. }
            | Event::Unknown(_) => {}
        }
    }

    fn apply_blocks(&self, blocks: &mut [Block]) {
        for block in blocks {
            match block {
                Block::Text { text } => self.apply(text),
                Block::Thinking { thinking, signature } => {
                    if let Some(clean) = self.masked(thinking) {
                        *thinking = clean;
                        // It signs the text as it was.
                        *signature = None;
                    }
                }
                Block::ToolUse { input, .. } => self.apply_json(input),
                Block::ToolResult { content, .. } => self.apply_blocks(content),
                Block::Image { .. } | Block::Other(_) => {}
            }
        }
    }

    /// Takes secrets out of a question; what runs is not what is shown then, but it is what was asked for.
    pub fn apply_request(&self, request: &mut PermissionRequest) {
        self.apply_json(&mut request.call.input);
        self.apply(&mut request.reason);
        request.parts.iter_mut().for_each(|part| self.apply(&mut part.text));
        request.offers.iter_mut().for_each(|offer| self.apply(&mut offer.rule));
        if let Some(diff) = &mut request.diff {
            self.apply(diff);
        }
    }

    fn apply_change(&self, change: &mut StateChange) {
        match change {
            StateChange::Todos { todos } => {
                for todo in todos {
                    self.apply(&mut todo.content);
                    self.apply(&mut todo.active_form);
                }
            }
            StateChange::Pinned { text } => self.apply(text),
            StateChange::Granted { rule } => self.apply(rule),
            StateChange::FileSeen { .. }
            | StateChange::SkillActivated { .. }
            | StateChange::Model { .. }
            | StateChange::Mode { .. }
            | StateChange::Cleared
            | StateChange::Used { .. } => {}
        }
    }

    fn apply_outcome(&self, outcome: &mut TurnOutcome) {
        match outcome {
            TurnOutcome::Budget { reason }
            | TurnOutcome::Stuck { reason }
            | TurnOutcome::Refusal { reason }
            | TurnOutcome::Error { message: reason, .. } => self.apply(reason),
            TurnOutcome::Completed | TurnOutcome::Aborted | TurnOutcome::MaxTurns { .. } => {}
        }
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_hides_whole_secrets_only() {
        let mask = Mask::default();
        mask.add("sk-secret-1");
        mask.add("sk-secret-1-long");
        mask.add("short");
        assert_eq!(mask.masked("key sk-secret-1-long end").as_deref(), Some("key *** end"));
        assert_eq!(mask.masked("a short text"), None);
        assert_eq!(format!("{mask:?}"), "Mask(***)");
    }

    #[test]
    fn a_password_in_a_url_is_a_secret() {
        let mask = Mask::default();
        mask.add_password("http://me:pass-word-1@proxy.example:3128/x?y@z");
        mask.add_password("http://proxy.example:3128/long-enough@path");
        let masked = mask.masked("to http://me:pass-word-1@proxy.example:3128");
        assert_eq!(masked.as_deref(), Some("to http://me:***@proxy.example:3128"));
        assert_eq!(mask.masked("3128/long-enough@path"), None);
    }

    #[test]
    fn a_whole_event_is_masked() {
        let mask = Mask::default();
        mask.add("sk-secret-1");
        let of = |secret: &str, signature: Option<&str>| Event::MessageAdded {
            message: crate::protocol::Message {
                id: crate::protocol::MessageId("m0".to_owned()),
                role: crate::protocol::Role::Assistant,
                source: crate::protocol::Source::Model,
                origin: None,
                blocks: vec![
                    Block::text(format!("a {secret} b")),
                    Block::Thinking { thinking: secret.to_owned(), signature: signature.map(str::to_owned) },
                    Block::ToolUse {
                        id: "c".to_owned(),
                        name: "Bash".to_owned(),
                        input: serde_json::json!({"command": ["echo", {"x": secret}]}),
                    },
                ],
            },
        };
        let mut event = of("sk-secret-1", Some("signed"));
        mask.apply_event(&mut event);
        assert_eq!(event, of("***", None));
    }
}
