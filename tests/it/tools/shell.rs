//! Bash: output, ends, and that nothing it started outlives the call.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Bench, Reply};
use crate::process::{alive, within};

async fn bash(bench: &Bench, command: &str) -> Reply {
    bench.call("Bash", json!({"command": command, "description": "test"})).await
}

/// Exports a mark that every process of the command carries.
fn marked(name: &str, command: &str) -> (String, String) {
    let mark = format!("REAGENT_SHELL_MARK={name}-{}", std::process::id());
    (mark.clone(), format!("export {mark}; {command}"))
}

#[tokio::test]
async fn output_and_exit_are_told() {
    let bench = Bench::new();
    let check = async |command: &str, is_error: bool, want: &str| {
        let reply = bash(&bench, command).await;
        assert_eq!((reply.text.as_str(), reply.is_error), (want, is_error), "{command}");
    };
    check("true", false, "(no output)").await;
    check("echo a; echo b >&2; echo c", false, "a\nb\nc").await;
    check("pwd", false, bench.root.to_str().unwrap()).await;
    check("printf '\\033[31mred\\033[0m\\n'", false, "red").await;
    check(
        "echo $GIT_EDITOR $PAGER $TERM $GIT_TERMINAL_PROMPT; read x; echo got:$x",
        false,
        "true cat dumb 0\ngot:",
    )
    .await;
    check("printf 'a\\377b\\n'", false, "a\u{fffd}b").await;
    let failed = bash(&bench, "echo out; exit 3").await;
    assert!(failed.is_error && failed.text.starts_with("out\n[exit code 3 after 0."), "{}", failed.text);
    assert_eq!(failed.details["exit_code"], 3);
    let killed = bash(&bench, "kill -9 $$").await;
    assert!(killed.text.contains("[ended by signal 9 (SIGKILL) after"), "{}", killed.text);
    for bad in [json!({"command": " "}), json!({"command": "true", "timeout": 0}), json!({})] {
        bench.fails("Bash", bad).await;
    }
}

#[tokio::test]
async fn keys_are_withheld() {
    let bench = Bench::new();
    let reply =
        bash(&bench, "env | grep -E 'ANTHROPIC_API_KEY|ANTHROPIC_AUTH_TOKEN|OPENAI_API_KEY' || echo none")
            .await;
    assert_eq!(reply.text, "none");
}

#[tokio::test]
async fn o_shell_01_a_background_child_does_not_hold_the_call() {
    let bench = Bench::new();
    let check = async |command: &str, code: i64, text: &str| {
        let (mark, command) = marked("background", command);
        let start = Instant::now();
        let reply = bash(&bench, &command).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{command}: {:?}", start.elapsed());
        assert_eq!(reply.details["exit_code"], code, "{}", reply.text);
        assert!(reply.text.contains(text) && reply.text.contains("left running"), "{}", reply.text);
        assert_eq!(alive(&mark), Vec::<String>::new());
    };
    check("echo started; sleep 300 & echo done", 0, "started\ndone").await;
    check("(while :; do echo tick; sleep 1; done) & sleep 0.05; echo done", 0, "done").await;
    check("sleep 200 </dev/null >/dev/null & echo A; exit 3", 3, "A").await;
}

