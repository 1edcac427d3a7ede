//! Starts a session: every part is made here, from the configuration alone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::actor::Actor;
use super::connect::Connector;
use super::host::AppHost;
use super::outbox::{self, Outbox};
use super::recorder::Recorder;
use super::{Handle, SessionInfo, Status};
use crate::config::{Config, ModelChoice, Sourced};
use crate::engine::{EngineConfig, Limits, QueryEngine, Seams};
use crate::hook::NoHooks;
use crate::memory::{Instructions, git_branch};
use crate::permission::{Gate, Policy, Rule};
use crate::process::Supervisor;
use crate::prompt::{self, Surroundings, Wishes};
use crate::protocol::{AgentPath, Envelope, Event, FORMAT};
use crate::provider::ModelProvider;
use crate::session::{Log, SessionError, Store};
use crate::tool::{self, FixedPool, Workspace};

/// Rounds of a child agent.
const CHILD_ROUNDS: u32 = 50;
/// First output limit in tokens: enough for most replies, raised when one hits it.
const OUTPUT_LIMIT: u32 = 8_192;

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something was asked for that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// There is no model.
    #[error("{0}")]
    NoModel(String),
    /// The session's file.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Starts a session and hands out its handle. The supervisor starts what the tools start.
pub async fn start(config: Config, supervisor: Supervisor) -> Result<Handle, StartError> {
    let connector = Connector::new(config.model.value.clone(), &config.models)?;
    let provider = connector.chosen().await?;
    check_budget(&config, &*provider)?;
    let policy = policy(&config)?;
    let store = Store::new(&config.folders.data, &config.cwd);
    store.prepare()?;
    let (log, history) = open_log(&config, &store, &*provider)?;
    let session = log.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();

    let own = [
        Some(config.folders.config.join("AGENTS.md")),
        config.folders.home.as_ref().map(|h| h.join(".claude/CLAUDE.md")),
    ];
    let instructions = Instructions::read(&config.cwd, &own.into_iter().flatten().collect::<Vec<_>>());
    let branch = git_branch(&config.cwd);
    let place = Surroundings {
        cwd: &config.cwd,
        add_dirs: &config.add_dirs,
        os: std::env::consts::OS,
        day: day_of(&history),
        branch: branch.as_deref(),
    };
    let wishes =
        Wishes { replace: config.system_prompt.as_deref(), append: config.append_system_prompt.as_deref() };
    let engine_config = EngineConfig {
        system: prompt::system(place, &instructions, wishes).into(),
        child_system: prompt::child_system(place, &instructions).into(),
        limits: Limits {
            rounds: config.max_turns,
            cost: config.max_cost,
            tokens: config.max_tokens,
            time: config.max_time,
        },
        child_rounds: CHILD_ROUNDS,
        output_limit: OUTPUT_LIMIT,
        effort: config.effort.as_ref().map(|effort| effort.value),
        retry: config.retry,
        mask: config.mask.clone(),
    };

    let (outbox, events) = outbox::outbox();
    let info = provider.info();
    let status = Arc::new(Mutex::new(Status {
        model: info.id.clone(),
        name: info.name.clone(),
        mode: config.mode.value,
        usage: crate::protocol::Usage::default(),
        context: 0,
        window: info.window,
        cost: None,
        busy: false,
    }));
    let host = Arc::new(AppHost::new(outbox.clone(), Arc::clone(&status)));
    let recorder =
        Arc::new(Recorder { log: Arc::new(log), store, session: session.clone(), outbox: outbox.clone() });
    let gate = Arc::new(Gate::new(policy));
    let tools = FixedPool(tool::builtin(supervisor));
    let names = tools.0.iter().map(|tool| tool.spec().name.clone()).collect();
    announce(&outbox, &config, &*provider);
    let seams = Seams {
        provider,
        tools: Arc::new(tools),
        gate: Arc::clone(&gate) as _,
        hooks: Arc::new(NoHooks),
        journal: Arc::clone(&recorder) as _,
        host: Arc::clone(&host) as _,
    };
    let workspace = Arc::new(Workspace::new(config.cwd.clone(), config.add_dirs.clone()));
    let mut engine = QueryEngine::new(seams, engine_config, AgentPath::root(), workspace);
    if !history.is_empty() {
        engine.resume(&history).await.map_err(|e| StartError::Usage(e.to_string()))?;
        restore(&engine, &gate, &status);
    }
    let info = SessionInfo {
        session,
        log: recorder.log.path().to_owned(),
        cwd: config.cwd,
        tools: names,
        instructions: instructions.files.into_iter().map(|file| file.path).collect::<Vec<PathBuf>>(),
        retries: config.retry.max,
        key_source: key_source(&config.model),
        history,
    };
    let (ops, orders) = mpsc::unbounded_channel();
    let actor = Actor { engine, host, gate, recorder, outbox, status: Arc::clone(&status), connector };
    let task = tokio::spawn(actor.run(orders));
    Ok(Handle { ops, events, info, status, task })
}

