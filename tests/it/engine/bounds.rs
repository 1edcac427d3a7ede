//! Everything that could go on for ever ends: rounds, budgets, circles, blocking hooks, a broken journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reagent::hook::{HookDecision, HookOutcome, HookPoint};
use reagent::protocol::{Access, ErrorKind, Event, StopReason, TurnOutcome};
use reagent::tool::{ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::support::rig::{Rig, Step, call, echo, hold, read, tool, used};

/// The n-th of endless calls: a new id, and this tool and input.
fn endless(tool: &str, input: impl Fn(usize) -> Value) -> Vec<Step> {
    (0..200).map(|n| Step::calls(&[(&*format!("c{n}"), tool, input(n))])).collect()
}

#[tokio::test]
async fn max_turns_says_how_to_go_on() {
    let rig = Rig::new(endless("Read", |n| json!({"n": n}))).tools(vec![echo("Read", read())]);
    let (outcome, ready) = rig.with(|config| config.limits.rounds = Some(3)).run().await;
    assert_eq!(outcome, TurnOutcome::MaxTurns { limit: 3 });
    let sentence = outcome.sentence();
    assert!(sentence.contains("--continue") && sentence.contains("--max-turns"), "{sentence}");
    assert_eq!(ready.asked().len(), 3);
    assert_eq!(ready.results().len(), 3);
    assert_eq!(*hold(&ready.journal.synced), 1);
}

#[tokio::test]
async fn without_a_limit_a_session_goes_on() {
    let mut steps = endless("Read", |n| json!({"n": n}));
    steps.push(Step::text("At last."));
    let (outcome, ready) = Rig::new(steps).tools(vec![echo("Read", read())]).run().await;
    assert_eq!((outcome, ready.asked().len()), (TurnOutcome::Completed, 201));
}

#[tokio::test]
async fn budgets_of_money_and_tokens_end_between_rounds() {
    let step = |n: usize| {
        let mut events = call(0, &format!("c{n}"), "Read", &json!({"n": n}).to_string());
        events.insert(0, used(400_000, 100_000));
        Step::reply(events, StopReason::ToolUse)
    };
    let rig = || Rig::new((0..9).map(step).collect()).tools(vec![echo("Read", read())]);
    let (outcome, ready) = rig().with(|config| config.limits.cost = Some(1.0)).run().await;
    assert!(matches!(&outcome, TurnOutcome::Budget { reason } if reason.contains("$1")), "{outcome:?}");
    assert_eq!(ready.asked().len(), 2);
    let (outcome, ready) = rig().with(|config| config.limits.tokens = Some(1_400_000)).run().await;
    assert!(matches!(&outcome, TurnOutcome::Budget { reason } if reason.contains("1400000")), "{outcome:?}");
    assert_eq!(ready.asked().len(), 3);
    assert!(ready.paired());
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_between_rounds() {
    let slow = tool("Read", read(), |_, _| async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        Ok(ToolOutput::text("x"))
    });
    let rig = Rig::new(endless("Read", |n| json!({"n": n}))).tools(vec![slow]);
    let (outcome, ready) = rig.with(|config| config.limits.time = Some(Duration::from_mins(1))).run().await;
    assert!(matches!(&outcome, TurnOutcome::Budget { reason } if reason.contains("60 s")), "{outcome:?}");
    assert_eq!(ready.asked().len(), 2);
}

/// How many requests were made until the turn was stuck; none if it was not.
async fn stuck_after(steps: Vec<Step>, fails: bool) -> Option<usize> {
    let runs = Arc::new(AtomicUsize::new(0));
    let body = move |input: Value, _| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            let text = if input["poll"].is_null() { "same".to_owned() } else { format!("line {run}") };
            if fails { Err(ToolError::Failed(text)) } else { Ok(ToolOutput::text(text)) }
        }
    };
    let (outcome, ready) = Rig::new(steps).tools(vec![tool("Read", read(), body)]).run().await;
    match outcome {
        TurnOutcome::Stuck { .. } => Some(ready.asked().len()),
        TurnOutcome::Completed => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn o_loop_07_circles_end_whatever_their_form_and_polling_goes_on() {
    assert_eq!(stuck_after(endless("Read", |_| json!({"a": 1})), true).await, Some(3));
    let same = stuck_after(endless("Read", |_| json!({"a": 1})), false).await;
    assert!(same.is_some_and(|n| n <= 50), "{same:?}");
    let two = stuck_after(endless("Read", |n| json!({"a": n % 2})), false).await;
    assert!(two.is_some_and(|n| n <= 50), "{two:?}");
    let order =
        endless("Read", |n| if n % 2 == 0 { json!({"a": 1, "b": "x"}) } else { json!({"b": " x ", "a": 1}) });
    let order = stuck_after(order, false).await;
    assert!(order.is_some_and(|n| n <= 50), "{order:?}");
    assert_eq!(stuck_after(endless("Read", |_| json!({"poll": true})), false).await, None);
}

#[tokio::test]
async fn a_call_cut_in_other_places_each_time_is_stuck_as_well() {
    let cut = |n: usize| {
        let json = format!("{{\"path\":\"out.txt\",\"content\":\"{}", "x".repeat(n));
        Step::reply(
            call(0, &format!("c{n}"), "Write", &json).into_iter().take(2).collect(),
            StopReason::MaxTokens,
        )
    };
    let write = tool("Write", Access::Write(Vec::new()), |_, _| async { panic!("a cut call ran") });
    let rig = Rig::new((0..100).map(cut).collect()).tools(vec![write]);
    let (outcome, ready) = rig.run().await;
    assert!(
        matches!(&outcome, TurnOutcome::Stuck { reason } if reason.contains("output limit")),
        "{outcome:?}"
    );
    // One more than rounds: the first is asked again with the raised limit.
    assert_eq!(ready.asked().len(), 5);
    assert!(ready.results().iter().all(|r| r.1.contains("output limit") && r.2), "{:?}", ready.results());
    assert!(ready.paired());
}

#[tokio::test]
async fn a_stop_hook_that_always_blocks_is_overruled() {
    let rig = Rig::new(vec![]).hooks(|point| {
        let mut outcome = HookOutcome::default();
        if let HookPoint::Stop { .. } = point {
            outcome.decision = Some(HookDecision::Deny);
            outcome.reason = "not yet".to_owned();
        }
        Some(outcome)
    });
    let (outcome, ready) = rig.run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    assert_eq!(ready.asked().len(), 9);
}

#[tokio::test]
async fn a_service_that_pauses_for_ever_is_left() {
    let pause =
        || Step::reply(vec![reagent::provider::ModelEvent::Text("…".to_owned())], StopReason::PauseTurn);
    let (outcome, ready) = Rig::new((0..50).map(|_| pause()).collect()).run().await;
    assert!(matches!(outcome, TurnOutcome::Error { kind: ErrorKind::Unavailable, .. }), "{outcome:?}");
    assert_eq!(ready.asked().len(), 4);
}

#[tokio::test]
async fn a_journal_that_breaks_ends_the_turn_wherever_it_breaks_and_the_end_is_told() {
    let rig = || {
        let steps =
            vec![Step::calls(&[("a", "Read", json!({})), ("b", "Read", json!({}))]), Step::text("Done.")];
        Rig::new(steps).tools(vec![echo("Read", read())])
    };
    let whole = rig().run().await.1.events().len();
    for at in 0..whole {
        let rig = rig();
        *hold(&rig.journal.breaks_at) = Some(at);
        let (outcome, ready) = rig.run().await;
        let TurnOutcome::Error { message, kind: ErrorKind::Internal } = &outcome else {
            panic!("{at}: {outcome:?}")
        };
        assert!(message.contains("No space left"), "{at}: {message}");
        assert_eq!(ready.events().len(), at, "nothing is written after the break");
        let told = hold(&ready.host.emitted).last().map(|(_, event)| event.clone());
        assert_eq!(told, Some(Event::TurnFinished { outcome }), "{at}");
        // Nothing ran that is not on disk.
        let started = ready.events().iter().filter(|e| matches!(e, Event::ToolStarted { .. })).count();
        assert!(ready.results().len() <= started, "{at}");
    }
}
