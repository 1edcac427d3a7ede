//! Precedence by table: what each combination of layers makes of host, key and model.

use super::super::{ModelChoice, Secret};
use super::*;

struct Case<'a> {
    file: &'a str,
    env: &'a [(&'a str, &'a str)],
    flag: Option<&'a str>,
}

/// `protocol url key model` of a service, or the name of another choice.
fn resolved(case: &Case<'_>) -> String {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join(".config/reagent");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("settings.json"), case.file).unwrap();
    let home_text = home.path().to_str().unwrap().to_owned();
    let pairs = case.env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let env = Env::new(pairs.chain([("HOME".to_owned(), home_text)]));
    let flags =
        Flags { cwd: home.path().to_owned(), model: case.flag.map(str::to_owned), ..Flags::default() };
    match resolve(flags, &env).map(|config| config.model.value) {
        Ok(ModelChoice::Service { name, endpoint }) => {
            let key = endpoint.key.as_ref().map_or("-", Secret::expose);
            format!("{:?} {} {key} {name}", endpoint.protocol, endpoint.base_url)
        }
        Ok(ModelChoice::Offline { chosen }) => format!("offline chosen={chosen}"),
        Ok(other) => other.name(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn o_conf_02_precedence_per_field() {
    let file = r#"{"model": "openai/M1", "openai": {"baseUrl": "http://u1/v1", "apiKey": "K1"}}"#;
    let cases = [
        (Case { file, env: &[], flag: None }, "OpenAi http://u1/v1 K1 M1"),
        (Case { file, env: &[("OPENAI_API_KEY", "K2")], flag: None }, "OpenAi http://u1/v1 K2 M1"),
        (Case { file, env: &[("OPENAI_BASE_URL", "http://u2/v1")], flag: None }, "OpenAi http://u2/v1 K1 M1"),
        (Case { file, env: &[("OPENAI_API_KEY", "")], flag: None }, "OpenAi http://u1/v1 K1 M1"),
        (
            Case {
                file,
                env: &[("OPENAI_API_KEY", "K2"), ("OPENAI_BASE_URL", "http://u2/v1"), ("OPENAI_MODEL", "M2")],
                flag: None,
            },
            "OpenAi http://u2/v1 K2 M2",
        ),
        (Case { file, env: &[("OPENAI_MODEL", "M2")], flag: Some("M3") }, "OpenAi http://u1/v1 K1 M3"),
        (
            Case { file, env: &[("REAGENT_MODEL", "M4"), ("OPENAI_MODEL", "M2")], flag: None },
            "OpenAi http://u1/v1 K1 M4",
        ),
    ];
    for (case, expected) in cases {
        assert_eq!(resolved(&case), expected, "{:?} {:?}", case.env, case.flag);
    }
}

#[test]
fn what_is_set_up_decides_without_a_name() {
    let file = "";
    let cases: &[(&[(&str, &str)], Option<&str>, &str)] = &[
        (&[], None, "offline chosen=false"),
        (&[("QUERY_MOCK", "1"), ("ANTHROPIC_API_KEY", "k")], None, "offline chosen=true"),
        (&[("QUERY_MOCK", "0")], None, "offline chosen=false"),
        (&[("ANTHROPIC_API_KEY", "k")], None, "Anthropic https://api.anthropic.com k sonnet"),
        (&[("OPENAI_API_KEY", "k")], None, "OpenAi https://api.openai.com/v1 k gpt"),
        (&[("OPENAI_BASE_URL", "http://l:1/v1/")], Some("qwen"), "OpenAi http://l:1/v1 - qwen"),
        (
            &[("ANTHROPIC_BASE_URL", "http://l:1"), ("ANTHROPIC_API_KEY", "k")],
            Some("mock-1"),
            "Anthropic http://l:1 k mock-1",
        ),
        (
            &[
                ("ANTHROPIC_BASE_URL", "http://l:1"),
                ("ANTHROPIC_API_KEY", "k"),
                ("ANTHROPIC_MODEL", "mock-1"),
            ],
            None,
            "Anthropic http://l:1 k mock-1",
        ),
        (
            &[("OPENAI_BASE_URL", "http://l:1/v1"), ("OPENAI_MODEL", "claude-x")],
            None,
            "OpenAi http://l:1/v1 - claude-x",
        ),
        (&[], Some("auto"), "auto"),
    ];
    for (env, flag, expected) in cases {
        assert_eq!(resolved(&Case { file, env, flag: *flag }), *expected, "{env:?} {flag:?}");
    }
    let error = resolved(&Case { file, env: &[], flag: Some("sonnet") });
    assert!(error.contains("ANTHROPIC_API_KEY"), "{error}");
}

#[test]
fn o_conf_01_a_file_that_cannot_be_read_stops_the_start() {
    let error = resolved(&Case { file: "{\"model\": \"m\",, }", env: &[], flag: None });
    assert!(error.contains("settings.json:1:"), "{error}");
    let error = resolved(&Case { file: "{\"permissions\": {\"deny\": \"Bash\"}}", env: &[], flag: None });
    assert!(error.contains("permissions.deny"), "{error}");
}
