//! The kinds of false finding that public collections showed, each in a small policy of our own.

use super::*;

/// A policy of Kyverno's on pods, with more in its spec.
fn of_kyverno(kind: &str, more: &str) -> Vec<&'static str> {
    let rule = rule("", "pods, pods/ephemeralcontainers", "CREATE, UPDATE");
    kyverno(
        kind,
        &format!(
            "spec:\n  validationActions: [Deny]\n  matchConstraints:\n    resourceRules:\n    - \
             {rule}\n{more}"
        ),
    )
}

#[test]
fn an_object_without_a_spec_is_what_a_test_waits_for_and_is_passed_over() {
    let vap = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n";
    let kyvernos = "apiVersion: policies.kyverno.io/v1alpha1\nkind: ImageValidatingPolicy\n";
    for text in [
        format!("{vap}metadata: {{name: p}}\nspec: {{}}\n"),
        format!("{vap}metadata: {{name: p}}\nstatus: {{typeChecking: {{}}}}\n"),
        vap.replace("Policy\n", "PolicyBinding\nmetadata: {name: b}\nspec: {}\n"),
        format!("{kyvernos}metadata: {{name: p}}\nstatus: {{autogen: {{}}}}\n"),
    ] {
        let report = report(&text);
        assert_eq!(report.findings, [], "{text}");
        assert_eq!((report.policies, report.passed_over), (0, 1), "{text}");
    }
    // A key that is misspelt is no outline.
    let misspelt = format!("{vap}metadata: {{name: p}}\nspecs: {{failurePolicy: Fail}}\n");
    assert_eq!(report(&misspelt).policies, 1);
    assert!(ids(&misspelt).contains(&"L6"));
}

#[test]
fn actions_that_are_not_said_are_a_warning_only_where_a_binding_is_made_of_them() {
    let severities = |more: &str| -> Vec<Severity> {
        let text = format!(
            "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {{name: p}}\n\
             spec:\n  matchConstraints:\n    resourceRules:\n    - {}\n{more}",
            rule("", "configmaps", "CREATE")
        );
        let report = report(&text);
        report.findings.iter().map(|f| f.severity).collect()
    };
    assert_eq!(severities(""), [Severity::Note]);
    let generated = "  autogen: {validatingAdmissionPolicy: {enabled: true}}\n";
    assert_eq!(severities(generated), [Severity::Warning]);
    for mode in ["JSON", "Envoy", "HTTP"] {
        let other = format!(
            "  evaluation: {{mode: {mode}}}\n  \
             validations: [{{expression: object.attributes.x == 1}}]\n"
        );
        assert_eq!(severities(&other), [], "{mode}");
    }
}

#[test]
fn fields_that_the_api_always_fills_in_are_not_reported() {
    for (group, resources, expression) in [
        ("", "nodes", "object.status.nodeInfo.kernelVersion != '1'"),
        (
            "",
            "persistentvolumes",
            "!has(object.spec.hostPath) || object.spec.hostPath.path != '/'",
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            "object.spec.signerName != 'x'",
        ),
        (
            "apiextensions.k8s.io",
            "'*'",
            "object.spec.group != 'x' && object.spec.names.kind != 'Y'",
        ),
        (
            "apps",
            "statefulsets",
            "!has(object.spec.volumeClaimTemplates) || \
             object.spec.volumeClaimTemplates.all(c, c.spec.accessModes.size() > 0)",
        ),
        (
            "rbac.authorization.k8s.io",
            "roles",
            "object.rules.all(r, r.resources.size() > 0 && r.apiGroups.size() > 0)",
        ),
        (
            "",
            "'pods', 'pods/ephemeralcontainers'",
            "!has(object.spec.securityContext.seccompProfile) || \
             object.spec.securityContext.seccompProfile.type != 'x'",
        ),
    ] {
        let text = policy(&rule(group, resources, "CREATE, UPDATE"), "", expression);
        assert_eq!(ids(&text), [""; 0], "{expression}");
    }
    // A ClusterRole's rule may be about paths: it has neither then.
    let paths = "object.rules.all(r, r.resources.size() > 0)";
    let cluster = rule("rbac.authorization.k8s.io", "clusterroles", "CREATE");
    assert_eq!(ids(&policy(&cluster, "", paths)), ["L1"]);
    let any = policy(&rule("apps", "'*'", "CREATE"), "", "object.spec.x == 1");
    assert_eq!(ids(&any), ["L1"], "of other groups not all kinds are known");
}

