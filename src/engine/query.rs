//! The `ReAct` loop: ask the model, run what it calls, again, until it has no more to do.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::QueryEngine;
use super::assemble::{Ending, Reply};
use super::limits::Meter;
use super::sample::{Sampled, no_answer};
use crate::hook::{HookDecision, HookPoint};
use crate::protocol::{Block, ErrorKind, Event, Role, Source, StopReason, ToolSpec, TurnOutcome, text_of};
use crate::tool::JournalError;

/// Replies in a row that may be cut by the output limit or the connection before the turn ends.
const CONTINUATIONS: u32 = 3;
/// Stop hooks that block in a row before they are overruled.
const STOP_BLOCKS: u32 = 8;

/// What one turn keeps in mind from round to round.
struct Turn {
    meter: Meter,
    /// Replies in a row that were cut.
    cut: u32,
    /// Whether the model was already asked to answer after it ended without a word.
    nudged: bool,
    /// Stop hooks that blocked in a row.
    blocks: u32,
}

impl QueryEngine {
    /// Runs one turn to its end. It cannot fail, it ends; the outcome is also the last event of the turn.
    pub async fn run_turn(&mut self, prompt: Vec<Block>, cancel: &CancellationToken) -> TurnOutcome {
        self.denials.clear();
        let mut turn = Turn { meter: Meter::new(self.config.limits), cut: 0, nudged: false, blocks: 0 };
        let outcome = match self.rounds(prompt, &mut turn, cancel).await {
            Ok(outcome) => outcome,
            Err(error) => broken_journal(&error),
        };
        let outcome = match self.close(&outcome).await {
            Ok(()) => outcome,
            Err(error) => broken_journal(&error),
        };
        crate::trace::stage!("query.turn_end", reason = outcome.word(), turn = turn.meter.rounds());
        outcome
    }

