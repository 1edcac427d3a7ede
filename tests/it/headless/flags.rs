//! Flags and variables as scripts give them, seen in what the server is asked.

use serde_json::{Value, json};

use crate::support::{ModelServer, Pointed as _, Project, Recorded, Reply, finish};

/// The first request of a run by the Messages protocol.
async fn request(project: &Project, args: &[&str]) -> Recorded {
    let server = ModelServer::start(vec![Reply::text("Hello.")]).await;
    let run = finish(project.reagent(["-p", "x"].iter().chain(args)).messages(&server)).await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "Hello.\n"), "{run:?}");
    server.requests().remove(0)
}

fn system(request: &Recorded) -> String {
    request.body["system"].to_string()
}

#[tokio::test]
async fn the_system_prompt_can_be_added_to_and_replaced() {
    let project = Project::new();
    let plain = system(&request(&project, &[]).await);
    let added = system(&request(&project, &["--append-system-prompt", "Speak Latin."]).await);
    assert!(!plain.contains("Speak Latin.") && added.contains("Speak Latin."));
    assert!(added.len() < plain.len() + 100);
    let replaced = system(&request(&project, &["--system-prompt", "You are a poet."]).await);
    assert!(replaced.contains("You are a poet.") && replaced.len() < plain.len(), "{replaced}");
}

#[tokio::test]
async fn instructions_and_folders_reach_the_model() {
    let project = Project::new();
    project.write("AGENTS.md", "Rule one: MARK-A.");
    project.write("../more/x.txt", "x");
    let asked = request(&project, &["--add-dir", "../more"]).await;
    let all = asked.body.to_string();
    assert!(all.contains("MARK-A"), "{all}");
    assert!(all.contains(project.root().join("more").to_str().unwrap()), "{all}");
}

#[tokio::test]
async fn effort_maps_to_the_switch_of_each_service() {
    let project = Project::new();
    let thinking = request(&project, &["--model", "sonnet", "--effort", "high"]).await.body;
    assert_eq!(
        (&thinking["thinking"]["type"], &thinking["output_config"]["effort"]),
        (&json!("adaptive"), &json!("high")),
        "{thinking}"
    );
    assert_eq!(request(&project, &["--model", "sonnet"]).await.body["output_config"], Value::Null);
    for (flags, expected) in [(&["--effort", "low"][..], json!("low")), (&[], Value::Null)] {
        let server = ModelServer::start(vec![Reply::text("Hello.")]).await;
        let args = ["-p", "x", "--model", "gpt"].iter().chain(flags);
        finish(project.reagent(args).chat(&server)).await;
        assert_eq!(server.requests()[0].body["reasoning_effort"], expected);
    }
}

#[tokio::test]
async fn an_unknown_model_is_taken_with_a_warning() {
    let project = Project::new();
    let server = ModelServer::start(vec![Reply::text("Hello.")]).await;
    let run = finish(project.reagent(["-p", "x", "--model", "unheard-of"]).chat(&server)).await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "Hello.\n"));
    assert!(run.stderr.contains("unheard-of") && run.stderr.contains("window"), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    assert_eq!(server.requests()[0].body["model"], "unheard-of");
}

#[tokio::test]
async fn a_budget_needs_a_price() {
    let project = Project::new();
    let server = ModelServer::start(vec![]).await;
    let args = ["-p", "x", "--model", "unheard-of", "--max-budget-usd", "1"];
    let run = finish(project.reagent(args).chat(&server)).await;
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    assert!(run.stderr.contains("--max-tokens"), "{run:?}");
    assert_eq!(server.requests().len(), 0);
    for wrong in ["-1", "NaN", "inf", "much"] {
        let run =
            finish(project.reagent(["-p", "x", &format!("--max-budget-usd={wrong}")]).messages(&server))
                .await;
        assert_eq!((run.code, server.requests().len()), (2, 0), "{wrong}: {run:?}");
    }
    let usage = Reply::tool("NoSuchTool", json!({})).usage(900_000, 50_000, 0, 0);
    let server = ModelServer::start(vec![usage]).await;
    let run = finish(project.reagent(["-p", "x", "--max-budget-usd", "0.5"]).messages(&server)).await;
    assert_eq!((run.code, server.requests().len()), (5, 1), "{run:?}");
    assert!(run.stderr.contains("0.5"), "{run:?}");
}

#[tokio::test]
async fn the_offline_model_is_said_once_and_only_when_nobody_chose_it() {
    let project = Project::new();
    project.write("a.txt", "one\n");
    let cases: [(&[&str], &[(&str, &str)], bool); 5] = [
        (&[], &[], true),
        (&["--mock"], &[], false),
        (&["--model", "offline"], &[], false),
        (&[], &[("QUERY_MOCK", "1")], false),
        (
            &["--mock"],
            &[("ANTHROPIC_API_KEY", "k-12345678"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")],
            false,
        ),
    ];
    for (flags, env, said) in cases {
        let mut command = project.reagent(["-p", "make coffee"].iter().chain(flags));
        for (name, value) in env {
            command = command.with(name, value);
        }
        let run = finish(command).await;
        assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{flags:?} {env:?}: {run:?}");
        assert_eq!(
            run.stderr.contains("using the built-in offline model"),
            said,
            "{flags:?} {env:?}: {run:?}"
        );
        assert!(run.stderr.contains("list files"), "{run:?}");
    }
}

#[tokio::test]
async fn a_session_goes_on_in_its_own_folder_alone() {
    let project = Project::new();
    let server = ModelServer::start(vec![Reply::text("One."), Reply::text("Two.")]).await;
    finish(project.reagent(["-p", "first words"]).messages(&server)).await;
    let run = finish(project.reagent(["--continue", "-p", "second words"]).messages(&server)).await;
    assert_eq!(run.stdout, "Two.\n");
    let text = server.requests()[1].body["messages"].to_string();
    assert!(text.contains("first words") && text.contains("One.") && text.contains("second words"), "{text}");
    std::fs::create_dir_all(project.root().join("other")).unwrap();
    let run = finish(project.reagent(["-c", "-p", "x", "--cwd", "../other"]).messages(&server)).await;
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("session"), "{run:?}");
}
