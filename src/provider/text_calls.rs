//! Finds calls of offered tools that a model wrote as text, while the text is still streaming.
//!
//! Known forms: a bare JSON object (or several) with `name` and `arguments` or `parameters` as the whole content,
//! `<tool_call>…</tool_call>` around such an object or the next form, and
//! `<function=NAME><parameter=P>V</parameter></function>`. Text is held back only while it can still become one.

mod outline;

use serde_json::{Map, Value};

use self::outline::{Outline, Verdict};
use crate::protocol::ToolSpec;

const TOOL_CALL: &str = "<tool_call>";
const TOOL_CALL_END: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";

/// What the text turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text to be shown.
    Text(String),
    /// A call, with its arguments as the text of a JSON object.
    Call { name: String, arguments: String },
}

/// The filter of one reply.
#[derive(Debug)]
pub(crate) struct TextCalls {
    tools: Vec<Offered>,
    held: String,
    state: State,
}

#[derive(Debug)]
struct Offered {
    name: String,
    /// Parameters whose value is no string, so that their text is read as JSON.
    typed: Vec<String>,
}

#[derive(Debug)]
enum State {
    /// Only blanks so far: the whole content may become JSON.
    Begin,
    /// Everything so far may be JSON calls.
    Json(Outline),
    /// Prose; `held` is empty or may be the start of a tag.
    Prose,
    /// A call has just ended: blanks between it and what follows are no prose.
    Gap,
    /// `held` starts with a tag and waits for its end; up to `searched` bytes there is none.
    Tag { tag: Tag, searched: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    ToolCall,
    Function,
}

impl Tag {
    fn opening(self) -> &'static str {
        match self {
            Self::ToolCall => TOOL_CALL,
            Self::Function => FUNCTION,
        }
    }

    fn closing(self) -> &'static str {
        match self {
            Self::ToolCall => TOOL_CALL_END,
            Self::Function => FUNCTION_END,
        }
    }
}

impl TextCalls {
    pub(crate) fn new(tools: &[ToolSpec]) -> Self {
        let tools = tools
            .iter()
            .map(|tool| Offered { name: tool.name.clone(), typed: typed_parameters(&tool.input_schema) })
            .collect();
        Self { tools, held: String::new(), state: State::Begin }
    }

