//! Turns one turn of a script into the events of a model call.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::script::{Call, Fault, FaultKind, Turn};
use crate::protocol::transcript::estimate_text;
use crate::protocol::{StopReason, Usage};
use crate::provider::{EventStream, Failure, ModelEvent, ProviderError};

/// How a turn is played this time.
pub(super) struct Cue {
    /// Part of the ids of its calls.
    pub(super) tag: String,
    /// Tokens of the request, for a turn that does not say.
    pub(super) input: u64,
    /// The fault, if it strikes.
    pub(super) fault: Option<Fault>,
}

impl Cue {
    /// Without a fault.
    pub(super) fn calm(tag: &str, input: u64) -> Self {
        Self { tag: tag.to_owned(), input, fault: None }
    }
}

/// Characters in a piece where the turn does not say.
const TEXT_PIECE: usize = 24;
const ARGUMENT_PIECE: usize = 64;

/// The events of this turn, or its failure.
pub(super) fn stream(turn: &Turn, cue: Cue) -> Result<EventStream, ProviderError> {
    let fault = match cue.fault {
        Some(fault) if fault.after.is_none() && matches!(fault.kind, FaultKind::Fails(_)) => {
            return Err(error(&fault));
        }
        fault => fault.map(|fault| (fault.after.unwrap_or_default(), fault)),
    };
    let player =
        Player { events: events(turn, &cue.tag, cue.input), fault, delay: turn.delay, sent: 0, over: false };
    let events = stream::unfold(player, |mut player| async {
        let item = player.next().await?;
        Some((item, player))
    });
    Ok(events.boxed())
}

struct Player {
    events: Box<dyn Iterator<Item = ModelEvent> + Send>,
    /// After how many pieces it strikes.
    fault: Option<(usize, Fault)>,
    delay: Duration,
    sent: usize,
    over: bool,
}

impl Player {
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        if self.over {
            return None;
        }
        if self.fault.as_ref().is_some_and(|(after, _)| *after <= self.sent) {
            return self.strike().await;
        }
        let event = self.events.next()?;
        match event {
            ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::ToolArgs { .. } => {
                self.sent += 1;
                if !self.delay.is_zero() {
                    tokio::time::sleep(self.delay).await;
                }
            }
            // A fault after more pieces than there are strikes before the end.
            ModelEvent::Usage(_) | ModelEvent::Stop(_) if self.fault.is_some() => return self.strike().await,
            ModelEvent::Signature(_)
            | ModelEvent::ToolStart { .. }
            | ModelEvent::ToolName { .. }
            | ModelEvent::ToolEnd { .. }
            | ModelEvent::Block(_)
            | ModelEvent::Usage(_)
            | ModelEvent::Stop(_) => {}
        }
        Some(Ok(event))
    }

    async fn strike(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        self.over = true;
        let (_, fault) = self.fault.take()?;
        match fault.kind {
            FaultKind::Stall => std::future::pending().await,
            FaultKind::Fails(_) | FaultKind::Cut => Some(Err(error(&fault))),
        }
    }
}

fn error(fault: &Fault) -> ProviderError {
    let FaultKind::Fails(kind) = fault.kind else {
        return ProviderError { message: fault.message.clone().unwrap_or_else(|| cut().message), ..cut() };
    };
    let message = match kind {
        Failure::Transient { .. } => "the script says: overloaded, try again",
        Failure::Unreachable => "the script says: nobody answers",
        Failure::Cut => "the script says: the stream broke",
        Failure::ContextOverflow => "the script says: the conversation is too long",
        Failure::Auth => "the script says: the key is wrong",
        Failure::Quota => "the script says: nothing left to spend",
        Failure::NotFound => "the script says: no such model",
        Failure::Invalid => "the script says: the request is not valid",
        Failure::NoModel => "the script says: there is no model",
    };
    ProviderError::new(kind, fault.message.clone().unwrap_or_else(|| message.to_owned()))
}

fn cut() -> ProviderError {
    ProviderError::new(Failure::Cut, "the script says: the stream broke")
}

/// All events in order, made as they are asked for.
fn events(turn: &Turn, tag: &str, input: u64) -> Box<dyn Iterator<Item = ModelEvent> + Send> {
    let size = turn.chunk_size.unwrap_or(TEXT_PIECE);
    let thinking = pieces(&turn.thinking, size).into_iter().map(ModelEvent::Thinking);
    let signature = turn.signature.clone().map(ModelEvent::Signature);
    let text = pieces(&turn.text, size).into_iter().map(ModelEvent::Text);
    let further = std::iter::repeat_n(turn.chunk_text.clone(), turn.chunks).map(ModelEvent::Text);
    let argument_size = turn.chunk_size.unwrap_or(ARGUMENT_PIECE);
    let calls: Vec<ModelEvent> = turn
        .tools
        .iter()
        .enumerate()
        .flat_map(|(key, call)| call_events(call, key, tag, argument_size))
        .collect();
    let usage =
        turn.usage.unwrap_or_else(|| Usage { input, output: output_tokens(turn), ..Usage::default() });
    let by_content = if turn.tools.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
    let end = [ModelEvent::Usage(usage), ModelEvent::Stop(turn.stop.unwrap_or(by_content))];
    Box::new(thinking.chain(signature).chain(text).chain(further).chain(calls).chain(end))
}

fn call_events(call: &Call, key: usize, tag: &str, size: usize) -> Vec<ModelEvent> {
    let id = call.id.clone().unwrap_or_else(|| format!("call_{tag}_{}", key + 1));
    let start = ModelEvent::ToolStart { key, id, name: call.name.clone() };
    let arguments = pieces(&call.arguments, size).into_iter().map(|json| ModelEvent::ToolArgs { key, json });
    std::iter::once(start).chain(arguments).chain([ModelEvent::ToolEnd { key }]).collect()
}

/// The text in pieces of this many characters.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size.max(1)).map(|piece| piece.iter().collect()).collect()
}

fn output_tokens(turn: &Turn) -> u64 {
    let repeats = u64::try_from(turn.chunks).unwrap_or(u64::MAX);
    let calls = turn.tools.iter().map(|call| 12 + estimate_text(&call.name) + estimate_text(&call.arguments));
    estimate_text(&turn.thinking)
        + estimate_text(&turn.text)
        + estimate_text(&turn.chunk_text).saturating_mul(repeats)
        + calls.sum::<u64>()
}
