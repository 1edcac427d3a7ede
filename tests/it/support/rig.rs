//! A `QueryEngine` in memory: a scripted provider, tools made of closures, a vector as journal, a host that answers.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use reagent::config::{Effort, Retry};
use reagent::engine::{EngineConfig, Host, Injection, Limits, QueryEngine, Seams};
use reagent::hook::{HookBus, HookOutcome, HookPoint};
use reagent::permission::{Gate, Policy};
use reagent::protocol::{
    Access, AgentPath, Block, Decision, Envelope, Event, Mask, Message, Mode, ModelId, PermissionRequest,
    Role, Source, StopReason, ToolSpec, TurnOutcome, Usage,
};
use reagent::provider::{
    EventStream, ModelEvent, ModelInfo, ModelProvider, Price, ProviderError, Request, ThinkingStyle,
};
use reagent::tool::{
    ChildJob, ChildReport, FixedPool, Journal, JournalError, Tool, ToolCx, ToolError, ToolOutput, Workspace,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the model does at one request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Streams these, then ends.
    Events(Vec<Result<ModelEvent, ProviderError>>),
    /// Streams these, then falls silent.
    Hang(Vec<ModelEvent>),
    /// Fails before the first event.
    Fail(ProviderError),
}

impl Step {
    pub(crate) fn text(text: &str) -> Self {
        Self::reply(vec![ModelEvent::Text(text.to_owned())], StopReason::EndTurn)
    }

    pub(crate) fn reply(events: Vec<ModelEvent>, stop: StopReason) -> Self {
        Self::Events(events.into_iter().chain([ModelEvent::Stop(stop)]).map(Ok).collect())
    }

    /// Calls as `(id, tool, input)`.
    pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> Self {
        let whole =
            |(key, (id, name, input)): (usize, &(&str, &str, Value))| call(key, id, name, &input.to_string());
        Self::reply(calls.iter().enumerate().flat_map(whole).collect(), StopReason::ToolUse)
    }
}

/// The events of one whole call.
pub(crate) fn call(key: usize, id: &str, name: &str, json: &str) -> Vec<ModelEvent> {
    vec![
        ModelEvent::ToolStart { key, id: id.to_owned(), name: name.to_owned() },
        ModelEvent::ToolArgs { key, json: json.to_owned() },
        ModelEvent::ToolEnd { key },
    ]
}

/// One request as the model got it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) system: String,
    pub(crate) tools: Vec<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) max_output: u32,
}

impl Asked {
    /// The results of the newest message, as `(call, text, is_error)`.
    pub(crate) fn results(&self) -> Vec<(String, String, bool)> {
        self.messages.last().map(results_of).unwrap_or_default()
    }
}

pub(crate) fn results_of(message: &Message) -> Vec<(String, String, bool)> {
    let results = message.blocks.iter().filter_map(|block| match block {
        Block::ToolResult { tool_use_id, content, is_error } => {
            Some((tool_use_id.clone(), reagent::protocol::text_of(content), *is_error))
        }
        _ => None,
    });
    results.collect()
}

#[derive(Debug)]
pub(crate) struct Model {
    info: ModelInfo,
    steps: Mutex<VecDeque<Step>>,
    asked: Mutex<Vec<Asked>>,
}

#[async_trait]
impl ModelProvider for Model {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: Request<'_>) -> Result<EventStream, ProviderError> {
        hold(&self.asked).push(Asked {
            system: request.system.to_owned(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            messages: request.messages.iter().map(|message| Message::clone(message)).collect(),
            max_output: request.max_output,
        });
        let step = hold(&self.steps).pop_front().unwrap_or_else(|| Step::text("Done."));
        match step {
            Step::Events(events) => Ok(stream::iter(events).boxed()),
            Step::Hang(events) => Ok(stream::iter(events).map(Ok).chain(stream::pending()).boxed()),
            Step::Fail(error) => Err(error),
        }
    }
}

type Body =
    dyn Fn(Value, CancellationToken) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;
type Touch = dyn Fn(&Value) -> Result<Access, ToolError> + Send + Sync;

/// A tool made of two closures.
pub(crate) struct Probe {
    spec: ToolSpec,
    touch: Box<Touch>,
    body: Box<Body>,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec.name)
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "A probe.".to_owned(),
        input_schema: json!({"type": "object"}),
    }
}

pub(crate) fn read() -> Access {
    Access::Read(Vec::new())
}

/// A tool of this name and access.
pub(crate) fn tool<F>(
    name: &str,
    access: Access,
    body: impl Fn(Value, CancellationToken) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    touching(name, move |_| Ok(access.clone()), body)
}

/// As [`tool`], with an access that depends on the input.
pub(crate) fn touching<F>(
    name: &str,
    touch: impl Fn(&Value) -> Result<Access, ToolError> + Send + Sync + 'static,
    body: impl Fn(Value, CancellationToken) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let body = move |input, cancel| body(input, cancel).boxed();
    Arc::new(Probe { spec: spec(name), touch: Box::new(touch), body: Box::new(body) })
}

