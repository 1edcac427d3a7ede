//! One call before it runs: look up, validate, hooks, gate, question.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{Denial, QueryEngine};
use crate::hook::{HookDecision, HookPoint};
use crate::protocol::{Access, Decision, PermissionRequest, ToolCall, ToolResult, Verdict, VerdictKind};
use crate::tool::{Tool, ToolError};

/// What the preparation of a call came to.
pub(super) enum Prepared {
    /// It may run.
    Ready(Ready),
    /// It has its result already.
    Answered(ToolCall, ToolResult),
    /// It was refused, and the user wants the turn to end.
    EndTurn(ToolCall, ToolResult),
}

/// A call that may run.
pub(super) struct Ready {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) call: ToolCall,
    pub(super) access: Access,
    /// Texts of hooks for the model.
    pub(super) context: Vec<String>,
}

impl QueryEngine {
    /// Whether a call may run, asking whoever must be asked.
    pub(super) async fn prepare(&mut self, mut call: ToolCall) -> Prepared {
        let tools = self.seams.tools.tools();
        let Some(tool) = tools.iter().find(|tool| tool.spec().name == call.name).cloned() else {
            let result = ToolResult::error(&call.id, unknown_tool(&call.name, &tools));
            return Prepared::Answered(call, result);
        };
        let mut access = match tool.access(&call.input, &self.workspace) {
            Ok(access) => access,
            Err(error) => return invalid(call, &error),
        };
        let hooks = self.seams.hooks.fire(HookPoint::PreToolUse { agent: &self.agent, call: &call }).await;
        if let Some(input) = hooks.updated_input {
            call.input = input;
            access = match tool.access(&call.input, &self.workspace) {
                Ok(access) => access,
                Err(error) => return invalid(call, &error),
            };
        }
        if let Some(reason) = hooks.stop {
            return self.refused(call, &reason, Answer::EndTurn);
        }
        if hooks.decision == Some(HookDecision::Deny) {
            let reason = format!("a hook blocked it: {}", hooks.reason);
            return self.refused(call, &reason, Answer::GoOn);
        }
        // An edited input is a new call: it is judged again, until what runs is what was judged.
        loop {
            let verdict = self.seams.gate.check(&call, &access);
            let kind = match (verdict.kind, hooks.decision) {
                (VerdictKind::Ask, Some(HookDecision::Allow)) => VerdictKind::Allow,
                (VerdictKind::Allow, Some(HookDecision::Ask)) => VerdictKind::Ask,
                (kind, _) => kind,
            };
            match kind {
                VerdictKind::Allow => {
                    return Prepared::Ready(Ready { tool, call, access, context: hooks.context });
                }
                VerdictKind::Deny => return self.refused(call, &verdict.reason, Answer::GoOn),
                VerdictKind::Ask => {}
            }
            let request = self.question(&call, &access, verdict);
            match self.seams.host.ask(request).await {
                Decision::Allow { input: None, .. } => {
                    return Prepared::Ready(Ready { tool, call, access, context: hooks.context });
                }
                Decision::Allow { input: Some(input), .. } if input == call.input => {
                    return Prepared::Ready(Ready { tool, call, access, context: hooks.context });
                }
                Decision::Allow { input: Some(input), .. } => {
                    call.input = input;
                    access = match tool.access(&call.input, &self.workspace) {
                        Ok(access) => access,
                        Err(error) => return invalid(call, &error),
                    };
                }
                Decision::Deny { feedback, end_turn } => {
                    let reason = match feedback.as_deref().map(str::trim) {
                        Some(words) if !words.is_empty() => words.to_owned(),
                        _ => "the user said no".to_owned(),
                    };
                    let answer = if end_turn { Answer::EndTurn } else { Answer::GoOn };
                    return self.refused(call, &reason, answer);
                }
            }
        }
    }

    fn question(&self, call: &ToolCall, access: &Access, verdict: Verdict) -> PermissionRequest {
        let mut request = PermissionRequest {
            id: next_question(),
            agent: self.agent.clone(),
            call: call.clone(),
            access: access.clone(),
            parts: verdict.parts,
            reason: verdict.reason,
            hint: verdict.hint,
            deciding_rule: verdict.rule,
            diff: None,
            offers: verdict.offers,
        };
        self.config.mask.apply_request(&mut request);
        request
    }

    fn refused(&mut self, call: ToolCall, reason: &str, answer: Answer) -> Prepared {
        let text = format!("Permission denied: {reason}. The call did not run.");
        let mut result = ToolResult::error(&call.id, text);
        result.details = json!({"permission_denied": {"tool_name": call.name, "reason": reason}});
        self.denials.push(Denial { call: call.clone(), reason: reason.to_owned() });
        match answer {
            Answer::GoOn => Prepared::Answered(call, result),
            Answer::EndTurn => Prepared::EndTurn(call, result),
        }
    }
}

/// What a refusal means for the turn.
#[derive(Clone, Copy)]
enum Answer {
    GoOn,
    EndTurn,
}

/// Questions are told apart in the whole process, children's included.
fn next_question() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn invalid(call: ToolCall, error: &ToolError) -> Prepared {
    let result = ToolResult::error(&call.id, error.to_string());
    Prepared::Answered(call, result)
}

fn unknown_tool(name: &str, tools: &[Arc<dyn Tool>]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let near = names.iter().find(|known| known.eq_ignore_ascii_case(name));
    let hint = near.map_or_else(String::new, |near| format!(" Did you mean {near}?"));
    format!("There is no tool named {name:?}.{hint} The tools are: {}.", names.join(", "))
}
