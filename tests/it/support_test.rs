//! The model server of `support` keeps its own promises.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ModelServer, Recorded, Reply};

pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const CHAT: &str = "/v1/chat/completions";

pub(crate) fn client() -> reqwest::Client {
    // An error means that another test has done it already.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn request(path: &str) -> Value {
    let mut body =
        json!({"model": "mock-1", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    if path == MESSAGES {
        body["max_tokens"] = json!(100);
    }
    body
}

/// Posts the smallest legal request; the status and the whole body.
pub(crate) async fn ask(server: &ModelServer, client: &reqwest::Client, path: &str) -> (u16, String) {
    send(server, client, path, &request(path)).await
}

pub(crate) async fn send(
    server: &ModelServer,
    client: &reqwest::Client,
    path: &str,
    body: &Value,
) -> (u16, String) {
    let url = format!("{}{path}", server.url());
    let response = client.post(url).json(body).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// The data of all events but `[DONE]`.
fn events(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// All strings at one place in the events, joined.
pub(crate) fn joined(body: &str, pointer: &str) -> String {
    let events = events(body);
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

/// A connection on which the smallest legal request has been sent.
async fn raw(server: &ModelServer, path: &str) -> TcpStream {
    let address = server.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = request(path).to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    stream
}

async fn read_all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// Reads until `end` has come; the stream must stay open so long.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(end) {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed before {end:?}");
    }
    String::from_utf8(bytes).unwrap()
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    let read = stream.read_u8();
    tokio::time::timeout(Duration::from_millis(50), read).await.is_err()
}

#[tokio::test]
async fn an_answer_streams_in_both_protocols() {
    let reply = || {
        let reply = Reply::thinking("Hm, a file.").say("Looking.").chunk_size(3).usage(7, 5, 3, 2);
        reply.call("Read", json!({"file_path": "ä.txt"})).call_with_id("mine", "Glob", json!({}))
    };
    let server = ModelServer::start(vec![reply(), reply(), reply()]).await;
    let client = client();

    let (status, body) = ask(&server, &client, MESSAGES).await;
    assert_eq!(status, 200);
    assert_eq!(joined(&body, "/delta/thinking"), "Hm, a file.");
    assert_eq!(joined(&body, "/delta/text"), "Looking.");
    assert_eq!(joined(&body, "/delta/partial_json"), r#"{"file_path":"ä.txt"}{}"#);
    assert_eq!(joined(&body, "/content_block/id"), "call_0_0mine");
    assert_eq!(joined(&body, "/delta/stop_reason"), "tool_use");
    let all = events(&body);
    let usage = json!({"input_tokens": 7, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 1});
    assert_eq!(all[0]["message"]["usage"], usage);
    assert_eq!(all.last().unwrap(), &json!({"type": "message_stop"}));
    assert!(body.starts_with("event: message_start\ndata: {"), "{body}");

    let (_, body) = ask(&server, &client, CHAT).await;
    assert_eq!(joined(&body, "/choices/0/delta/reasoning_content"), "Hm, a file.");
    assert_eq!(joined(&body, "/choices/0/delta/content"), "Looking.");
    let arguments = "/choices/0/delta/tool_calls/0/function/arguments";
    assert_eq!(joined(&body, arguments), r#"{"file_path":"ä.txt"}{}"#);
    assert_eq!(joined(&body, "/choices/0/delta/tool_calls/0/id"), "call_1_0mine");
    assert_eq!(joined(&body, "/choices/0/finish_reason"), "tool_calls");
    assert!(body.ends_with("data: [DONE]\n\n") && !body.contains("usage"), "{body}");

    let mut with_usage = request(CHAT);
    with_usage["stream_options"] = json!({"include_usage": true});
    let (_, body) = send(&server, &client, CHAT, &with_usage).await;
    let usage = events(&body).pop().unwrap()["usage"].clone();
    assert_eq!(usage["prompt_tokens"], 12);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 3);

    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_form_of_the_stream_can_be_set() {
    let server = ModelServer::start(vec![
        Reply::text("crlf").line_ends("\r\n"),
        Reply::text("cr").line_ends("\r").byte_by_byte(),
        Reply::tool("A", json!({"a": 1})).call("B", json!({})).without_index(),
        Reply::text("x").no_usage().stop("max_tokens"),
        Reply::text("x").stop("max_tokens").no_last_event(),
        Reply::empty().chunks(3, "tok ").delay_each(Duration::from_millis(20)),
        Reply::raw_sse(["data: a", "b\n\n"]).content_type("text/plain"),
        Reply::empty(),
    ])
    .await;
    let client = client();
    let crlf = ask(&server, &client, MESSAGES).await.1;
    assert!(crlf.starts_with("event: message_start\r\ndata: "));
    assert_eq!(joined(&crlf, "/delta/text"), "crlf");
    let cr = ask(&server, &client, CHAT).await.1;
    assert!(cr.contains("\r\r") && !cr.contains('\n'));
    assert_eq!(joined(&cr.replace('\r', "\n"), "/choices/0/delta/content"), "cr");
    let calls = ask(&server, &client, CHAT).await.1;
    assert_eq!(joined(&calls, "/choices/0/delta/tool_calls/0/function/name"), "AB");
    assert!(!calls.contains(r#"{"tool_calls":[{"index""#));
    let bare = ask(&server, &client, MESSAGES).await.1;
    assert!(!bare.contains("usage") && bare.contains(r#""stop_reason":"max_tokens""#));
    let unfinished = ask(&server, &client, CHAT).await.1;
    assert!(unfinished.contains(r#""finish_reason":"length""#) && !unfinished.contains("[DONE]"));
    let before = std::time::Instant::now();
    let slow = ask(&server, &client, CHAT).await.1;
    assert_eq!(joined(&slow, "/choices/0/delta/content"), "tok tok tok ");
    assert!(before.elapsed() >= Duration::from_millis(60));
    let exact = read_to(&mut raw(&server, MESSAGES).await, "\r\n0\r\n\r\n").await;
    assert!(exact.contains("content-type: text/plain\r\n") && !exact.contains("event-stream"));
    assert!(exact.ends_with("\r\n\r\n7\r\ndata: a\r\n3\r\nb\n\n\r\n0\r\n\r\n"), "{exact}");
    let nothing = ask(&server, &client, MESSAGES).await.1;
    assert!(!nothing.contains("content_block") && nothing.contains("end_turn"));
    let past = ask(&server, &client, MESSAGES).await.1;
    assert_eq!(joined(&past, "/delta/text"), "Done.");
    assert_eq!((server.connections(), server.closed_early()), (2, 0));
}

#[tokio::test]
async fn errors_have_the_shape_of_the_protocol() {
    let server = ModelServer::start(vec![
        Reply::http(503).header("Retry-After", "7").header("content-type", "text/html").body("<p>busy"),
        Reply::provider_error(529, "Overloaded"),
        Reply::provider_error(429, "slow down"),
        Reply::context_too_long(),
        Reply::context_too_long(),
        Reply::context_too_long().llama_cpp(),
    ])
    .await;
    let client = client();
    let plain = client.post(server.url().to_owned() + CHAT).json(&request(CHAT)).send().await.unwrap();
    assert_eq!(plain.status(), 503);
    assert_eq!(plain.headers()["retry-after"], "7");
    assert_eq!(plain.text().await.unwrap(), "<p>busy");
    let mut seen = Vec::new();
    for path in [MESSAGES, CHAT, MESSAGES, CHAT, CHAT] {
        let (status, body) = ask(&server, &client, path).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let (kind, code) = (&body["error"]["type"], &body["error"]["code"]);
        seen.push(format!("{status} {} {kind} {code}", body["type"]));
    }
    let expected = [
        r#"529 "error" "overloaded_error" null"#,
        r#"429 null "rate_limit_exceeded" "rate_limit_exceeded""#,
        r#"400 "error" "invalid_request_error" null"#,
        r#"400 null "invalid_request_error" "context_length_exceeded""#,
        r#"400 null "exceed_context_size_error" 400"#,
    ];
    assert_eq!(seen, expected);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn streams_break_off_where_the_script_says() {
    let server = ModelServer::start(vec![
        Reply::cut_before_headers(),
        Reply::empty().chunks(5, "tok ").cut_after(2),
        Reply::text("all of it").cut_after(99),
        Reply::empty().chunks(5, "tok ").end_after(3),
        Reply::empty().chunks(2, "tok ").malformed_event_after(1),
        Reply::raw_sse(["data: 1\n\n", "data: 2\n\n"]).cut_after(1),
    ])
    .await;
    assert_eq!(read_all(raw(&server, MESSAGES).await).await, "");
    let cut = read_all(raw(&server, MESSAGES).await).await;
    assert_eq!(cut.matches("tok ").count(), 2);
    assert!(!cut.contains("content_block_stop") && !cut.contains("\r\n0\r\n\r\n"));
    let cut = read_all(raw(&server, MESSAGES).await).await;
    assert!(cut.contains("content_block_stop") && !cut.contains("message_delta"));
    let client = client();
    let (status, ended) = ask(&server, &client, CHAT).await;
    assert_eq!((status, ended.matches("tok ").count()), (200, 3));
    assert!(!ended.contains(r#""finish_reason":"stop""#) && !ended.contains("[DONE]"));
    let (_, malformed) = ask(&server, &client, CHAT).await;
    let broken: Vec<_> = malformed.lines().filter(|line| line.ends_with(r#""content":"#)).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(malformed.matches("tok ").count(), 2);
    assert!(malformed.ends_with("[DONE]\n\n"));
    let cut = read_all(raw(&server, CHAT).await).await;
    assert!(cut.contains("data: 1") && !cut.contains("data: 2"));
    assert_eq!(server.closed_early(), 0);
}

#[tokio::test]
async fn a_silent_stream_stays_open_until_the_client_leaves() {
    let server = ModelServer::start(vec![
        Reply::hang_before_headers(),
        Reply::hang_after_headers(),
        Reply::text("some").hang_after(1),
        Reply::text("some").error_event_after(1, "Overloaded, sorry"),
        Reply::text("some").error_event_after(0, "Overloaded, sorry"),
        Reply::empty().chunks(9, "tok ").delay_each(Duration::from_mins(1)),
    ])
    .await;
    let waits_for = [
        (MESSAGES, ""),
        (MESSAGES, "\r\n\r\n"),
        (CHAT, "some"),
        (
            MESSAGES,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded, sorry\"}}\n\n\r\n",
        ),
        (
            CHAT,
            "data: {\"error\":{\"message\":\"Overloaded, sorry\",\"type\":\"server_error\",\"code\":500}}\n\n\r\n",
        ),
        (CHAT, "assistant"),
    ];
    for (position, (path, end)) in waits_for.into_iter().enumerate() {
        let mut stream = raw(&server, path).await;
        server.wait_requests(position + 1).await;
        read_to(&mut stream, end).await;
        if position != 2 && position != 5 {
            assert!(is_silent(&mut stream).await, "{position}");
        }
        assert_eq!(server.closed_early(), position);
        drop(stream);
        server.wait_closed_early(position + 1).await;
    }
    let mut stream = raw(&server, CHAT).await;
    read_to(&mut stream, "[DONE]\n\n\r\n0\r\n\r\n").await;
    assert!(is_silent(&mut stream).await);
    drop(server);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "dropping the server closes its sockets");
}

#[tokio::test]
async fn every_request_is_recorded() {
    let counting =
        |request: &Recorded, number: usize| Reply::text(format!("{number}: {}", request.messages().len()));
    let server = ModelServer::with(counting).await;
    server.on_get("/props", 200, json!({"n_ctx": 8192}));
    let mut stream = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).await.unwrap();
    let body = request(MESSAGES).to_string();
    let (one, two) = body.split_at(10);
    let wire = format!(
        "POST /x/v1/messages?beta=true HTTP/1.1\r\nX-Api-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{one}\r\n{:X};ext=1\r\n{two}\r\n0\r\ntrailer: 1\r\n\r\n",
        one.len(),
        two.len()
    );
    stream.write_all(wire.as_bytes()).await.unwrap();
    assert!(read_to(&mut stream, "message_stop").await.contains("0: 1"));

    let client = client();
    let mut with_tools = request(CHAT);
    with_tools["tools"] =
        json!([{"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}]);
    assert!(send(&server, &client, CHAT, &with_tools).await.1.contains("1: 1"));
    for (path, status) in [("/v1/models", 200), ("/props", 200), ("/api/version", 404)] {
        let response = client.get(format!("{}{path}", server.url())).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
    }

    let seen = server.requests();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].path, "/x/v1/messages?beta=true");
    assert_eq!(seen[0].header("x-api-key"), Some("k"));
    assert_eq!(seen[0].body, request(MESSAGES));
    assert!(seen[0].at <= seen[1].at);
    assert_eq!((seen[0].connection, seen[1].connection), (0, 1));
    assert_eq!(seen[1].tool_names(), ["Read"]);
    let others: Vec<_> = server.other_requests().into_iter().map(|other| other.path).collect();
    assert_eq!(others, ["/v1/models", "/props", "/api/version"]);
    assert_eq!((server.connections(), server.illegal()), (2, Vec::new()));
}
