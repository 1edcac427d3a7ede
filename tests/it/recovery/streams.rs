//! Streams that break: before their content they are repeated, after it what arrived is kept.

use std::time::Duration;

use serde_json::json;

use super::BOTH;
use crate::support::cli::Project;
use crate::support::{ModelServer, Protocol, Recorded, Reply};

/// The results in a request, as `(call, text, whether it says that the call failed)`.
pub(crate) fn results(protocol: Protocol, request: &Recorded) -> Vec<(String, String, bool)> {
    let text = |value: &serde_json::Value| match value.as_array() {
        Some(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<String>(),
        None => value.as_str().unwrap_or_default().to_owned(),
    };
    let own = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    match protocol {
        Protocol::Messages => request
            .messages()
            .iter()
            .flat_map(|message| message["content"].as_array().into_iter().flatten())
            .filter(|block| block["type"] == "tool_result")
            .map(|block| (own(&block["tool_use_id"]), text(&block["content"]), block["is_error"] == true))
            .collect(),
        Protocol::Chat => request
            .messages()
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| {
                let text = text(&message["content"]);
                (own(&message["tool_call_id"]), text.clone(), text.starts_with("Error"))
            })
            .collect(),
    }
}

#[tokio::test]
async fn a_stream_cut_before_any_content_is_asked_for_again() {
    let cuts = || {
        [
            Reply::cut_before_headers(),
            Reply::empty().cut_after(0),
            Reply::empty().end_after(0),
            Reply::thinking("Hm, let me see.").cut_after(1),
            Reply::http(200).body(""),
        ]
    };
    let runs = BOTH.into_iter().flat_map(|protocol| {
        cuts().map(|cut| async move {
            let server = ModelServer::start(vec![cut.clone(), Reply::text("Whole.")]).await;
            let done = Project::new().run(&server, protocol).prompt("hi").await;
            assert_eq!(done.ended(), (0, "Whole."), "{cut:?}");
            assert_eq!((server.requests().len(), done.retries()), (2, 1), "{cut:?}");
            let requests = server.requests();
            assert_eq!(requests[0].body, requests[1].body);
        })
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn text_that_arrived_before_a_cut_is_kept_and_continued() {
    for protocol in BOTH {
        for cut in [Reply::text("The answer is ").cut_after(1), Reply::text("The answer is ").end_after(1)] {
            let server = ModelServer::start(vec![cut, Reply::text("42.")]).await;
            let project = Project::new();
            let done = project.run(&server, protocol).args(&["--output-format", "json"]).prompt("hi").await;
            assert_eq!(
                (done.code, &done.json()["result"]),
                (0, &json!("The answer is 42.")),
                "{}",
                done.stderr
            );
            assert_eq!((server.requests().len(), done.retries()), (2, 0));
            assert_eq!(server.illegal(), Vec::<String>::new());
            assert!(done.stderr.contains("broke off"), "{}", done.stderr);
        }
    }
}

#[tokio::test]
async fn a_whole_call_before_a_cut_runs_and_an_unfinished_one_is_closed() {
    for protocol in BOTH {
        let cut = Reply::tool("Read", json!({"file_path": "a.txt"}))
            .call("Write", json!({"file_path": "b.txt", "content": "new"}))
            .chunk_size(12)
            .cut_after(3);
        let server = ModelServer::start(vec![cut, Reply::text("Done.")]).await;
        let project = Project::new();
        project.write("a.txt", "alpha\n");
        let done = project.run(&server, protocol).args(&["--allow-write"]).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Done."));
        let results = results(protocol, &server.requests()[1]);
        assert!(results[0].1.contains("alpha") && !results[0].2, "{results:?}");
        assert!(results[1].2 && results[1].1.contains("connection broke"), "{results:?}");
        assert!(!project.path("b.txt").exists());
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_error_event_after_content_is_the_cause_that_is_shown() {
    for protocol in BOTH {
        let fails = || Reply::text("So far ").error_event_after(1, "MARK-7781");
        let server = ModelServer::start(vec![fails(), Reply::text("so good.")]).await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "So far so good."));
        assert!(done.stderr.contains("MARK-7781") && done.took < Duration::from_secs(3), "{done:?}");
        server.wait_closed_early(1).await;

        let server = ModelServer::with(move |_, _| fails()).await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (1, ""));
        let last = done.stderr.lines().last().unwrap_or_default();
        assert!(last.contains("MARK-7781"), "{}", done.stderr);
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn one_unreadable_event_is_passed_over() {
    for protocol in BOTH {
        let server =
            ModelServer::start(vec![Reply::text("All of it, in some chunks.").malformed_event_after(1)])
                .await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "All of it, in some chunks."));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_never_says_its_end_but_is_whole_is_taken() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![Reply::text("Whole.").no_last_event()]).await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Whole."));
        assert_eq!(server.requests().len(), 1);
    }
}
