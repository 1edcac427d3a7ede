//! Whole exchanges with a real listener: requests as they go out, refusals, timers, keys, connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::testing::{KEY, all, assistant, endpoint, user};
use super::{
    Candidate, Catalog, Failure, LocalKind, LocalServer, ModelEvent, ModelProvider, ProviderError, Request,
    connect, find_local,
};
use crate::config::{Endpoint, Protocol};
use crate::protocol::{Block, Message, StopReason};

/// A listener that answers the n-th request with the n-th answer, the last one again and again.
struct Server {
    url: String,
    requests: mpsc::UnboundedReceiver<(String, Value)>,
    connections: Arc<AtomicUsize>,
}

async fn serve(answers: Vec<String>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::unbounded_channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let (count, served) = (Arc::clone(&connections), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let (sender, served, answers) = (sender.clone(), Arc::clone(&served), answers.clone());
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut socket).await {
                    sender.send(request).ok();
                    let at = served.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
                    if answers[at].is_empty() {
                        std::future::pending::<()>().await;
                    }
                    socket.write_all(answers[at].as_bytes()).await.ok();
                }
            });
        }
    });
    Server { url, requests, connections }
}

/// Head and JSON body of the next request.
async fn read_request(socket: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head_end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok())
                .unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return Some((head, serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default()));
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn chat_ok() -> String {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    answer("200 OK", "content-type: text/event-stream\r\n", body)
}

fn messages_ok() -> String {
    let body = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    answer("200 OK", "content-type: text/event-stream\r\n", body)
}

async fn ask(
    provider: &dyn ModelProvider,
    messages: &[Arc<Message>],
) -> Result<Vec<ModelEvent>, ProviderError> {
    let request = Request { system: "sys", tools: &[], messages, max_output: 100, effort: None };
    let (events, error) = all(provider.stream(request).await?).await;
    error.map_or(Ok(events), Err)
}

async fn ask_at(endpoint: &Endpoint) -> Result<Vec<ModelEvent>, ProviderError> {
    let provider = connect(endpoint, "some-model", &Catalog::default())?;
    ask(&*provider, &[user(vec![Block::text("go")])]).await
}

fn hi() -> Vec<ModelEvent> {
    vec![ModelEvent::Text("hi".to_owned()), ModelEvent::Stop(StopReason::EndTurn)]
}

