//! TRACE=1: one line a step on stderr, built on `tracing`; keys are masked before anything is written.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::protocol::Mask;

/// Target of the events that are steps.
pub const TARGET: &str = "reagent::stage";

/// Records one step: `stage!("tool.start", name = %name, id = %id)`.
macro_rules! stage {
    ($stage:literal $(, $($fields:tt)*)?) => {
        ::tracing::info!(target: "reagent::stage", stage = $stage $(, $($fields)*)?)
    };
}

pub(crate) use stage;

/// How steps are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `[trace] stage key=value …`
    Text,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// Reads the value of `TRACE`: empty, `0` and `false` are off, `json` is JSON, anything else is text.
    #[must_use]
    pub fn from_env(value: &str) -> Option<Self> {
        match value.trim() {
            "" | "0" | "false" | "off" => None,
            "json" => Some(Self::Json),
            _ => Some(Self::Text),
        }
    }
}

static INSTALLED: OnceLock<Format> = OnceLock::new();

/// How steps are shown in this process, if they are.
pub fn installed() -> Option<Format> {
    INSTALLED.get().copied()
}

/// Switches the trace on for the rest of the process.
pub fn install(format: Format, mask: Mask) {
    if INSTALLED.set(format).is_err() {
        return;
    }
    let subscriber = tracing_subscriber::registry().with(Stages { format, mask });
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        tracing::debug!("a subscriber is installed already");
    }
}

#[derive(Debug)]
struct Stages {
    format: Format,
    mask: Mask,
}

impl<S: Subscriber> Layer<S> for Stages {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == TARGET
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = match self.format {
            Format::Text => {
                let mut fields = TextFields::default();
                event.record(&mut fields);
                format!("[trace] {}{}", fields.stage, fields.rest)
            }
            Format::Json => {
                let mut fields = JsonFields::default();
                event.record(&mut fields);
                Value::Object(fields.0).to_string()
            }
        };
        self.mask.apply(&mut line);
        line.push('\n');
        // A closed stderr is no reason to stop working.
        drop(std::io::stderr().write_all(line.as_bytes()));
    }
}

#[derive(Default)]
struct TextFields {
    stage: String,
    rest: String,
}

impl TextFields {
    fn put(&mut self, field: &Field, value: &str) {
        if field.name() == "stage" {
            value.clone_into(&mut self.stage);
            return;
        }
        let shown = quoted(value);
        self.rest.push_str(&format!(" {}={shown}", field.name()));
    }
}

/// A value with blanks, quotes or control characters stands in quotes; a line is always one line.
fn quoted(value: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"';
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Visit for TextFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

#[derive(Default)]
struct JsonFields(Map<String, Value>);

impl Visit for JsonFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_blanks_are_quoted() {
        let cases = [("plain", "plain"), ("two words", "\"two words\""), ("", "\"\""), ("a\nb", "\"a\\nb\"")];
        for (value, shown) in cases {
            assert_eq!(quoted(value), shown);
        }
    }
}
