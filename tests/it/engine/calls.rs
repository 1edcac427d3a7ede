//! The calls of one reply: who runs beside whom, in what order results come, and what a refusal says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reagent::hook::{HookDecision, HookOutcome, HookPoint};
use reagent::protocol::{Access, Block, Decision, Event, Mask, Source, TurnOutcome};
use reagent::tool::{Effect, Tool, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::support::rig::{Answer, Rig, Step, echo, hold, read, tool, touching};

fn run() -> Access {
    Access::Execute("x".to_owned())
}

/// Counts how many of its calls run at once.
fn counting(name: &str, access: Access, most: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::clone(most));
    tool(name, access, move |input, _| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Later calls end sooner.
            let n = input["n"].as_u64().unwrap_or(0);
            tokio::time::sleep(std::time::Duration::from_millis(100 - 5 * n)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolOutput::text(n.to_string()))
        }
    })
}

fn twelve(name: &str) -> Step {
    let ids: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
    let calls: Vec<(&str, &str, Value)> =
        ids.iter().enumerate().map(|(n, id)| (id.as_str(), name, json!({"n": n}))).collect();
    Step::calls(&calls)
}

#[tokio::test(start_paused = true)]
async fn reads_run_together_up_to_eight_and_others_alone_with_results_in_call_order() {
    for (access, at_once) in [(read(), 8), (run(), 1), (Access::Session, 1)] {
        let most = Arc::new(AtomicUsize::new(0));
        let rig = Rig::new(vec![twelve("Probe")]).tools(vec![counting("Probe", access, &most)]);
        let (outcome, ready) = rig.run().await;
        assert_eq!(outcome, TurnOutcome::Completed);
        assert_eq!(most.load(Ordering::SeqCst), at_once);
        let texts: Vec<String> = ready.results().into_iter().map(|(_, text, _)| text).collect();
        assert_eq!(texts, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(ready.paired());
    }
}

#[tokio::test]
async fn a_call_that_changes_something_waits_for_the_reads_before_it() {
    // Both reads must be running at once to pass the barrier; the write must find them done.
    let barrier = Arc::new(Barrier::new(2));
    let done = Arc::new(AtomicUsize::new(0));
    let reads = tool("Read", read(), {
        let done = Arc::clone(&done);
        move |_, _| {
            let (barrier, done) = (Arc::clone(&barrier), Arc::clone(&done));
            async move {
                barrier.wait().await;
                done.fetch_add(1, Ordering::SeqCst);
                Ok(ToolOutput::text("read"))
            }
        }
    });
    let write = tool("Write", Access::Write(Vec::new()), move |_, _| {
        let done = done.load(Ordering::SeqCst);
        async move { Ok(ToolOutput::text(format!("after {done}"))) }
    });
    let steps = vec![Step::calls(&[
        ("a", "Read", json!({})),
        ("b", "Read", json!({})),
        ("c", "Write", json!({})),
        ("d", "Read", json!({})),
        ("e", "Read", json!({})),
    ])];
    let (_, ready) = Rig::new(steps).tools(vec![reads, write]).run().await;
    let texts: Vec<String> = ready.results().into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(texts, ["read", "read", "after 2", "read", "read"]);
}

#[tokio::test]
async fn a_tool_that_panics_anywhere_is_a_tool_that_failed() {
    let tools = vec![
        tool("Late", read(), |_, _| async { panic!("in the future") }),
        tool("Early", read(), |input, _| {
            assert!(input["never"].is_object(), "before the future");
            async { Ok(ToolOutput::text("unreachable")) }
        }),
        touching("Door", |_| panic!("at the door"), |_, _| async { Ok(ToolOutput::text("unreachable")) }),
        echo("Fine", read()),
    ];
    let step = Step::calls(&[
        ("a", "Late", json!({})),
        ("b", "Fine", json!({})),
        ("c", "Early", json!({})),
        ("d", "Door", json!({})),
    ]);
    let (outcome, ready) = Rig::new(vec![step]).tools(tools).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let said = |words: &str| format!("The tool failed inside: {words}");
    assert_eq!(
        ready.results(),
        [
            ("a".to_owned(), said("in the future"), true),
            ("b".to_owned(), "{}".to_owned(), false),
            ("c".to_owned(), said("before the future"), true),
            ("d".to_owned(), said("at the door"), true),
        ]
    );
}

#[tokio::test]
async fn a_refusal_carries_the_users_words_and_runs_nothing() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let bash = tool("Bash", run(), move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("ran")) }
    });
    let step = Step::calls(&[("a", "Bash", json!({}))]);
    let rig = Rig::new(vec![step]).tools(vec![bash]);
    let (outcome, ready) = rig.asking(vec![Answer::Say(Decision::deny("use make instead"))]).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let results = ready.results();
    assert!(results[0].1.contains("use make instead") && results[0].2, "{results:?}");
    assert_eq!(ready.engine.denials()[0].reason, "use make instead");
    assert!(!ready.events().iter().any(|event| matches!(event, Event::ToolStarted { .. })));
}

