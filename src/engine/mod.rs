//! The loop and what it hangs on; pure of I/O: everything outside comes in through [`Seams`].

mod act;
mod assemble;
mod child;
mod follow;
mod limits;
mod prepare;
mod query;
mod sample;
mod state;

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::compact::{Compactor, DropOldest};
use crate::config::{Effort, Retry};
use crate::hook::HookBus;
use crate::permission::PermissionGate;
use crate::protocol::transcript::View;
use crate::protocol::{
    AgentPath, Block, Decision, Envelope, Event, Mask, Message, MessageId, PermissionRequest, Role, Source,
    StateChange, ToolCall, ToolSpec, Usage,
};
use crate::provider::ModelProvider;
use crate::tool::{Journal, JournalError, ToolPool, Workspace};

pub use limits::Limits;
pub use state::AgentState;

/// Whoever runs the engine; child agents share their parent's.
#[async_trait]
pub trait Host: Send + Sync + Debug {
    /// Shows something that may be dropped or merged: deltas, progress, notices.
    fn emit(&self, agent: &AgentPath, event: Event);

    /// Puts a question to the user and waits for the answer.
    async fn ask(&self, request: PermissionRequest) -> Decision;

    /// What has arrived since the last round, in the order in which the model shall see it.
    fn interjections(&self, agent: &AgentPath) -> Vec<Injection>;
}

/// Something that enters the conversation between two rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Injection {
    /// Where it comes from.
    pub source: Source,
    /// What it says.
    pub blocks: Vec<Block>,
}

/// Everything the loop uses and does not own.
#[derive(Debug, Clone)]
pub struct Seams {
    /// The model.
    pub provider: Arc<dyn ModelProvider>,
    /// The callable tools.
    pub tools: Arc<dyn ToolPool>,
    /// What may run.
    pub gate: Arc<dyn PermissionGate>,
    /// The user's hooks.
    pub hooks: Arc<dyn HookBus>,
    /// The durable record.
    pub journal: Arc<dyn Journal>,
    /// Who runs us.
    pub host: Arc<dyn Host>,
}

/// What stays the same for the life of an engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// System prompt, byte-stable for the whole session.
    pub system: Arc<str>,
    /// System prompt of child agents.
    pub child_system: Arc<str>,
    /// Bounds of one turn.
    pub limits: Limits,
    /// Bound of rounds of a child agent.
    pub child_rounds: u32,
    /// First output limit, in tokens; raised to the model's own when a reply hits it.
    pub output_limit: u32,
    /// How hard to think.
    pub effort: Option<Effort>,
    /// How failed calls are repeated.
    pub retry: Retry,
    /// Secrets that must not enter the conversation.
    pub mask: Mask,
}

/// One conversation with a model, and the loop that drives it.
#[derive(Debug)]
pub struct QueryEngine {
    seams: Seams,
    config: EngineConfig,
    agent: AgentPath,
    workspace: Arc<Workspace>,
    view: View,
    state: AgentState,
    compactor: Box<dyn Compactor>,
    /// The tools as first advertised: the head of every request, which the provider's cache holds.
    advertised: Option<Arc<[ToolSpec]>>,
    /// Messages made so far; gives ids that a resume continues.
    made: u64,
    /// Ids of all calls so far; a service may give one twice.
    calls: HashSet<String>,
    output_limit: u32,
    denials: Vec<Denial>,
}

/// A call that did not run for want of leave.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The call.
    pub call: ToolCall,
    /// Why, in the user's words if there were any.
    pub reason: String,
}

impl QueryEngine {
    /// An engine with an empty conversation.
    pub fn new(seams: Seams, config: EngineConfig, agent: AgentPath, workspace: Arc<Workspace>) -> Self {
        Self {
            output_limit: config.output_limit,
            seams,
            config,
            agent,
            workspace,
            view: View::default(),
            state: AgentState::default(),
            compactor: Box::new(DropOldest),
            advertised: None,
            made: 0,
            calls: HashSet::new(),
            denials: Vec::new(),
        }
    }

    /// Takes another way to make room.
    #[must_use]
    pub fn with_compactor(mut self, compactor: Box<dyn Compactor>) -> Self {
        self.compactor = compactor;
        self
    }

