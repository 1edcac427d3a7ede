//! Real processes under the real supervisor: how they end, and that nothing outlives them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reagent::process::{Base, Capture, Environment, Exit, Output, Running, Spec, Stdin, Stream, Supervisor};
use tokio::io::AsyncWriteExt;

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::new(PathBuf::from(env!("CARGO_BIN_EXE_reagent")))
}

/// Living processes (no zombies) whose command line or environment holds `mark`, the supervisors apart.
pub(crate) fn alive(mark: &str) -> Vec<String> {
    let holds = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(mark);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let line = read("cmdline");
        let own = entry.file_name().to_str() == Some(&std::process::id().to_string());
        let zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        if !own && !zombie && (holds(&line) || holds(&read("environ"))) {
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

/// Waits for a condition, at most `limit`; gives the time it took.
pub(crate) async fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

/// A mark that no other test uses, handed to every process of the tree in its environment.
fn marked(name: &str, script: &str) -> (String, Spec) {
    let mark = format!("REAGENT_TEST_MARK={name}-{}", std::process::id());
    let mut spec = Spec::new("bash", std::env::temp_dir()).args(["-c", script]);
    let (key, value) = mark.split_once('=').unwrap();
    spec.env.set.push((key.into(), value.into()));
    (mark, spec)
}

async fn output(running: &mut Running) -> (Exit, String) {
    let mut capture = Capture::new(1 << 20, 1 << 20);
    let exit = running.follow(|_, bytes| capture.push(bytes)).await.unwrap();
    (exit, capture.text())
}

#[tokio::test]
async fn exit_codes_signals_and_output_are_reported() {
    let check = async |script: &str, want: Exit, text: &str| {
        let (mark, spec) = marked("codes", script);
        let mut running = supervisor().spawn(&spec).unwrap();
        assert_eq!(output(&mut running).await, (want, text.to_owned()), "{script}");
        assert_eq!(running.wait().await.unwrap(), want, "a second wait: {script}");
        drop(mark);
    };
    let code = |code| Exit { code: Some(code), ..Exit::default() };
    check("true", code(0), "").await;
    check("exit 3", code(3), "").await;
    check("echo a; echo b >&2; echo c", code(0), "a\nb\nc\n").await;
    check("kill -9 $$", Exit { signal: Some(9), ..Exit::default() }, "").await;
    check("read x; echo got:$x", code(0), "got:\n").await;
    // Its group is its own, and the supervisor listens to nobody.
    check("trap 'exit 4' TERM; kill 0; sleep 5", code(4), "").await;
    check("kill -TERM $PPID; kill -INT $PPID; echo on", code(0), "on\n").await;
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let mut running = supervisor().spawn(&Spec::new("/no/such/program", "/")).unwrap();
    assert_eq!(running.wait().await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let error = supervisor().spawn(&Spec::new("true", "/no/such/folder")).unwrap_err();
    assert_eq!(error.to_string(), "the working folder /no/such/folder does not exist");
}

#[tokio::test]
async fn streams_can_be_told_apart_and_input_has_an_end() {
    let mut spec = Spec::new("sh", "/").args(["-c", "cat; echo $A$HOME >&2"]);
    spec.stdin = Stdin::Piped;
    spec.output = Output::Split;
    spec.env =
        Environment { base: Base::Empty, set: vec![("A".into(), "x".into())], ..Environment::default() };
    spec.env.set.push(("PATH".into(), "/usr/bin:/bin".into()));
    let mut running = supervisor().spawn(&spec).unwrap();
    let mut input = running.stdin.take().unwrap();
    let text = "line\n".repeat(100_000);
    let writing = async {
        input.write_all(text.as_bytes()).await.unwrap();
        input.shutdown().await.unwrap();
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let reading = running.follow(|stream, bytes| match stream {
        Stream::Stdout => out.extend_from_slice(bytes),
        Stream::Stderr => err.extend_from_slice(bytes),
    });
    let ((), exit) = tokio::join!(writing, reading);
    assert_eq!(exit.unwrap().code, Some(0));
    assert_eq!(String::from_utf8(out).unwrap(), text);
    assert_eq!(String::from_utf8(err).unwrap(), "x\n");
}

#[tokio::test]
async fn a_command_that_reads_nothing_still_ends_with_us() {
    let (mark, mut spec) = marked("deaf", "sleep 700");
    spec.stdin = Stdin::Piped;
    let mut running = supervisor().spawn(&spec).unwrap();
    let mut input = running.stdin.take().unwrap();
    let flood = vec![b'x'; 4 << 20];
    tokio::time::timeout(Duration::from_millis(300), input.write_all(&flood)).await.unwrap_err();
    drop(running);
    within(Duration::from_secs(1), "the tree is gone", || alive(&mark).is_empty()).await;
    drop(input);
}

#[tokio::test]
async fn o_shell_01_completion_is_bound_to_the_command_not_to_the_pipe() {
    let check = async |script: &str, code: i32, text: &str| {
        let (mark, spec) = marked("background", script);
        let start = Instant::now();
        let mut running = supervisor().spawn(&spec).unwrap();
        let (exit, seen) = output(&mut running).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{script}: {:?}", start.elapsed());
        assert_eq!(exit, Exit { code: Some(code), left: exit.left, ..Exit::default() }, "{script}");
        assert!(exit.left >= 1, "{script}: {exit:?}");
        assert!(seen.contains(text), "{script}: {seen}");
        assert_eq!(alive(&mark), Vec::<String>::new(), "{script}");
    };
    check("echo started; sleep 300 & echo done", 0, "started\ndone").await;
    check("(while :; do echo tick; sleep 1; done) & echo done", 0, "done").await;
    check("sleep 200 </dev/null >/dev/null & echo A; exit 3", 3, "A").await;
    check("setsid setsid sleep 300 & sleep 0.05; echo B", 0, "B").await;
    check("(trap '' TERM HUP INT; while :; do sleep 1; done) & echo C", 0, "C").await;
}

#[tokio::test]
async fn o_shell_02_and_05_the_end_reaches_every_descendant() {
    let check = async |script: &str| {
        let (mark, spec) = marked("tree", script);
        let mut running = supervisor().spawn(&spec).unwrap();
        let mut seen = Vec::new();
        let following = running.follow(|_, bytes| seen.extend_from_slice(bytes));
        tokio::time::timeout(Duration::from_millis(400), following).await.expect_err(script);
        assert_eq!(String::from_utf8_lossy(&seen), "up\n", "{script}");
        let start = Instant::now();
        running.end().await.expect(script);
        assert!(start.elapsed() < Duration::from_millis(200), "{script}: {:?}", start.elapsed());
        assert_eq!(alive(&mark), Vec::<String>::new(), "{script}");
    };
    check("echo up; setsid sh -c 'trap \"\" TERM; sleep 600'; echo never").await;
    check("echo up; setsid sleep 601 & sleep 600").await;
    check("echo up; bash -c 'bash -c \"trap : INT TERM; while :; do sleep 0.02; done\" | cat'").await;
    check("echo up; trap '' TERM; (setsid bash -c 'trap \"\" TERM; setsid sleep 602' &) ; sleep 603").await;
    check("echo up; kill -STOP $$").await;
    // Forks anew at each signal.
    check("f() { trap f TERM; sleep 604 & wait; }; echo up; f").await;
}

#[tokio::test]
async fn dropping_a_running_command_ends_its_tree() {
    let (mark, spec) = marked("drop", "setsid sleep 605 & sleep 606");
    let running = supervisor().spawn(&spec).unwrap();
    within(Duration::from_secs(2), "both run", || alive(&mark).len() >= 4).await;
    drop(running);
    within(Duration::from_secs(1), "the tree is gone", || alive(&mark).is_empty()).await;
}

/// Plays the parent that is killed: run as a process of its own by the test below.
#[tokio::test]
#[ignore = "the parent process of `a_killed_parent_takes_its_tree_along`"]
async fn parent_that_will_be_killed() {
    let (_, spec) = marked("unused", "setsid sleep 607 & sh -c 'trap \"\" TERM HUP; sleep 608'; true");
    let mut running = supervisor().spawn(&spec).unwrap();
    // Another child that would hold the channel open if it could inherit it.
    let mut other = Command::new("sleep").arg("609").process_group(0).stdin(Stdio::null()).spawn().unwrap();
    running.wait().await.unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn a_killed_parent_takes_its_tree_along() {
    let mark = format!("REAGENT_PARENT_MARK=killed-{}", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "process::parent_that_will_be_killed"])
        .env(key, value)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let sleeps = || alive(&mark).iter().filter(|line| line.starts_with("sleep 60")).count();
    within(Duration::from_secs(5), "the tree runs", || sleeps() == 3).await;
    parent.kill().unwrap();
    parent.wait().unwrap();
    let only_the_other = || alive(&mark).iter().all(|line| line.starts_with("sleep 609"));
    within(Duration::from_secs(1), "the tree is gone", only_the_other).await;
    let other = format!("kill $(grep -lz '{mark}' /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\\n')");
    Command::new("sh").args(["-c", &other]).stderr(Stdio::null()).status().unwrap();
}

#[tokio::test]
async fn o_shell_03_endless_output_stays_within_its_cap() {
    let (_, spec) = marked("yes", "timeout 1 yes; timeout 1 sh -c 'yes >&2'");
    let mut running = supervisor().spawn(&spec).unwrap();
    let mut capture = Capture::new(1000, 1000);
    let exit = running.follow(|_, bytes| capture.push(bytes)).await.unwrap();
    assert_eq!(exit.code, Some(124));
    assert!(capture.left_out() > 1_000_000, "{}", capture.left_out());
    assert_eq!(capture.bytes().len(), 2000 + format!("\n[{} bytes left out]\n", capture.left_out()).len());
}

#[tokio::test]
async fn a_tree_without_terminal_and_without_leaked_descriptors() {
    let script = "ls /proc/self/fd | tr '\\n' ' '; (echo x >/dev/tty) 2>/dev/null || echo no-tty";
    let (_, spec) = marked("fds", script);
    let mut running = supervisor().spawn(&spec).unwrap();
    // What a plain child inherits from whoever started the test, and nothing more.
    let plain = Command::new("bash").args(["-c", "ls /proc/self/fd | tr '\\n' ' '"]).output().unwrap();
    let want = String::from_utf8(plain.stdout).unwrap() + "no-tty\n";
    assert_eq!(output(&mut running).await.1, want);
}

#[tokio::test]
async fn a_killed_supervisor_is_noticed_and_its_group_ended() {
    let (mark, spec) = marked("orphan", "sleep 610 & kill -9 $PPID; sleep 611");
    let mut running = supervisor().spawn(&spec).unwrap();
    let error = running.wait().await.unwrap_err();
    assert_eq!(error.to_string(), "the supervisor of the command was killed");
    within(Duration::from_secs(1), "the group is gone", || alive(&mark).is_empty()).await;
}