fn open_log(
    config: &Config,
    store: &Store,
    provider: &dyn ModelProvider,
) -> Result<(Log, Vec<Envelope>), StartError> {
    if config.continue_session {
        return Ok(Log::open(&store.latest()?.path)?);
    }
    let session = uuid::Uuid::now_v7().to_string();
    let header = Event::SessionStarted {
        format: FORMAT,
        session: session.clone(),
        cwd: config.cwd.to_string_lossy().into_owned(),
        model: provider.info().id.clone(),
        forked_from: None,
    };
    Ok((Log::create(&store.log(&session), &header)?, Vec::new()))
}

/// The day the session began, so that a resume finds the same prefix in the provider's cache.
fn day_of(history: &[Envelope]) -> chrono::NaiveDate {
    let began = history.first().map_or_else(chrono::Utc::now, |first| first.at);
    began.with_timezone(&chrono::Local).date_naive()
}

fn policy(config: &Config) -> Result<Policy, StartError> {
    let rules = |list: &[Sourced<String>]| -> Result<Vec<Rule>, StartError> {
        let mut rules = Vec::new();
        for text in list {
            match Rule::list(&text.value) {
                Ok(parsed) => rules.extend(parsed),
                // A rule that cannot be read is never taken as no rule.
                Err(error) => return Err(StartError::Usage(format!("{error} ({})", text.origin))),
            }
        }
        Ok(rules)
    };
    let mut roots = vec![config.cwd.clone()];
    roots.extend(config.add_dirs.iter().cloned());
    Ok(Policy {
        mode: config.mode.value,
        allow_write: config.allow_write.value,
        roots,
        home: config.folders.home.as_deref().and_then(|home| home.canonicalize().ok()),
        allow: rules(&config.allow)?,
        deny: rules(&config.deny)?,
    })
}

fn check_budget(config: &Config, provider: &dyn ModelProvider) -> Result<(), StartError> {
    if config.max_cost.is_some() && provider.info().price.is_none() {
        return Err(StartError::Usage(format!(
            "--max-budget-usd needs a price, and none is known for {}: give it one under \"models\" in the settings, \
             or bound the run with --max-tokens",
            provider.info().name
        )));
    }
    Ok(())
}

/// What the user should know at the start and that stops nothing.
fn announce(outbox: &Outbox, config: &Config, provider: &dyn ModelProvider) {
    let mut notices = config.warnings.clone();
    let info = provider.info();
    if let ModelChoice::Offline { chosen: false } = config.model.value {
        notices.push(
            "No model is set up: using the built-in offline model, which follows fixed rules. \
             Set ANTHROPIC_API_KEY or OPENAI_API_KEY for a real one."
                .to_owned(),
        );
    }
    if !info.known {
        notices.push(format!(
            "The catalogue does not know the model {}: assuming a window of {} tokens (set it under \"models\" in the settings).",
            info.name, info.window
        ));
    }
    for text in notices {
        let at = chrono::Utc::now();
        outbox.emit(Envelope { seq: 0, at, agent: AgentPath::root(), event: Event::Notice { text } });
    }
}

/// Puts back what the log says of grants and mode; flags of this run are stronger than a remembered mode.
fn restore(engine: &QueryEngine, gate: &Gate, status: &Mutex<Status>) {
    let state = engine.state();
    gate.change(|policy| policy.allow.extend(state.grants.iter().filter_map(|rule| rule.parse().ok())));
    let mut status = status.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    status.usage = state.usage;
    status.cost = state.cost;
}

fn key_source(model: &Sourced<ModelChoice>) -> &'static str {
    match &model.value {
        ModelChoice::Service { endpoint, .. } if endpoint.key.is_some() => "user",
        _ => "none",
    }
}
