//! What runs without a person: refusals that name the flag, and every flag and variable that gives leave.

use serde_json::{Value, json};

use crate::support::{Finished, ModelServer, Pointed as _, Project, Reply, finish};

const WRITE: &str = "Write";
const BASH: &str = "Bash";

/// One call, then the end.
async fn call(
    project: &Project,
    name: &str,
    input: Value,
    args: &[&str],
    env: &[(&str, &str)],
) -> (Finished, String) {
    let server = ModelServer::start(vec![Reply::tool(name, input), Reply::text("Done.")]).await;
    let all = ["-p", "x", "--output-format", "json"].iter().chain(args);
    let mut command = project.reagent(all).messages(&server);
    for (name, value) in env {
        command = command.with(name, value);
    }
    let run = finish(command).await;
    assert_eq!(server.illegal(), Vec::<String>::new());
    let requests = server.requests();
    let result = requests.last().unwrap().messages().last().unwrap()["content"].to_string();
    (run, result)
}

fn write() -> Value {
    json!({"file_path": "new.txt", "content": "hello\n"})
}

fn touch(name: &str) -> Value {
    json!({"command": format!("echo hi > {name}"), "description": "makes a file"})
}

#[tokio::test]
async fn a_refusal_names_the_flag_in_every_place() {
    let project = Project::new();
    for (name, input, made) in [(WRITE, write(), "new.txt"), (BASH, touch("made"), "made")] {
        let (run, result) = call(&project, name, input.clone(), &[], &[]).await;
        assert_eq!(run.code, 3, "{run:?}");
        let record = run.result();
        assert_eq!(
            (&record["is_error"], &record["subtype"], &record["result"]),
            (&json!(false), &json!("success"), &json!("Done."))
        );
        let denial = &record["permission_denials"][0];
        assert_eq!(record["permission_denials"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&denial["tool_name"], &denial["tool_input"], &denial["tool_use_id"]),
            (&json!(name), &input, &json!("call_0_0"))
        );
        assert!(run.stderr.contains("--allow-write") && run.stderr.contains(name), "{run:?}");
        assert!(result.contains("--allow-write"), "{result}");
        assert!(!project.work().join(made).exists());
    }
}

#[tokio::test]
async fn a_refusal_is_an_event_too_and_text_says_it_on_stderr() {
    let (project, server) = (
        Project::new(),
        ModelServer::start(vec![
            Reply::tool(BASH, touch("made")),
            Reply::text("Done."),
            Reply::tool(BASH, touch("made")),
            Reply::text("Done."),
        ])
        .await,
    );
    let run = finish(project.reagent(["-p", "x", "--output-format", "stream-json"]).messages(&server)).await;
    let lines = run.lines();
    let event = lines.iter().find(|line| line["subtype"] == "permission_denied").unwrap();
    assert_eq!((&event["tool_name"], &event["tool_use_id"]), (&json!(BASH), &json!("call_0_0")));
    assert!(event["message"].as_str().unwrap().contains("--allow-write"), "{event}");
    let run = finish(project.reagent(["-p", "x"]).messages(&server)).await;
    assert_eq!((run.code, run.stdout.as_str()), (3, "Done.\n"));
    assert!(run.stderr.contains("1 call(s)") && run.stderr.contains("--allow-write"), "{run:?}");
}

/// A way to give leave: flags and environment.
type Way = (&'static [&'static str], &'static [(&'static str, &'static str)]);

#[tokio::test]
async fn every_way_to_give_leave() {
    let ways: [Way; 5] = [
        (&["--allow-write"], &[]),
        (&[], &[("ALLOW_WRITE", "1")]),
        (&["--permission-mode", "bypassPermissions"], &[]),
        (&["--permission-mode", "bypass"], &[]),
        (&["--dangerously-skip-permissions"], &[]),
    ];
    for (args, env) in ways {
        let project = Project::new();
        let (run, result) = call(&project, WRITE, write(), args, env).await;
        assert_eq!(
            (run.code, project.read("new.txt").as_str()),
            (0, "hello\n"),
            "{args:?} {env:?} {run:?} {result}"
        );
        let (run, result) = call(&project, BASH, touch("made"), args, env).await;
        assert_eq!(
            (run.code, project.read("made").as_str()),
            (0, "hi\n"),
            "{args:?} {env:?} {run:?} {result}"
        );
        assert_eq!(run.result()["permission_denials"], json!([]));
    }
    let project = Project::new();
    assert_eq!(call(&project, WRITE, write(), &["--permission-mode", "acceptEdits"], &[]).await.0.code, 0);
    assert_eq!(
        call(&project, BASH, touch("made"), &["--permission-mode", "acceptEdits"], &[]).await.0.code,
        3
    );
    for (args, env) in [
        (&["--permission-mode", "plan"][..], &[][..]),
        (&[], &[("ALLOW_WRITE", "0")]),
        (&[], &[("ALLOW_WRITE", "")]),
    ] {
        assert_eq!(call(&project, BASH, touch("made"), args, env).await.0.code, 3, "{args:?} {env:?}");
    }
}

