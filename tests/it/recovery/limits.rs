//! The output limit and the window: raised, continued, cut down, and named when nothing helps.

use serde_json::{Value, json};

use super::BOTH;
use super::streams::results;
use crate::support::cli::Project;
use crate::support::{ModelServer, Protocol, Recorded, Reply};

fn limit(request: &Recorded) -> u64 {
    let body = &request.body;
    body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64()).unwrap_or(0)
}

#[tokio::test]
async fn the_limit_is_raised_then_the_answer_continued_and_joined() {
    for (protocol, most) in [(Protocol::Messages, 64_000), (Protocol::Chat, 16_384)] {
        let cut = |text: &str| Reply::text(text).stop("max_tokens");
        let server = ModelServer::start(vec![
            cut("lost "),
            cut("one "),
            cut("two "),
            cut("three "),
            Reply::text("four."),
        ])
        .await;
        let project = Project::new();
        let done = project.run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "one two three four."));
        let done = project.run(&server, protocol).args(&["--continue"]).prompt("more").await;
        assert_eq!(done.ended(), (0, "Done."));
        let requests = server.requests();
        let limits: Vec<u64> = requests.iter().map(limit).collect();
        assert_eq!(limits, [8_192, most, most, most, most, 8_192]);
        assert_eq!(requests[0].body["messages"], requests[1].body["messages"]);
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_reply_that_ends_normally_resets_the_limit_within_a_turn() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![
            Reply::text("cut").stop("max_tokens"),
            Reply::tool("Read", json!({"file_path": "a.txt"})),
            Reply::text("Done."),
        ])
        .await;
        let project = Project::new();
        project.write("a.txt", "alpha");
        let done = project.run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Done."));
        let limits: Vec<u64> = server.requests().iter().map(limit).collect();
        assert!(limits[1] > 8_192 && limits[0] == 8_192 && limits[2] == 8_192, "{limits:?}");
    }
}

#[tokio::test]
async fn an_answer_that_never_fits_ends_with_an_error() {
    for protocol in BOTH {
        let server = ModelServer::with(|_, _| Reply::text("and ").stop("max_tokens")).await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (1, ""));
        assert!(done.stderr.contains("output limit"), "{}", done.stderr);
        assert_eq!(server.requests().len(), 5);
    }
}

#[tokio::test]
async fn a_cut_call_never_runs_and_three_end_the_turn() {
    for protocol in BOTH {
        let server = ModelServer::with(|_, _| {
            Reply::empty()
                .raw_call_args("Write", r#"{"file_path":"out.txt","content":"line 1\nline 2"#)
                .stop("max_tokens")
        })
        .await;
        let project = Project::new();
        project.write("out.txt", "keep me\n");
        let done = project.run(&server, protocol).args(&["--allow-write"]).prompt("write it").await;
        assert_eq!(done.ended(), (1, ""));
        assert_eq!(project.read("out.txt"), "keep me\n");
        assert!(done.stderr.contains("stuck"), "{}", done.stderr);
        let requests = server.requests();
        // The first is asked again with the raised limit; the results of three rounds tell of the limit.
        assert_eq!(requests.len(), 4);
        let results = results(protocol, &requests[3]);
        assert!(
            results.len() == 2 && results.iter().all(|r| r.2 && r.1.contains("output limit")),
            "{results:?}"
        );
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

/// Three turns of much text, then a request that does not fit `times` times.
async fn overflow(
    protocol: Protocol,
    too_long: Reply,
    times: usize,
) -> (Project, ModelServer, i32, String, String) {
    let mut replies: Vec<Reply> =
        (0..3).map(|n| Reply::text(format!("{n} {}", "words ".repeat(400)))).collect();
    replies.extend(vec![too_long; times]);
    replies.push(Reply::text("It fits."));
    let server = ModelServer::start(replies).await;
    let project = Project::new();
    for n in 0..3 {
        let mut run = project.run(&server, protocol);
        if n > 0 {
            run = run.args(&["--continue"]);
        }
        assert_eq!(run.prompt(&format!("turn {n}")).await.code, 0);
    }
    let done = project.run(&server, protocol).args(&["-c"]).prompt("the last").await;
    (project, server, done.code, done.stdout, done.stderr)
}

#[tokio::test]
async fn a_context_too_long_is_cut_once_in_every_providers_words() {
    let plain = Reply::context_too_long;
    let cases = [
        (Protocol::Messages, plain()),
        (Protocol::Chat, plain()),
        (Protocol::Chat, plain().llama_cpp()),
        (Protocol::Messages, Reply::provider_error(413, "Request exceeds the maximum size")),
        (
            Protocol::Messages,
            Reply::provider_error(
                400,
                "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            ),
        ),
    ];
    for (protocol, too_long) in cases {
        let (project, server, code, stdout, stderr) = overflow(protocol, too_long, 1).await;
        assert_eq!((code, stdout.trim()), (0, "It fits."), "{stderr}");
        let requests = server.requests();
        assert_eq!(requests.len(), 5);
        assert!(requests[4].messages().len() < requests[3].messages().len());
        let said = requests[4].body["messages"].to_string();
        assert!(said.contains("left out") && said.contains("the last"), "{said}");
        assert_eq!(server.illegal(), Vec::<String>::new());
        // What was cut stays cut, and the session goes on.
        let done = project.run(&server, protocol).args(&["-c"]).prompt("more").await;
        assert_eq!(done.ended(), (0, "Done."));
        let after = server.requests()[5].body["messages"].to_string();
        assert!(after.contains("left out") && after.contains("It fits."), "{after}");
    }
}

#[tokio::test]
async fn a_context_too_long_twice_is_a_clear_error() {
    for protocol in BOTH {
        let (_, server, code, _, stderr) = overflow(protocol, Reply::context_too_long(), 2).await;
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("/clear"), "{stderr}");
        assert_eq!(server.requests().len(), 5);
        assert_eq!(server.requests()[4].body["messages"].as_array().map(Vec::is_empty), Some(false));
    }
    let server = ModelServer::start(vec![Reply::context_too_long()]).await;
    let done =
        Project::new().run(&server, Protocol::Messages).args(&["--output-format", "json"]).prompt("hi").await;
    let result: Value = done.json();
    assert_eq!((done.code, &result["terminal_reason"]), (1, &json!("error")), "{result}");
    assert_eq!(server.requests().len(), 1);
}
