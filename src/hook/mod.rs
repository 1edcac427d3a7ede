//! The seam where a user's own programs may watch and steer the loop.

use std::fmt::Debug;

use async_trait::async_trait;
use serde_json::Value;

use crate::protocol::{AgentPath, ToolCall, ToolResult};

/// Where in the loop a hook may act.
#[derive(Debug, Clone, Copy)]
pub enum HookPoint<'a> {
    /// The user sent a prompt.
    UserPromptSubmit {
        /// Its text.
        prompt: &'a str,
    },
    /// A call is about to be judged.
    PreToolUse {
        /// Who calls.
        agent: &'a AgentPath,
        /// The call.
        call: &'a ToolCall,
    },
    /// A call succeeded.
    PostToolUse {
        /// Who called.
        agent: &'a AgentPath,
        /// The call.
        call: &'a ToolCall,
        /// Its result.
        result: &'a ToolResult,
    },
    /// A call failed.
    PostToolUseFailure {
        /// Who called.
        agent: &'a AgentPath,
        /// The call.
        call: &'a ToolCall,
        /// Its result.
        result: &'a ToolResult,
    },
    /// The root agent is about to end its turn.
    Stop {
        /// Whether this round was forced by an earlier block.
        active: bool,
        /// The last answer.
        last: &'a str,
    },
}

/// What the hooks of one point decided together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// The strictest decision: deny, then ask, then allow.
    pub decision: Option<HookDecision>,
    /// Its reason.
    pub reason: String,
    /// Replaces the call's input; it is validated and judged again.
    pub updated_input: Option<Value>,
    /// Text for the model.
    pub context: Vec<String>,
    /// End the turn now, with this reason for the user.
    pub stop: Option<String>,
}

/// A hook's word on a call, a prompt or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookDecision {
    /// Go on; never lifts a deny rule.
    Allow,
    /// Ask the user.
    Ask,
    /// Do not.
    Deny,
}

/// Runs whatever hooks are configured.
#[async_trait]
pub trait HookBus: Send + Sync + Debug {
    /// Fires one point and waits for its hooks.
    async fn fire(&self, point: HookPoint<'_>) -> HookOutcome;
}

/// No hooks at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

#[async_trait]
impl HookBus for NoHooks {
    async fn fire(&self, _: HookPoint<'_>) -> HookOutcome {
        HookOutcome::default()
    }
}
