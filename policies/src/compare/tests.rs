use super::*;
use crate::fence::{FenceConfig, GENERATED_PREFIX, Signing, render_fence};
use crate::identity::{Identity, ServiceAccount};
use decisions::session::Tier;

pub(super) fn fence(tier: Tier) -> BTreeMap<ObjectKey, Value> {
    let config = FenceConfig {
        tier,
        installation: "tower".to_owned(),
        backend: Identity::of_user_name("system:serviceaccount:backstage:breakglass")
            .expect("valid"),
        debug_images: vec![format!("ghcr.io/hangar/debug@sha256:{}", "a".repeat(64))],
        operators: vec!["oncall".to_owned()],
        kyverno: vec![ServiceAccount::new("kyverno", "kyverno").expect("valid")],
        copy_annotations: Vec::new(),
        appliers: Vec::new(),
        signing: Signing {
            glob: "ghcr.io/hangar/debug*".to_owned(),
            issuer: "https://issuer.example".to_owned(),
            subject: "https://workflow.example".to_owned(),
            rekor_url: "https://rekor.example".to_owned(),
            roots: None,
        },
        bucket: None,
        application: None,
    };
    wanted(&render_fence(&config)).expect("manifests")
}

/// Changes the live object of this kind and name, and says what is then told.
#[track_caller]
fn check(tier: Tier, name: &str, kind: &str, change: impl FnOnce(&mut Value), told: &[&str]) {
    let wanted = fence(tier);
    let mut live = wanted.clone();
    let (_, object) = live
        .iter_mut()
        .find(|(key, _)| key.kind == kind && key.name == name)
        .expect("there is such an object");
    change(object);
    let said = differences(&wanted, &live, &[]);
    assert_eq!(said.len(), told.len(), "{said:#?}");
    for (said, told) in said.iter().zip(told) {
        assert!(said.contains(told) && said.contains(name), "{said}");
    }
}

const DELETE: &str = "tower-breakglass-pod-delete";
const IMAGE: &str = "tower-breakglass-debug-image";
const IMAGES: &str = "ImageValidatingPolicy";
const CLEANUP: &str = "breakglass-kyverno-cleanup";

#[test]
fn what_is_as_rendered_is_not_told() {
    for tier in [Tier::Flight, Tier::Ground] {
        assert_eq!(differences(&fence(tier), &fence(tier), &[]), [""; 0]);
    }
}

