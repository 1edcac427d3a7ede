//! Plays one `Reply` on a connection, faults included.

use serde_json::Value;

use super::Protocol;
use super::connection::{Connection, Gone, find};
use super::errors;
use super::reply::{Answer, Body, Fault, FaultKind, Reply};
use super::sse::{self, Context, Event, Role};

/// What becomes of the connection after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    KeepAlive,
    Close,
}

/// Answers one model request; `number` is the position of the reply in the script.
pub(super) async fn play(
    connection: &mut Connection,
    protocol: Protocol,
    request: &Value,
    number: usize,
    reply: &Reply,
) -> Result<Then, Gone> {
    match &reply.answer {
        Answer::HangBeforeHeaders => Err(connection.hang().await),
        Answer::CutBeforeHeaders => {
            connection.cut().await?;
            Ok(Then::Close)
        }
        Answer::Http { status, body } => {
            let (kind, text) = match body {
                Body::Plain(text) => ("text/plain", text.clone()),
                Body::Provider(message) => {
                    ("application/json", errors::document(protocol, *status, message).to_string())
                }
                Body::ContextTooLong { llama_cpp } => {
                    ("application/json", errors::context_too_long(protocol, *llama_cpp).to_string())
                }
            };
            let length = text.len().to_string();
            let defaults = [("content-type", kind), ("content-length", &length)];
            let headers = headers(reply, &defaults);
            connection.write_whole(*status, &headers, text.as_bytes()).await?;
            Ok(Then::KeepAlive)
        }
        Answer::Raw(segments) => {
            let events = segments.iter().map(|segment| Event { bytes: segment.clone(), role: Role::Chunk });
            stream(connection, protocol, reply, events.collect()).await
        }
        Answer::Parts(parts) => {
            let context = Context {
                model: request["model"].as_str().unwrap_or_default(),
                number,
                include_usage: request["stream_options"]["include_usage"] == true,
            };
            let events = sse::events(protocol, parts, &reply.shape, &context);
            stream(connection, protocol, reply, events).await
        }
    }
}

async fn stream(
    connection: &mut Connection,
    protocol: Protocol,
    reply: &Reply,
    events: Vec<Event>,
) -> Result<Then, Gone> {
    let defaults = [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("transfer-encoding", "chunked"),
    ];
    connection.write_head(200, &headers(reply, &defaults)).await?;
    let mut fault = reply.fault.as_ref();
    let mut chunks = 0;
    let count = events.len();
    for (position, event) in events.into_iter().enumerate() {
        if let Some(due) = fault
            && (chunks >= due.after || event.role == Role::Closing)
        {
            if let Some(then) = strike(connection, protocol, reply, due).await? {
                return Ok(then);
            }
            fault = None;
        }
        if event.role == Role::Chunk {
            connection.pause(reply.delay).await?;
            chunks += 1;
        }
        let last = position + 1 == count && fault.is_none();
        write_event(connection, &event.bytes, reply.shape.byte_by_byte, last).await?;
    }
    if let Some(due) = fault
        && let Some(then) = strike(connection, protocol, reply, due).await?
    {
        return Ok(then);
    }
    if fault.is_some() || count == 0 {
        connection.write_chunk(&[], true).await?;
    }
    Ok(Then::KeepAlive)
}

/// Lets the fault happen; without a result the stream goes on.
async fn strike(
    connection: &mut Connection,
    protocol: Protocol,
    reply: &Reply,
    fault: &Fault,
) -> Result<Option<Then>, Gone> {
    match &fault.kind {
        FaultKind::Hang => Err(connection.hang().await),
        FaultKind::Cut => {
            connection.cut().await?;
            Ok(Some(Then::Close))
        }
        FaultKind::End => {
            connection.write_chunk(&[], true).await?;
            Ok(Some(Then::KeepAlive))
        }
        FaultKind::ErrorEvent(message) => {
            let event = sse::error(protocol, message, &reply.shape);
            connection.write_chunk(&event, false).await?;
            Err(connection.hang().await)
        }
        FaultKind::Malformed => {
            let event = sse::malformed(protocol, &reply.shape);
            connection.write_chunk(&event, false).await?;
            Ok(None)
        }
    }
}

async fn write_event(
    connection: &mut Connection,
    bytes: &[u8],
    byte_by_byte: bool,
    last: bool,
) -> Result<(), Gone> {
    let size = if byte_by_byte { 1 } else { bytes.len().max(1) };
    let mut pieces = bytes.chunks(size).peekable();
    if last && pieces.peek().is_none() {
        return connection.write_chunk(&[], true).await;
    }
    while let Some(piece) = pieces.next() {
        let last = last && pieces.peek().is_none();
        connection.write_chunk(piece, last).await?;
    }
    Ok(())
}

/// The reply's own headers and those defaults that it does not replace.
fn headers(reply: &Reply, defaults: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut headers = reply.headers.clone();
    for (name, value) in defaults {
        if find(&reply.headers, name).is_none() {
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    headers
}
