//! O-CONF-01 and O-CONF-02: which layer wins, seen in host, key and model of the request; no file is ever harmed.

use serde_json::json;

use crate::support::{ModelServer, Pointed as _, Project, Recorded, Reply, finish};

const K1: &str = "key-of-the-file-1";
const K2: &str = "key-of-the-env-22";

/// Two servers, so that the host of a request shows.
struct Places {
    file: ModelServer,
    other: ModelServer,
}

impl Places {
    async fn new() -> Self {
        let start = || ModelServer::start(vec![Reply::text("Hello."); 40]);
        Self { file: start().await, other: start().await }
    }

    /// Where, with which key and for which model the only new request was.
    fn seen(&self, before: usize) -> String {
        let of = |name: &str, server: &ModelServer| -> Vec<String> {
            let shown = |request: &Recorded| {
                let key = request.header("x-api-key").map(str::to_owned);
                let bearer =
                    request.header("authorization").map(|h| h.trim_start_matches("Bearer ").to_owned());
                let model = request.body["model"].as_str().unwrap_or("-").to_owned();
                format!("{name} {} {model}", key.or(bearer).unwrap_or_else(|| "-".to_owned()))
            };
            server.requests().iter().map(shown).collect()
        };
        let all: Vec<String> = of("U1", &self.file).into_iter().chain(of("U2", &self.other)).collect();
        assert_eq!(all.len(), before + 1, "{all:?}");
        // Requests of one server keep their order, so the new one is the last of its server.
        let (a, b) = (self.file.requests(), self.other.requests());
        let newest = if b.last().map(|r| r.at) > a.last().map(|r| r.at) {
            of("U2", &self.other)
        } else {
            of("U1", &self.file)
        };
        newest.last().unwrap().clone()
    }
}

#[tokio::test]
async fn o_conf_02_flag_over_environment_over_file_field_by_field() {
    for (section, prefix, path) in [("openai", "OPENAI", "/v1"), ("anthropic", "ANTHROPIC", "")] {
        let (project, places) = (Project::new(), Places::new().await);
        let u1 = format!("{}{path}", places.file.url());
        let u2 = format!("{}{path}", places.other.url());
        let model = format!("{section}/M1");
        project.settings(&json!({"model": model, section: {"baseUrl": u1, "apiKey": K1}}).to_string());
        // What a repository says is not asked: not for the model, not for the host.
        let foreign = json!({"model": "M2", "openai": {"baseUrl": u2}, "anthropic": {"baseUrl": u2},
            "env": {"OPENAI_BASE_URL": u2, "ANTHROPIC_BASE_URL": u2}})
        .to_string();
        for file in [".reagent/settings.json", ".claude/settings.json", "settings.json"] {
            project.write(file, &foreign);
        }
        project.write(".env", &format!("OPENAI_BASE_URL={u2}\nANTHROPIC_BASE_URL={u2}\n"));
        let m3 = format!("{section}/M3");
        let cases: [(&[&str], &[(&str, &str)], String); 8] = [
            (&[], &[], format!("U1 {K1} M1")),
            (&[], &[("API_KEY", K2)], format!("U1 {K2} M1")),
            (&[], &[("BASE_URL", &u2)], format!("U2 {K1} M1")),
            (&[], &[("API_KEY", "")], format!("U1 {K1} M1")),
            (&[], &[("API_KEY", "  "), ("BASE_URL", ""), ("MODEL", "")], format!("U1 {K1} M1")),
            (&[], &[("API_KEY", K2), ("BASE_URL", &u2), ("MODEL", "M2")], format!("U2 {K2} M2")),
            (
                &["--model", &m3],
                &[("API_KEY", K2), ("BASE_URL", &u2), ("MODEL", "M2")],
                format!("U2 {K2} M3"),
            ),
            (&["--base-url", &u2], &[("API_KEY", K2), ("BASE_URL", &u1)], format!("U2 {K2} M1")),
        ];
        for (number, (flags, env, expected)) in cases.iter().enumerate() {
            let mut command = project.reagent(["-p", "x"].iter().chain(*flags));
            for (name, value) in *env {
                command = command.with(&format!("{prefix}_{name}"), value);
            }
            let run = finish(command).await;
            assert_eq!(run.stdout, "Hello.\n", "{section} {flags:?} {env:?}: {run:?}");
            assert_eq!(places.seen(number), *expected, "{section} {flags:?} {env:?}");
        }
    }
}

