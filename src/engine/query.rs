//! The `ReAct` loop: ask the model, run what it calls, again, until it has no more to do.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::QueryEngine;
use super::assemble::Reply;
use super::limits::Meter;
use super::sample::Sampled;
use crate::hook::{HookDecision, HookPoint};
use crate::protocol::{Block, ErrorKind, Event, Role, Source, ToolResult, ToolSpec, TurnOutcome, text_of};
use crate::tool::JournalError;

/// Why calls of a turn that ended by itself did not run.
pub(super) const ENDED: &str = "Not run: the turn ended before this call.";

/// What one turn keeps in mind from round to round.
pub(super) struct Turn {
    pub(super) meter: Meter,
    /// Replies in a row that were cut.
    pub(super) cut: u32,
    /// Whether the model was already asked to answer after it ended without a word.
    pub(super) nudged: bool,
    /// Stop hooks that blocked in a row.
    pub(super) blocks: u32,
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
            Err(error) => {
                // Whoever waits for the end must hear of it, even if it could not be written.
                let outcome = broken_journal(&error);
                self.emit(Event::TurnFinished { outcome: outcome.clone() });
                outcome
            }
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
        if let Some(outcome) = self.take_prompt(prompt, cancel).await? {
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
                Sampled::Ended(outcome, arrived) => {
                    if let Some(reply) = arrived.filter(|reply| !reply.blocks.is_empty()) {
                        self.add_message(Role::Assistant, Source::Model, reply.blocks).await?;
                    }
                    return Ok(outcome);
                }
            };
            trace_reply(&reply);
            if !reply.blocks.is_empty() {
                self.add_message(Role::Assistant, Source::Model, reply.blocks.clone()).await?;
            }
            let next = if reply.calls().is_empty() {
                self.without_calls(&reply, turn, cancel).await?
            } else {
                self.with_calls(&reply, turn, cancel).await?
            };
            if let Some(outcome) = next {
                return Ok(outcome);
            }
        }
    }

    /// The prompt joins the conversation unless a hook keeps it out.
    async fn take_prompt(
        &mut self,
        prompt: Vec<Block>,
        cancel: &CancellationToken,
    ) -> Result<Option<TurnOutcome>, JournalError> {
        let prompt: Vec<Block> = prompt.into_iter().map(|block| self.masked(block)).collect();
        let text = text_of(&prompt);
        let mut blocks = prompt;
        if self.agent.is_root() && !text.trim().is_empty() {
            let hooks = self.seams.hooks.fire(HookPoint::UserPromptSubmit { prompt: &text });
            let Some(verdict) = cancel.run_until_cancelled(hooks).await else {
                return Ok(Some(TurnOutcome::Aborted));
            };
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

    pub(super) async fn drain_interjections(&mut self) -> Result<bool, JournalError> {
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

    /// Answers what is still open, writes the end of the turn and forces the log to the disk.
    async fn close(&mut self, outcome: &TurnOutcome) -> Result<(), JournalError> {
        let text = if *outcome == TurnOutcome::Aborted { super::act::INTERRUPTED } else { ENDED };
        for open in self.view.open_calls() {
            let result = ToolResult::error(&open.call.id, text);
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
