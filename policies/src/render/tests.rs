use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

fn sidecar() -> Identity {
    Identity::of_user_name("system:serviceaccount:backstage:breakglass-sidecar").expect("valid")
}

fn config() -> RbacConfig {
    RbacConfig::new("hangar", sidecar()).expect("valid")
}

fn home_cluster() -> RbacConfig {
    let by = Identity::of_user_name("backstage@hangar.example").expect("valid");
    let account = ServiceAccount::new("backstage", "breakglass-flight").expect("valid");
    config().with_token_minter(TokenMinter { by, account })
}

fn documents(config: &RbacConfig) -> BTreeMap<(String, String), Value> {
    let mut found = BTreeMap::new();
    for file in render_rbac(config) {
        for text in file.text.split("\n---\n") {
            let document: Value = serde_saphyr::from_str(text).expect("the rendering is YAML");
            let name = |path: &str| {
                document
                    .pointer(path)
                    .and_then(Value::as_str)
                    .expect("kind and name")
                    .to_owned()
            };
            let key = (name("/kind"), name("/metadata/name"));
            assert!(
                found.insert(key, document).is_none(),
                "one object, one document"
            );
        }
    }
    found
}

fn rules(config: &RbacConfig, kind: &str, name: &str) -> Value {
    documents(config)[&(kind.to_owned(), name.to_owned())]["rules"].clone()
}

/// With `UPDATE_GOLDEN=1` the files are written instead of compared.
#[track_caller]
fn is_golden(folder: &str, config: &RbacConfig) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden/policies")
        .join(folder);
    for file in render_rbac(config) {
        let path = folder.join(file.file_name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(&folder).expect("golden folder");
            std::fs::write(&path, &file.text).expect("golden file");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            file.text,
            golden,
            "{}: run with UPDATE_GOLDEN=1",
            path.display()
        );
    }
}

#[test]
fn the_rendering_is_what_was_reviewed() {
    is_golden("rbac", &config());
    is_golden("rbac-home-cluster", &home_cluster());
}

#[test]
fn the_live_role_is_that_of_c_2a_as_far_as_it_is_needed_and_lists_budgets_for_c_17() {
    let expected = json!([
        { "apiGroups": [""], "resources": ["pods"],
          "verbs": ["get", "list", "watch", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"] },
        { "apiGroups": [""], "resources": ["pods/attach"], "verbs": ["get", "create"] },
        { "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"] },
    ]);
    assert_eq!(rules(&config(), "ClusterRole", DEBUG_LIVE), expected);
}

#[test]
fn the_copy_role_is_exactly_that_of_c_2a() {
    let expected = json!([
        { "apiGroups": [""], "resources": ["pods"],
          "verbs": ["get", "list", "watch", "create", "delete"] },
        { "apiGroups": [""], "resources": ["pods/attach"], "verbs": ["get", "create"] },
    ]);
    assert_eq!(rules(&config(), "ClusterRole", DEBUG_COPY), expected);
}

#[test]
fn at_rest_there_is_no_more_than_c_2a_says() {
    let expected = json!([
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"],
          "verbs": ["create", "delete", "get", "list"] },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
          "resourceNames": [DEBUG_LIVE, DEBUG_COPY], "verbs": ["bind"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
        { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"] },
    ]);
    assert_eq!(rules(&config(), "ClusterRole", BACKEND), expected);
}

#[test]
fn a_token_can_be_minted_for_the_one_account_only() {
    let expected = json!([
        { "apiGroups": [""], "resources": ["serviceaccounts/token"],
          "resourceNames": ["breakglass-flight"], "verbs": ["create"] },
    ]);
    let name = "breakglass-token-minter-hangar";
    assert_eq!(rules(&home_cluster(), "Role", name), expected);
    let all = documents(&home_cluster());
    let binding = &all[&("RoleBinding".to_owned(), name.to_owned())];
    let subject = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                           "name": "backstage@hangar.example" }]);
    assert_eq!(binding["subjects"], subject);
    assert_eq!(binding["roleRef"]["name"], name);
}

#[test]
fn no_rule_has_a_wildcard_an_exec_or_a_right_on_its_own_roles() {
    for ((_, name), document) in documents(&home_cluster()) {
        let rules = document["rules"].to_string();
        for forbidden in [
            "*",
            "exec",
            "escalate",
            "impersonate",
            "eviction",
            "nodes",
            "\"secrets\"",
            "proxy",
        ] {
            assert!(
                !rules.contains(forbidden),
                "`{name}` has `{forbidden}`: {rules}"
            );
        }
    }
}

#[test]
fn the_sidecar_alone_holds_the_rights_at_rest() {
    let all = documents(&config());
    let bindings: Vec<_> = all
        .iter()
        .filter(|((kind, _), _)| kind.ends_with("Binding"))
        .collect();
    let [((kind, name), binding)] = bindings.as_slice() else {
        panic!("{bindings:?}")
    };
    assert_eq!(
        (kind.as_str(), name.as_str()),
        ("ClusterRoleBinding", "tower-breakglass-backend-hangar")
    );
    assert_eq!(binding["roleRef"]["name"], BACKEND);
    let subject = json!([{ "kind": "ServiceAccount", "namespace": "backstage",
                           "name": "breakglass-sidecar" }]);
    assert_eq!(binding["subjects"], subject);
}

#[test]
fn nothing_standing_looks_like_a_grant_or_a_leftover() {
    for ((kind, name), document) in documents(&home_cluster()) {
        let labels = &document["metadata"]["labels"];
        assert!(
            labels.get("app.kubernetes.io/managed-by").is_none(),
            "{name}: {labels}"
        );
        assert!(
            labels.get("hangar.io/breakglass-session").is_none(),
            "{name}: {labels}"
        );
        assert!(
            kind != "RoleBinding" || !name.starts_with("tower-breakglass-"),
            "{name}"
        );
    }
}

#[test]
fn a_hostile_user_name_stays_one_string() {
    for name in [
        "x\", kind: Group, name: \"system:masters",
        "{{subject}}",
        "a: b # c",
        "'\\ü",
    ] {
        let backend = Identity::of_user_name(name).expect("any printable text is a user name");
        let config = RbacConfig::new("hangar", backend).expect("valid");
        let all = documents(&config);
        let key = (
            "ClusterRoleBinding".to_owned(),
            "tower-breakglass-backend-hangar".to_owned(),
        );
        let subject =
            json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }]);
        assert_eq!(all[&key]["subjects"], subject);
    }
}

#[test]
fn every_placeholder_has_a_value_and_the_order_is_that_of_the_names() {
    let files = render_rbac(&home_cluster());
    assert!(files.is_sorted_by_key(|file| file.file_name));
    for file in files {
        assert!(!file.text.contains("{{"), "{}", file.file_name);
        assert!(
            file.text.ends_with('\n') && !file.text.ends_with("\n\n"),
            "{}",
            file.file_name
        );
    }
}

#[test]
fn an_installation_is_taken_where_the_sidecar_takes_it() {
    let longest = "x".repeat(63);
    for good in ["tower", "Hangar_2.eu", longest.as_str()] {
        assert!(RbacConfig::new(good, sidecar()).is_ok(), "{good:?}");
    }
    let long = "x".repeat(64);
    for bad in ["", "a/b", "a b", "-a", "a-", long.as_str()] {
        assert!(RbacConfig::new(bad, sidecar()).is_err(), "{bad:?}");
    }
}
