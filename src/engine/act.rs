//! The calls of one reply: reads together, the rest one by one, each answered exactly once.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::assemble::{Ending, Reply};
use super::child::ChildSpawner;
use super::limits::Meter;
use super::prepare::{Prepared, Ready, panic_text};
use super::query::ENDED;
use super::{QueryEngine, Seams};
use crate::hook::HookPoint;
use crate::protocol::{AgentPath, Block, Event, Mask, Source, StopReason, ToolCall, ToolResult, TurnOutcome};
use crate::tool::{Effect, JournalError, Progress, ToolCx, ToolError, ToolOutput, Workspace};

/// Reads that run at the same time.
const TOGETHER: usize = 8;
/// How long a tool may take to stop by itself before its future is dropped.
const STOP_GRACE: Duration = Duration::from_millis(100);
/// Characters of one result that the model sees; beyond it the whole is kept on disk.
const RESULT_CAP: usize = 100_000;

/// The result of a call that an interruption kept from running.
pub(super) const INTERRUPTED: &str = "Not run: the turn was interrupted by the user.";

/// The result of a call in a reply that its own service cut short.
const DECLINED: &str = "Not run: the service declined to finish this reply.";

/// A call that has run.
struct Finished {
    call: ToolCall,
    result: ToolResult,
    effects: Vec<Effect>,
    context: Vec<String>,
}

