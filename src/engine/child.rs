//! A child agent: the same engine at depth 1 with its own conversation; only its report comes back.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::limits::{Limits, Meter};
use super::{Denial, EngineConfig, QueryEngine, Seams};
use crate::protocol::{AgentPath, Block, StateChange, TurnOutcome};
use crate::tool::{ChildJob, ChildReport, FixedPool, Spawner, Tool, Workspace};

/// How deep agents may nest: a child starts none.
const MAX_DEPTH: usize = 1;
/// The tool that starts a child; never in a child's pool.
const AGENT_TOOL: &str = "Agent";

/// Starts children for the calls of one batch.
#[derive(Debug)]
pub(super) struct ChildSpawner {
    seams: Seams,
    config: EngineConfig,
    agent: AgentPath,
    workspace: Arc<Workspace>,
    cancel: CancellationToken,
    report: Mutex<Report>,
}

/// What the parent must know of its children beside their words.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) denials: Vec<Denial>,
    pub(super) usage: Vec<StateChange>,
    pub(super) ran: bool,
}

impl ChildSpawner {
    pub(super) fn new(parent: &QueryEngine, meter: &Meter, cancel: &CancellationToken) -> Self {
        let mut config = parent.config.clone();
        config.limits = Limits { rounds: Some(config.child_rounds), ..meter.left(&parent.state) };
        Self {
            seams: parent.seams.clone(),
            config,
            agent: parent.agent.clone(),
            workspace: Arc::clone(&parent.workspace),
            cancel: cancel.clone(),
            report: Mutex::default(),
        }
    }

    pub(super) fn into_report(self) -> Report {
        self.report.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parent's tools without `Agent`, narrowed to the names asked for.
    fn pool(&self, names: Option<&[String]>) -> Result<FixedPool, String> {
        let tools: Vec<Arc<dyn Tool>> =
            self.seams.tools.tools().into_iter().filter(|tool| tool.spec().name != AGENT_TOOL).collect();
        let Some(names) = names else { return Ok(FixedPool(tools)) };
        let known: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        let unknown: Vec<&str> =
            names.iter().map(String::as_str).filter(|n| *n != AGENT_TOOL && !known.contains(n)).collect();
        if !unknown.is_empty() {
            return Err(format!(
                "tool_names has no such tools: {}. A child agent can have: {}",
                unknown.join(", "),
                known.join(", ")
            ));
        }
        Ok(FixedPool(tools.into_iter().filter(|tool| names.contains(&tool.spec().name)).collect()))
    }
}

#[async_trait]
impl Spawner for ChildSpawner {
    async fn run_child(&self, job: ChildJob) -> ChildReport {
        let agent = self.agent.child(&job.call);
        if agent.depth() > MAX_DEPTH {
            return ChildReport::Refused {
                reason: "a child agent cannot start agents of its own".to_owned(),
            };
        }
        let pool = match self.pool(job.tool_names.as_deref()) {
            Ok(pool) => pool,
            Err(reason) => return ChildReport::Refused { reason },
        };
        crate::trace::stage!("agent.start", description = %job.description, depth = agent.depth());
        let seams = Seams { tools: Arc::new(pool), ..self.seams.clone() };
        let workspace = Arc::new(self.workspace.for_child());
        let mut child = QueryEngine::new(seams, self.config.clone(), agent, workspace);
        let prompt = vec![Block::text(job.prompt)];
        let outcome = Box::pin(child.run_turn(prompt, &self.cancel)).await;
        let text = child.view.last_assistant_text().unwrap_or_default();
        let done = outcome == TurnOutcome::Completed && !text.trim().is_empty();
        crate::trace::stage!("agent.end", description = %job.description, ok = done, reason = outcome.word());
        let refusals = refusals(&child.denials);
        self.take_in(&child);
        if done {
            return ChildReport::Done { text: with_refusals(text, &refusals) };
        }
        let mut reason = match &outcome {
            TurnOutcome::Completed => "it ended without a word".to_owned(),
            TurnOutcome::MaxTurns { limit } => format!("it reached its limit of {limit} rounds"),
            other => other.sentence(),
        };
        if !refusals.is_empty() {
            reason = format!("{reason} {refusals}");
        }
        ChildReport::Failed { reason, text }
    }
}

impl ChildSpawner {
    fn take_in(&self, child: &QueryEngine) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.ran = true;
        report.denials.extend(child.denials.iter().cloned());
        report.usage.push(StateChange::Used { usage: child.state.usage, cost: child.state.cost });
    }
}

/// What was refused in the child, in the user's words: the parent must not try it by another road.
fn refusals(denials: &[Denial]) -> String {
    let lines: Vec<String> = denials.iter().map(|d| format!("{}: {}", d.call.name, d.reason)).collect();
    if lines.is_empty() { String::new() } else { format!("[Refused in this agent: {}]", lines.join("; ")) }
}

fn with_refusals(text: String, refusals: &str) -> String {
    if refusals.is_empty() { text } else { format!("{text}\n\n{refusals}") }
}
