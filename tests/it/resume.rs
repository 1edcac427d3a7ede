//! What `--continue` finds: the same words byte for byte, whatever ended the session before.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cli::{Project, finish, read_log};
use crate::support::{ModelServer, Protocol, Reply};

const BOTH: [Protocol; 2] = [Protocol::Messages, Protocol::Chat];

/// The messages without the cache marks, which move on with the end.
fn unmarked(messages: &Value) -> Vec<String> {
    fn strip(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(strip).collect(),
            Value::Object(map) => map
                .iter()
                .filter(|(key, _)| *key != "cache_control")
                .map(|(k, v)| (k.clone(), strip(v)))
                .collect(),
            other => other.clone(),
        }
    }
    messages.as_array().into_iter().flatten().map(|message| strip(message).to_string()).collect()
}

#[tokio::test]
async fn earlier_messages_and_the_prefix_are_the_same_byte_for_byte() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![
            Reply::thinking("I should look.")
                .say("Looking.")
                .call("Read", json!({"file_path": "a.txt", "limit": 5})),
            Reply::thinking("Now I know.").say("It says alpha."),
            Reply::text("Yes."),
        ])
        .await;
        let project = Project::new();
        project.write("a.txt", "alpha\u{2028}beta\n");
        let odd = "look \u{2028}\u{2029}\u{85} \"quoted\" \\ 你好 👩‍💻 e\u{301}";
        assert_eq!(project.run(&server, protocol).prompt(odd).await.ended(), (0, "It says alpha."));
        let done = project.run(&server, protocol).args(&["--continue"]).prompt("sure?").await;
        assert_eq!(done.ended(), (0, "Yes."));
        let requests = server.requests();
        let sent: Vec<Vec<String>> = requests.iter().map(|r| unmarked(&r.body["messages"])).collect();
        for pair in sent.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{pair:#?}");
        }
        for key in ["system", "tools", "model"] {
            assert_eq!(requests[0].body[key], requests[2].body[key], "{key}");
        }
        let last = requests[2].body["messages"].to_string();
        assert!(last.contains(&json!(odd).to_string()), "{last}");
        match protocol {
            Protocol::Messages => {
                assert_eq!(last.matches("\"signature\":\"bW9jaw==\"").count(), 2, "{last}");
            }
            Protocol::Chat => {
                assert!(last.contains("\"reasoning_content\":\"I should look.\""), "{last}");
            }
        }
        assert_eq!(server.illegal(), Vec::<String>::new());
        assert_eq!(project.logs().len(), 1);
    }
}

#[tokio::test]
async fn a_killed_run_comes_back_with_its_call_unknown() {
    for protocol in BOTH {
        let call = Reply::text("Running.").call("Bash", json!({"command": "touch started; sleep 60"}));
        let server = ModelServer::start(vec![call, Reply::text("I will check.")]).await;
        let project = Project::new();
        let mut child = project.run(&server, protocol).args(&["--allow-write", "-p", "run it"]).spawn();
        for _ in 0..2_000 {
            if project.path("started").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        child.start_kill().unwrap();
        child.wait().await.unwrap();
        let done = project.run(&server, protocol).args(&["-c"]).prompt("and?").await;
        assert_eq!(done.ended(), (0, "I will check."));
        assert_eq!(server.illegal(), Vec::<String>::new());
        let sent = server.requests()[1].body["messages"].to_string();
        assert!(sent.contains("outcome is unknown"), "{sent}");
        let ends = project.events().iter().filter(|e| e["event"]["type"] == "tool_finished").count();
        assert_eq!(ends, 1);
    }
}

#[tokio::test]
async fn a_run_killed_in_mid_stream_goes_on_from_the_prompt() {
    let server =
        ModelServer::start(vec![Reply::text("half an answer").hang_after(1), Reply::text("Whole.")]).await;
    let project = Project::new();
    let mut child = project.run(&server, Protocol::Messages).args(&["-p", "first"]).spawn();
    server.wait_requests(1).await;
    child.start_kill().unwrap();
    child.wait().await.unwrap();
    let done = project.run(&server, Protocol::Messages).args(&["-c"]).prompt("second").await;
    assert_eq!(done.ended(), (0, "Whole."));
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(sent.contains("first") && sent.contains("second"), "{sent}");
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn a_torn_last_line_costs_only_itself() {
    let server = ModelServer::start(vec![]).await;
    let project = Project::new();
    assert_eq!(project.run(&server, Protocol::Messages).prompt("first").await.code, 0);
    let log = project.logs().remove(0);
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() - 20]).unwrap();
    let done = project.run(&server, Protocol::Messages).args(&["-c"]).prompt("second").await;
    assert_eq!(done.ended(), (0, "Done."));
    let text = std::fs::read_to_string(&log).unwrap();
    let broken = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
    assert_eq!(broken, 1);
    assert_eq!(server.requests()[1].messages().len(), 3);
}

