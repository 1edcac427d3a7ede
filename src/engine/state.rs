//! What one agent knows beside its conversation; changed only by [`StateChange`], so a resume rebuilds it.

use std::collections::BTreeSet;

use crate::protocol::{Mode, ModelId, StateChange, Todo, Usage};

/// The state of one agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentState {
    /// The todo list.
    pub todos: Vec<Todo>,
    /// Active skills.
    pub skills: BTreeSet<String>,
    /// Texts that no tier may take out.
    pub pins: Vec<String>,
    /// The model, if it was changed.
    pub model: Option<ModelId>,
    /// The mode, if it was changed.
    pub mode: Option<Mode>,
    /// Rules granted for the session.
    pub grants: Vec<String>,
    /// Tokens of all calls, children's included.
    pub usage: Usage,
    /// US dollars of all calls whose price is known; `None` if none was.
    pub cost: Option<f64>,
    /// Tokens that the newest call put into the window.
    pub context: u64,
}

impl AgentState {
    /// Takes in one change.
    pub fn apply(&mut self, change: &StateChange) {
        match change {
            StateChange::Todos { todos } => self.todos.clone_from(todos),
            StateChange::FileSeen { .. } => {} // the workspace's own
            StateChange::SkillActivated { name } => {
                self.skills.insert(name.clone());
            }
            StateChange::Pinned { text } => self.pins.push(text.clone()),
            StateChange::Model { model } => self.model = Some(model.clone()),
            StateChange::Mode { mode } => self.mode = Some(*mode),
            StateChange::Granted { rule } => self.grants.push(rule.clone()),
            StateChange::Cleared => {
                let (usage, cost) = (self.usage, self.cost);
                let (model, mode) = (self.model.take(), self.mode);
                let grants = std::mem::take(&mut self.grants);
                *self = Self { model, mode, grants, usage, cost, ..Self::default() };
            }
            StateChange::Used { usage, cost } => {
                self.usage += *usage;
                if let Some(cost) = cost {
                    *self.cost.get_or_insert(0.0) += cost;
                }
            }
        }
    }
}