#[tokio::test]
async fn a_refusal_that_ends_the_turn_leaves_no_call_without_a_result() {
    let step = Step::calls(&[("a", "Read", json!({})), ("b", "Bash", json!({})), ("c", "Read", json!({}))]);
    let rig = Rig::new(vec![step]).tools(vec![echo("Bash", run()), echo("Read", read())]);
    let stop = Decision::Deny { feedback: None, end_turn: true };
    let (outcome, ready) = rig.asking(vec![Answer::Say(stop)]).run().await;
    assert_eq!(outcome, TurnOutcome::Aborted);
    assert_eq!(ready.results().iter().map(|r| r.2).collect::<Vec<_>>(), [false, true, true]);
    assert!(ready.paired());
    assert_eq!(ready.asked().len(), 1);
}

#[tokio::test]
async fn an_edited_input_is_judged_again_and_the_log_has_what_ran() {
    let edit =
        |command: &str| Answer::Say(Decision::Allow { input: Some(json!({"command": command})), save: None });
    let bash = touching(
        "Bash",
        |input| match input["command"].as_str() {
            Some(command) => Ok(Access::Execute(command.to_owned())),
            None => Err(ToolError::InvalidInput("no command".to_owned())),
        },
        |input, _| async move { Ok(ToolOutput::text(input["command"].to_string())) },
    );
    let step = || Step::calls(&[("a", "Bash", json!({"command": "rm -rf /"}))]);
    let answers = vec![edit("ls"), edit("ls -l"), Answer::Say(Decision::allow())];
    let (_, ready) = Rig::new(vec![step()]).tools(vec![Arc::clone(&bash)]).asking(answers).run().await;
    let asked: Vec<Access> = hold(&ready.host.questions).iter().map(|q| q.access.clone()).collect();
    let command = |text: &str| Access::Execute(text.to_owned());
    assert_eq!(asked, [command("rm -rf /"), command("ls"), command("ls -l")]);
    assert_eq!(ready.results()[0].1, "\"ls -l\"");
    let started = ready.events().into_iter().find_map(|event| match event {
        Event::ToolStarted { call } => Some(call.input),
        _ => None,
    });
    assert_eq!(started, Some(json!({"command": "ls -l"})));

    // An edit into something that a rule forbids does not run, and one that makes no sense is told.
    let mut rig = Rig::new(vec![step(), step()])
        .tools(vec![bash])
        .asking(vec![edit("git push"), Answer::Say(Decision::Allow { input: Some(json!({})), save: None })]);
    rig.policy.deny.push("Bash(git push:*)".parse().unwrap());
    let (_, ready) = rig.run().await;
    let results = ready.results();
    assert!(results[0].1.contains("git push") && results[0].2, "{results:?}");
    assert!(results[1].1.contains("no command") && results[1].2, "{results:?}");
}