#[tokio::test]
async fn rules_as_scripts_give_them() {
    let echo = |command: &str| json!({"command": command});
    let cases: [(&[&str], &str, i32); 9] = [
        (&["--allowedTools", "Bash(echo:*)"], "echo hi", 0),
        (&["--allowed-tools", "Bash(echo:*)"], "echo hi", 0),
        (&["--allowedTools", "Read", "Bash(echo:*)"], "echo hi", 0),
        (&["--allowedTools", "Read,Bash(echo:*)"], "echo hi", 0),
        (&["--allowedTools", "Bash(echo:*)"], "echo hi; touch made", 3),
        (&["--allowedTools", "Bash(echo:*)"], "echo hi > made", 3),
        (&["--allowedTools", "Bash(echo:*)"], "touch made", 3),
        (&["--allow-write", "--disallowedTools", "Bash(touch:*)"], "echo hi && touch made", 3),
        (&["--dangerously-skip-permissions", "--disallowedTools", "Bash(touch:*)"], "touch made", 3),
    ];
    for (args, command, code) in cases {
        let project = Project::new();
        let (run, result) = call(&project, BASH, echo(command), args, &[]).await;
        assert_eq!(run.code, code, "{args:?} {command}: {run:?} {result}");
        assert!(!project.work().join("made").exists(), "{args:?} {command}");
        if code == 0 {
            assert!(result.contains("hi"), "{result}");
        }
    }
}

#[tokio::test]
async fn reading_outside_needs_leave_and_add_dir_gives_it() {
    let project = Project::new();
    let outside = project.write("../more/x.txt", "MARK-X\n");
    let read = || json!({"file_path": outside.canonicalize().unwrap()});
    let (run, result) = call(&project, "Read", read(), &[], &[]).await;
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("--add-dir") && !result.contains("MARK-X"), "{run:?}");
    for args in [&["--add-dir", "../more"][..], &["--dangerously-skip-permissions"]] {
        let (run, result) = call(&project, "Read", read(), args, &[]).await;
        assert_eq!(run.code, 0, "{run:?}");
        assert!(result.contains("MARK-X"), "{result}");
    }
}

#[tokio::test]
async fn the_deny_rules_of_the_file_hold_against_every_flag() {
    let project = Project::new();
    project.settings(r#"{"permissions": {"deny": ["Read(./secret/**)", "Bash(touch:*)"]}}"#);
    project.write("secret/k.txt", "MARK-S\n");
    let args = ["--dangerously-skip-permissions", "--allowedTools", "Read", "Bash"];
    let (run, result) = call(&project, "Read", json!({"file_path": "secret/k.txt"}), &args, &[]).await;
    assert_eq!(run.code, 3, "{run:?}");
    assert!(!result.contains("MARK-S") && run.stderr.contains("Read(./secret/**)"), "{run:?}");
    let (run, _) = call(&project, BASH, touch("x"), &args, &[]).await;
    assert_eq!(run.code, 0, "another command runs: {run:?}");
}

#[tokio::test]
async fn a_child_agents_refusal_counts() {
    let project = Project::new();
    let server = ModelServer::start(vec![
        Reply::tool("Agent", json!({"description": "make a file", "prompt": "do it"})),
        Reply::tool(BASH, touch("made")),
        Reply::text("The child could not."),
        Reply::text("Done."),
    ])
    .await;
    let run = finish(project.reagent(["-p", "x", "--output-format", "stream-json"]).messages(&server)).await;
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(run.result()["permission_denials"][0]["tool_name"], BASH);
    assert_eq!(run.result()["result"], "Done.");
    let parents: Vec<Value> = run
        .lines()
        .iter()
        .filter(|line| line["type"] == "assistant")
        .map(|line| line["parent_tool_use_id"].clone())
        .collect();
    assert_eq!(parents, [Value::Null, json!("call_0_0"), json!("call_0_0"), Value::Null]);
}
