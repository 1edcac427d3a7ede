//! What a real llama.cpp server sent, cut in every way.

use proptest::prelude::*;

use super::decode_tests::{decoder, seen};
use crate::protocol::StopReason;
use crate::provider::Failure;
use crate::provider::failure::ErrorReply;
use crate::provider::testing::{After, all, bytewise, read, reply};

/// The body of a captured response, and its status.
fn capture(name: &str) -> (u16, Vec<u8>) {
    let path = format!("{}/tests/it/fixtures/llama-cpp/{name}.raw.txt", env!("CARGO_MANIFEST_DIR"));
    let raw = std::fs::read(path).unwrap();
    let at = raw.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(raw[..at].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &raw[at + 4..];
    if !head.contains("Transfer-Encoding: chunked") {
        return (status, rest.to_vec());
    }
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (status, body);
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

#[test]
fn a_real_server_is_understood() {
    for (name, text, usage, stop) in [
        ("nonstream", "Hello! I'm here to help with any kind of creative", true, StopReason::MaxTokens),
        ("nonstream-tool-required", "The secret word is:", true, StopReason::MaxTokens),
        ("err-badtoolargs", "", true, StopReason::EndTurn),
        ("stream-plain", "", true, StopReason::MaxTokens),
        ("stream-nousage", "", false, StopReason::MaxTokens),
        ("stream-tool-auto", "The secret word is", true, StopReason::MaxTokens),
        ("stream-tool-named", "", true, StopReason::MaxTokens),
        ("stream-tool-required", "", true, StopReason::MaxTokens),
        ("stream-toolresult", "", true, StopReason::EndTurn),
        ("notemplate-toolhistory", "The secret", false, StopReason::EndTurn),
    ] {
        let (status, body) = capture(name);
        let got = seen(read(decoder(), vec![body.clone()]));
        assert_eq!(status, 200);
        assert!(got.text.starts_with(text), "{name}: {got:?}");
        assert_eq!(
            (got.usage.is_some(), got.stop, got.calls.len()),
            (usage, Some(stop), 0),
            "{name}: {got:?}"
        );
        assert!(name == "err-badtoolargs" || !got.text.is_empty(), "{name}");
        assert_eq!(seen(read(decoder(), bytewise(&[body]))), got, "{name} byte by byte");
    }
}

#[test]
fn a_real_servers_refusals_are_understood() {
    for (name, want) in [
        ("err-404", Failure::NotFound),
        ("err-badjson", Failure::Invalid),
        ("err-context-nonstream", Failure::ContextOverflow),
        ("err-context-stream", Failure::ContextOverflow),
        ("err-nomessages", Failure::Invalid),
    ] {
        let (status, body) = capture(name);
        let reply = ErrorReply::read(&body);
        assert_eq!(reply.classify(Some(status), None), want, "{name}");
        assert!(!reply.message.is_empty() && !reply.message.contains('{'), "{name}: {}", reply.message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_real_stream_cut_anywhere_is_the_same(sizes in prop::collection::vec(1usize..400, 1..20)) {
        let (_, body) = capture("stream-tool-required");
        let mut chunks = Vec::new();
        let mut rest = &body[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk.to_vec());
            rest = after;
        }
        prop_assert_eq!(seen(read(decoder(), chunks)), seen(read(decoder(), vec![body])));
    }

    #[test]
    fn no_chunk_brings_it_down(data in "[ -~é\\n]{0,60}", field in "(choices|delta|tool_calls|index|id|usage|error|function)") {
        let events = [
            format!("data: {data}\n\n"),
            format!("data: {{\"{field}\": {data}}}\n\n"),
            format!("data: {{\"choices\":[{{\"delta\":{{\"{field}\":[{{\"{field}\":1}}]}}}}]}}\n\n"),
        ];
        let chunks = events.into_iter().map(String::into_bytes).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { all(reply(decoder(), "text/event-stream", chunks, After::End)).await });
    }
}