#[tokio::test]
async fn a_hook_may_change_an_input_but_not_lift_a_rule() {
    let bash = touching(
        "Bash",
        |input| Ok(Access::Execute(input["command"].as_str().unwrap_or("").to_owned())),
        |input, _| async move { Ok(ToolOutput::text(input["command"].to_string())) },
    );
    let step = Step::calls(&[("a", "Bash", json!({"command": "ls"}))]);
    let mut rig = Rig::new(vec![step]).tools(vec![bash]).hooks(|point| {
        let mut outcome = HookOutcome::default();
        if let HookPoint::PreToolUse { .. } = point {
            outcome.decision = Some(HookDecision::Allow);
            outcome.updated_input = Some(json!({"command": "git push"}));
        }
        Some(outcome)
    });
    rig.policy.deny.push("Bash(git push:*)".parse().unwrap());
    let (_, ready) = rig.run().await;
    assert!(ready.results()[0].2, "{:?}", ready.results());
}

#[tokio::test]
async fn effects_and_interjections_follow_the_results_in_order() {
    let noting = tool("Note", read(), |_, _| async {
        let mut output = ToolOutput::text("noted");
        output.effects.push(Effect::Inject(reagent::protocol::Message {
            id: reagent::protocol::MessageId(String::new()),
            role: reagent::protocol::Role::User,
            source: Source::Skill,
            origin: None,
            blocks: vec![Block::text("a skill")],
        }));
        Ok(output)
    });
    let rig =
        Rig::new(vec![Step::calls(&[("a", "Note", json!({}))]), Step::text("Done.")]).tools(vec![noting]);
    let typed =
        |text: &str| reagent::engine::Injection { source: Source::User, blocks: vec![Block::text(text)] };
    // Nothing before the first round, two texts before the second, one when the model thought it was done.
    *hold(&rig.host.arriving) = vec![vec![], vec![typed("one"), typed("two")], vec![typed("three")]].into();
    let (outcome, ready) = rig.run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let seen: Vec<(Source, String)> = ready.engine.messages().iter().map(|m| (m.source, m.text())).collect();
    let expected = [
        (Source::User, "go"),
        (Source::Model, ""),
        (Source::Tool, ""),
        (Source::Skill, "a skill"),
        (Source::User, "one"),
        (Source::User, "two"),
        (Source::Model, "Done."),
        (Source::User, "three"),
        (Source::Model, "Done."),
    ];
    assert_eq!(seen, expected.map(|(source, text)| (source, text.to_owned())));
    assert!(ready.paired());
}

#[tokio::test]
async fn a_doubled_id_gets_each_call_its_own_result() {
    let steps = vec![
        Step::calls(&[("x", "Read", json!({"n": 1})), ("x", "Read", json!({"n": 2}))]),
        Step::calls(&[("x", "Read", json!({"n": 3}))]),
    ];
    let (outcome, ready) = Rig::new(steps).tools(vec![echo("Read", read())]).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let results: Vec<(String, String)> =
        ready.results().into_iter().map(|(id, text, _)| (id, text)).collect();
    let expected = [("x", "{\"n\":1}"), ("x_2", "{\"n\":2}"), ("x_3", "{\"n\":3}")];
    assert_eq!(results, expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    assert!(ready.paired());
}

#[tokio::test]
async fn a_secret_in_a_result_reaches_neither_the_model_nor_the_log() {
    let mask = Mask::default();
    mask.add("sk-planted-secret");
    let leak = tool("Read", read(), |_, _| async {
        let mut output = ToolOutput::text("key=sk-planted-secret;");
        output.details = json!({"stdout": ["sk-planted-secret"], "n": 1});
        Ok(output)
    });
    let rig = Rig::new(vec![Step::calls(&[("a", "Read", json!({}))])]).tools(vec![leak]);
    let (_, ready) = rig.with(|config| config.mask = mask).run().await;
    assert_eq!(ready.results()[0].1, "key=***;");
    assert!(!format!("{:?}", ready.log()).contains("sk-planted-secret"));
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_names() {
    let step = Step::calls(&[("a", "read", json!({})), ("b", "Nope", json!({}))]);
    let (outcome, ready) = Rig::new(vec![step]).tools(vec![echo("Read", read())]).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let results = ready.results();
    assert!(results[0].1.contains("Did you mean Read?"), "{results:?}");
    assert!(results[1].1.contains("The tools are: Read"), "{results:?}");
}
