use super::super::LimitsConfig;
use super::*;
use serde_json::json;

fn nothing(_: &str) -> Option<String> {
    None
}

fn usable() -> Value {
    json!({
        "socket": "/run/breakglass/api.sock",
        "spool": "/var/lib/breakglass/spool",
        "recordings": {"folder": {"path": "/var/lib/breakglass/recordings"}},
        "debugImages": [format!("ghcr.io/hangar/tower-debug@sha256:{}", "a".repeat(64))],
    })
}

#[track_caller]
fn check(change: Value, expected: &[&str]) {
    let mut value = usable();
    let (Value::Object(base), Value::Object(change)) = (&mut value, change) else {
        panic!()
    };
    base.extend(change);
    let problems = match parse(value, &nothing) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Problems(problems)) => problems,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, part) in problems.iter().zip(expected) {
        assert!(problem.contains(part), "{problem} does not say {part}");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = parse(usable(), &nothing).unwrap();
    assert_eq!(config.installation, "tower");
    assert_eq!(config.limits, LimitsConfig::default());
    assert_eq!(config.database.database, "backstage_plugin_glidepath");
}

#[test]
fn every_unknown_key_and_impossible_value_is_told_at_once() {
    check(
        json!({"installatoin": "x", "logs": {"levle": "info"}, "limits": {"perUser": 0},
               "debugImages": ["alpine:3"], "groundClusters": ["nowhere"]}),
        &[
            "`installatoin`",
            "`logs.levle`",
            "debugImages[0]",
            "limits.perUser",
            "`nowhere`",
        ],
    );
}

#[test]
fn a_wrong_type_is_told_beside_an_unknown_key() {
    check(
        json!({"unknown": 1, "spool": 7}),
        &["`unknown`", "invalid type"],
    );
}

#[test]
fn backstages_own_variables_are_honoured() {
    let env = |name: &str| match name {
        "POSTGRES_HOST" => Some("db".to_owned()),
        "POSTGRES_PORT" => Some("6432".to_owned()),
        "POSTGRES_USER" => Some("backstage".to_owned()),
        "POSTGRES_PASSWORD" => Some("hunter2\n".to_owned()),
        _ => None,
    };
    let config = parse(usable(), &env).unwrap();
    assert_eq!(config.database.host.as_deref(), Some("db"));
    assert_eq!(config.database.port, Some(6432));
    assert_eq!(
        config.database.password.as_ref().map(Secret::expose),
        Some("hunter2")
    );
}

#[test]
fn a_secret_is_not_shown() {
    let env = |name: &str| (name == "POSTGRES_PASSWORD").then(|| "hunter2".to_owned());
    let config = parse(usable(), &env).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}
