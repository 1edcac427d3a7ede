//! Puts streamed calls together, told apart by whatever the server gives: id, index or position.

use std::collections::{HashSet, VecDeque};

use serde::Deserialize;
use serde_json::Value;

use super::loose::Loose;
use crate::provider::ModelEvent;
use crate::provider::reply::fresh_call_id;

/// A piece of a call as servers send it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow, default)]
    index: Loose<'a>,
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
    /// A provider's own addition, which it wants back.
    #[serde(default)]
    extra_content: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Loose<'a>,
    #[serde(borrow, default)]
    arguments: Loose<'a>,
}

impl<'a> CallDelta<'a> {
    /// A call of the old form, of which there is only one.
    pub(super) fn of_function(function: FunctionDelta<'a>) -> Self {
        Self { index: Loose::Other(Value::from(0)), function: Some(function), ..Self::default() }
    }
}

/// The calls of one reply.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    ids: HashSet<String>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    /// As the server gives it; told apart by it, even if it can't be used because another call has it too.
    id: Option<String>,
    name: String,
    arguments: String,
    /// How much of `arguments` went out; `None` before the start did.
    sent: Option<usize>,
    used_id: String,
    extra: Option<Value>,
}

impl Call {
    fn is_whole(&self) -> bool {
        is_object(&self.arguments)
    }
}

/// A call that was found in the text of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the list of one chunk.
    pub(super) fn take(&mut self, deltas: Vec<CallDelta<'_>>, out: &mut VecDeque<ModelEvent>) {
        // Without index and id, the place in a list of several is all there is.
        let several = deltas.len() > 1;
        for (position, delta) in deltas.into_iter().enumerate() {
            let position = several.then_some(position as u64);
            self.take_one(delta, position, out);
        }
    }

    fn take_one(&mut self, delta: CallDelta<'_>, position: Option<u64>, out: &mut VecDeque<ModelEvent>) {
        let id = delta.id.label();
        let function = delta.function.unwrap_or_default();
        let name = function.name.label();
        let index = delta.index.number().or(if id.is_none() { position } else { None });
        let arguments = function.arguments.into_json().unwrap_or_default();
        let at = match self.find(index, id.as_deref(), name.as_deref(), &arguments) {
            Some(at) => at,
            // A trailing delta with nothing in it is no call.
            None if id.is_none() && name.is_none() && arguments.is_empty() => return,
            None => {
                self.calls.push(Call { index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.id.is_none() {
            call.id = id.map(std::borrow::Cow::into_owned);
        }
        if call.index.is_none() {
            call.index = index;
        }
        if let Some(name) = name
            && call.name.is_empty()
        {
            call.name = name.into_owned();
        }
        if call.extra.is_none() {
            call.extra = delta.extra_content.filter(|extra| !extra.is_null());
        }
        // Some servers repeat the whole text at the end.
        if !(call.arguments == arguments && call.is_whole()) {
            call.arguments.push_str(&arguments);
        }
        // The start waits for a name and the first piece, so that an id that comes late is still the one.
        if !call.name.is_empty() && !call.arguments.is_empty() {
            send(at, call, &mut self.ids, out);
        }
    }

    /// Which call a delta goes on with; `None` if it begins one.
    fn find(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Option<usize> {
        let last = |test: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(test);
        if let Some(id) = id {
            let same = |call: &Call| {
                call.id.as_deref() == Some(id)
                    && (call.index.is_none() || index.is_none() || call.index == index)
            };
            if let Some(at) = last(&same) {
                return Some(at);
            }
        }
        let at = match index {
            Some(index) => last(&|call| call.index == Some(index))?,
            // Neither index nor a known id: a new id begins a call, anything else goes on with the last one.
            None if id.is_some() => return last(&|call| call.id.is_none() && call.name.is_empty()),
            None => self.calls.len().checked_sub(1)?,
        };
        let call = self.calls.get(at)?;
        let renamed = name.is_some_and(|name| !call.name.is_empty() && name != call.name);
        let begins = if id.is_some() && call.id.is_some() {
            // Servers that count every call as 0 are known, and others that make up a new id for each delta.
            name.is_some()
        } else {
            let again = name.is_some() && !call.name.is_empty() && !arguments.is_empty() && call.is_whole();
            again && arguments != call.arguments
        };
        (!(renamed || begins)).then_some(at)
    }

    /// The reply is over: what has not begun begins now, and every whole call ends.
    pub(super) fn close(&mut self, cut: Cut, out: &mut VecDeque<ModelEvent>) {
        for (at, call) in self.calls.iter_mut().enumerate() {
            send(at, call, &mut self.ids, out);
            let ends = match cut {
                Cut::No => true,
                Cut::ByLimit => call.is_whole(),
            };
            if ends {
                out.push_back(ModelEvent::ToolEnd { key: at });
            }
        }
    }

    /// What the calls bring that their provider wants back, by id.
    pub(super) fn extras(&mut self) -> impl Iterator<Item = (String, Value)> + '_ {
        self.calls.iter_mut().filter_map(|call| Some((call.used_id.clone(), call.extra.take()?)))
    }

    /// Adds a call that was found elsewhere, unless it is one of these.
    pub(super) fn add(&mut self, whole: Whole) {
        let same = |text: &str| match (
            serde_json::from_str::<Value>(text),
            serde_json::from_str::<Value>(&whole.arguments),
        ) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        if !self.calls.iter().any(|call| call.name == whole.name && same(&call.arguments)) {
            self.calls.push(Call { name: whole.name, arguments: whole.arguments, ..Call::default() });
        }
    }
}

/// Whether the output limit ended the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    No,
    ByLimit,
}

fn send(at: usize, call: &mut Call, ids: &mut HashSet<String>, out: &mut VecDeque<ModelEvent>) {
    let sent = call.sent.unwrap_or_else(|| {
        let given = call.id.clone().filter(|id| !ids.contains(id));
        call.used_id = given.unwrap_or_else(fresh_call_id);
        ids.insert(call.used_id.clone());
        out.push_back(ModelEvent::ToolStart { key: at, id: call.used_id.clone(), name: call.name.clone() });
        0
    });
    if let Some(rest) = call.arguments.get(sent..).filter(|rest| !rest.is_empty()) {
        out.push_back(ModelEvent::ToolArgs { key: at, json: rest.to_owned() });
    }
    call.sent = Some(call.arguments.len());
}

/// Whether the text is one whole JSON object. The cheap look at its end spares the parse in mid-stream.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.trim_end().ends_with('}')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
