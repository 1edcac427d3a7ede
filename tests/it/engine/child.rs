//! A child agent: its own list, pool and bounds; only its report, and what was refused in it, reach the parent.

use reagent::protocol::{Access, Decision, Event, TurnOutcome};
use reagent::tool::{Tool, ToolOutput};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::support::rig::{Answer, ChildTool, Rig, Step, echo, hold, read, tool, used};

fn spawn(input: Value) -> Step {
    Step::calls(&[("p", "Agent", input)])
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        echo("Read", read()),
        echo("Bash", Access::Execute("x".to_owned())),
        ChildTool::named("Agent"),
        ChildTool::named("Sneaky"),
    ]
}

#[tokio::test]
async fn only_the_last_text_of_a_child_enters_the_parents_history() {
    let steps = vec![
        spawn(json!({"prompt": "find it"})),
        Step::calls(&[("c", "Read", json!({"secret": "child round"}))]),
        Step::text("It is in a.rs."),
        Step::text("Found."),
    ];
    let (outcome, ready) = Rig::new(steps).tools(tools()).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let asked = ready.asked();
    assert_eq!(asked[3].results(), [("p".to_owned(), "done: It is in a.rs.".to_owned(), false)]);
    assert!(!format!("{:?}{:?}", asked[3].messages, ready.engine.messages()).contains("child round"));
    // The child: its own list with the prompt first, its own system prompt, a pool without Agent.
    assert_eq!(
        asked[1].messages.iter().map(reagent::protocol::Message::text).collect::<Vec<_>>(),
        ["find it"]
    );
    assert_eq!((&*asked[1].system, &*asked[3].system), ("child system", "root system"));
    assert_eq!(asked[1].tools, ["Read", "Bash", "Sneaky"]);
    assert_eq!(asked[3].tools, asked[0].tools);
    // The log has it all, under the child's path, and a resume shows the parent the same.
    let log = ready.log();
    assert!(log.iter().any(|e| e.agent.0 == ["p"] && matches!(e.event, Event::ToolFinished { .. })));
    let mut again = Rig::new(vec![]).tools(tools()).ready();
    again.engine.resume(&log).await.unwrap();
    assert_eq!(again.engine.messages(), ready.engine.messages());
}

#[tokio::test]
async fn depth_is_capped_twice() {
    // By the pool: the child has no Agent. By the spawner: another tool that tries it is refused.
    let steps = vec![
        spawn(json!({"prompt": "deeper", "tool_names": ["Agent", "Sneaky"]})),
        Step::calls(&[("c1", "Agent", json!({})), ("c2", "Sneaky", json!({}))]),
        Step::text("No deeper."),
    ];
    let (_, ready) = Rig::new(steps).tools(tools()).run().await;
    let asked = ready.asked();
    assert_eq!(asked[1].tools, ["Sneaky"]);
    let results = asked[2].results();
    assert!(results[0].1.contains("There is no tool named \"Agent\""), "{results:?}");
    assert!(results[1].1.contains("cannot start agents"), "{results:?}");
    assert_eq!(asked.len(), 4);
}

#[tokio::test]
async fn unknown_names_of_tools_start_no_child() {
    let steps = vec![spawn(json!({"tool_names": ["Read", "Teleport"]}))];
    let (_, ready) = Rig::new(steps).tools(tools()).run().await;
    let (_, text, is_error) = ready.results()[0].clone();
    assert!(is_error && text.contains("Teleport") && text.contains("Read, Bash"), "{text}");
    assert!(!text.contains("Agent,"), "{text}");
    assert_eq!(ready.asked().len(), 2);
}

#[tokio::test]
async fn a_refusal_in_the_child_reaches_the_parent_in_the_users_words() {
    let steps = vec![spawn(json!({})), Step::calls(&[("c", "Bash", json!({}))]), Step::text("I could not.")];
    let rig = Rig::new(steps).tools(tools()).asking(vec![Answer::Say(Decision::deny("never touch prod"))]);
    let (_, ready) = rig.run().await;
    let asked = ready.asked();
    assert!(asked[2].results()[0].1.contains("never touch prod"));
    let (_, text, _) = asked[3].results()[0].clone();
    assert!(text.contains("I could not.") && text.contains("never touch prod"), "{text}");
    assert_eq!(hold(&ready.host.questions)[0].agent.0, ["p"]);
    assert_eq!(ready.engine.denials().len(), 1);
}

