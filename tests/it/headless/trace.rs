//! TRACE=1 and TRACE=json: one step a line, in the order in which things happen.

use serde_json::{Value, json};

use crate::support::{ModelServer, Pointed as _, Project, Reply, finish};

async fn traced(shape: &str) -> (Project, String) {
    let project = Project::new();
    project.settings(r#"{"futureKey": 1}"#);
    let server = ModelServer::start(vec![
        Reply::provider_error(529, "busy just now"),
        Reply::text("Looking.").call_with_id("c1", "NoSuchTool", json!({})),
        Reply::text("Done."),
    ])
    .await;
    let run = finish(project.reagent(["-p", "x"]).messages(&server).with("TRACE", shape)).await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "Done.\n"), "{run:?}");
    (project, run.stderr)
}

const ORDER: [&str; 11] = [
    "cli.start",
    "query.turn_start",
    "prefix.changed",
    "api.request",
    "api.retry",
    "api.request",
    "api.assistant",
    "tool.end",
    "query.turn_start",
    "api.request",
    "api.assistant",
];

#[tokio::test]
async fn lines_in_the_seeds_form_and_in_order() {
    let (_project, stderr) = traced("1").await;
    let lines: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("[trace] ")).collect();
    let stages: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(stages[..ORDER.len()], ORDER, "{stderr}");
    assert_eq!(stages[ORDER.len()..], ["query.turn_end"], "{stderr}");
    let find = |stage: &str| lines.iter().find(|line| line.starts_with(stage)).unwrap().to_string();
    assert_eq!(find("cli.start"), "cli.start mode=headless model=sonnet");
    assert_eq!(find("query.turn_start"), "query.turn_start turn=1 depth=0");
    assert_eq!(find("tool.end"), "tool.end name=NoSuchTool id=c1 ok=false");
    assert_eq!(find("query.turn_end"), "query.turn_end reason=completed turn=2");
    assert!(find("api.retry").contains("busy just now\""), "{stderr}");
    assert!(find("prefix.changed").starts_with("prefix.changed reason=\"first request\" tools="), "{stderr}");
}

#[tokio::test]
async fn json_is_json_on_every_line_of_stderr() {
    let (_project, stderr) = traced("json").await;
    let lines: Vec<Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let stages: Vec<&str> = lines.iter().map(|line| line["stage"].as_str().unwrap()).collect();
    let steps: Vec<&str> = stages.iter().copied().filter(|stage| *stage != "message").collect();
    assert_eq!(steps[..ORDER.len()], ORDER, "{stderr}");
    assert!(stages.contains(&"message"), "the notice about the settings: {stderr}");
    let end = lines.iter().find(|line| line["stage"] == "query.turn_end").unwrap();
    assert_eq!((&end["reason"], &end["turn"]), (&json!("completed"), &json!(2)), "{end}");
}

#[tokio::test]
async fn it_is_off_by_default() {
    for shape in ["", "0", "false"] {
        let (_project, stderr) = traced(shape).await;
        assert!(!stderr.contains("[trace]"), "{stderr}");
    }
}
