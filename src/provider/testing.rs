//! For unit tests: replies without a network, and events put together for comparing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::http::Service;
use super::reply::{Decode, events};
use super::{EventStream, ModelEvent, ModelInfo, ProviderError};
use crate::config::{Endpoint, Protocol, Secret, Timers};
use crate::protocol::{Block, Message, MessageId, ModelId, Role, Source};

pub(super) const KEY: &str = "sk-test-0123456789";

pub(super) fn endpoint(protocol: Protocol, base_url: &str) -> Endpoint {
    Endpoint {
        protocol,
        base_url: base_url.to_owned(),
        key: Some(Secret::new(KEY)),
        ca_files: Vec::new(),
        text_calls: true,
        timers: Timers {
            connect: Duration::from_secs(5),
            headers: Duration::from_secs(5),
            first_event: Duration::from_secs(5),
            silence: Duration::from_secs(5),
        },
    }
}

/// The real reader over these chunks; after the last one the stream ends, or stays open without a word.
pub(super) fn reply(
    decoder: Box<dyn Decode>,
    content_type: &str,
    chunks: Vec<Vec<u8>>,
    after: After,
) -> EventStream {
    let service = Service::new(
        &endpoint(Protocol::OpenAi, "http://test.invalid"),
        "m",
        "http://test.invalid/".parse().unwrap(),
    )
    .unwrap();
    let chunks = stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    let body = match after {
        After::End => reqwest::Body::wrap_stream(chunks),
        After::Silence => reqwest::Body::wrap_stream(chunks.chain(stream::pending())),
        After::Reset => reqwest::Body::wrap_stream(
            chunks.chain(stream::iter([Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))])),
        ),
    };
    let response = http::Response::builder()
        .header("content-type", content_type)
        .header("request-id", "req-1")
        .body(body)
        .unwrap();
    events(Arc::new(service), response.into(), decoder)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum After {
    End,
    Silence,
    Reset,
}

/// All events, pieces of one kind joined, and the error that ended them.
pub(super) async fn all(mut stream: EventStream) -> (Vec<ModelEvent>, Option<ProviderError>) {
    let mut out: Vec<ModelEvent> = Vec::new();
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (out, Some(error));
            }
        };
        match (out.last_mut(), event) {
            (Some(ModelEvent::Text(text)), ModelEvent::Text(more))
            | (Some(ModelEvent::Thinking(text)), ModelEvent::Thinking(more)) => text.push_str(&more),
            (Some(ModelEvent::ToolArgs { key, json }), ModelEvent::ToolArgs { key: again, json: more })
                if *key == again =>
            {
                json.push_str(&more);
            }
            (Some(ModelEvent::Usage(old)), ModelEvent::Usage(new)) => *old = new,
            (_, event) => out.push(event),
        }
    }
    (out, None)
}

/// Events of a whole reply without an error.
pub(super) fn read(decoder: Box<dyn Decode>, chunks: Vec<Vec<u8>>) -> Vec<ModelEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (events, error) =
        runtime.block_on(async { all(reply(decoder, "text/event-stream", chunks, After::End)).await });
    assert_eq!(error, None, "after {events:?}");
    events
}

/// `data:` events of these values, `\n` ends, each a chunk of its own.
pub(super) fn sse(events: &[Value]) -> Vec<Vec<u8>> {
    events.iter().map(|event| format!("data: {event}\n\n").into_bytes()).collect()
}

pub(super) fn bytewise(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    chunks.concat().into_iter().map(|byte| vec![byte]).collect()
}

pub(super) fn user(blocks: Vec<Block>) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId("u".to_owned()),
        role: Role::User,
        source: Source::User,
        origin: None,
        blocks,
    })
}

pub(super) fn assistant(origin: &ModelId, blocks: Vec<Block>) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId("a".to_owned()),
        role: Role::Assistant,
        source: Source::Model,
        origin: Some(origin.clone()),
        blocks,
    })
}

pub(super) fn info(provider: &str, name: &str) -> ModelInfo {
    let mut info = super::Catalog::default().lookup(name);
    info.id = ModelId::new(provider, name);
    info
}
