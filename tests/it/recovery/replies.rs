//! Replies that say nothing, the wrong thing, or no.

use serde_json::json;

use super::BOTH;
use super::streams::results;
use crate::support::cli::Project;
use crate::support::{ModelServer, Protocol, Reply};

#[tokio::test]
async fn arguments_that_are_no_json_are_told_and_nothing_runs() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![
            Reply::empty().raw_call_args("Write", r#"{"file_path":"b.txt","content":"x"#),
            Reply::empty().raw_call_args("Write", "I would write b.txt"),
            Reply::empty().raw_call_args("Read", "```json\n{\"file_path\":\"a.txt\",}\n```"),
            Reply::text("Done."),
        ])
        .await;
        let project = Project::new();
        project.write("a.txt", "alpha\n");
        let done = project.run(&server, protocol).args(&["--allow-write"]).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Done."));
        assert!(!project.path("b.txt").exists());
        let results = results(protocol, &server.requests()[3]);
        assert!(results[0].2 && results[0].1.contains("no JSON object"), "{results:?}");
        assert!(results[1].2 && results[1].1.contains("I would write"), "{results:?}");
        assert!(!results[2].2 && results[2].1.contains("alpha"), "{results:?}");
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_unknown_tool_is_told_with_the_names() {
    for protocol in BOTH {
        let server =
            ModelServer::start(vec![Reply::tool("read_file", json!({"path": "a.txt"})), Reply::text("Ok.")])
                .await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Ok."));
        let results = results(protocol, &server.requests()[1]);
        assert!(results[0].2 && results[0].1.contains("no tool named \"read_file\""), "{results:?}");
        assert!(results[0].1.contains("Read"), "{results:?}");
    }
}

#[tokio::test]
async fn an_empty_reply_is_asked_for_again_and_leaves_no_trace() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![Reply::empty(), Reply::text("There.")]).await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "There."));
        assert_eq!((server.requests().len(), done.retries()), (2, 1));

        let server = ModelServer::with(|_, _| Reply::empty()).await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (1, ""));
        assert!(done.stderr.contains("without an answer"), "{}", done.stderr);
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_refusal_is_no_answer() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![Reply::text("I can't help with that.").stop("refusal")]).await;
        let done =
            Project::new().run(&server, protocol).args(&["--output-format", "json"]).prompt("hi").await;
        let result = done.json();
        assert_eq!((done.code, &result["terminal_reason"]), (1, &json!("refusal")), "{result}");
        assert!(result["result"].as_str().unwrap().contains("I can't help with that."), "{result}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_doubled_id_from_the_server_is_made_single() {
    for protocol in BOTH {
        let twice = |path: &str| Reply::empty().call_with_id("same", "Read", json!({"file_path": path}));
        let server = ModelServer::start(vec![
            twice("a.txt").call_with_id("same", "Read", json!({"file_path": "b.txt"})),
            twice("c.txt"),
            Reply::text("Done."),
        ])
        .await;
        let project = Project::new();
        for (name, text) in [("a.txt", "alpha"), ("b.txt", "beta"), ("c.txt", "gamma")] {
            project.write(name, text);
        }
        let done = project.run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Done."));
        let results = results(protocol, &server.requests()[2]);
        let texts: Vec<bool> =
            results.iter().zip(["alpha", "beta", "gamma"]).map(|(r, text)| r.1.contains(text)).collect();
        assert_eq!(texts, [true, true, true], "{results:?}");
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn max_turns_ends_with_its_own_code_and_says_how_to_go_on() {
    let server =
        ModelServer::with(|_, n| Reply::tool("Read", json!({"file_path": "a.txt", "offset": n + 1}))).await;
    let project = Project::new();
    project.write("a.txt", "1\n2\n3\n4\n5\n");
    let run = project.run(&server, Protocol::Messages).args(&["--max-turns", "2", "--output-format", "json"]);
    let done = run.prompt("hi").await;
    let result = done.json();
    assert_eq!((done.code, &result["subtype"]), (4, &json!("error_max_turns")), "{result}");
    assert!(result["result"].as_str().unwrap().contains("--continue"), "{result}");
    assert_eq!(server.requests().len(), 2);
}