#[tokio::test]
async fn requests_go_out_with_their_headers_and_share_a_connection() {
    for (protocol, ok, path, key) in [
        (Protocol::Anthropic, messages_ok(), "POST /v1/messages ", format!("x-api-key: {KEY}")),
        (Protocol::OpenAi, chat_ok(), "POST /v1/chat/completions ", format!("authorization: bearer {KEY}")),
    ] {
        let mut server = serve(vec![ok]).await;
        let provider = connect(&endpoint(protocol, &server.url), "some-model", &Catalog::default()).unwrap();
        let host = server.url.trim_start_matches("http://");
        let name = if protocol == Protocol::Anthropic { "anthropic" } else { "openai" };
        assert_eq!(provider.info().id.0, format!("{name}({host})/some-model"));
        for _ in 0..3 {
            assert_eq!(ask(&*provider, &[user(vec![Block::text("go")])]).await.unwrap(), hi());
            let (head, body) = server.requests.recv().await.unwrap();
            let head = head.replacen("POST", "post", 1).to_lowercase().replacen("post", "POST", 1);
            assert!(head.starts_with(path) && head.contains(&key), "{head}");
            assert_eq!(head.contains("anthropic-version: 2023-06-01"), protocol == Protocol::Anthropic);
            assert_eq!((&body["model"], &body["stream"]), (&json!("some-model"), &json!(true)));
            // The reader gives the connection back on a task of its own.
            tokio::task::yield_now().await;
        }
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn o_head_01_refusals_keep_the_services_words() {
    let html = format!("<html><body>{}</body></html>", "busy ".repeat(40_000));
    for (status, headers, body, kind, says) in [
        (
            "401 Unauthorized",
            "",
            r#"{"error":{"message":"bad key"}}"#,
            Failure::Auth,
            "answered 401: bad key (check the key in OPENAI_API_KEY",
        ),
        ("400 Bad Request", "", r#"{"error":{"message":"no"}}"#, Failure::Invalid, "answered 400: no"),
        (
            "404 Not Found",
            "",
            r#"{"error":{"message":"no route"}}"#,
            Failure::NotFound,
            "asked for model 'some-model' at http://",
        ),
        (
            "503 Service Unavailable",
            "",
            html.as_str(),
            Failure::Transient { retry_after: None },
            "answered 503: busy busy",
        ),
        ("529 Overloaded", "", "", Failure::Transient { retry_after: None }, "answered 529"),
        (
            "429 Too Many Requests",
            "retry-after-ms: 1500\r\n",
            "{}",
            Failure::Transient { retry_after: Some(Duration::from_millis(1500)) },
            "answered 429",
        ),
        (
            "307 Temporary Redirect",
            "location: http://evil.invalid/\r\n",
            "",
            Failure::Invalid,
            "moved to 'http://evil.invalid/'",
        ),
    ] {
        let server = serve(vec![answer(status, &format!("{headers}x-request-id: r-7\r\n"), body)]).await;
        let error = ask_at(&endpoint(Protocol::OpenAi, &server.url)).await.unwrap_err();
        assert_eq!((error.kind, error.request_id.as_deref()), (kind, Some("r-7")), "{error}");
        assert!(error.message.contains(says) && error.message.chars().count() < 500, "{error}");
        assert_eq!(error.status, status.get(..3).and_then(|code| code.parse().ok()));
    }
}

#[tokio::test]
async fn a_key_that_a_server_echoes_is_masked() {
    let body = json!({"error": {"message": format!("key {KEY} is not known")}}).to_string();
    let stream = format!("data: {}\n\n", json!({"error": {"message": format!("no {KEY}")}}));
    for (status, body) in [("401 Unauthorized", body), ("200 OK", stream)] {
        let server = serve(vec![answer(status, &format!("request-id: {KEY}\r\n"), &body)]).await;
        let error = ask_at(&endpoint(Protocol::OpenAi, &server.url)).await.unwrap_err();
        assert!(!format!("{error:?}").contains(KEY) && error.message.contains("***"), "{error:?}");
    }
    let mut endpoint = endpoint(Protocol::OpenAi, "http://127.0.0.1:9");
    assert!(!format!("{:?}", connect(&endpoint, "m", &Catalog::default())).contains(KEY));
    endpoint.key = Some(crate::config::Secret::new("sk-\nbroken"));
    let error = connect(&endpoint, "m", &Catalog::default()).unwrap_err();
    assert!(error.kind == Failure::Auth && !error.message.contains("broken"), "{error}");
}

#[tokio::test]
async fn o_loop_03_headers_that_never_come_have_a_bound() {
    let server = serve(vec![String::new(), chat_ok()]).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    endpoint.timers.headers = Duration::from_millis(200);
    let provider = connect(&endpoint, "m", &Catalog::default()).unwrap();
    let messages = [user(vec![Block::text("go")])];
    let began = Instant::now();
    let error = ask(&*provider, &messages).await.unwrap_err();
    assert_eq!(error.kind, Failure::Transient { retry_after: None });
    assert!(error.message.ends_with("sent no response headers within 0.2 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(ask(&*provider, &messages).await.unwrap(), hi());
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn nobody_there_and_no_tls_there() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let error = ask_at(&endpoint(Protocol::OpenAi, &format!("http://{closed}"))).await.unwrap_err();
    assert_eq!(error.kind, Failure::Unreachable);
    assert!(error.message.starts_with(&format!("cannot connect to {closed}: ")), "{error}");

    let mut endpoint = endpoint(Protocol::OpenAi, "https://127.0.0.1:1");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no certificate").unwrap();
    for (path, says) in
        [(file.path(), "holds no certificate"), (std::path::Path::new("/nowhere/ca.pem"), "cannot be read")]
    {
        endpoint.ca_files = vec![path.to_owned()];
        let error = connect(&endpoint, "m", &Catalog::default()).unwrap_err();
        assert!(error.message.contains(says) && error.message.contains("--ca-file"), "{error}");
    }
}

#[tokio::test]
async fn a_field_that_a_server_refuses_is_said_otherwise_and_remembered() {
    let refusal =
        |text: &str| answer("400 Bad Request", "", &json!({"error": {"message": text}}).to_string());
    let mut server = serve(vec![
        refusal("Unrecognized field: stream_options"),
        refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        chat_ok(),
    ])
    .await;
    let provider = connect(&endpoint(Protocol::OpenAi, &server.url), "m", &Catalog::default()).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&*provider, &[user(vec![Block::text("go")])]).await.unwrap(), hi());
    }
    let mut said = Vec::new();
    for _ in 0..4 {
        let (_, body) = server.requests.recv().await.unwrap();
        said.push(
            ["stream_options", "max_tokens", "max_completion_tokens"].map(|field| body.get(field).is_some()),
        );
    }
    assert_eq!(said, [[true, true, false], [false, true, false], [false, false, true], [false, false, true]]);
    // A server that refuses both ways is asked no more than twice.
    let mut server = serve(vec![
        refusal("'max_tokens' is not supported"),
        refusal("'max_completion_tokens' is not supported"),
    ])
    .await;
    assert_eq!(ask_at(&endpoint(Protocol::OpenAi, &server.url)).await.unwrap_err().kind, Failure::Invalid);
    server.requests.close();
    assert_eq!(server.requests.len(), 2);
}

#[tokio::test]
async fn thinking_that_is_refused_stays_out_once() {
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "messages.1: invalid thinking block"}});
    let mut server = serve(vec![answer("400 Bad Request", "", &refusal.to_string()), messages_ok()]).await;
    let provider =
        connect(&endpoint(Protocol::Anthropic, &server.url), "claude-opus-4-6", &Catalog::default()).unwrap();
    let thinking = Block::Thinking { thinking: "hm".to_owned(), signature: Some("s".to_owned()) };
    let messages = [
        user(vec![Block::text("go")]),
        assistant(&provider.info().id, vec![thinking, Block::text("a")]),
        user(vec![Block::text("on")]),
    ];
    assert_eq!(ask(&*provider, &messages).await.unwrap(), hi());
    let mut thought = Vec::new();
    for _ in 0..2 {
        thought.push(server.requests.recv().await.unwrap().1.to_string().contains("thinking"));
    }
    assert_eq!(thought, [true, false]);
}

