//! The script's shape, checked once; an error names the field and what is allowed there.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::protocol::{StopReason, Usage};
use crate::provider::{Failure, Price};

/// A whole script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) turns: Vec<Turn>,
    pub(super) window: u64,
    pub(super) max_output: u32,
    pub(super) price: Price,
}

/// What one call gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) matching: Option<String>,
    pub(super) thinking: String,
    pub(super) signature: Option<String>,
    pub(super) text: String,
    pub(super) chunks: usize,
    pub(super) chunk_text: String,
    pub(super) tools: Vec<Call>,
    pub(super) stop: Option<StopReason>,
    pub(super) usage: Option<Usage>,
    pub(super) chunk_size: Option<usize>,
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
}

impl Turn {
    /// What comes past the end of the script.
    pub(super) fn done() -> Self {
        Self { text: "Done.".to_owned(), ..Self::default() }
    }

    /// Whether it says nothing, not even how it stops.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
            && self.thinking.is_empty()
            && self.chunks == 0
            && self.tools.is_empty()
            && self.stop.is_none()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) id: Option<String>,
    /// JSON text, or what stands in its place.
    pub(super) arguments: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// Pieces before it strikes; `None`: before any content.
    pub(super) after: Option<usize>,
    pub(super) message: Option<String>,
    /// How many calls it hits; `None`: all.
    pub(super) times: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FaultKind {
    Fails(Failure),
    Cut,
    Stall,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is no JSON.
    #[error("{}:{line}:{column}: the script is no JSON: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// A field is wrong.
    #[error("{place}{field}: {problem}")]
    Field {
        /// `FILE:LINE: `, or empty for a script that is no file.
        place: String,
        /// As `turns[2].tools[0].name`, counted from 0.
        field: String,
        /// What is wrong and what is allowed.
        problem: String,
    },
}

/// Reads the whole script.
pub(super) fn read(value: &Value) -> Result<Script, ScriptError> {
    let root = Field { path: String::new(), value };
    let mut script = Script { turns: Vec::new(), window: 200_000, max_output: 32_000, price: price(None)? };
    let turns = match value {
        Value::Array(_) => root,
        Value::Object(_) => {
            let keys = root.keys(&["turns", "window", "max_output", "price"])?;
            script.window = keys.number("window", 1)?.unwrap_or(script.window);
            script.max_output = keys.number("max_output", 1)?.unwrap_or(script.max_output);
            script.price = price(keys.get("price"))?;
            keys.get("turns").ok_or_else(|| root.wrong("the key `turns` is missing: a list of turns"))?
        }
        _ => return Err(root.wrong("must be an object with the key `turns`, or a list of turns")),
    };
    script.turns = turns.list()?.into_iter().map(|field| turn(&field)).collect::<Result<_, _>>()?;
    Ok(script)
}

fn price(field: Option<Field<'_>>) -> Result<Price, ScriptError> {
    let mut price = Price { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 };
    let Some(field) = field else { return Ok(price) };
    let keys = field.keys(USAGE)?;
    let dollars = |name| {
        let Some(field) = keys.get(name) else { return Ok(0.0) };
        let number = field.value.as_f64().filter(|n| *n >= 0.0);
        number.ok_or_else(|| field.wrong("must be US dollars for a million tokens, 0 or more"))
    };
    price.input = dollars("input")?;
    price.output = dollars("output")?;
    price.cache_read = dollars("cache_read")?;
    price.cache_write = dollars("cache_write")?;
    Ok(price)
}

const USAGE: &[&str] = &["input", "output", "cache_read", "cache_write"];