#[test]
fn a_list_that_is_there_has_a_first_element() {
    let of = |index: u32| {
        of_config_map(&format!(
            "!has(object.metadata.ownerReferences) || \
             object.metadata.ownerReferences[{index}].kind != 'x'"
        ))
    };
    assert_eq!(of(0), [""; 0]);
    assert_eq!(of(1), ["L1"]);
    // Of what is not in the table an empty list may be stored.
    let custom = rule("shop.example", "carts", "CREATE");
    let text = "!has(object.metadata.finalizers) || object.metadata.finalizers[0] != 'x'";
    assert_eq!(ids(&policy(&custom, "", text)), ["L1"]);
}

#[test]
fn a_filter_guards_from_within_a_variable_too() {
    let with = |expression: &str| {
        let text = policy(&rule("", "configmaps", "CREATE"), "", expression);
        ids(&text.replace(
            "  validations:",
            "  variables:\n  - name: all\n    expression: object.?metadata.ownerReferences\
             .orValue([])\n  - name: led\n    expression: variables.all.filter(o, has(o.controller))\
             \n  validations:",
        ))
    };
    assert_eq!(with("variables.led.all(x, x.controller)"), [""; 0]);
    assert_eq!(
        with("variables.led.filter(y, y.kind == 'z').all(x, x.controller)"),
        [""; 0]
    );
    assert_eq!(with("variables.all.all(x, x.controller)"), ["L1"]);
}

#[test]
fn a_message_is_asked_for_only_where_its_rule_is_broken() {
    let with = |message: &str| {
        let rule = "{apiGroups: ['', apps], apiVersions: [v1], resources: [deployments, secrets], \
                    operations: [CREATE]}";
        let expression = "request.kind.kind == 'Deployment' ? object.spec.replicas < 5 : true";
        ids(&format!(
            "{}\n",
            policy(rule, "", expression).replace(
                &format!("      {expression}\n"),
                &format!("      {expression}\n    messageExpression: {message}\n")
            )
        ))
    };
    assert_eq!(with("string(object.spec.replicas)"), [""; 0]);
    assert_eq!(with("string(object.spec.paused)"), ["L1"]);
}

#[test]
fn what_is_not_there_tells_the_kind() {
    let rule = "{apiGroups: ['', apps], apiVersions: [v1], operations: [UPDATE], \
                resources: [pods, pods/ephemeralcontainers, deployments]}";
    let of = |otherwise: &str| {
        let expression =
            format!("has(object.spec.containers) ? true : object.spec.{otherwise} != null");
        ids(&policy(rule, "", &expression))
    };
    assert_eq!(of("template.spec.containers"), [""; 0]);
    assert_eq!(of("jobTemplate.spec"), ["L1"]);
}

#[test]
fn the_same_of_the_same_place_is_said_once() {
    let text = policy(&rule("", "configmaps", "CREATE"), "", "variables.n > 1").replace(
        "  validations:",
        "  variables:\n  - {name: n, expression: size(object.data)}\n  validations:",
    );
    let text = text.replace(
        "      variables.n > 1\n",
        "      variables.n > 1\n    messageExpression: string(variables.n)\n",
    );
    let report = report(&text);
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.rule, f.severity))
        .collect();
    assert_eq!(found, [(Rule::Presence, Severity::Error)]);
}

#[test]
fn a_pattern_is_loose_only_where_a_match_lets_through() {
    for (expression, expected) in [
        ("object.metadata.name.matches('a')", &["L10"][..]),
        ("!object.metadata.name.matches('a')", &[]),
        (
            "!(has(object.data) && object.data.exists(k, k.matches('\\\\ba\\\\b')))",
            &[],
        ),
        ("!!object.metadata.name.matches('a')", &["L10"]),
        ("(object.metadata.name.matches('a') ? 1 : 2) == 1", &["L10"]),
        ("object.metadata.name.matches('^a(/|$)')", &[]),
    ] {
        assert_eq!(of_config_map(expression), expected, "{expression}");
    }
    let what = |pattern: &str| {
        let expression = format!("object.metadata.name.matches('{pattern}')");
        let report = report(&policy(&rule("", "configmaps", "CREATE"), "", &expression));
        report.findings[0].what.clone()
    };
    assert!(what("^a").ends_with("says not where the text ends"));
    assert!(what("a$").ends_with("says not where the text begins"));
    assert!(what("a").ends_with("matches anywhere within the text"));
}