impl QueryEngine {
    /// Answers every call of a reply, in order.
    pub(super) async fn act(
        &mut self,
        reply: &Reply,
        meter: &mut Meter,
        cancel: &CancellationToken,
    ) -> Result<Option<TurnOutcome>, JournalError> {
        let calls = reply.calls();
        let mut effects = Vec::new();
        let mut end = None;
        let mut batch: Vec<Ready> = Vec::new();
        let unrun = match reply.stop {
            Ending::Interrupted => Some(INTERRUPTED),
            Ending::Stopped(StopReason::Refusal) => Some(DECLINED),
            Ending::Stopped(_) | Ending::Cut(_) => None,
        };
        for call in calls {
            let broken = reply.broken.iter().find(|(id, _)| *id == call.id);
            if cancel.is_cancelled() || unrun.is_some() || end.is_some() {
                self.run_batch(&mut batch, meter, cancel, &mut effects, &mut end).await?;
                let text = match (broken, &end) {
                    (Some((_, why)), _) => why.clone(),
                    (None, Some(_)) if !cancel.is_cancelled() => ENDED.to_owned(),
                    _ => unrun.unwrap_or(INTERRUPTED).to_owned(),
                };
                let result = ToolResult::error(&call.id, text);
                self.record(Event::ToolFinished { result }).await?;
                continue;
            }
            if let Some((_, why)) = broken {
                let result = ToolResult::error(&call.id, why.clone());
                self.finished(
                    Finished { call, result, effects: vec![], context: vec![] },
                    meter,
                    &mut effects,
                    &mut end,
                )
                .await?;
                continue;
            }
            let id = call.id.clone();
            let prepared = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                prepared = self.prepare(call) => Some(prepared),
            };
            match prepared {
                None => {
                    let result = ToolResult::error(&id, INTERRUPTED);
                    self.record(Event::ToolFinished { result }).await?;
                }
                Some(Prepared::Ready(ready)) if ready.access.is_read_only() => batch.push(ready),
                Some(Prepared::Ready(ready)) => {
                    self.run_batch(&mut batch, meter, cancel, &mut effects, &mut end).await?;
                    let mut alone = vec![ready];
                    self.run_batch(&mut alone, meter, cancel, &mut effects, &mut end).await?;
                }
                Some(Prepared::Answered(call, result)) => {
                    self.run_batch(&mut batch, meter, cancel, &mut effects, &mut end).await?;
                    let done = Finished { call, result, effects: vec![], context: vec![] };
                    self.finished(done, meter, &mut effects, &mut end).await?;
                }
                Some(Prepared::EndTurn(call, result)) => {
                    self.run_batch(&mut batch, meter, cancel, &mut effects, &mut end).await?;
                    let done = Finished { call, result, effects: vec![], context: vec![] };
                    self.finished(done, meter, &mut effects, &mut end).await?;
                    end = Some(TurnOutcome::Aborted);
                }
            }
        }
        self.run_batch(&mut batch, meter, cancel, &mut effects, &mut end).await?;
        self.apply(effects).await?;
        Ok(end)
    }

    /// Runs prepared calls together and takes their results in call order.
    async fn run_batch(
        &mut self,
        batch: &mut Vec<Ready>,
        meter: &mut Meter,
        cancel: &CancellationToken,
        effects: &mut Vec<Effect>,
        end: &mut Option<TurnOutcome>,
    ) -> Result<(), JournalError> {
        if batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(batch);
        let spawner = ChildSpawner::new(self, meter, cancel);
        let runs: Vec<Result<Finished, JournalError>> = {
            let cx = Running {
                seams: &self.seams,
                mask: &self.config.mask,
                agent: &self.agent,
                workspace: &self.workspace,
                spawner: &spawner,
            };
            let futures: Vec<_> = batch.into_iter().map(|ready| cx.run(ready, cancel).boxed()).collect();
            stream::iter(futures).buffered(TOGETHER).collect().await
        };
        let report = spawner.into_report();
        self.denials.extend(report.denials);
        for usage in report.usage {
            self.record(Event::StateChanged { change: usage }).await?;
        }
        if report.ran {
            self.show_usage();
        }
        for run in runs {
            self.finished(run?, meter, effects, end).await?;
        }
        Ok(())
    }

    /// Caps a result, tells the hooks, writes it, and looks for circles.
    async fn finished(
        &mut self,
        mut done: Finished,
        meter: &mut Meter,
        effects: &mut Vec<Effect>,
        end: &mut Option<TurnOutcome>,
    ) -> Result<(), JournalError> {
        let content = std::mem::take(&mut done.result.content);
        for block in content {
            let block = self.masked(block);
            done.result.content.push(self.capped(block, &done.call).await?);
        }
        crate::trace::stage!("tool.end", name = %done.call.name, id = %done.call.id, ok = !done.result.is_error);
        effects.append(&mut done.effects);
        if !done.context.is_empty() {
            effects.push(self.inject(Source::Hook, done.context.join("\n")));
        }
        if let Some(outcome) = meter.note(&done.call, &done.result) {
            end.get_or_insert(outcome);
        }
        self.record(Event::ToolFinished { result: done.result }).await
    }

    async fn capped(&self, block: Block, call: &ToolCall) -> Result<Block, JournalError> {
        let Block::Text { text } = &block else { return Ok(block) };
        if text.len() <= RESULT_CAP {
            return Ok(block);
        }
        let path =
            self.seams.journal.keep(&format!("{}-{}.txt", call.name, call.id), text.as_bytes()).await?;
        let (head, tail) = ends(text, RESULT_CAP / 2);
        let left_out = text.len() - head.len() - tail.len();
        Ok(Block::text(format!(
            "{head}\n[… {left_out} bytes left out; the whole text is in {} …]\n{tail}",
            path.display()
        )))
    }

    fn inject(&self, source: Source, text: String) -> Effect {
        Effect::Inject(crate::protocol::Message {
            id: self.next_id(),
            role: crate::protocol::Role::User,
            source,
            origin: None,
            blocks: vec![Block::text(text)],
        })
    }

    /// Effects come after all results of the round.
    async fn apply(&mut self, effects: Vec<Effect>) -> Result<(), JournalError> {
        for effect in effects {
            match effect {
                Effect::Inject(message) => {
                    self.add_message(message.role, message.source, message.blocks).await?;
                }
                Effect::State(change) => self.record(Event::StateChanged { change }).await?,
                // Until the tiers exist, the window looks after itself when it overflows.
                Effect::Compact { .. } => {}
            }
        }
        Ok(())
    }
}

/// Head and tail of a text, each of about `size` bytes, cut at line ends where one is near.
fn ends(text: &str, size: usize) -> (&str, &str) {
    let head_end = text.floor_char_boundary(size);
    let tail_start = text.ceil_char_boundary(text.len().saturating_sub(size)).max(head_end);
    let head = text.get(..head_end).unwrap_or(text);
    let tail = text.get(tail_start..).unwrap_or("");
    let head = head.rfind('\n').filter(|at| *at > size / 2).and_then(|at| head.get(..at)).unwrap_or(head);
    let tail = tail.find('\n').filter(|at| *at < size / 2).and_then(|at| tail.get(at + 1..)).unwrap_or(tail);
    (head, tail)
}