#[test]
fn what_an_api_server_adds_is_not_told() {
    check(
        Tier::Flight,
        DELETE,
        POLICY,
        |live| {
            live["metadata"]["uid"] = json!("u");
            live["status"] = json!({ "observedGeneration": 1 });
            live["spec"]["auditAnnotations"] = json!([]);
        },
        &[],
    );
    let kyverno = |live: &mut Value| {
        live["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("anybody's");
        live["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = json!("now");
        live["spec"]["evaluation"]["mode"] = json!("Kubernetes");
        live["spec"]["evaluation"]["admission"] = json!({ "enabled": true });
        live["spec"]["matchConstraints"]["excludeResourceRules"] = json!([]);
    };
    check(Tier::Ground, DELETE, KYVERNO, kyverno, &[]);
    let kyverno = |live: &mut Value| {
        let ctlog = &mut live["spec"]["attestors"][0]["cosign"]["ctlog"];
        ctlog["insecureIgnoreTlog"] = json!(false);
        ctlog["insecureIgnoreSCT"] = json!(false);
        live["spec"]["matchConstraints"]["namespaceSelector"] = json!({});
        live["spec"]["credentials"] = json!({ "allowInsecureRegistry": false });
    };
    check(Tier::Flight, IMAGE, IMAGES, kyverno, &[]);
}

/// Each of these lets through, or has Kyverno look at fewer requests; none of them is a field that
/// is rendered.
#[test]
fn a_field_that_only_the_live_policy_of_kyvernos_has_is_told() {
    let some = json!({ "matchLabels": { "a": "b" } });
    let all = json!([{ "apiGroups": ["*"], "resources": ["*"] }]);
    for (field, value) in [
        ("attestors/0/cosign/ctlog/insecureIgnoreTlog", json!(true)),
        ("attestors/0/cosign/ctlog/insecureIgnoreSCT", json!(true)),
        (
            "attestors/0/cosign/keyless/identities/0/subjectRegExp",
            json!(".*"),
        ),
        (
            "attestors/0/cosign/keyless/identities/0/issuerRegExp",
            json!(".*"),
        ),
        ("attestors/0/cosign/key", json!({ "data": "a key" })),
        ("attestors/0/cosign/trustedRoot", json!({ "value": "{}" })),
        ("attestors/0/notary", json!({ "certs": { "value": "a" } })),
        ("credentials", json!({ "allowInsecureRegistry": true })),
        ("evaluation/admission", json!({ "enabled": false })),
        ("evaluation/mode", json!("JSON")),
        ("matchConstraints/excludeResourceRules", all.clone()),
        ("matchConstraints/namespaceSelector", some.clone()),
        ("matchConstraints/objectSelector", some.clone()),
        ("matchConstraints/matchPolicy", json!("Exact")),
        (
            "matchConstraints/resourceRules/0/resourceNames",
            json!(["a"]),
        ),
        ("matchConstraints/resourceRules/0/scope", json!("Cluster")),
        (
            "images",
            json!([{ "name": "containers", "expression": "[]" }]),
        ),
        (
            "variables",
            json!([{ "name": "images", "expression": "{}" }]),
        ),
        (
            "matchConditions/1",
            json!({ "name": "n", "expression": "false" }),
        ),
        ("whatever/comes", json!("later")),
    ] {
        let soften = |live: &mut Value| put(&mut live["spec"], field, value);
        check(Tier::Flight, IMAGE, IMAGES, soften, &["not as rendered"]);
    }
    for (field, value) in [
        ("evaluation/admission", json!({ "enabled": false })),
        ("matchConstraints/excludeResourceRules", all),
        ("auditAnnotations", json!([{ "key": "a" }])),
    ] {
        let soften = |live: &mut Value| put(&mut live["spec"], field, value);
        check(Tier::Ground, DELETE, KYVERNO, soften, &["not as rendered"]);
    }
}

/// Puts a value where this path is, made if it is not there.
fn put(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for step in path.split('/') {
        if let Some(length) = place.as_array().map(Vec::len) {
            let position: usize = step.parse().expect("a position");
            let list = place.as_array_mut().expect("a list");
            if position == length {
                list.push(Value::Null);
            }
            place = &mut list[position];
        } else {
            place = &mut place[step];
        }
    }
    *place = value;
}

#[test]
fn a_rendered_label_that_is_gone_is_told() {
    let unlabelled = |live: &mut Value| {
        let labels = live["metadata"]["labels"].as_object_mut();
        labels
            .expect("labels")
            .remove("rbac.kyverno.io/aggregate-to-cleanup-controller");
    };
    let told = &["that have lapsed stay"];
    check(Tier::Flight, CLEANUP, "ClusterRole", unlabelled, told);
    let off = |live: &mut Value| {
        live["metadata"]["labels"]["rbac.kyverno.io/aggregate-to-cleanup-controller"] =
            json!("false");
    };
    check(Tier::Flight, CLEANUP, "ClusterRole", off, told);
    let bare = |live: &mut Value| live["metadata"]["annotations"] = Value::Null;
    check(Tier::Ground, DELETE, KYVERNO, bare, &["sync-wave"]);
}

#[test]
fn a_label_that_undoes_is_told_whoever_added_it() {
    let aggregates = "rbac.authorization.k8s.io/aggregate-to-edit";
    let aggregated = |live: &mut Value| live["metadata"]["labels"][aggregates] = json!("true");
    let told = &["gets these rights too"];
    check(Tier::Flight, CLEANUP, "ClusterRole", aggregated, told);
    let lapsing =
        |live: &mut Value| live["metadata"]["labels"]["cleanup.kyverno.io/ttl"] = json!("1m");
    check(Tier::Flight, DELETE, POLICY, lapsing, &["Kyverno deletes"]);
}

#[test]
fn a_binding_that_does_not_deny_is_told() {
    let audits = |live: &mut Value| live["spec"]["validationActions"] = json!(["Audit"]);
    check(Tier::Flight, DELETE, BINDING, audits, &["does not deny"]);
    let selects = |live: &mut Value| {
        live["spec"]["matchResources"] =
            json!({ "namespaceSelector": { "matchLabels": { "a": "b" } } });
    };
    check(Tier::Flight, DELETE, BINDING, selects, &["narrowed"]);
}

#[test]
fn a_policy_that_lets_errors_through_is_told() {
    let ignores = |live: &mut Value| live["spec"]["failurePolicy"] = json!("Ignore");
    check(Tier::Flight, DELETE, POLICY, ignores, &["goes through"]);
}

#[test]
fn changed_expressions_and_added_conditions_are_told_with_their_place() {
    let softer = |live: &mut Value| live["spec"]["validations"][1]["expression"] = json!("true");
    check(
        Tier::Flight,
        DELETE,
        POLICY,
        softer,
        &["spec.validations[1].expression"],
    );
    let excepting = |live: &mut Value| {
        let conditions = live["spec"]["matchConditions"]
            .as_array_mut()
            .expect("conditions");
        conditions.push(json!({ "name": "exception", "expression": "!(true)" }));
    };
    let generated = "vpol-tower-breakglass-pod-delete";
    check(
        Tier::Ground,
        generated,
        POLICY,
        excepting,
        &["spec.matchConditions"],
    );
    let selecting = |live: &mut Value| {
        live["spec"]["matchConstraints"]["excludeResourceRules"] = json!([{ "resources": ["*"] }]);
    };
    check(
        Tier::Flight,
        DELETE,
        POLICY,
        selecting,
        &["excludeResourceRules"],
    );
    let fewer = |live: &mut Value| {
        live["spec"]["validations"]
            .as_array_mut()
            .expect("validations")
            .pop();
    };
    check(Tier::Ground, DELETE, KYVERNO, fewer, &["spec.validations"]);
}

#[test]
fn more_rights_than_rendered_are_told() {
    let more = |live: &mut Value| {
        live["rules"]
            .as_array_mut()
            .expect("rules")
            .push(json!({ "verbs": ["*"] }));
    };
    check(Tier::Flight, CLEANUP, "ClusterRole", more, &["`rules`"]);
}

#[test]
fn a_missing_policy_is_told_and_a_generated_one_is_kyvernos() {
    let wanted = fence(Tier::Ground);
    let mut live = wanted.clone();
    live.retain(|key, _| key.kind != BINDING || !key.name.starts_with(GENERATED_PREFIX));
    let said = differences(&wanted, &live, &[]);
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(
        said.iter()
            .all(|said| said.contains("Kyverno has not made it")),
        "{said:#?}"
    );
    let nothing = differences(&fence(Tier::Flight), &BTreeMap::new(), &[]);
    assert_eq!(nothing.len(), fence(Tier::Flight).len());
}

#[test]
fn an_exception_from_one_of_ours_is_told_and_no_other() {
    let exception = |api: &str, spec: Value| {
        json!({ "apiVersion": api, "kind": "PolicyException",
                "metadata": { "name": "e", "namespace": "n" }, "spec": spec })
    };
    let refs = |name: &str| json!({ "policyRefs": [{ "name": name, "kind": "ValidatingPolicy" }] });
    let old = |name: &str| json!({ "exceptions": [{ "policyName": name }] });
    let exceptions = [
        exception(
            "policies.kyverno.io/v1",
            refs("tower-breakglass-pod-delete"),
        ),
        exception("policies.kyverno.io/v1", refs("somebody-elses")),
        exception("policies.kyverno.io/v1", json!({})),
        exception("kyverno.io/v2", old("kyverno/tower-breakglass-pod-delete")),
        exception("kyverno.io/v2", old("not-tower-breakglass-pod-delete")),
    ];
    let said = differences(&fence(Tier::Ground), &fence(Tier::Ground), &exceptions);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said[0].contains("PolicyException `e` in `n`"), "{said:#?}");
}
