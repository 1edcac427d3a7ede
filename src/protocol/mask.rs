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

    /// As [`Self::masked`], for bytes that need not be text.
    #[must_use]
    pub fn masked_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let list = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut clean: Option<Vec<u8>> = None;
        for secret in list.iter().map(String::as_bytes) {
            let mut out = Vec::new();
            let mut rest = clean.as_deref().unwrap_or(bytes);
            while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
                let (before, after) = rest.split_at(at);
                out.extend_from_slice(before);
                out.extend_from_slice(b"***");
                rest = after.get(secret.len()..).unwrap_or_default();
            }
            if !out.is_empty() {
                out.extend_from_slice(rest);
                clean = Some(out);
            }
        }
        clean
    }

    /// Takes secrets out of a text in place.
    pub fn apply(&self, text: &mut String) {
        if let Some(clean) = self.masked(text) {
            *text = clean;
        }
    }
}

/// A text that arrives in pieces, none of which shows a part of a secret.
#[derive(Debug, Default)]
pub struct MaskedStream {
    mask: Mask,
    /// The beginning of what may turn out to be a secret.
    held: String,
}

impl MaskedStream {
    /// A stream under this mask.
    #[must_use]
    pub fn new(mask: &Mask) -> Self {
        Self { mask: mask.clone(), held: String::new() }
    }

    /// Takes a piece, gives what may be shown by now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.mask.apply(&mut self.held);
        let tail = self.held.split_off(self.mask.safe_length(&self.held));
        std::mem::replace(&mut self.held, tail)
    }

    /// What was held back: the text has ended, or goes on elsewhere.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

impl Mask {
    /// How much of a text is there before an end that could be the beginning of a secret; in bytes.
    fn safe_length(&self, text: &str) -> usize {
        let list = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let overlap = |secret: &String| {
            let ends = secret.char_indices().map(|(at, _)| at).skip(1);
            let whole = |at: &usize| secret.get(..*at).is_some_and(|begin| text.ends_with(begin));
            ends.filter(whole).last().unwrap_or(0)
        };
        text.len() - list.iter().map(overlap).max().unwrap_or(0)
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
        let bytes = mask.masked_bytes(b"\xff sk-secret-1-long, sk-secret-1\xfe");
        assert_eq!(bytes.as_deref(), Some(&b"\xff ***, ***\xfe"[..]));
        assert_eq!(mask.masked_bytes(b"short"), None);
        assert_eq!(format!("{mask:?}"), "Mask(***)");
    }

    #[test]
    fn a_secret_in_pieces_is_never_shown() {
        let mask = Mask::default();
        mask.add("sk-sk-secret");
        mask.add("sk-sk-secret-2");
        let text = "a sk-sk-sk-secret, sk-sk-secret-2 and sk-sk-sec";
        for size in 1..=text.len() {
            let mut stream = MaskedStream::new(&mask);
            let mut shown = String::new();
            for piece in text.as_bytes().chunks(size) {
                shown.push_str(&stream.push(std::str::from_utf8(piece).unwrap()));
                assert!(!shown.contains("sk-sk-secret"), "{size}: {shown}");
            }
            shown.push_str(&stream.rest());
            // The longer one may come as the shorter and its end: nothing of use is shown.
            assert_eq!(shown.replace("***-2", "***"), "a sk-***, *** and sk-sk-sec", "{size}");
        }
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
