//! The exit code and the result record agree with what happened, in every format.

use serde_json::json;

use crate::support::{Finished, ModelServer, Pointed as _, Project, Reply, finish};

const FORMATS: [&str; 3] = ["text", "json", "stream-json"];

/// What a run must come to.
struct Expected<'a> {
    code: i32,
    /// Part of the answer, or of the error.
    says: &'a str,
}

/// Runs one prompt in each format against a fresh server each time.
async fn check(replies: impl Fn() -> Vec<Reply>, args: &[&str], expected: Expected<'_>) {
    for chat in [false, true] {
        for format in FORMATS {
            let server = ModelServer::start(replies()).await;
            let project = Project::new();
            let command = project
                .reagent(["-p", "x", "--output-format", format, "--max-retries", "1"].iter().chain(args));
            let command = if chat { command.chat(&server) } else { command.messages(&server) };
            let run = finish(command).await;
            agrees(&run, format, &expected);
            assert_eq!(server.illegal(), Vec::<String>::new());
        }
    }
}

#[track_caller]
fn agrees(run: &Finished, format: &str, expected: &Expected<'_>) {
    let what = format!("{format}: {run:?}");
    assert_eq!(run.code, expected.code, "{what}");
    let done = [0, 3].contains(&expected.code);
    match (format, done) {
        ("text", true) => assert_eq!(run.stdout, format!("{}\n", expected.says), "{what}"),
        ("text", false) => {
            assert_eq!(run.stdout, "", "{what}");
            assert!(run.stderr.contains(expected.says), "{what}");
        }
        (_, _) => {
            let result = run.result();
            assert_eq!(result["is_error"], !done, "{what}");
            assert_eq!(result["subtype"] == "success", done, "{what}");
            assert!(result["result"].as_str().unwrap().contains(expected.says), "{what}");
            if format == "json" {
                assert_eq!(run.lines().len(), 1, "{what}");
            }
            if !done {
                assert!(run.stderr.contains(expected.says), "{what}");
                assert!(result["errors"][0].as_str().unwrap().contains(expected.says), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn o_head_01_a_failed_run_never_reports_success() {
    let failed = |says| Expected { code: 1, says };
    check(|| vec![Reply::provider_error(401, "bad key"); 4], &[], failed("bad key")).await;
    check(|| vec![Reply::provider_error(400, "no such field"); 4], &[], failed("no such field")).await;
    check(|| vec![Reply::provider_error(529, "overloaded now"); 4], &[], failed("overloaded now")).await;
    let cut = || Reply::text("Half an answer that is never whole").end_after(1);
    check(|| vec![cut(); 9], &[], failed("broke off")).await;
    check(|| vec![Reply::text("No.").stop("refusal"); 4], &[], failed("No.")).await;
}

#[tokio::test]
async fn o_head_01_nobody_listens() {
    for format in FORMATS {
        let project = Project::new();
        let command = project
            .reagent(["-p", "x", "--output-format", format, "--max-retries", "1"])
            .with("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
        let run = finish(command).await;
        agrees(&run, format, &Expected { code: 1, says: "127.0.0.1:9" });
    }
}

#[tokio::test]
async fn done_is_0() {
    check(|| vec![Reply::text("Done and well.")], &[], Expected { code: 0, says: "Done and well." }).await;
}

#[tokio::test]
async fn rounds_are_4_and_budgets_5() {
    let call =
        || vec![Reply::tool("NoSuchTool", json!({"a": 1})), Reply::tool("NoSuchTool", json!({"a": 2}))];
    check(call, &["--max-turns", "1"], Expected { code: 4, says: "--max-turns" }).await;
    check(call, &["--max-tokens", "50"], Expected { code: 5, says: "Stopped" }).await;
}

#[tokio::test]
async fn stuck_is_1() {
    let call = || vec![Reply::tool("NoSuchTool", json!({"a": 1})); 9];
    check(call, &[], Expected { code: 1, says: "stuck" }).await;
}

/// Each of these fails before a session stands; the record is there all the same.
#[tokio::test]
async fn a_run_that_cannot_start_is_2_or_6_in_every_format() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["-p", "x", "--mock", "--cwd", "no-such-folder"], 2, "no-such-folder"),
        (&["-p", "x", "--mock", "--effort", "huge"], 2, "huge"),
        (&["-p", "x", "--mock", "--permission-mode", "yolo"], 2, "yolo"),
        (&["-p", "x", "--mock", "--allowedTools", "Bash("], 2, "Bash("),
        (&["-p", "x", "--model", "sonnet"], 6, "ANTHROPIC_API_KEY"),
        (&["-p", "please compose a sonnet about spring"], 6, "ANTHROPIC_API_KEY"),
    ];
    for (args, code, says) in cases {
        for format in FORMATS {
            let project = Project::new();
            let run = finish(project.reagent(args.iter().chain(&["--output-format", format]))).await;
            agrees(&run, format, &Expected { code, says });
        }
    }
}

#[tokio::test]
async fn wrong_usage_is_2() {
    let project = Project::new();
    let cases: [&[&str]; 5] = [
        &["--no-such-flag"],
        &["-p", "x", "--max-turns", "0"],
        &["-p", "x", "--output-format", "xml"],
        &[],
        &["-p"],
    ];
    for args in cases {
        let run = finish(project.reagent(args)).await;
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {run:?}");
        assert!(!run.stderr.is_empty(), "{args:?}");
    }
    let run = finish(project.reagent(["--version"])).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
}