#[tokio::test]
async fn o_shell_02_a_timeout_ends_the_whole_tree() {
    let bench = Bench::new();
    for command in [
        "echo up; setsid sh -c 'trap \"\" TERM; sleep 600' ; echo never",
        "echo up; setsid sleep 601 & sleep 600",
    ] {
        let (mark, command) = marked("timeout", command);
        let start = Instant::now();
        let reply = bench.call("Bash", json!({"command": command, "timeout": "300"})).await;
        assert!(start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
        assert!(
            reply.is_error
                && reply.text.starts_with("up\n")
                && reply.text.contains("[timed out after 0.3 s;"),
            "{}",
            reply.text
        );
        assert_eq!(alive(&mark), Vec::<String>::new());
        assert_eq!(bash(&bench, "echo next").await.text, "next");
    }
}

#[tokio::test]
async fn o_shell_03_endless_output_is_cut_and_kept() {
    let bench = Bench::new();
    let reply = bash(&bench, "timeout 1 yes").await;
    assert_eq!(reply.details["exit_code"], 124);
    assert!(reply.text.len() < 31_000, "{}", reply.text.len());
    assert!(reply.text.starts_with("y\ny\n") && reply.text.contains("bytes left out;"));
    let kept = std::fs::metadata(reply.details["kept"].as_str().unwrap()).unwrap();
    assert!(kept.len() <= 17 * 1024 * 1024, "{}", kept.len());

    let reply = bash(&bench, "seq 1 20000").await;
    let path = reply.details["kept"].as_str().unwrap();
    assert!(reply.text.contains(&format!("the whole output is in {path}")), "{}", reply.text);
    assert!(reply.text.ends_with("\n19999\n20000"), "{}", reply.text);
    let want = (1..=20_000).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(std::fs::read_to_string(path).unwrap(), want);
}

#[tokio::test]
async fn o_shell_04_characters_survive_pieces() {
    let bench = Bench::new();
    let reply = bash(&bench, "printf '\\344'; sleep 0.1; printf '\\275'; sleep 0.1; printf '\\240\\n'").await;
    assert_eq!(reply.text, "\u{4f60}");
    assert_eq!(bench.host.live.lock().unwrap().concat(), "\u{4f60}\n");
    let reply = bash(&bench, "yes \u{7a7a} | head -n 70000 | tr -d '\\n' >&2").await;
    assert!(!reply.text.contains('\u{fffd}'));
}

#[tokio::test]
async fn live_output_comes_before_the_end() {
    let bench = Bench::new();
    // The second line is printed only once the first has been seen.
    let running = bash(&bench, "echo first; while [ ! -e seen ]; do sleep 0.01; done; echo second");
    let watching = async {
        within(Duration::from_secs(10), "live output", || {
            bench.host.live.lock().unwrap().concat() == "first\n"
        })
        .await;
        std::fs::write(bench.root.join("seen"), "").unwrap();
    };
    let (reply, ()) = tokio::join!(running, watching);
    assert_eq!(reply.text, "first\nsecond");
}

#[tokio::test]
async fn o_shell_05_an_interrupt_ends_the_whole_tree_and_keeps_the_output() {
    let bench = Bench::new();
    let script = "echo up; bash -c 'bash -c \"trap : INT TERM; while :; do date >> beat.txt; sleep 0.02; done\" | cat'";
    let (mark, command) = marked("interrupt", script);
    let cancel = bench.cancel.clone();
    let stop = async {
        within(Duration::from_secs(5), "it beats", || bench.root.join("beat.txt").exists()).await;
        cancel.cancel();
        Instant::now()
    };
    let (reply, stopped) = tokio::join!(bash(&bench, &command), stop);
    assert!(stopped.elapsed() < Duration::from_secs(2), "{:?}", stopped.elapsed());
    // The inner shell may still say that its child was terminated.
    let told = reply.text.starts_with("up\n") && reply.text.contains("\n[interrupted by the user after");
    assert!(reply.is_error && told, "{}", reply.text);
    within(Duration::from_secs(5), "the tree is gone", || alive(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_dropped_call_ends_its_tree() {
    let bench = Bench::new();
    let (mark, command) = marked("dropped", "setsid sleep 602 & sleep 603");
    let call = bash(&bench, &command);
    tokio::time::timeout(Duration::from_millis(300), call).await.unwrap_err();
    within(Duration::from_millis(500), "the tree is gone", || alive(&mark).is_empty()).await;
}

#[tokio::test]
async fn o_shell_06_programs_that_want_a_terminal_end() {
    let bench = Bench::new();
    let has = |program: &str| std::process::Command::new(program).arg("--version").output().is_ok();
    if !has("git") {
        return;
    }
    let setup =
        "git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f";
    bench.ok("Bash", json!({"command": setup})).await;
    let start = Instant::now();
    let commit = bash(&bench, "EDITOR=vi git commit").await;
    assert!(commit.is_error, "{}", commit.text);
    assert!(bash(&bench, "git log --oneline").await.is_error, "no commit was made");
    bench
        .ok(
            "Bash",
            json!({"command": "for i in $(seq 300); do git commit -q --allow-empty -m m$i; done; git log"}),
        )
        .await;
    assert!(bash(&bench, "cat < /dev/tty").await.is_error);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