/// What a call needs while it runs.
#[derive(Clone, Copy)]
struct Running<'a> {
    seams: &'a Seams,
    mask: &'a Mask,
    agent: &'a AgentPath,
    workspace: &'a Workspace,
    spawner: &'a ChildSpawner,
}

impl Running<'_> {
    async fn run(self, ready: Ready, cancel: &CancellationToken) -> Result<Finished, JournalError> {
        let Ready { tool, call, access: _, context } = ready;
        if cancel.is_cancelled() {
            let result = ToolResult::error(&call.id, INTERRUPTED);
            return Ok(Finished { call, result, effects: vec![], context });
        }
        let mut started = Event::ToolStarted { call: call.clone() };
        self.mask.apply_event(&mut started);
        self.seams.journal.record(self.agent, &started).await?;
        crate::trace::stage!("tool.start", name = %call.name, id = %call.id);
        let progress = Live { seams: self.seams, mask: self.mask, agent: self.agent, call: &call.id };
        let cx = ToolCx {
            agent: self.agent,
            call: &call.id,
            cancel,
            workspace: self.workspace,
            progress: &progress,
            spawn: self.spawner,
            journal: &*self.seams.journal,
        };
        // A tool that panics is a tool that failed.
        let mut work =
            AssertUnwindSafe(async { tool.run(call.input.clone(), cx).await }).catch_unwind().boxed();
        let output = tokio::select! {
            biased;
            output = &mut work => Some(output),
            () = cancel.cancelled() => tokio::time::timeout(STOP_GRACE, &mut work).await.ok(),
        };
        drop(work);
        let (result, effects) = match output {
            Some(Ok(output)) => result_of(&call.id, output),
            Some(Err(panic)) => (ToolResult::error(&call.id, panic_text(&*panic)), Vec::new()),
            None => {
                let text = "Interrupted by the user while it ran; what it had done is done.";
                (ToolResult::error(&call.id, text), Vec::new())
            }
        };
        let point = if result.is_error {
            HookPoint::PostToolUseFailure { agent: self.agent, call: &call, result: &result }
        } else {
            HookPoint::PostToolUse { agent: self.agent, call: &call, result: &result }
        };
        let outcome = tokio::select! {
            outcome = self.seams.hooks.fire(point) => outcome,
            () = cancel.cancelled() => crate::hook::HookOutcome::default(),
        };
        let mut context = context;
        context.extend(outcome.context);
        if outcome.decision == Some(crate::hook::HookDecision::Deny) {
            context.push(outcome.reason);
        }
        Ok(Finished { call, result, effects, context })
    }
}

fn result_of(call: &str, output: Result<ToolOutput, ToolError>) -> (ToolResult, Vec<Effect>) {
    let (output, is_error) = match output {
        Ok(output) => (output, false),
        Err(ToolError::FailedWith(output)) => (*output, true),
        Err(error) => (ToolOutput::text(error.to_string()), true),
    };
    let mut content = output.content;
    if !content.iter().any(|block| !matches!(block, Block::Text { text } if text.trim().is_empty())) {
        content = vec![Block::text("(no output)")];
    }
    (ToolResult { call: call.to_owned(), content, is_error, details: output.details }, output.effects)
}

/// Forwards live output of one call.
#[derive(Debug)]
struct Live<'a> {
    seams: &'a Seams,
    mask: &'a Mask,
    agent: &'a AgentPath,
    call: &'a str,
}

impl Progress for Live<'_> {
    fn output(&self, text: &str) {
        let mut event = Event::ToolProgress { call: self.call.to_owned(), text: text.to_owned() };
        self.mask.apply_event(&mut event);
        self.seams.host.emit(self.agent, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn ends_are_cut_between_characters_and_never_overlap() {
        for size in 0..40 {
            let text = "héllo\nwörld 你好\nmore text here\n😀😀😀";
            let (head, tail) = ends(text, size);
            assert!(text.starts_with(head) && text.ends_with(tail));
            assert!(head.len() + tail.len() <= text.len());
        }
    }

    #[test]
    fn silent_tools_say_so() {
        let (result, _) = result_of("c", Ok(ToolOutput::text(" \n")));
        assert_eq!(result.content, [Block::text("(no output)")]);
        assert_eq!(result.details, Value::Null);
    }
}