    /// Rebuilds the conversation from a log by the fold that a live turn uses, and answers what a crash left open.
    pub async fn resume(&mut self, log: &[Envelope]) -> Result<(), JournalError> {
        let agent = self.agent.clone();
        for envelope in log.iter().filter(|e| e.agent == agent) {
            self.fold(envelope.seq, &envelope.event);
        }
        self.answer_open_calls().await
    }

    /// What the model sees.
    pub fn messages(&self) -> &[Arc<Message>] {
        self.view.messages()
    }

    /// Todos, usage and the rest of the state.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// The calls of the last turn that did not run for want of leave, those of its children included.
    pub fn denials(&self) -> &[Denial] {
        &self.denials
    }

    /// Forgets the conversation; the log keeps it.
    pub async fn clear(&mut self) -> Result<(), JournalError> {
        self.record(Event::StateChanged { change: StateChange::Cleared }).await?;
        self.advertised = None;
        Ok(())
    }

    /// Goes on with another model; its own blocks stay with the one that wrote them.
    pub async fn set_model(&mut self, provider: Arc<dyn ModelProvider>) -> Result<(), JournalError> {
        let model = provider.info().id.clone();
        crate::trace::stage!("prefix.changed", reason = "model");
        self.seams.provider = provider;
        self.output_limit = self.config.output_limit;
        self.advertised = None;
        self.record(Event::StateChanged { change: StateChange::Model { model } }).await
    }

    /// Writes a change of mode to the log.
    pub async fn note_mode(&mut self, mode: crate::protocol::Mode) -> Result<(), JournalError> {
        self.record(Event::StateChanged { change: StateChange::Mode { mode } }).await
    }

    /// Writes an event, then lets it take effect.
    async fn record(&mut self, mut event: Event) -> Result<(), JournalError> {
        self.config.mask.apply_event(&mut event);
        let seq = self.seams.journal.record(&self.agent, &event).await?;
        self.fold(seq, &event);
        Ok(())
    }

    fn fold(&mut self, seq: u64, event: &Event) {
        if matches!(event, Event::MessageAdded { .. } | Event::Compacted { .. }) {
            self.made += 1;
        }
        if let Event::MessageAdded { message } = event {
            self.calls.extend(message.calls().map(|call| call.id));
        }
        self.view.apply(seq, event);
        if let Event::StateChanged { change } = event {
            self.state.apply(change);
            self.workspace.apply(change);
        }
    }

    async fn add_message(
        &mut self,
        role: Role,
        source: Source,
        blocks: Vec<Block>,
    ) -> Result<(), JournalError> {
        let origin = (role == Role::Assistant).then(|| self.seams.provider.info().id.clone());
        let message = Message { id: self.next_id(), role, source, origin, blocks };
        self.record(Event::MessageAdded { message }).await
    }

    fn next_id(&self) -> MessageId {
        let n = self.made;
        match self.agent.0.last() {
            None => MessageId(format!("m{n}")),
            Some(call) => MessageId(format!("{call}.m{n}")),
        }
    }

    /// A crash or an interruption may leave calls without a result; none goes unanswered.
    async fn answer_open_calls(&mut self) -> Result<(), JournalError> {
        for open in self.view.open_calls() {
            let text = if open.started {
                "This call was running when the session ended; its outcome is unknown. Check before repeating it."
            } else {
                "This call did not run: the session ended before it."
            };
            let result = crate::protocol::ToolResult::error(&open.call.id, text);
            self.record(Event::ToolFinished { result }).await?;
        }
        Ok(())
    }

    fn emit(&self, mut event: Event) {
        self.config.mask.apply_event(&mut event);
        self.seams.host.emit(&self.agent, event);
    }

    /// Tokens and cost of one model call.
    async fn count(&mut self, usage: Usage) -> Result<(), JournalError> {
        if usage == Usage::default() {
            return Ok(());
        }
        let cost = self.seams.provider.info().price.map(|price| price.cost(&usage));
        self.record(Event::StateChanged { change: StateChange::Used { usage, cost } }).await?;
        self.state.context = usage.context() + usage.output;
        self.show_usage();
        Ok(())
    }

    fn show_usage(&self) {
        self.emit(Event::UsageUpdated {
            total: self.state.usage,
            context: self.state.context,
            cost: self.state.cost,
        });
    }
}
