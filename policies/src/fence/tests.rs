use super::*;
use crate::compare::wanted;
use serde_json::{Value, json};
use std::path::PathBuf;

fn digest(of: &str) -> String {
    format!("ghcr.io/hangar/tower-debug@sha256:{}", of.repeat(64))
}

pub(crate) fn config(tier: Tier) -> FenceConfig {
    FenceConfig {
        tier,
        installation: "tower".to_owned(),
        backend: Identity::of_user_name("system:serviceaccount:backstage:breakglass")
            .expect("valid"),
        debug_images: vec![digest("a"), digest("b")],
        operators: vec!["platform:oncall".to_owned()],
        kyverno: vec![
            ServiceAccount::new("kyverno", "kyverno-admission-controller").expect("valid"),
        ],
        copy_annotations: Vec::new(),
        appliers: vec![
            Identity::of_user_name("system:serviceaccount:argocd:argocd-application-controller")
                .expect("valid"),
        ],
        signing: Signing {
            glob: "ghcr.io/hangar/tower-debug*".to_owned(),
            issuer: "https://token.actions.githubusercontent.com".to_owned(),
            subject: "https://github.com/hangar/debug-image/.github/workflows/release.yml\
                      @refs/heads/main"
                .to_owned(),
            rekor_url: "https://rekor.sigstore.dev".to_owned(),
            roots: None,
        },
        bucket: None,
        application: None,
    }
}

/// The policies of a tier, as they are rendered.
pub(crate) fn policies(tier: Tier) -> Vec<crate::model::Policy> {
    let mut found = Vec::new();
    for file in render_fence(&config(tier)) {
        let documents = crate::model::Policy::parse_all(file.file_name, file.text.as_bytes());
        for document in documents.expect("a file") {
            if let crate::model::Document::Policy(policy) = document {
                found.push(*policy);
            }
        }
    }
    found
}

fn whole() -> FenceConfig {
    let mut config = config(Tier::Flight);
    config.backend = Identity::of_user_name("backstage@hangar.example").expect("valid");
    config.signing.roots = Some(TrustRoots {
        mirror: "https://trust.example.org".to_owned(),
        root: "{}".to_owned(),
        certificate_log: CertificateLog::Absent,
    });
    config.bucket = Some(BucketJob {
        namespace: "backstage".to_owned(),
        image: format!("quay.io/minio/mc@sha256:{}", "c".repeat(64)),
        endpoint: "https://objects.example.org".to_owned(),
        bucket: "tower-breakglass-v2".to_owned(),
        days: 365,
        admin_secret: "objects-admin".to_owned(),
        key_secret: "breakglass-objects".to_owned(),
    });
    config.application = Some(Application {
        namespace: "argocd".to_owned(),
        project: "platform".to_owned(),
        repository: "https://git.example.org/platform/fence.git".to_owned(),
        path: "clusters/prod-1/breakglass".to_owned(),
        revision: "main".to_owned(),
        server: "https://prod-1.example.org:6443".to_owned(),
    });
    config
}