/// Gives its input back.
pub(crate) fn echo(name: &str, access: Access) -> Arc<dyn Tool> {
    tool(name, access, |input, _| async move { Ok(ToolOutput::text(input.to_string())) })
}

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &Workspace) -> Result<Access, ToolError> {
        (self.touch)(input)
    }

    async fn run(&self, input: Value, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        (self.body)(input, cx.cancel.clone()).await
    }
}

/// Starts a child with `prompt` and `tool_names` of its input, under a name of the test's choice.
#[derive(Debug)]
pub(crate) struct ChildTool(ToolSpec);

impl ChildTool {
    pub(crate) fn named(name: &str) -> Arc<dyn Tool> {
        Arc::new(Self(spec(name)))
    }
}

#[async_trait]
impl Tool for ChildTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Value, _: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Session)
    }

    async fn run(&self, input: Value, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let job = ChildJob {
            call: cx.call.to_owned(),
            description: "child".to_owned(),
            prompt: input["prompt"].as_str().unwrap_or("work").to_owned(),
            tool_names: serde_json::from_value(input["tool_names"].clone()).ok(),
        };
        match cx.spawn.run_child(job).await {
            ChildReport::Done { text } => Ok(ToolOutput::text(format!("done: {text}"))),
            ChildReport::Failed { reason, text } => {
                Err(ToolError::Failed(format!("failed: {reason} | {text}")))
            }
            ChildReport::Refused { reason } => Err(ToolError::Failed(format!("refused: {reason}"))),
        }
    }
}

/// A journal in memory that can break.
#[derive(Debug, Default)]
pub(crate) struct VecJournal {
    pub(crate) events: Mutex<Vec<(AgentPath, Event)>>,
    /// Every write from this one on fails.
    pub(crate) breaks_at: Mutex<Option<usize>>,
    pub(crate) synced: Mutex<usize>,
}

#[async_trait]
impl Journal for VecJournal {
    async fn record(&self, agent: &AgentPath, event: &Event) -> Result<u64, JournalError> {
        let mut events = hold(&self.events);
        if hold(&self.breaks_at).is_some_and(|at| events.len() >= at) {
            return Err(JournalError("No space left on device".to_owned()));
        }
        events.push((agent.clone(), event.clone()));
        Ok(events.len() as u64 - 1)
    }

    async fn sync(&self) -> Result<(), JournalError> {
        *hold(&self.synced) += 1;
        Ok(())
    }

    async fn keep(&self, name: &str, _: &[u8]) -> Result<PathBuf, JournalError> {
        Ok(PathBuf::from("/kept").join(name))
    }
}

/// What the user does at a question.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Say(Decision),
    Never,
}

#[derive(Debug, Default)]
pub(crate) struct VecHost {
    pub(crate) emitted: Mutex<Vec<(AgentPath, Event)>>,
    pub(crate) answers: Mutex<VecDeque<Answer>>,
    pub(crate) questions: Mutex<Vec<PermissionRequest>>,
    /// What arrives before each round.
    pub(crate) arriving: Mutex<VecDeque<Vec<Injection>>>,
}

impl VecHost {
    pub(crate) fn retries(&self) -> Vec<(u32, u64, String)> {
        let emitted = hold(&self.emitted);
        let retries = emitted.iter().filter_map(|(_, event)| match event {
            Event::Retrying { attempt, after_ms, reason } => Some((*attempt, *after_ms, reason.clone())),
            _ => None,
        });
        retries.collect()
    }
}

#[async_trait]
impl Host for VecHost {
    fn emit(&self, agent: &AgentPath, event: Event) {
        hold(&self.emitted).push((agent.clone(), event));
    }

    async fn ask(&self, request: PermissionRequest) -> Decision {
        hold(&self.questions).push(request);
        let answer = hold(&self.answers).pop_front();
        match answer {
            Some(Answer::Say(decision)) => decision,
            Some(Answer::Never) => std::future::pending().await,
            None => Decision::deny("nobody is here"),
        }
    }

    fn interjections(&self, agent: &AgentPath) -> Vec<Injection> {
        if !agent.is_root() {
            return Vec::new();
        }
        hold(&self.arriving).pop_front().unwrap_or_default()
    }
}