fn turn(field: &Field<'_>) -> Result<Turn, ScriptError> {
    let keys = field.keys(&[
        "match",
        "thinking",
        "signature",
        "text",
        "chunks",
        "chunk_text",
        "tools",
        "stop",
        "usage",
        "chunk_size",
        "delay_ms",
        "fault",
    ])?;
    let chunks = keys.number("chunks", 0)?;
    let chunk_text = keys.text("chunk_text")?;
    if let (Some(_), None) | (None, Some(_)) = (chunks, &chunk_text) {
        return Err(field.wrong("`chunks` and `chunk_text` go together: so many pieces of that text"));
    }
    let tools = match keys.get("tools") {
        Some(tools) => tools.list()?.iter().map(call).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    Ok(Turn {
        matching: keys.text("match")?,
        thinking: keys.text("thinking")?.unwrap_or_default(),
        signature: keys.text("signature")?,
        text: keys.text("text")?.unwrap_or_default(),
        chunks: chunks.unwrap_or_default(),
        chunk_text: chunk_text.unwrap_or_default(),
        tools,
        stop: keys.get("stop").map(|field| stop(&field)).transpose()?,
        usage: keys.get("usage").map(|field| usage(&field)).transpose()?,
        chunk_size: keys.number("chunk_size", 1)?,
        delay: Duration::from_millis(keys.number("delay_ms", 0)?.unwrap_or_default()),
        fault: keys.get("fault").map(|field| fault(&field)).transpose()?,
    })
}

fn call(field: &Field<'_>) -> Result<Call, ScriptError> {
    let keys = field.keys(&["name", "input", "id", "raw"])?;
    let name =
        keys.text("name")?.ok_or_else(|| field.wrong("the key `name` is missing: the tool to call"))?;
    let arguments = match (keys.get("input"), keys.text("raw")?) {
        (Some(_), Some(_)) => return Err(field.wrong("has both `input` and `raw`; use one")),
        (Some(input), None) if input.value.is_object() => input.value.to_string(),
        (Some(input), None) => {
            return Err(input.wrong("must be an object; text that is none goes into `raw`"));
        }
        (None, Some(raw)) => raw,
        (None, None) => "{}".to_owned(),
    };
    Ok(Call { name, id: keys.text("id")?, arguments })
}

fn stop(field: &Field<'_>) -> Result<StopReason, ScriptError> {
    serde_json::from_value(field.value.clone()).map_err(|_| {
        field.unknown(&[
            "end_turn",
            "tool_use",
            "max_tokens",
            "stop_sequence",
            "refusal",
            "pause_turn",
            "context_exceeded",
        ])
    })
}

fn usage(field: &Field<'_>) -> Result<Usage, ScriptError> {
    let keys = field.keys(USAGE)?;
    let tokens = |name| keys.number(name, 0).map(Option::unwrap_or_default);
    Ok(Usage {
        input: tokens("input")?,
        output: tokens("output")?,
        cache_read: tokens("cache_read")?,
        cache_write: tokens("cache_write")?,
    })
}

fn fault(field: &Field<'_>) -> Result<Fault, ScriptError> {
    let keys = field.keys(&["type", "after_chunks", "message", "retry_after_ms", "times"])?;
    let retry_after = keys.number("retry_after_ms", 0)?.map(Duration::from_millis);
    let kind = keys.get("type").ok_or_else(|| field.wrong("the key `type` is missing: what goes wrong"))?;
    let times = match keys.get("times") {
        Some(times) if times.value.as_i64() == Some(-1) => None,
        Some(_) => keys.number("times", 1)?,
        None => Some(1),
    };
    let kind = match kind.value.as_str() {
        Some("transient") => FaultKind::Fails(Failure::Transient { retry_after }),
        Some("unreachable") => FaultKind::Fails(Failure::Unreachable),
        Some("overflow") => FaultKind::Fails(Failure::ContextOverflow),
        Some("auth") => FaultKind::Fails(Failure::Auth),
        Some("quota") => FaultKind::Fails(Failure::Quota),
        Some("not_found") => FaultKind::Fails(Failure::NotFound),
        Some("invalid") => FaultKind::Fails(Failure::Invalid),
        Some("cut") => FaultKind::Cut,
        Some("stall") => FaultKind::Stall,
        _ => {
            return Err(kind.unknown(&[
                "transient",
                "unreachable",
                "overflow",
                "auth",
                "quota",
                "not_found",
                "invalid",
                "cut",
                "stall",
            ]));
        }
    };
    Ok(Fault { kind, after: keys.number("after_chunks", 0)?, message: keys.text("message")?, times })
}

/// A value and where it stands.
#[derive(Debug)]
struct Field<'a> {
    path: String,
    value: &'a Value,
}

/// An object whose keys are all known.
struct Keys<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Field<'a> {
    fn wrong(&self, problem: &str) -> ScriptError {
        let field = if self.path.is_empty() { "the script".to_owned() } else { self.path.clone() };
        ScriptError::Field { place: String::new(), field, problem: problem.to_owned() }
    }

    /// A word that is none of these.
    fn unknown(&self, allowed: &[&str]) -> ScriptError {
        let near = self.value.as_str().map(|word| near(word, allowed)).unwrap_or_default();
        self.wrong(&format!("{} is not known here{near}; allowed: {}", self.value, allowed.join(", ")))
    }

    fn list(&self) -> Result<Vec<Field<'a>>, ScriptError> {
        let list = self.value.as_array().ok_or_else(|| self.wrong("must be a list"))?;
        let fields = list.iter().enumerate();
        let name = if self.path.is_empty() { "turns" } else { &self.path };
        Ok(fields.map(|(at, value)| Field { path: format!("{name}[{at}]"), value }).collect())
    }

    fn keys(&self, allowed: &[&str]) -> Result<Keys<'a>, ScriptError> {
        let map = self.value.as_object();
        let map =
            map.ok_or_else(|| self.wrong(&format!("must be an object; allowed: {}", allowed.join(", "))))?;
        let keys = Keys { path: self.path.clone(), map };
        match map.iter().find(|(key, _)| !allowed.contains(&key.as_str())) {
            None => Ok(keys),
            Some((key, value)) => {
                let field = Field { path: keys.place(key), value };
                let near = near(key, allowed);
                Err(field.wrong(&format!("unknown key{near}; allowed: {}", allowed.join(", "))))
            }
        }
    }
}

impl<'a> Keys<'a> {
    fn place(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&self, key: &str) -> Option<Field<'a>> {
        Some(Field { path: self.place(key), value: self.map.get(key)? })
    }

    fn text(&self, key: &str) -> Result<Option<String>, ScriptError> {
        let Some(field) = self.get(key) else { return Ok(None) };
        field.value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| field.wrong("must be a text"))
    }

    fn number<N: TryFrom<u64>>(&self, key: &str, least: u64) -> Result<Option<N>, ScriptError> {
        let Some(field) = self.get(key) else { return Ok(None) };
        let number = field.value.as_u64().filter(|n| *n >= least).and_then(|n| N::try_from(n).ok());
        number.map(Some).ok_or_else(|| field.wrong(&format!("must be a whole number, {least} or more")))
    }
}

fn near(word: &str, allowed: &[&str]) -> String {
    let close = similar::get_close_matches(word, allowed, 1, 0.6);
    close.first().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}