/// With `UPDATE_GOLDEN=1` the files are written instead of compared.
#[track_caller]
fn is_golden(folder: &str, config: &FenceConfig) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden/policies")
        .join(folder);
    for file in render_fence(config) {
        let path = folder.join(file.file_name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("golden folder");
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

fn object(config: &FenceConfig, kind: &str, name: &str) -> Value {
    let all = wanted(&render_fence(config)).expect("manifests");
    let found = all
        .iter()
        .find(|(key, _)| key.kind == kind && key.name == name);
    found
        .unwrap_or_else(|| panic!("no {kind} {name}"))
        .1
        .clone()
}

fn kinds(config: &FenceConfig, kind: &str) -> Vec<String> {
    let all = wanted(&render_fence(config)).expect("manifests");
    all.into_keys()
        .filter(|key| key.kind == kind)
        .map(|key| key.name)
        .collect()
}

/// Every expression of an object, wherever it stands.
fn expressions(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "expression" => found.push(text.to_owned()),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|item| expressions(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_rendering_is_what_was_reviewed() {
    is_golden("flight", &config(Tier::Flight));
    is_golden("ground", &config(Tier::Ground));
    is_golden("flight-whole", &whole());
}

#[test]
fn the_same_configuration_gives_the_same_bytes() {
    assert_eq!(render_fence(&whole()), render_fence(&whole()));
}

#[test]
fn every_placeholder_has_a_value_and_the_order_is_that_of_the_names() {
    for config in [config(Tier::Flight), config(Tier::Ground), whole()] {
        let files = render_fence(&config);
        assert!(files.is_sorted_by_key(|file| file.file_name));
        for file in files {
            assert!(!file.text.contains("{{"), "{}", file.file_name);
            let ends_once = file.text.ends_with('\n') && !file.text.ends_with("\n\n");
            assert!(ends_once, "{}", file.file_name);
        }
    }
}

#[test]
fn p_1_flight_has_five_native_policies_and_ground_four_of_kyvernos() {
    let on_both = ["tower-breakglass-attach", "tower-breakglass-guard"].map(str::to_owned);
    let both = [
        "debug-container",
        "pod-annotate",
        "pod-delete",
        "rolebinding",
    ];
    let flight = [
        "attach",
        "debug-container",
        "guard",
        "no-exec",
        "pod-annotate",
        "pod-delete",
        "rolebinding",
    ]
    .map(|name| format!("{PREFIX}{name}"));
    assert_eq!(
        kinds(&config(Tier::Flight), "ValidatingAdmissionPolicy"),
        flight
    );
    assert_eq!(
        kinds(&config(Tier::Flight), "ValidatingAdmissionPolicyBinding"),
        flight
    );
    assert_eq!(kinds(&config(Tier::Flight), "ValidatingPolicy"), [""; 0]);
    let ground = both.map(|name| format!("{PREFIX}{name}"));
    assert_eq!(kinds(&config(Tier::Ground), "ValidatingPolicy"), ground);
    let mut native = on_both.to_vec();
    native.extend(ground.iter().map(|name| format!("vpol-{name}")));
    assert_eq!(
        kinds(&config(Tier::Ground), "ValidatingAdmissionPolicy"),
        native
    );
    for tier in [Tier::Flight, Tier::Ground] {
        let signed = kinds(&config(tier), "ImageValidatingPolicy");
        assert_eq!(signed, ["tower-breakglass-debug-image"]);
    }
}

#[test]
fn every_policy_fails_closed_and_every_binding_denies() {
    for config in [config(Tier::Flight), config(Tier::Ground)] {
        for (key, object) in wanted(&render_fence(&config)).expect("manifests") {
            let spec = &object["spec"];
            match key.kind.as_str() {
                "ValidatingAdmissionPolicy" => assert_eq!(spec["failurePolicy"], "Fail", "{key}"),
                "ValidatingAdmissionPolicyBinding" => {
                    assert_eq!(spec["validationActions"], json!(["Deny"]), "{key}");
                    assert!(spec.get("paramRef").is_none(), "{key}");
                }
                "ValidatingPolicy" | "ImageValidatingPolicy" => {
                    assert_eq!(spec["failurePolicy"], "Fail", "{key}");
                    assert_eq!(spec["validationActions"], json!(["Deny"]), "{key}");
                    assert_eq!(spec["autogen"]["podControllers"]["controllers"], json!([]));
                }
                _ => {}
            }
        }
    }
}

/// A policy of exactly `pods` would be taken for one about controllers and not be compiled.
#[test]
fn kyverno_compiles_each_of_its_policies() {
    for name in kinds(&config(Tier::Ground), "ValidatingPolicy") {
        let policy = object(&config(Tier::Ground), "ValidatingPolicy", &name);
        let spec = &policy["spec"];
        assert_eq!(
            spec["autogen"]["validatingAdmissionPolicy"]["enabled"], true,
            "{name}"
        );
        let rules = spec["matchConstraints"]["resourceRules"]
            .as_array()
            .expect("rules");
        let only_pods = rules.len() == 1 && rules[0]["resources"] == json!(["pods"]);
        assert!(!only_pods, "{name}");
    }
}

#[test]
fn p_3_scope_is_by_actor_or_reserved_name_and_reads_no_namespace() {
    for name in kinds(&config(Tier::Flight), "ValidatingAdmissionPolicy") {
        let policy = object(&config(Tier::Flight), "ValidatingAdmissionPolicy", &name);
        let spec = &policy["spec"];
        let conditions = spec["matchConditions"].as_array().expect("conditions");
        assert_eq!(conditions.len(), 1, "{name}");
        let scope = conditions[0]["expression"].as_str().expect("an expression");
        for forbidden in ["namespaceObject", "variables.", "params"] {
            assert!(!scope.contains(forbidden), "{name}: {scope}");
        }
        assert_eq!(
            spec["matchConstraints"]["objectSelector"],
            json!({}),
            "{name}"
        );
        let everywhere = spec["matchConstraints"]["namespaceSelector"] == json!({});
        assert_eq!(everywhere, name != "tower-breakglass-no-exec", "{name}");
    }
}

#[test]
fn the_dialect_is_that_of_1_30_and_every_pattern_is_anchored() {
    for config in [config(Tier::Flight), config(Tier::Ground)] {
        for (key, object) in wanted(&render_fence(&config)).expect("manifests") {
            if key.kind == "ImageValidatingPolicy" {
                continue; // Kyverno's own dialect, in Kyverno alone
            }
            let mut found = Vec::new();
            expressions(&object, &mut found);
            for text in found {
                for newer in [
                    ".?",
                    "[?",
                    "optional",
                    "duration(",
                    "quantity(",
                    "cel.bind",
                    "ip(",
                ] {
                    assert!(!text.contains(newer), "{key}: {text}");
                }
                for pattern in text.split(".matches(\"").skip(1) {
                    let pattern = pattern.split('"').next().expect("a pattern");
                    let whole = pattern.ends_with('$') || pattern.ends_with('-');
                    assert!(pattern.starts_with('^') && whole, "{key}: {pattern}");
                }
            }
        }
    }
}

#[test]
fn p_8_ground_is_flight_less_what_is_declared() {
    let clauses = FLIGHT_ONLY
        .iter()
        .filter(|d| matches!(d, FlightOnly::Clause { .. }))
        .count();
    assert_eq!(clauses, 1);
    for name in [
        "rolebinding",
        "debug-container",
        "pod-delete",
        "pod-annotate",
    ] {
        let name = format!("{PREFIX}{name}");
        let flight = object(&config(Tier::Flight), "ValidatingAdmissionPolicy", &name);
        let ground = object(
            &config(Tier::Ground),
            "ValidatingAdmissionPolicy",
            &format!("vpol-{name}"),
        );
        let mut more = flight["spec"].clone();
        let declared = FLIGHT_ONLY
            .iter()
            .any(|d| matches!(d, FlightOnly::Clause { policy, .. } if *policy == name));
        if declared {
            more["validations"]
                .as_array_mut()
                .expect("validations")
                .pop();
        }
        assert_eq!(more, ground["spec"], "{name}");
    }
}

/// P-2: widen → switch → narrow. No step refuses what the step before or after it uses.
#[test]
fn a_digest_moves_in_three_steps_and_is_never_refused_meanwhile() {
    let (old, new) = (digest("a"), digest("b"));
    let steps = [vec![&old], vec![&old, &new], vec![&new, &old], vec![&new]];
    let accepted = |images: &[&String]| -> Vec<String> {
        let mut config = config(Tier::Flight);
        config.debug_images = images.iter().map(|image| (*image).clone()).collect();
        let name = "tower-breakglass-debug-container";
        let policy = object(&config, "ValidatingAdmissionPolicy", name);
        let text = policy["spec"]["validations"][2]["expression"]
            .as_str()
            .expect("CEL")
            .to_owned();
        let (_, list) = text.split_once(" in ").expect("a list");
        serde_json::from_str(list.trim_end_matches(')')).expect("a list of strings")
    };
    for pair in steps.windows(2) {
        let [before, after] = pair else { panic!("two") };
        // The sidecar and the fence are never switched at the same moment.
        assert!(accepted(before).contains(before[0]) && accepted(after).contains(after[0]));
        let in_step = accepted(before).contains(after[0]) || accepted(after).contains(before[0]);
        assert!(in_step, "{before:?} {after:?}");
    }
    assert_eq!(
        accepted(&[&new]),
        std::slice::from_ref(&new),
        "the old one is refused in the end"
    );
}

#[test]
fn a_hostile_name_stays_one_string_of_cel() {
    for name in [
        "x\" || true || \"",
        "{{subject}}",
        "a\\",
        "a: b # c",
        "ü\u{2028}x",
    ] {
        let mut config = config(Tier::Flight);
        config.backend = Identity::of_user_name(name).expect("any printable text");
        config.operators = vec![name.to_owned()];
        let policy = object(
            &config,
            "ValidatingAdmissionPolicy",
            "tower-breakglass-pod-delete",
        );
        let scope = policy["spec"]["matchConditions"][0]["expression"]
            .as_str()
            .expect("CEL");
        let (_, literal) = scope.split_once(" == ").expect("a comparison");
        assert_eq!(literal, cel(name));
    }
}

#[test]
fn the_guard_names_every_generated_object() {
    for name in kinds(&config(Tier::Ground), "ValidatingAdmissionPolicy") {
        let own = ["tower-breakglass-attach", "tower-breakglass-guard"];
        let known = name.starts_with(GENERATED_PREFIX) || own.contains(&name.as_str());
        assert!(known, "{name}");
    }
}
