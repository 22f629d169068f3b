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
fn every_wrong_type_is_told_with_its_key_beside_unknown_keys_and_impossible_values() {
    check(
        json!({"unknown": 1, "spool": 7, "limits": {"perUser": "many", "perApp": 0},
               "logs": {"format": "xml"}, "timeouts": {"start": 121}}),
        &[
            "`unknown`",
            "`limits.perUser`: invalid type",
            "`logs.format`: unknown variant",
            "`spool`: invalid type",
            "`limits.perApp`",
            "`timeouts.start`",
        ],
    );
}

#[test]
fn what_is_missing_is_told_beside_a_wrong_type() {
    check(
        json!({"recordings": {"folder": {}}, "debugImages": "alpine", "socket": null}),
        &[
            "`debugImages`: invalid type",
            "`recordings.folder`: missing field `path`",
            "`socket`",
        ],
    );
    check(json!({"recordings": 7}), &["`recordings`: invalid type"]);
}

#[test]
fn a_cluster_that_is_wrong_is_told_once_although_another_key_names_it() {
    check(
        json!({"clusters": {"dev": {"mintedToken": {"home": 7}}}, "groundClusters": ["dev"]}),
        &["`clusters.dev"],
    );
}

#[test]
fn what_is_no_mapping_at_all_is_one_problem() {
    for value in [json!(null), json!([1]), json!("x")] {
        let Err(ConfigError::Problems(problems)) = parse(value, &nothing) else {
            panic!("it was taken")
        };
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}

#[test]
fn a_timeout_has_a_range() {
    for (key, most) in [("start", 120), ("recycle", 600), ("cleanupStep", 120)] {
        let wrong = format!("`timeouts.{key}` must be 1 to {most} seconds");
        check(json!({"timeouts": {key: 0}}), &[&wrong]);
        check(json!({"timeouts": {key: most + 1}}), &[&wrong]);
        check(json!({"timeouts": {key: most}}), &[]);
    }
}

/// `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_shipped_schema_is_the_one_that_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.schema.json");
    let printed = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), printed);
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
fn a_files_final_line_break_is_part_of_no_value() {
    let dir = tempfile::tempdir().unwrap();
    for end in ["", "\n", "\r\n"] {
        let env = |name: &str| {
            let value = match name.strip_suffix("_FILE")? {
                "POSTGRES_HOST" => "db",
                "POSTGRES_PORT" => "6432",
                "POSTGRES_USER" => "backstage",
                "POSTGRES_PASSWORD" => " spaces are its own ",
                _ => return None,
            };
            let file = dir.path().join(name);
            std::fs::write(&file, format!("{value}{end}")).unwrap();
            Some(file.display().to_string())
        };
        let database = parse(usable(), &env).unwrap().database;
        assert_eq!(database.host.as_deref(), Some("db"), "{end:?}");
        assert_eq!(database.port, Some(6432), "{end:?}");
        assert_eq!(database.user.as_deref(), Some("backstage"), "{end:?}");
        let password = database.password.as_ref().map(Secret::expose);
        assert_eq!(password, Some(" spaces are its own "), "{end:?}");
    }
}

#[test]
fn a_files_that_cannot_be_read_is_told_by_its_variable() {
    let env = |name: &str| (name == "POSTGRES_HOST_FILE").then(|| "/nowhere/host".to_owned());
    let Err(ConfigError::Problems(problems)) = parse(usable(), &env) else {
        panic!("it was taken")
    };
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("POSTGRES_HOST_FILE cannot be read"),
        "{problems:?}"
    );
}

#[test]
fn a_secret_is_not_shown() {
    let env = |name: &str| (name == "POSTGRES_PASSWORD").then(|| "hunter2".to_owned());
    let config = parse(usable(), &env).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}
