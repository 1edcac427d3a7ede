//! What follows a reply: its calls and another round, a word to go on, or the end of the turn.

use tokio_util::sync::CancellationToken;

use super::QueryEngine;
use super::assemble::{Ending, Reply};
use super::query::Turn;
use super::sample::no_answer;
use crate::hook::{HookDecision, HookPoint};
use crate::protocol::{Block, ErrorKind, Event, Role, Source, StopReason, TurnOutcome};
use crate::tool::JournalError;

/// Replies in a row that may be cut by the output limit or the connection before the turn ends.
const CONTINUATIONS: u32 = 3;
/// Stop hooks that block in a row before they are overruled.
const STOP_BLOCKS: u32 = 8;

impl QueryEngine {
    /// A reply without calls ends the turn, unless something asks for more.
    pub(super) async fn without_calls(
        &mut self,
        reply: &Reply,
        turn: &mut Turn,
        cancel: &CancellationToken,
    ) -> Result<Option<TurnOutcome>, JournalError> {
        let text = reply.text();
        match &reply.stop {
            Ending::Interrupted => return Ok(Some(TurnOutcome::Aborted)),
            Ending::Cut(cause) => {
                turn.cut += 1;
                if turn.cut > CONTINUATIONS {
                    let message = format!("{cause} (the reply broke off {} times running)", turn.cut);
                    return Ok(Some(TurnOutcome::Error { message, kind: ErrorKind::Unavailable }));
                }
                self.emit(Event::Notice { text: format!("The reply broke off ({cause}); going on.") });
                return self
                    .tell("The connection broke off your last reply. Go on exactly where it stopped.")
                    .await;
            }
            Ending::Stopped(StopReason::MaxTokens | StopReason::ContextExceeded) => {
                turn.cut += 1;
                if turn.cut > CONTINUATIONS {
                    let message = format!(
                        "The answer is not complete: it reached the output limit of {} tokens {} times running.",
                        self.output_limit, turn.cut
                    );
                    return Ok(Some(TurnOutcome::Error { message, kind: ErrorKind::Invalid }));
                }
                return self
                    .tell("Your last reply reached the output limit. Go on exactly where it stopped.")
                    .await;
            }
            Ending::Stopped(StopReason::Refusal) => return Ok(Some(TurnOutcome::Refusal { reason: text })),
            Ending::Stopped(StopReason::PauseTurn) => {
                turn.cut += 1;
                if turn.cut > CONTINUATIONS {
                    let message = format!("The service paused the turn {} times running.", turn.cut);
                    return Ok(Some(TurnOutcome::Error { message, kind: ErrorKind::Unavailable }));
                }
                return Ok(None);
            }
            Ending::Stopped(StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence) => {}
        }
        self.ended_normally(turn);
        if text.trim().is_empty() {
            if turn.nudged {
                // After work was done silence is an odd end, but an end; with nothing done it is none.
                return Ok(Some(if turn.meter.rounds() > 2 { TurnOutcome::Completed } else { no_answer() }));
            }
            turn.nudged = true;
            return self
                .tell("You ended your turn without a word. Give your answer, or go on with the work.")
                .await;
        }
        if self.drain_interjections().await? {
            return Ok(None);
        }
        self.stop_hooks(&text, turn, cancel).await
    }

    /// Runs the calls of a reply; their results are in the conversation when this returns.
    pub(super) async fn with_calls(
        &mut self,
        reply: &Reply,
        turn: &mut Turn,
        cancel: &CancellationToken,
    ) -> Result<Option<TurnOutcome>, JournalError> {
        match &reply.stop {
            Ending::Cut(cause) => {
                self.emit(Event::Notice { text: format!("The reply broke off ({cause}); going on.") });
            }
            Ending::Stopped(StopReason::MaxTokens | StopReason::ContextExceeded | StopReason::Refusal)
            | Ending::Interrupted => {}
            Ending::Stopped(
                StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence | StopReason::PauseTurn,
            ) => self.ended_normally(turn),
        }
        turn.blocks = 0;
        let outcome = self.act(reply, &mut turn.meter, cancel).await?;
        if cancel.is_cancelled() {
            return Ok(Some(TurnOutcome::Aborted));
        }
        if reply.stop == Ending::Stopped(StopReason::Refusal) {
            return Ok(Some(TurnOutcome::Refusal { reason: reply.text() }));
        }
        Ok(outcome.or_else(|| cut_again(reply, turn)))
    }

    fn ended_normally(&mut self, turn: &mut Turn) {
        turn.cut = 0;
        self.output_limit = self.config.output_limit;
    }

    async fn stop_hooks(
        &mut self,
        last: &str,
        turn: &mut Turn,
        cancel: &CancellationToken,
    ) -> Result<Option<TurnOutcome>, JournalError> {
        if !self.agent.is_root() {
            return Ok(Some(TurnOutcome::Completed));
        }
        let hooks = self.seams.hooks.fire(HookPoint::Stop { active: turn.blocks > 0, last });
        let Some(verdict) = cancel.run_until_cancelled(hooks).await else {
            return Ok(Some(TurnOutcome::Aborted));
        };
        if let Some(reason) = verdict.stop {
            self.emit(Event::Notice { text: format!("A hook ended the turn: {reason}") });
            return Ok(Some(TurnOutcome::Completed));
        }
        if verdict.decision != Some(HookDecision::Deny) {
            return Ok(Some(TurnOutcome::Completed));
        }
        turn.blocks += 1;
        if turn.blocks > STOP_BLOCKS {
            let text = format!("The Stop hook blocked {STOP_BLOCKS} times running and was overruled.");
            self.emit(Event::Notice { text });
            return Ok(Some(TurnOutcome::Completed));
        }
        let blocks = vec![Block::text(format!("Stop hook feedback:\n{}", verdict.reason))];
        self.add_message(Role::User, Source::Hook, blocks).await?;
        Ok(None)
    }

    /// Puts a sentence of the program's own into the conversation and goes on.
    async fn tell(&mut self, text: &str) -> Result<Option<TurnOutcome>, JournalError> {
        self.add_message(Role::User, Source::Host, vec![Block::text(text)]).await?;
        Ok(None)
    }
}

/// A reply of which nothing could run for being cut is no progress, whatever its arguments look like.
fn cut_again(reply: &Reply, turn: &mut Turn) -> Option<TurnOutcome> {
    let why = match &reply.stop {
        Ending::Cut(_) => "the connection broke off",
        Ending::Stopped(StopReason::MaxTokens | StopReason::ContextExceeded) => "the output limit cut",
        Ending::Stopped(_) | Ending::Interrupted => return None,
    };
    if reply.broken.len() < reply.calls().len() {
        return None;
    }
    turn.cut += 1;
    (turn.cut > CONTINUATIONS)
        .then(|| TurnOutcome::Stuck { reason: format!("{why} every call of {} replies running", turn.cut) })
}
