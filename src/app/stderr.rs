//! Sentences for people on stderr, which TRACE=json keeps a stream of JSON lines.

use std::io::Write as _;

use crate::trace;

/// One line on stderr; a closed stderr is no reason to stop. Foreign text must have passed the filter.
pub fn say(line: &str) {
    let text = match trace::installed() {
        Some(trace::Format::Json) => serde_json::json!({"stage": "message", "text": line}).to_string(),
        Some(trace::Format::Text) | None => line.to_owned(),
    };
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}
