use super::*;
use crate::fence::{FenceConfig, GENERATED_PREFIX, Signing, render_fence};
use crate::identity::{Identity, ServiceAccount};
use decisions::session::Tier;

fn fence(tier: Tier) -> BTreeMap<ObjectKey, Value> {
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
    let kyverno = |live: &mut Value| live["spec"]["evaluation"]["mode"] = json!("Kubernetes");
    check(Tier::Ground, DELETE, KYVERNO, kyverno, &[]);
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
    check(
        Tier::Flight,
        "breakglass-kyverno-cleanup",
        "ClusterRole",
        more,
        &["`rules`"],
    );
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
