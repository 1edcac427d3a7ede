//! Plays turns from a JSON script instead of asking a model: for tests, examples and bug reports.

mod play;
mod script;
mod syntax;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use super::asked::asked;
use super::offline::input_tokens;
use super::{EventStream, ModelInfo, ModelProvider, ProviderError, Request, ThinkingStyle};
use crate::protocol::ModelId;
use script::{Script, Turn};

pub use script::ScriptError;

/// A script that plays as a model.
///
/// Each model call, of the root agent or of a child, takes the next turn; past the last one the answer is `Done.`
/// A script is JSON with comments: an object with the key `turns`, or the list of turns alone.
///
/// ```
/// # use reagent::provider::scripted::Scripted;
/// let script = serde_json::json!({
///     "turns": [
///         { "text": "Let me look.", "tools": [{ "name": "Read", "input": { "file_path": "a.txt" } }] },
///         { "text": "It is empty.", "fault": { "type": "transient", "times": 2, "retry_after_ms": 50 } }
///     ]
/// });
/// Scripted::from_value(&script)?;
/// # Ok::<(), reagent::provider::scripted::ScriptError>(())
/// ```
///
/// Beside `turns` the object may hold `window` and `max_output` (tokens; 200,000 and 32,000) and `price`
/// (US dollars for a million tokens: `input`, `output`, `cache_read`, `cache_write`; 0).
///
/// # A turn
///
/// | key | meaning |
/// |---|---|
/// | `match` | text that the user's last message must hold; such turns form a list of their own |
/// | `thinking`, `signature` | reasoning before the answer, and what closes it |
/// | `text` | the answer |
/// | `chunks`, `chunk_text` | that many further pieces of exactly this text |
/// | `tools` | calls: `name`, `input` (an object), `id`, or `raw` instead of `input`: arguments as broken as you like |
/// | `stop` | `end_turn`, `tool_use`, `max_tokens`, `stop_sequence`, `refusal`, `pause_turn`, `context_exceeded`; by content if absent |
/// | `usage` | `input`, `output`, `cache_read`, `cache_write` tokens; an estimate if absent |
/// | `chunk_size` | characters in a streamed piece (24 of text, 64 of arguments) |
/// | `delay_ms` | wait before each piece |
/// | `fault` | what goes wrong |
///
/// Turns with a `match` that fits are taken before those without one, each list in its own order.
///
/// # A fault
///
/// `type` is `transient`, `unreachable`, `overflow`, `auth`, `quota`, `not_found`, `invalid` (the call fails),
/// `cut` (the stream breaks) or `stall` (the stream never goes on). `message` is the error's text and
/// `retry_after_ms` what a transient one asks to wait. `times` says how many calls it hits: 1 if absent, -1 for all.
///
/// Without `after_chunks` the call fails before any content, and the turn waits: once the fault has hit its
/// `times`, the next call gets the turn whole (a turn without content is then over instead). With
/// `after_chunks` it strikes after that many pieces of text, reasoning or arguments, and the last hit ends the
/// turn: the call after it gets the next one.
#[derive(Debug)]
pub struct Scripted {
    info: ModelInfo,
    turns: Vec<Arc<Turn>>,
    /// Shared by all agents of the process, since all take turns from the one script.
    played: Mutex<Played>,
}

#[derive(Debug, Default)]
struct Played {
    /// How many turns of each list are over; a list is the places of its turns in the script.
    over: HashMap<Vec<usize>, usize>,
    /// How often the fault of each turn has struck.
    hits: HashMap<usize, u64>,
}

/// What one call gets.
struct Part {
    place: usize,
    turn: Arc<Turn>,
    struck: bool,
}

impl Scripted {
    /// Reads a script from a file. An error names the file, the line and the field.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let script = syntax::read(path)?;
        let name = path.file_stem().map_or_else(|| "script".into(), |stem| stem.to_string_lossy());
        Ok(Self::new(script, &name))
    }

    /// Takes a script as a value. An error names the field.
    pub fn from_value(value: &Value) -> Result<Self, ScriptError> {
        Ok(Self::new(script::read(value)?, "script"))
    }

    fn new(script: Script, name: &str) -> Self {
        let info = ModelInfo {
            id: ModelId::new("script", name),
            name: name.to_owned(),
            window: script.window,
            max_output: script.max_output,
            thinking: ThinkingStyle::None,
            images: true,
            price: Some(script.price),
            known: true,
        };
        Self { info, turns: script.turns.into_iter().map(Arc::new).collect(), played: Mutex::default() }
    }

    /// The turn for this user text, and whether its fault strikes; `None` past the end.
    fn take(&self, asked: &str) -> Option<Part> {
        let fits = |turn: &Turn| turn.matching.as_deref().is_some_and(|text| asked.contains(text));
        let places = |wanted: &dyn Fn(&Turn) -> bool| -> Vec<usize> {
            let turns = self.turns.iter().enumerate();
            turns.filter(|(_, turn)| wanted(turn)).map(|(place, _)| place).collect()
        };
        let mut list = places(&fits);
        if list.is_empty() {
            list = places(&|turn| turn.matching.is_none());
        }
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        let over = played.over.get(&list).copied().unwrap_or_default();
        let place = *list.get(over)?;
        let turn = Arc::clone(self.turns.get(place)?);
        let mut struck = false;
        let mut ends = true;
        if let Some(fault) = &turn.fault {
            let hits = played.hits.entry(place).or_default();
            struck = fault.times.is_none_or(|times| *hits < times);
            *hits += u64::from(struck);
            let last = fault.times.is_some_and(|times| *hits >= times);
            ends = !struck || (last && (fault.after.is_some() || turn.is_empty()));
        }
        if ends {
            played.over.insert(list, over + 1);
        }
        Some(Part { place, turn, struck })
    }
}

#[async_trait]
impl ModelProvider for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: Request<'_>) -> Result<EventStream, ProviderError> {
        let text = asked(request.messages).map(|asked| asked.text).unwrap_or_default();
        let Some(part) = self.take(&text) else {
            return play::stream(&Turn::done(), play::Cue::calm("end", input_tokens(&request)));
        };
        // Distinct in a conversation, also one that is continued with the same script.
        let tag = format!("{}_{}", request.messages.len(), part.place + 1);
        let input = if part.turn.usage.is_some() { 0 } else { input_tokens(&request) };
        let fault = part.turn.fault.clone().filter(|_| part.struck);
        play::stream(&part.turn, play::Cue { fault, ..play::Cue::calm(&tag, input) })
    }
}

#[cfg(test)]
mod tests;