    /// Takes a piece of content.
    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<Piece>) {
        if matches!(self.state, State::Prose) && self.held.is_empty() && !text.contains('<') {
            return show(text.to_owned(), out);
        }
        let before = self.held.len();
        self.held.push_str(text);
        match &mut self.state {
            State::Begin => match self.held.trim_start().chars().next() {
                None => {}
                Some('{') => {
                    self.state = State::Json(Outline::default());
                    self.outline(0, out);
                }
                Some(_) => self.prose(out),
            },
            State::Json(_) => self.outline(before, out),
            State::Prose | State::Gap | State::Tag { .. } => self.prose(out),
        }
    }

    /// The content is over: what is held is a call or was text all along.
    pub(crate) fn finish(&mut self, out: &mut Vec<Piece>) {
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Json(_) => {
                if let Some(calls) = self.json_calls() {
                    self.held.clear();
                    out.extend(calls);
                }
            }
            // Models forget the closing tag.
            State::Tag { tag, .. } => {
                let inner = self.held.strip_prefix(tag.opening()).unwrap_or_default();
                if let Some(call) = self.call_in(tag, inner) {
                    self.held.clear();
                    out.push(call);
                }
            }
            State::Begin | State::Gap | State::Prose => {}
        }
        show(std::mem::take(&mut self.held), out);
    }

    /// Follows the JSON from byte `from` of `held`.
    fn outline(&mut self, from: usize, out: &mut Vec<Piece>) {
        let State::Json(outline) = &mut self.state else { return };
        let tools = &self.tools;
        let fresh = self.held.get(from..).unwrap_or_default();
        match outline.follow(fresh, |name| find(tools, name).is_some()) {
            Verdict::MayBeCalls => {}
            Verdict::Text => {
                self.state = State::Prose;
                self.prose(out);
            }
        }
    }

    /// Shows what is prose and stops at what may be a tag.
    fn prose(&mut self, out: &mut Vec<Piece>) {
        loop {
            if let State::Tag { tag, searched } = self.state
                && !self.tagged(tag, searched, out)
            {
                return;
            }
            if let State::Gap = self.state {
                self.held = self.held.trim_start().to_owned();
                if self.held.is_empty() {
                    return;
                }
            }
            self.state = State::Prose;
            let Some(at) = self.held.find('<') else {
                return show(std::mem::take(&mut self.held), out);
            };
            let from_tag = self.held.split_off(at);
            let prose = std::mem::replace(&mut self.held, from_tag);
            show(prose, out);
            if let Some(tag) =
                [Tag::ToolCall, Tag::Function].into_iter().find(|t| self.held.starts_with(t.opening()))
            {
                self.state = State::Tag { tag, searched: 0 };
            } else if TOOL_CALL.starts_with(&self.held) || FUNCTION.starts_with(&self.held) {
                return;
            } else {
                self.release(out);
            }
        }
    }

    /// Looks for the end of the tag; `true` once it is settled what it is.
    fn tagged(&mut self, tag: Tag, searched: usize, out: &mut Vec<Piece>) -> bool {
        let inner = self.held.strip_prefix(tag.opening()).unwrap_or_default();
        if !self.may_hold_call(tag, inner) {
            self.release(out);
            self.state = State::Prose;
            return true;
        }
        let mut from = searched;
        while let Some(at) = inner.get(from..).and_then(|rest| rest.find(tag.closing())) {
            let end = from + at;
            let body = inner.get(..end).unwrap_or_default();
            if let Some(call) = self.call_in(tag, body) {
                let rest = inner.get(end + tag.closing().len()..).unwrap_or_default().to_owned();
                self.held = rest;
                self.state = State::Gap;
                out.push(call);
                return true;
            }
            // The closing tag may stand inside a value.
            from = end + tag.closing().len();
        }
        // A closing tag may be cut at the end of what is here.
        let mut searched = inner.len().saturating_sub(tag.closing().len()).max(from);
        while !inner.is_char_boundary(searched) {
            searched -= 1;
        }
        self.state = State::Tag { tag, searched };
        false
    }

    /// Whether what follows the tag so far can still be a call of an offered tool.
    fn may_hold_call(&self, tag: Tag, inner: &str) -> bool {
        match tag {
            Tag::ToolCall => {
                let inner = inner.trim_start();
                inner.is_empty()
                    || inner.starts_with('{')
                    || inner.starts_with(FUNCTION)
                    || FUNCTION.starts_with(inner)
            }
            Tag::Function => {
                if let Some((name, _)) = inner.split_once('>') {
                    return find(&self.tools, name.trim()).is_some();
                }
                let begun = inner.trim().to_lowercase();
                self.tools.iter().any(|tool| tool.name.to_lowercase().starts_with(&begun))
            }
        }
    }

    /// Shows the `<` at the front: it opens nothing.
    fn release(&mut self, out: &mut Vec<Piece>) {
        let rest = self.held.strip_prefix('<').unwrap_or_default().to_owned();
        self.held = rest;
        show("<".to_owned(), out);
    }

    fn json_calls(&self) -> Option<Vec<Piece>> {
        let values = serde_json::Deserializer::from_str(&self.held).into_iter::<Value>();
        let calls: Option<Vec<Piece>> = values.map(|value| self.json_call(&value.ok()?)).collect();
        calls.filter(|calls| !calls.is_empty())
    }

    fn json_call(&self, value: &Value) -> Option<Piece> {
        let fields = value.as_object()?;
        let name = fields.get("name")?.as_str()?;
        let tool = find(&self.tools, name.trim())?;
        let arguments = match fields.get("arguments").or_else(|| fields.get("parameters"))? {
            Value::Object(fields) => Value::Object(fields.clone()).to_string(),
            Value::String(text) => {
                serde_json::from_str::<Map<String, Value>>(text).ok()?;
                text.clone()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        Some(Piece::Call { name: tool.name.clone(), arguments })
    }

    fn call_in(&self, tag: Tag, inner: &str) -> Option<Piece> {
        match tag {
            Tag::Function => self.function_call(inner),
            Tag::ToolCall => {
                let inner = inner.trim();
                match inner.strip_prefix(FUNCTION) {
                    Some(function) => {
                        let function = function.trim_end();
                        self.function_call(function.strip_suffix(FUNCTION_END).unwrap_or(function))
                    }
                    None => self.json_call(&serde_json::from_str(inner).ok()?),
                }
            }
        }
    }

    /// `NAME>` and parameters in tags, or one JSON object.
    fn function_call(&self, text: &str) -> Option<Piece> {
        let (name, body) = text.split_once('>')?;
        let tool = find(&self.tools, name.trim())?;
        let body = body.trim();
        let arguments = if body.starts_with('{') {
            serde_json::from_str::<Map<String, Value>>(body).ok()?
        } else {
            parameters(body, &tool.typed)?
        };
        Some(Piece::Call { name: tool.name.clone(), arguments: Value::Object(arguments).to_string() })
    }
}

/// `<parameter=P>V</parameter>` again and again, with nothing between.
fn parameters(mut body: &str, typed: &[String]) -> Option<Map<String, Value>> {
    const END: &str = "</parameter>";
    let mut fields = Map::new();
    while !body.is_empty() {
        let (name, rest) = body.strip_prefix("<parameter=")?.split_once('>')?;
        // The value ends where another parameter or nothing follows; an end tag before that is part of it.
        let (value, after) = rest.match_indices(END).find_map(|(at, _)| {
            let after = rest.get(at + END.len()..)?.trim_start();
            (after.is_empty() || after.starts_with("<parameter=")).then_some((rest.get(..at)?, after))
        })?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let name = name.trim().to_owned();
        let value = if typed.contains(&name) {
            serde_json::from_str(value.trim()).unwrap_or_else(|_| Value::from(value))
        } else {
            Value::from(value)
        };
        fields.insert(name, value);
        body = after;
    }
    Some(fields)
}

fn typed_parameters(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| property.get("type").is_some_and(|kind| kind != "string"))
        .map(|(name, _)| name.clone())
        .collect()
}