#[test]
fn an_image_policy_that_asks_for_no_signature_needs_nobody_who_signs() {
    let severity = |expression: &str| {
        let text = format!(
            "apiVersion: policies.kyverno.io/v1\nkind: ImageValidatingPolicy\nmetadata: {{name: p}}\
             \nspec:\n  validationActions: [Deny]\n  validations:\n  - expression: >-\n      \
             {expression}\n"
        );
        report(&text).findings[0].severity
    };
    let asks = "images.containers.map(i, verifyImageSignatures(i, [])).all(n, n > 0)";
    assert_eq!(severity(asks), Severity::Error);
    let digests = "images.containers.all(i, i.contains('@sha256:'))";
    assert_eq!(severity(digests), Severity::Note);
}

#[test]
fn containers_are_judged_where_another_policy_judges_the_ephemeral_ones() {
    let judge = |resources: &str, list: &str, field: &str| {
        let has = "!has(object.spec.LIST) || object.spec.LIST.all(c, !has(c.FIELD) || c.FIELD > 1)";
        let text = has.replace("LIST", list).replace("FIELD", field);
        policy(&rule("", resources, "CREATE, UPDATE"), "", &text)
    };
    let containers = judge("pods", "containers", "securityContext.runAsUser");
    let beside = |other: &str| {
        let all = format!("{containers}---\n{other}");
        let found = ids(&all);
        found.into_iter().filter(|id| *id == "L8").count()
    };
    let ephemeral = "pods/ephemeralcontainers";
    let same = "securityContext.runAsUser";
    assert_eq!(beside(""), 1);
    assert_eq!(beside(&judge(ephemeral, "ephemeralContainers", same)), 0);
    assert_eq!(beside(&judge(ephemeral, "ephemeralContainers", "image")), 1);
    let other = judge(ephemeral, "ephemeralContainers", same).replace("> 1", "> 2");
    assert_eq!(beside(&other), 1, "that is another question");
    assert_eq!(beside(&judge("pods", "ephemeralContainers", same)), 2);
    // These the API refuses in an ephemeral container.
    for field in ["livenessProbe", "ports", "resources"] {
        let found = ids(&judge("pods", "containers", field));
        assert!(!found.contains(&"L8"), "{field}");
    }
    let both = "object.spec.containers.all(c, has(c.resources) && c.image != '')";
    let found = ids(&policy(&rule("", "pods", "CREATE"), "", both));
    assert_eq!(found, ["L8"]);
}

#[test]
fn an_exception_reaches_the_generated_policy_of_one_kind_alone() {
    let what = |kind: &str| {
        let text = format!(
            "apiVersion: policies.kyverno.io/v1\nkind: PolicyException\nmetadata: {{name: e}}\n\
             spec: {{policyRefs: [{{name: p, kind: {kind}}}]}}"
        );
        report(&text).findings[0].what.clone()
    };
    assert!(what("ValidatingPolicy").contains("generated policy"));
    assert!(!what("MutatingPolicy").contains("generated policy"));
}

#[test]
fn what_is_no_false_finding_stays() {
    let unguarded = "  validations:\n  - expression: object.spec.volumes.all(v, true)\n";
    assert_eq!(of_kyverno("ValidatingPolicy", unguarded), ["L1"]);
}

#[test]
fn an_old_object_that_is_there_tells_the_operation() {
    let rule = "{apiGroups: [''], apiVersions: [v1], operations: ['*'], \
                resources: [pods, pods/ephemeralcontainers, pods/eviction]}";
    let guarded = "oldObject != null && oldObject.spec.containers.size() > 0";
    assert_eq!(ids(&policy(rule, "", guarded)), [""; 0]);
    let of_both = guarded.replace("oldObject", "object");
    assert_eq!(
        ids(&policy(rule, "", &of_both)),
        ["L1"],
        "an eviction has no spec"
    );
}

#[test]
fn qk71_what_the_api_server_does_not_check_is_found_whatever_its_status_says() {
    let text = policy(
        &rule("", "'*', '*/*'", "CREATE"),
        "object.metadata.labels['a'] == 'x'",
        "true",
    );
    let text = text.replace(
        "---\n",
        "status: {typeChecking: {expressionWarnings: []}}\n---\n",
    );
    assert!(ids(&text).contains(&"L1"), "{text}");
}