#[tokio::test]
async fn a_child_that_does_not_finish_is_an_error_with_its_last_words_and_the_parent_goes_on() {
    let loops = |text: &str| {
        let mut steps = vec![spawn(json!({}))];
        steps.extend((0..3).map(|n| {
            let mut events = vec![reagent::provider::ModelEvent::Text(format!("{text} {n}"))];
            events.extend(crate::support::rig::call(
                0,
                &format!("c{n}"),
                "Read",
                &json!({"n": n}).to_string(),
            ));
            Step::reply(events, reagent::protocol::StopReason::ToolUse)
        }));
        steps
    };
    let rig = Rig::new(loops("at")).tools(tools()).with(|config| config.child_rounds = 3);
    let (outcome, ready) = rig.run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let (_, text, is_error) = ready.results()[0].clone();
    assert!(is_error && text.contains("limit of 3 rounds") && text.contains("at 2"), "{text}");

    let auth = reagent::provider::ProviderError::new(reagent::provider::Failure::Auth, "bad key");
    let (outcome, ready) = Rig::new(vec![spawn(json!({})), Step::Fail(auth)]).tools(tools()).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    assert!(ready.results()[0].1.contains("bad key") && ready.results()[0].2);

    let empty = || Step::reply(vec![], reagent::protocol::StopReason::EndTurn);
    let mut steps = vec![spawn(json!({}))];
    steps.extend((0..6).map(|_| empty()));
    let (outcome, ready) = Rig::new(steps).tools(tools()).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    assert!(ready.results()[0].2, "{:?}", ready.results());
}

#[tokio::test]
async fn a_childs_answer_is_whole_where_the_limit_had_cut_it() {
    let cut = |text: &str| {
        let text = reagent::provider::ModelEvent::Text(text.to_owned());
        Step::reply(vec![text], reagent::protocol::StopReason::MaxTokens)
    };
    let steps = vec![spawn(json!({})), cut("lost"), cut("one "), cut("two "), Step::text("three")];
    let (_, ready) = Rig::new(steps).tools(tools()).run().await;
    assert_eq!(ready.results()[0].1, "done: one two three");
}

#[tokio::test]
async fn a_child_spends_from_its_parents_purse() {
    let text = |input, text: &str| {
        let said = reagent::provider::ModelEvent::Text(text.to_owned());
        Step::reply(vec![used(input, 0), said], reagent::protocol::StopReason::EndTurn)
    };
    let steps = vec![spawn(json!({})), text(700, "child"), text(1, "unreachable")];
    let rig = Rig::new(steps).tools(tools()).with(|config| config.limits.tokens = Some(600));
    let (outcome, ready) = rig.run().await;
    assert!(matches!(outcome, TurnOutcome::Budget { .. }), "{outcome:?}");
    assert_eq!(ready.engine.state().usage.input, 700);
    // What is left is counted in the child as well.
    let call = |id: &str| {
        let mut events = crate::support::rig::call(0, id, "Read", &json!({"id": id}).to_string());
        events.insert(0, used(700, 0));
        Step::reply(events, reagent::protocol::StopReason::ToolUse)
    };
    let steps = vec![spawn(json!({})), call("c1"), call("c2"), call("c3")];
    let rig = Rig::new(steps).tools(tools()).with(|config| config.limits.tokens = Some(1000));
    let (outcome, ready) = rig.run().await;
    assert!(matches!(outcome, TurnOutcome::Budget { .. }), "{outcome:?}");
    assert_eq!(ready.asked().len(), 3);
    assert!(ready.results()[0].1.contains("1000 tokens"), "{:?}", ready.results());
}

#[tokio::test]
async fn no_stop_hook_and_no_prompt_hook_at_depth_one_but_the_others_hold() {
    use reagent::hook::{HookDecision, HookOutcome, HookPoint};
    let fired = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&fired);
    let steps =
        vec![spawn(json!({})), Step::calls(&[("c", "Read", json!({}))]), Step::text("x"), Step::text("y")];
    let rig = Rig::new(steps).tools(tools()).hooks(move |point| {
        let mut outcome = HookOutcome::default();
        let name = match point {
            HookPoint::UserPromptSubmit { .. } => "prompt".to_owned(),
            HookPoint::PreToolUse { agent, call } => {
                if call.name == "Read" {
                    outcome.decision = Some(HookDecision::Deny);
                    outcome.reason = "house rule".to_owned();
                }
                format!("pre {} {}", agent, call.name)
            }
            HookPoint::PostToolUse { .. } | HookPoint::PostToolUseFailure { .. } => return Some(outcome),
            HookPoint::Stop { .. } => "stop".to_owned(),
        };
        hold(&seen).push(name);
        Some(outcome)
    });
    let (_, ready) = rig.run().await;
    assert_eq!(*hold(&fired), ["prompt", "pre root Agent", "pre p Read", "stop"]);
    assert!(ready.results()[0].1.contains("house rule"), "{:?}", ready.results());
}

#[tokio::test]
async fn a_panic_in_a_childs_tool_stays_there() {
    let mut tools = tools();
    tools.push(tool("Boom", read(), |_, _| async {
        assert!(std::env::args().count() == usize::MAX, "boom");
        Ok(ToolOutput::default())
    }));
    let steps = vec![spawn(json!({})), Step::calls(&[("c", "Boom", json!({}))]), Step::text("still here")];
    let (outcome, ready) = Rig::new(steps).tools(tools).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    assert_eq!(ready.results()[0].1, "done: still here");
}