#[tokio::test]
async fn o_conf_02_an_address_on_the_command_line_is_where_the_run_goes() {
    let (project, places) = (Project::new(), Places::new().await);
    let url = format!("{}/v1", places.other.url());
    let command = project
        .reagent(["-p", "x", "--base-url", &url])
        .messages(&places.file)
        .with("ANTHROPIC_MODEL", "claude-sonnet-4-5");
    let run = finish(command).await;
    assert_eq!(run.stdout, "Hello.\n", "{run:?}");
    // A key for one service is not shown to another.
    assert_eq!(
        places.seen(0),
        "U2 - gpt-5.1".replace("gpt-5.1", places.other.requests()[0].body["model"].as_str().unwrap())
    );
    assert!(places.other.requests()[0].path.ends_with("/chat/completions"));
}

#[tokio::test]
async fn o_conf_02_doctor_shows_sources_and_no_key() {
    let (project, places) = (Project::new(), Places::new().await);
    let url = places.file.url().replace("http://", "http://me:my-password@");
    project.settings(&json!({"openai": {"apiKey": K1, "baseUrl": format!("{url}/v1")}}).to_string());
    let run = finish(project.reagent(["doctor"]).with("ANTHROPIC_API_KEY", K2)).await;
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("environment, ANTHROPIC_API_KEY"), "{}", run.stdout);
    assert!(run.stdout.contains(".config/reagent/settings.json"), "{}", run.stdout);
    for secret in [K1, K2, "my-password"] {
        assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{run:?}");
    }
}

#[tokio::test]
async fn allow_write_is_a_field_like_any_other() {
    let project = Project::new();
    project.settings(r#"{"allowWrite": true}"#);
    let shown = |run: crate::support::Finished| {
        run.stdout.lines().find(|line| line.starts_with("allow-write")).unwrap().to_owned()
    };
    let run = finish(project.reagent(["doctor"])).await;
    assert!(shown(run).contains("true"));
    let run = finish(project.reagent(["doctor"]).with("ALLOW_WRITE", "0")).await;
    assert!(shown(run).contains("false (environment, ALLOW_WRITE)"));
}

#[tokio::test]
async fn o_conf_01_a_file_that_cannot_be_read_is_left_as_it_is_and_nothing_runs() {
    let broken: [(&str, &str); 9] = [
        (r#"{"model":"m1","permissions":{"deny":["Read(./secret/**)"]},,}"#, "settings.json:1:"),
        ("{\"model\":\"m1\",\n\"permissions\":{\"deny\":[", "settings.json:2:"),
        (r#"{"model" "m1"}"#, "settings.json:1:"),
        (r#"{"model":"m1" "permissions":{"deny":["Read"]}}"#, "settings.json:1:"),
        (r#"{model:"m1"}"#, "settings.json:1:"),
        (r#"["model"]"#, "settings.json"),
        (r#"{"permissions":{"deny":"Read(./secret/**)"}}"#, "permissions.deny"),
        (r#"{"permissions":{"deny":["Read(./secret/**)", 42]}}"#, "permissions.deny[1]"),
        (r#"{"permissions":{"deny":["Read("]}}"#, "Read("),
    ];
    for (text, place) in broken {
        for format in ["text", "json"] {
            let (project, server) = (Project::new(), ModelServer::start(vec![]).await);
            let file = project.settings(text);
            let run = finish(project.reagent(["-p", "x", "--output-format", format]).messages(&server)).await;
            assert_eq!(run.code, 2, "{text}: {run:?}");
            assert!(run.stderr.contains(place), "{text}: {run:?}");
            assert!(run.stderr.contains(file.to_str().unwrap()), "{text}: {run:?}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
            assert_eq!(server.requests().len(), 0);
        }
    }
}

#[tokio::test]
async fn o_conf_01_what_people_write_by_hand_is_read() {
    let (project, server) = (Project::new(), ModelServer::start(vec![Reply::text("Hello.")]).await);
    let text = "\u{feff}{\n  // mine\n  \"model\": \"claude-m1\", /* and */\n  \"permissions\": {\"deny\": [\"Read(./secret/**)\",],},\n}\n";
    let file = project.settings(text);
    let run = finish(project.reagent(["-p", "x"]).messages(&server)).await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "Hello.\n"), "{run:?}");
    assert_eq!(server.requests()[0].body["model"], "claude-m1");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}