    async fn rounds(
        &mut self,
        prompt: Vec<Block>,
        turn: &mut Turn,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, JournalError> {
        self.record(Event::TurnStarted).await?;
        self.answer_open_calls().await?;
        if let Some(outcome) = self.take_prompt(prompt).await? {
            return Ok(outcome);
        }
        loop {
            if cancel.is_cancelled() {
                return Ok(TurnOutcome::Aborted);
            }
            self.drain_interjections().await?;
            let round = match turn.meter.next_round(&self.state) {
                Ok(round) => round,
                Err(outcome) => return Ok(outcome),
            };
            crate::trace::stage!("query.turn_start", turn = round, depth = self.agent.depth());
            let tools = self.advertised();
            let reply = match self.sample(&tools, cancel).await? {
                Sampled::Reply(reply) => reply,
                Sampled::Ended(outcome) => return Ok(outcome),
            };
            trace_reply(&reply);
            if !reply.blocks.is_empty() {
                self.add_message(Role::Assistant, Source::Model, reply.blocks.clone()).await?;
            }
            let next = if reply.calls().is_empty() {
                self.without_calls(&reply, turn).await?
            } else {
                self.with_calls(&reply, turn, cancel).await?
            };
            if let Some(outcome) = next {
                return Ok(outcome);
            }
        }
    }

    /// The prompt joins the conversation unless a hook keeps it out.
    async fn take_prompt(&mut self, prompt: Vec<Block>) -> Result<Option<TurnOutcome>, JournalError> {
        let prompt: Vec<Block> = prompt.into_iter().map(|block| self.masked(block)).collect();
        let text = text_of(&prompt);
        let mut blocks = prompt;
        if self.agent.is_root() && !text.trim().is_empty() {
            let verdict = self.seams.hooks.fire(HookPoint::UserPromptSubmit { prompt: &text }).await;
            if verdict.decision == Some(HookDecision::Deny) || verdict.stop.is_some() {
                let reason = verdict.stop.unwrap_or(verdict.reason);
                self.emit(Event::Notice { text: format!("A hook kept the prompt back: {reason}") });
                return Ok(Some(TurnOutcome::Refusal { reason }));
            }
            blocks.extend(verdict.context.into_iter().map(Block::text));
        }
        if !blocks.is_empty() {
            self.add_message(Role::User, Source::User, blocks).await?;
        }
        Ok(None)
    }

    async fn drain_interjections(&mut self) -> Result<bool, JournalError> {
        let arrived = self.seams.host.interjections(&self.agent);
        let any = !arrived.is_empty();
        for injection in arrived {
            let blocks = injection.blocks.into_iter().map(|block| self.masked(block)).collect();
            self.add_message(Role::User, injection.source, blocks).await?;
        }
        Ok(any)
    }

    /// The advertised tools, fixed at the first request so that the provider's cache holds.
    fn advertised(&mut self) -> Arc<[ToolSpec]> {
        let pool = &self.seams.tools;
        let specs = self.advertised.get_or_insert_with(|| {
            let specs: Arc<[ToolSpec]> = pool.tools().iter().map(|tool| tool.spec().clone()).collect();
            crate::trace::stage!("prefix.changed", reason = "first request", tools = specs.len());
            specs
        });
        Arc::clone(specs)
    }

    /// A reply without calls ends the turn, unless something asks for more.
    async fn without_calls(
        &mut self,
        reply: &Reply,
        turn: &mut Turn,
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
            Ending::Stopped(StopReason::PauseTurn) => return Ok(None),
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
        self.stop_hooks(&text, turn).await
    }

    /// Runs the calls of a reply; their results are in the conversation when this returns.
    async fn with_calls(
        &mut self,
        reply: &Reply,
        turn: &mut Turn,
        cancel: &CancellationToken,
    ) -> Result<Option<TurnOutcome>, JournalError> {
        match &reply.stop {
            Ending::Cut(cause) => {
                self.emit(Event::Notice { text: format!("The reply broke off ({cause}); going on.") });
            }
            Ending::Stopped(StopReason::MaxTokens) | Ending::Interrupted => {}
            Ending::Stopped(_) => self.ended_normally(turn),
        }
        turn.blocks = 0;
        let outcome = self.act(reply, &mut turn.meter, cancel).await?;
        if cancel.is_cancelled() {
            return Ok(Some(TurnOutcome::Aborted));
        }
        Ok(outcome)
    }

    fn ended_normally(&mut self, turn: &mut Turn) {
        turn.cut = 0;
        self.output_limit = self.config.output_limit;
    }

    async fn stop_hooks(&mut self, last: &str, turn: &mut Turn) -> Result<Option<TurnOutcome>, JournalError> {
        if !self.agent.is_root() {
            return Ok(Some(TurnOutcome::Completed));
        }
        let verdict = self.seams.hooks.fire(HookPoint::Stop { active: turn.blocks > 0, last }).await;
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

    /// Answers what is still open, writes the end of the turn and forces the log to the disk.
    async fn close(&mut self, outcome: &TurnOutcome) -> Result<(), JournalError> {
        for open in self.view.open_calls() {
            let result = crate::protocol::ToolResult::error(&open.call.id, super::act::INTERRUPTED);
            self.record(Event::ToolFinished { result }).await?;
        }
        self.record(Event::TurnFinished { outcome: outcome.clone() }).await?;
        if self.agent.is_root() {
            self.seams.journal.sync().await?;
        }
        Ok(())
    }

    pub(super) fn masked(&self, block: Block) -> Block {
        match block {
            Block::Text { mut text } => {
                self.config.mask.apply(&mut text);
                Block::Text { text }
            }
            other => other,
        }
    }
}

fn trace_reply(reply: &Reply) {
    match reply.calls().len() {
        0 => crate::trace::stage!("api.assistant", kind = "text", text_len = reply.text().len()),
        uses => crate::trace::stage!("api.assistant", kind = "tool_use", tool_uses = uses),
    }
}

fn broken_journal(error: &JournalError) -> TurnOutcome {
    TurnOutcome::Error {
        message: format!("The session could not be written, so the turn ends here: {error}"),
        kind: ErrorKind::Internal,
    }
}
