//! One model call with its recovery: retries, the output limit, an overflowing window, a cut stream.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::QueryEngine;
use super::assemble::{Assembler, Ending, Reply};
use crate::protocol::{DeltaKind, ErrorKind, Event, StopReason, ToolSpec, TurnOutcome};
use crate::provider::{self, Failure, ModelEvent, ProviderError, Request};
use crate::tool::JournalError;

/// What a model call came to.
pub(super) enum Sampled {
    /// A reply, whole or cut.
    Reply(Reply),
    /// No reply; the turn ends.
    Ended(TurnOutcome),
}

/// What one attempt came to.
enum Attempt {
    Reply(Reply),
    Failed(ProviderError, Assembler),
}

impl QueryEngine {
    /// Calls the model until there is a reply, or no way to get one.
    pub(super) async fn sample(
        &mut self,
        tools: &Arc<[ToolSpec]>,
        cancel: &CancellationToken,
    ) -> Result<Sampled, JournalError> {
        let mut attempts = 1;
        let mut made_room = false;
        let mut empty = 0;
        loop {
            match self.attempt(tools, cancel).await {
                Attempt::Reply(reply) => {
                    self.count(reply.usage).await?;
                    match reply.stop {
                        Ending::Stopped(StopReason::MaxTokens) if self.raise_output_limit() => {
                            self.emit(Event::DeltaReset);
                        }
                        Ending::Stopped(StopReason::ContextExceeded) if !made_room => {
                            made_room = true;
                            if !self.make_room().await? {
                                return Ok(Sampled::Reply(reply));
                            }
                            self.emit(Event::DeltaReset);
                        }
                        // Services now and then send nothing at all; asking again is cheap and mostly helps.
                        Ending::Stopped(StopReason::EndTurn) if reply.blocks.is_empty() && empty < 2 => {
                            empty += 1;
                            self.announce_retry(attempts + empty, Duration::ZERO, "the reply was empty");
                        }
                        _ => return Ok(Sampled::Reply(reply)),
                    }
                }
                Attempt::Failed(error, assembler) => {
                    self.count(assembler.usage()).await?;
                    if assembler.has_content() && recoverable(&error) {
                        let cause = self.clean(&error);
                        return Ok(Sampled::Reply(assembler.finish(Ending::Cut(cause))));
                    }
                    if error.kind == Failure::ContextOverflow && !made_room {
                        made_room = true;
                        if self.make_room().await? {
                            self.announce_retry(attempts, Duration::ZERO, "made room in the window");
                            continue;
                        }
                    }
                    let Some(wait) = provider::next_wait(&self.config.retry, &error, attempts, jitter())
                    else {
                        return Ok(Sampled::Ended(self.failed(error, attempts)));
                    };
                    attempts += 1;
                    self.emit(Event::DeltaReset);
                    self.announce_retry(attempts, wait, &self.clean(&error));
                    tokio::select! {
                        () = cancel.cancelled() => return Ok(Sampled::Ended(TurnOutcome::Aborted)),
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    async fn attempt(&self, tools: &[ToolSpec], cancel: &CancellationToken) -> Attempt {
        let mut assembler = Assembler::default();
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Ending::Interrupted),
            result = self.receive(tools, &mut assembler) => result.map(Ending::Stopped),
        };
        match result {
            Ok(ending) => Attempt::Reply(assembler.finish(ending)),
            Err(error) => Attempt::Failed(error, assembler),
        }
    }

    async fn receive(&self, tools: &[ToolSpec], into: &mut Assembler) -> Result<StopReason, ProviderError> {
        let info = self.seams.provider.info();
        crate::trace::stage!(
            "api.request",
            messages = self.view.messages().len(),
            tools = tools.len(),
            model = %info.name,
            max_output = self.output_limit,
        );
        let request = Request {
            system: if self.agent.is_root() { &self.config.system } else { &self.config.child_system },
            tools,
            messages: self.view.messages(),
            max_output: self.output_limit.min(info.max_output),
            effort: self.config.effort,
        };
        let mut stream = self.seams.provider.stream(request).await?;
        while let Some(event) = stream.next().await {
            let event = event?;
            match &event {
                ModelEvent::Text(text) => self.delta(DeltaKind::Text, text),
                ModelEvent::Thinking(text) => self.delta(DeltaKind::Thinking, text),
                _ => {}
            }
            if let Some(stop) = into.take(event) {
                return Ok(stop);
            }
        }
        Err(ProviderError::new(Failure::Cut, "the stream ended before the reply was complete"))
    }

    fn delta(&self, kind: DeltaKind, text: &str) {
        self.emit(Event::Delta { kind, text: text.to_owned() });
    }

    /// The first reply that hits the limit is asked for again with the model's own.
    fn raise_output_limit(&mut self) -> bool {
        let most = self.seams.provider.info().max_output;
        if self.output_limit >= most {
            return false;
        }
        crate::trace::stage!("api.retry", reason = "max_tokens", from = self.output_limit, to = most);
        self.output_limit = most;
        true
    }

    /// Takes the oldest rounds out after an overflow; false if nothing could go.
    async fn make_room(&mut self) -> Result<bool, JournalError> {
        let before = self.view.messages().len();
        let edits = self.compactor.overflowed(self.view.messages(), self.next_id());
        if edits.is_empty() {
            return Ok(false);
        }
        self.record(Event::Compacted { tier: 0, edits }).await?;
        let after = self.view.messages().len();
        crate::trace::stage!("compact.run", stage = "overflow", before = before, after = after);
        let text = format!(
            "The conversation did not fit the window: {} older messages were left out.",
            before - after
        );
        self.emit(Event::Notice { text });
        Ok(true)
    }

    fn announce_retry(&self, attempt: u32, wait: Duration, reason: &str) {
        let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        crate::trace::stage!("api.retry", attempt = attempt, after_ms = after_ms, reason = %reason);
        self.emit(Event::Retrying { attempt, after_ms, reason: reason.to_owned() });
    }

    fn clean(&self, error: &ProviderError) -> String {
        let mut message = error.message.clone();
        self.config.mask.apply(&mut message);
        message
    }

    fn failed(&self, error: ProviderError, attempts: u32) -> TurnOutcome {
        let error = provider::given_up(&self.config.retry, error, attempts);
        let mut message = self.clean(&error);
        if error.kind == Failure::ContextOverflow {
            message
                .push_str(". Nothing more could be left out: start anew with /clear, or use a larger model.");
        }
        if let Some(id) = &error.request_id {
            crate::trace::stage!("api.error", request_id = %id);
        }
        TurnOutcome::Error { message, kind: error.outcome_kind() }
    }
}

/// Whether a failure in mid-reply is one of the connection or the service, so that going on makes sense.
fn recoverable(error: &ProviderError) -> bool {
    matches!(error.kind, Failure::Transient { .. } | Failure::Unreachable | Failure::Cut)
}

/// A random number from 0 to 1, so that many clients do not come back in step.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// The error of a reply that never came, though the service said nothing was wrong.
pub(super) fn no_answer() -> TurnOutcome {
    TurnOutcome::Error {
        message: "The model ended its turn without an answer. Ask again, or use another model.".to_owned(),
        kind: ErrorKind::Unavailable,
    }
}