#[tokio::test]
async fn local_servers_are_known_by_what_only_they_say() {
    let json_answer = |body: Value| answer("200 OK", "content-type: application/json\r\n", &body.to_string());
    let ollama =
        serve(vec![json_answer(json!({"version": "0.9"})), json_answer(json!({"models": [{"name": "a"}]}))])
            .await;
    let studio = serve(vec![json_answer(json!({"object": "list", "data": [
        {"id": "b", "type": "llm", "state": "loaded"}, {"id": "e", "type": "embeddings", "state": "loaded"}]}))])
    .await;
    let llama = serve(vec![
        json_answer(json!({"default_generation_settings": {}})),
        json_answer(json!({"object": "list", "data": [{"id": "c"}]})),
    ])
    .await;
    let web = serve(vec![answer("200 OK", "", "<html>hello</html>")]).await;
    let deaf = serve(vec![String::new()]).await;
    let place = |server: &Server| server.url.trim_start_matches("http://").to_owned();
    let candidates = [
        (LocalKind::Ollama, &ollama),
        (LocalKind::LmStudio, &studio),
        (LocalKind::LlamaCpp, &llama),
        (LocalKind::Ollama, &web),
        (LocalKind::LmStudio, &web),
        (LocalKind::LlamaCpp, &web),
        (LocalKind::LlamaCpp, &deaf),
    ]
    .map(|(kind, server)| Candidate { kind, address: place(server) });
    let began = Instant::now();
    let found = find_local(&candidates).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let want = [
        (LocalKind::Ollama, &ollama, "a"),
        (LocalKind::LmStudio, &studio, "b"),
        (LocalKind::LlamaCpp, &llama, "c"),
    ]
    .map(|(kind, server, model)| LocalServer {
        kind,
        base_url: format!("{}/v1", server.url),
        models: vec![model.to_owned()],
    });
    assert_eq!(found, want);
}