/// The tool of that name, else the only one whose name differs in case alone.
fn find<'a>(tools: &'a [Offered], name: &str) -> Option<&'a Offered> {
    tools.iter().find(|tool| tool.name == name).or_else(|| {
        let mut alike = tools.iter().filter(|tool| tool.name.eq_ignore_ascii_case(name));
        alike.next().filter(|_| alike.next().is_none())
    })
}

fn show(text: String, out: &mut Vec<Piece>) {
    if !text.is_empty() {
        out.push(Piece::Text(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn tools() -> Vec<ToolSpec> {
        let schema = json!({"type": "object", "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer"}, "content": {"type": "string"}}});
        ["read", "Write", "GREP", "grep"]
            .map(|name| ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                input_schema: schema.clone(),
            })
            .to_vec()
    }

    fn run<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, Vec<(String, Value)>) {
        let mut filter = TextCalls::new(&tools());
        let mut out = Vec::new();
        for piece in pieces {
            filter.push(piece, &mut out);
        }
        filter.finish(&mut out);
        let mut text = String::new();
        let mut calls = Vec::new();
        for piece in out {
            match piece {
                Piece::Text(piece) => text.push_str(&piece),
                Piece::Call { name, arguments } => {
                    calls.push((name, serde_json::from_str(&arguments).unwrap()));
                }
            }
        }
        (text, calls)
    }

    fn by_letters(text: &str, size: usize) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.chunks(size).map(|chunk| chunk.iter().collect()).collect()
    }

    fn check(content: &str, text: &str, calls: &[(&str, Value)]) {
        let want: Vec<(String, Value)> = calls.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        for size in [1, 5, 1000] {
            let pieces = by_letters(content, size);
            assert_eq!(
                run(pieces.iter().map(String::as_str)),
                (text.to_owned(), want.clone()),
                "{content} by {size}"
            );
        }
    }

    #[test]
    fn o_prov_06_a_call_written_as_text_becomes_a_call() {
        let read = ("read", json!({"path": "a.txt"}));
        let once = std::slice::from_ref(&read);
        check(r#"{"name":"read","arguments":{"path":"a.txt"}}"#, "", once);
        check(
            "I will look.\n<tool_call>\n{\"name\":\"read\",\"arguments\":{\"path\":\"a.txt\"}}\n</tool_call>",
            "I will look.\n",
            once,
        );
        check("<function=read><parameter=path>a.txt</parameter></function>", "", once);
        check(" {\n \"parameters\": {\"path\": \"a.txt\"}, \"name\": \"READ\"}\n", "", once);
        check(r#"{"name":"read","arguments":"{\"path\":\"a.txt\"}"}"#, "", once);
        check(
            "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>\n",
            "",
            once,
        );
        check(r#"<tool_call>{"name":"read","arguments":{"path":"a.txt"}}"#, "", once);
        check(r#"<function=read>{"path":"a.txt"}</function> done"#, "done", once);
        check(
            r#"<tool_call>{"name":"read","arguments":{"path":"a.txt"}}</tool_call>
<tool_call>{"name":"Write","arguments":{}}</tool_call>"#,
            "",
            &[read.clone(), ("Write", json!({}))],
        );
        check(
            "<function=Write><parameter=content>a</function> b</parameter> c</parameter>\n<parameter=limit>3</parameter></function>",
            "",
            &[("Write", json!({"content": "a</function> b</parameter> c", "limit": 3}))],
        );
        check(
            r#"<tool_call>{"name":"Write","arguments":{"content":"</tool_call>"}}</tool_call>"#,
            "",
            &[("Write", json!({"content": "</tool_call>"}))],
        );
    }

    #[test]
    fn o_prov_06_text_that_is_no_call_stays_text() {
        for text in [
            "",
            "  \n",
            "plain <b>text</b> with < and <tool",
            r#"{"name":"unknown","arguments":{}}"#,
            r#"{"name":"Grep","arguments":{}}"#,
            r#"{"name":"read"}"#,
            r#"{"name":"read","arguments":{"path":"a"}} is what I would call"#,
            r#"{"name":"read","arguments":[1]}"#,
            r#"{"result": {"name":"read","arguments":{}}}"#,
            r#"See {"name":"read","arguments":{}}"#,
            "<tool_call>read a.txt</tool_call>",
            r#"<tool_call>{"name":"nothing","arguments":{}}</tool_call> <tool_call>"#,
            "<function=nothing><parameter=path>a</parameter></function>",
            "<function=read>free text</function>",
            "{ not json",
            "[1, 2]",
            "{}",
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn text_is_held_back_only_while_it_can_be_a_call() {
        for (pieces, shown) in [
            (&["Hello", " wor"][..], "Hello wor"),
            (&["a < b"], "a < b"),
            (&["a <to"], "a "),
            (&["a <to", "ast>"], "a <toast>"),
            (&["{\"res", "ult"], "{\"result"),
            (&["{\"na", "me\": \"nobody\""], "{\"name\": \"nobody\""),
            (&["{\"na", "me\": \"read"], ""),
            (&["<tool_call>\n", "hm"], "<tool_call>\nhm"),
            (&["<function=re", "sult"], "<function=result"),
        ] {
            let mut filter = TextCalls::new(&tools());
            let mut out = Vec::new();
            for piece in pieces {
                filter.push(piece, &mut out);
            }
            let text: String = out
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.as_str(),
                    Piece::Call { .. } => "CALL",
                })
                .collect();
            assert_eq!(text, shown, "{pieces:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_at_any_cut(
            parts in prop::collection::vec(prop::sample::select(vec![
                "<tool_call>", "</tool_call>", "<function=read>", "<function=", "</function>", "<parameter=path>",
                "</parameter>", "{\"name\":\"read\"", ",\"arguments\":{}}", "{", "}", "\"", "\\", "é", "<", " ", "\n", "x",
            ]), 0..14),
            size in 1usize..7,
        ) {
            let content = parts.concat();
            let pieces = by_letters(&content, size);
            let (text, calls) = run(pieces.iter().map(String::as_str));
            prop_assert_eq!(&(text.clone(), calls.clone()), &run([content.as_str()]));
            if calls.is_empty() {
                prop_assert_eq!(text, content);
            }
        }
    }
}