#[tokio::test]
async fn sessions_are_private_even_in_a_folder_that_was_open() {
    let server = ModelServer::start(vec![]).await;
    let project = Project::new();
    assert_eq!(project.run(&server, Protocol::Messages).prompt("hi").await.code, 0);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let log = project.logs().remove(0);
    let folder = log.parent().unwrap();
    assert_eq!((mode(folder), mode(&log)), (0o700, 0o600));
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(project.run(&server, Protocol::Messages).args(&["-c"]).prompt("hi").await.code, 0);
    assert_eq!(mode(folder), 0o700);
}

#[tokio::test]
async fn two_that_go_on_at_once_do_not_mix() {
    let server = ModelServer::start(vec![
        Reply::text("One."),
        Reply::text("slow ").hang_after(1),
        Reply::text("Three."),
    ])
    .await;
    let project = Project::new();
    let run = || project.run(&server, Protocol::Messages);
    assert_eq!(run().prompt("one").await.code, 0);
    let first = run().args(&["-c", "-p", "two"]).spawn();
    server.wait_requests(2).await;
    let second = run().args(&["-c"]).prompt("two as well").await;
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains("in use"), "{}", second.stderr);
    assert_eq!(server.requests().len(), 2);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(first.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(finish(first).await.code, 130);
    assert_eq!(run().args(&["-c"]).prompt("three").await.ended(), (0, "Three."));
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn a_session_in_which_nothing_was_said_is_passed_over() {
    let server = ModelServer::start(vec![]).await;
    let project = Project::new();
    let run = || project.run(&server, Protocol::Messages);
    assert_eq!(run().prompt("the real one").await.code, 0);
    let log = project.logs().remove(0);
    let header = std::fs::read_to_string(&log).unwrap().lines().next().unwrap().to_owned();
    for (name, text) in [
        ("zz-header.jsonl", format!("{header}\n")),
        ("zz-torn.jsonl", header.chars().take(30).collect()),
        ("zz-empty.jsonl", String::new()),
    ] {
        std::fs::write(log.with_file_name(name), text).unwrap();
    }
    assert_eq!(run().args(&["-c"]).prompt("more").await.code, 0);
    assert!(server.requests()[1].body["messages"].to_string().contains("the real one"));
    let empty = Project::new();
    let done = empty.run(&server, Protocol::Messages).args(&["-c"]).prompt("more").await;
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("no session to continue"), "{}", done.stderr);
}

#[tokio::test]
async fn each_event_stands_in_the_log_before_its_effect() {
    let server =
        ModelServer::start(vec![Reply::tool("Read", json!({"file_path": "a.txt"})), Reply::text("Done.")])
            .await;
    let project = Project::new();
    project.write("a.txt", "alpha");
    assert_eq!(project.run(&server, Protocol::Messages).prompt("hi").await.code, 0);
    let events = read_log(&project.logs()[0]);
    let kinds: Vec<&str> =
        events.iter().filter_map(|e| e["event"]["type"].as_str()).filter(|k| *k != "state_changed").collect();
    let expected = [
        "session_started",
        "turn_started",
        "message_added",
        "message_added",
        "tool_started",
        "tool_finished",
        "message_added",
        "turn_finished",
    ];
    assert_eq!(kinds, expected);
    let seqs: Vec<u64> = events.iter().filter_map(|e| e["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["event"]["format"], 1);
}

#[tokio::test]
async fn a_full_disk_ends_the_run_with_its_reason() {
    // The limit on file size stands in for a full disk: the first kilobytes fit, the rest does not.
    let server = ModelServer::start(vec![Reply::text("x".repeat(300_000))]).await;
    let project = Project::new();
    let run = project.run(&server, Protocol::Messages);
    let done = run.limited_to(64).prompt("hi").await;
    assert_eq!(done.ended(), (1, ""));
    assert!(done.stderr.contains("could not be written"), "{}", done.stderr);
}