/// What a hook does at a point: an outcome, or nothing for ever.
type Plan = dyn Fn(HookPoint<'_>) -> Option<HookOutcome> + Send + Sync;

pub(crate) struct Hooks(Box<Plan>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

#[async_trait]
impl HookBus for Hooks {
    async fn fire(&self, point: HookPoint<'_>) -> HookOutcome {
        match (self.0)(point) {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

/// Everything an engine needs, to be changed before [`Rig::engine`].
pub(crate) struct Rig {
    pub(crate) model: Arc<Model>,
    pub(crate) journal: Arc<VecJournal>,
    pub(crate) host: Arc<VecHost>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) hooks: Hooks,
    pub(crate) policy: Policy,
    pub(crate) config: EngineConfig,
    pub(crate) cancel: CancellationToken,
}

impl Rig {
    /// All is allowed; the model takes these steps.
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        let info = ModelInfo {
            id: ModelId::new("rig", "model"),
            name: "model".to_owned(),
            window: 100_000,
            max_output: 64_000,
            thinking: ThinkingStyle::None,
            images: false,
            price: Some(Price { input: 1.0, output: 1.0, cache_read: 1.0, cache_write: 1.0 }),
            known: true,
        };
        Self {
            model: Arc::new(Model { info, steps: Mutex::new(steps.into()), asked: Mutex::default() }),
            journal: Arc::default(),
            host: Arc::default(),
            tools: Vec::new(),
            hooks: Hooks(Box::new(|_| Some(HookOutcome::default()))),
            policy: Policy { mode: Mode::BypassPermissions, ..Policy::default() },
            config: EngineConfig {
                system: "root system".into(),
                child_system: "child system".into(),
                limits: Limits::default(),
                child_rounds: 50,
                output_limit: 8_192,
                effort: None::<Effort>,
                retry: Retry::default(),
                mask: Mask::default(),
            },
            cancel: CancellationToken::new(),
        }
    }

    pub(crate) fn tools(mut self, tools: Vec<Arc<dyn Tool>>) -> Self {
        self.tools = tools;
        self
    }

    /// Reads run, the rest asks; these are the answers.
    pub(crate) fn asking(mut self, answers: Vec<Answer>) -> Self {
        self.policy.mode = Mode::Default;
        *hold(&self.host.answers) = answers.into();
        self
    }

    pub(crate) fn hooks(
        mut self,
        plan: impl Fn(HookPoint<'_>) -> Option<HookOutcome> + Send + Sync + 'static,
    ) -> Self {
        self.hooks = Hooks(Box::new(plan));
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut EngineConfig)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn ready(self) -> Ready {
        let seams = Seams {
            provider: Arc::clone(&self.model) as _,
            tools: Arc::new(FixedPool(self.tools)),
            gate: Arc::new(Gate::new(self.policy)),
            hooks: Arc::new(self.hooks),
            journal: Arc::clone(&self.journal) as _,
            host: Arc::clone(&self.host) as _,
        };
        let workspace = Arc::new(Workspace::new(PathBuf::from("/w"), Vec::new()));
        let engine = QueryEngine::new(seams, self.config, AgentPath::root(), workspace);
        Ready { engine, model: self.model, journal: self.journal, host: self.host, cancel: self.cancel }
    }

    pub(crate) async fn run(self) -> (TurnOutcome, Ready) {
        let mut ready = self.ready();
        let outcome = ready.turn("go").await;
        (outcome, ready)
    }
}

/// An engine and what it was built from.
pub(crate) struct Ready {
    pub(crate) engine: QueryEngine,
    pub(crate) model: Arc<Model>,
    pub(crate) journal: Arc<VecJournal>,
    pub(crate) host: Arc<VecHost>,
    pub(crate) cancel: CancellationToken,
}

impl Ready {
    pub(crate) async fn turn(&mut self, prompt: &str) -> TurnOutcome {
        let turn = self.engine.run_turn(vec![Block::text(prompt)], &self.cancel);
        tokio::time::timeout(Duration::from_mins(10), turn).await.expect("a turn ends")
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        hold(&self.model.asked).clone()
    }

    /// The root's events.
    pub(crate) fn events(&self) -> Vec<Event> {
        let events = hold(&self.journal.events);
        events.iter().filter(|(agent, _)| agent.is_root()).map(|(_, event)| event.clone()).collect()
    }

    pub(crate) fn log(&self) -> Vec<Envelope> {
        let events = hold(&self.journal.events).clone();
        let envelope = |(seq, (agent, event)): (u64, (AgentPath, Event))| Envelope {
            seq,
            at: chrono::Utc::now(),
            agent,
            event,
        };
        (0..).zip(events).map(envelope).collect()
    }

    /// Every call of the root with its one result, in order: `(call, text, is_error)`.
    pub(crate) fn results(&self) -> Vec<(String, String, bool)> {
        let messages = self.engine.messages().iter();
        messages.filter(|m| m.source == Source::Tool).flat_map(|m| results_of(m)).collect()
    }

    /// Whether each call has exactly one result, in the message right after it and in order.
    pub(crate) fn paired(&self) -> bool {
        let messages = self.engine.messages();
        messages.iter().enumerate().filter(|(_, m)| m.role == Role::Assistant).all(|(at, message)| {
            let calls: Vec<String> = message.calls().map(|call| call.id).collect();
            let next = messages.get(at + 1).map(|m| results_of(m)).unwrap_or_default();
            calls.is_empty() || calls == next.into_iter().map(|(id, ..)| id).collect::<Vec<_>>()
        })
    }
}

pub(crate) fn used(input: u64, output: u64) -> ModelEvent {
    ModelEvent::Usage(Usage { input, output, ..Usage::default() })
}
