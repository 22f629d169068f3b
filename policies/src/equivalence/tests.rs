//! What is told of two sets, what may be declared, and how it is written.

use super::*;
use crate::cel::KubernetesVersion;
use crate::eval::Case;
use crate::model::{Document, Policy};
use crate::sarif::Sources;
use serde_json::json;

const NATIVE: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: owned}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - expression: has(object.metadata.labels) && 'owner' in object.metadata.labels
      message: say who owns it
    - expression: object.metadata.name != 'root'
      message: not this name
"#;

const CASES: &str = "
- name: an owned pod
  request: {object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: a}}}}
- name: nobody's
  request: {object: {apiVersion: v1, kind: Pod, metadata: {name: web}}}
";

fn kyverno(native: &str) -> String {
    native
        .replace("admissionregistration.k8s.io/v1", "policies.kyverno.io/v1")
        .replace("ValidatingAdmissionPolicy", "ValidatingPolicy")
        .replace("spec:", "spec:\n  validationActions: [Deny]")
}

fn policies(text: &str) -> Vec<Policy> {
    let documents = Policy::parse_all("p.yaml", text.as_bytes())
        .unwrap()
        .into_iter();
    documents
        .filter_map(|document| match document {
            Document::Policy(policy) => Some(*policy),
            Document::Binding(_) | Document::Exception(_) | Document::Unknown(_) => None,
        })
        .collect()
}

/// What both ways of comparing say.
fn both(native: &str, kyverno: &str, declared: &[NativeOnly]) -> (Compared, Bounded) {
    let version = KubernetesVersion::OLDEST;
    let set = |text: &str| {
        let documents = Policy::parse_all("p.yaml", text.as_bytes()).unwrap();
        PolicySet::new(documents, version).unwrap()
    };
    let cases = Case::parse_all("c.yaml", CASES.as_bytes()).unwrap();
    let requests = cases.iter().map(|case| (case.name.as_str(), &case.request));
    let compared = compare(&set(native), &set(kyverno), declared, requests);
    let (native, kyverno) = (policies(native), policies(kyverno));
    let bounded = on_the_domain(&native, &kyverno, declared, version, &cases, |_| {});
    (compared, bounded.unwrap())
}

fn declared(list: &str) -> Vec<NativeOnly> {
    NativeOnly::parse_all("d.yaml", list.as_bytes()).unwrap()
}

fn words(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

#[test]
fn the_same_rules_are_the_same() {
    let (compared, bounded) = both(NATIVE, &kyverno(NATIVE), &[]);
    assert_eq!((compared.undeclared, compared.requests), (vec![], 2));
    assert_eq!((bounded.undeclared, bounded.policies), (vec![], 1));
    assert!(bounded.requests > 2, "{}", bounded.requests);
}

/// The strictest of the bindings decides, whichever stands first.
#[test]
fn every_binding_counts() {
    let bound = |actions: &str| {
        let binding = |name: &str, action: &str| {
            format!(
                "---\napiVersion: admissionregistration.k8s.io/v1\n\
                 kind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: {name}}}\n\
                 spec: {{policyName: owned, validationActions: [{action}]}}\n"
            )
        };
        let all = actions.split(' ').enumerate();
        let all = all.map(|(at, action)| binding(&format!("b{at}"), action));
        format!("{NATIVE}{}", all.collect::<String>())
    };
    for (actions, differs) in [
        ("Deny", 0),
        ("Audit Deny", 0),
        ("Deny Audit", 0),
        // Of the policy, and of the case that it would refuse.
        ("Audit", 2),
    ] {
        let (compared, _) = both(&bound(actions), &kyverno(NATIVE), &[]);
        assert_eq!(compared.undeclared.len(), differs, "{actions}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_no_likeness() {
    let asks = NATIVE.replace(
        "object.metadata.name != 'root'",
        "authorizer.path('/x').check('get').allowed()",
    );
    let (compared, bounded) = both(&asks, &kyverno(&asks), &[]);
    assert_eq!((compared.undeclared, compared.undecided.len()), (vec![], 1));
    let answer = "the expression asks the authorizer, and no answer of it was given";
    let [undecided] = &bounded.undecided[..] else {
        panic!("{:?}", bounded.undecided);
    };
    assert!(undecided.contains(answer), "{undecided}");
    assert_eq!(bounded.undeclared, []);
}

/// With a variable, a message and a note; what they read stands in another expression.
fn with_more(variable: &str, key: &str) -> String {
    let more = format!(
        "  variables: [{{name: who, expression: {variable}}}]\n  auditAnnotations: [{{key: {key}, \
         valueExpression: \"'x'\"}}]\n  validations:"
    );
    NATIVE
        .replace("  validations:", &more)
        .replace("message: not this name", "messageExpression: variables.who")
        .replace(
            "object.metadata.name != 'root'",
            "object.metadata.name != ''",
        )
}

#[test]
fn what_makes_a_message_is_compared_where_the_rule_is_broken() {
    let native = with_more("\"'a'\"", "k");
    // It is another text only where the rule holds.
    let same = with_more("\"object.metadata.name == '' ? 'a' : 'b'\"", "k");
    let other = with_more("\"'b'\"", "k");
    let (compared, bounded) = both(&native, &kyverno(&same), &[]);
    assert_eq!((compared.undeclared, bounded.undeclared), (vec![], vec![]));
    let (compared, bounded) = both(&native, &kyverno(&other), &[]);
    assert_eq!(compared.undeclared, [], "no case breaks it");
    let found = words(&bounded.undeclared);
    assert_eq!(found.len(), 1, "{found:#?}");
    let says = "the native one says \"a\", Kyverno's \"b\"";
    assert!(
        found[0].starts_with("owned: message 1: ") && found[0].ends_with(says),
        "{found:?}"
    );
}

#[test]
fn a_note_has_its_key() {
    let [native, other] = ["k", "l"].map(|key| with_more("\"'a'\"", key));
    let (_, bounded) = both(&native, &kyverno(&other), &[]);
    let found = words(&bounded.undeclared);
    assert_eq!(
        found,
        ["owned: audit annotation 0: it and Kyverno's have other keys"]
    );
}

/// Also where no case is refused.
#[test]
fn who_only_notes_refuses_nothing() {
    let notes = kyverno(NATIVE).replace("validationActions: [Deny]", "validationActions: [Audit]");
    let (compared, _) = both(NATIVE, &notes, &[]);
    let found = words(&compared.undeclared);
    assert_eq!(
        found[0],
        "owned: the native one refuses, Kyverno's only notes"
    );
}

/// No case has that name: the domain has.
#[test]
fn what_no_case_shows_the_domain_does() {
    let other = kyverno(NATIVE).replace("!= 'root'", "!= 'toor'");
    let (compared, bounded) = both(NATIVE, &other, &[]);
    assert_eq!(compared.undeclared, []);
    let found = words(&bounded.undeclared);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("owned: validation 1: "), "{found:?}");
    assert!(found[0].contains("the native one says"), "{found:?}");
}

#[test]
fn a_rule_that_only_the_native_one_has_may_be_declared() {
    let native = NATIVE.replace(
        "    - expression: object",
        "    - {expression: \"'owner' in object.metadata.labels\", message: an owner}\n    - expression: object",
    );
    let (_, bounded) = both(&native, &kyverno(NATIVE), &[]);
    let found = words(&bounded.undeclared);
    assert!(
        found[0].contains("3 times a validation, Kyverno's 2"),
        "{found:#?}"
    );
    let right = declared("- {policy: owned, message: an owner, reason: why}");
    let (compared, bounded) = both(&native, &kyverno(NATIVE), &right);
    assert_eq!((compared.undeclared, bounded.undeclared), (vec![], vec![]));
    assert_eq!(bounded.shown, BTreeSet::from([0]));
    // Part of its message is another rule's.
    let wrong = declared("- {policy: owned, message: an, reason: why}");
    let (_, bounded) = both(&native, &kyverno(NATIVE), &wrong);
    assert!(!bounded.undeclared.is_empty() && bounded.shown.is_empty());
}

#[test]
fn a_policy_of_one_side_is_told_unless_the_native_one_is_declared() {
    let (compared, bounded) = both(NATIVE, "", &[]);
    let found = words(&bounded.undeclared);
    assert_eq!(found, ["owned: there is none of Kyverno's"]);
    assert_eq!(compared.undeclared.len(), 2, "{:?}", compared.undeclared);
    let list = declared("- {policy: owned, reason: why}");
    let (compared, bounded) = both(NATIVE, "", &list);
    assert_eq!((compared.undeclared, bounded.undeclared), (vec![], vec![]));
    let (compared, bounded) = both("", &kyverno(NATIVE), &list);
    let found = words(&bounded.undeclared);
    assert_eq!(found, ["owned: there is no native one"]);
    assert_eq!(compared.undeclared.len(), 2, "{:?}", compared.undeclared);
}

/// As a cluster has it, where Kyverno has compiled it.
#[test]
fn what_kyverno_generated_is_compared_with_what_it_is_generated_from() {
    let generated = NATIVE.replace("{name: owned}", "{name: vpol-owned}");
    let (compared, bounded) = both(&generated, &kyverno(NATIVE), &[]);
    assert_eq!((compared.undeclared, bounded.undeclared), (vec![], vec![]));
    assert_eq!(bounded.policies, 1);
    let both_names = policies(&format!("{NATIVE}---{generated}"));
    assert_eq!(name_of_two(&both_names), Some("owned"));
    assert_eq!(name_of_two(&policies(NATIVE)), None);
}

#[test]
fn a_declaration_is_whole_and_has_a_reason() {
    for (list, told) in [
        ("- {policy: owned}", "missing field `reason`"),
        ("- {policy: owned, reason: ' '}", "needs a reason"),
        (
            "- {policy: owned, reason: r, message: ''}",
            "a rule its message",
        ),
        (
            "- {policy: owned, reason: r, rule: x}",
            "unknown field `rule`",
        ),
        ("a: 1", "list"),
    ] {
        let error = NativeOnly::parse_all("d.yaml", list.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(told), "{list}: {error}");
    }
}

#[test]
fn the_answer_says_what_differs_where_and_what_is_declared_for_nothing() {
    let other = kyverno(NATIVE).replace("!= 'root'", "!= 'toor'");
    let list = declared("- {policy: other, reason: why}");
    let (compared, bounded) = both(NATIVE, &other, &list);
    let answer = Answer {
        compared: &compared,
        bounded: &bounded,
        declared: &list,
    };
    assert!(!answer.holds());
    let text = as_text(&answer);
    assert!(text.contains("owned: validation 1: "), "{text}");
    assert!(text.contains("nothing shows it: `other`"), "{text}");
    let json = as_json(&answer);
    assert_eq!(json["differences"][0]["part"], "validation 1");
    assert_eq!(json["declaredAndNeverSeen"][0]["policy"], "other");
    let native = policies(NATIVE);
    let sources: Sources<'_> = native.iter().map(|policy| ("a b.yaml", policy)).collect();
    let sarif = as_sarif(&answer, &sources);
    let results = &sarif["runs"][0]["results"];
    assert_eq!(results[0]["ruleId"], "equivalent/differs");
    assert_eq!(
        results[0]["locations"][0]["physicalLocation"],
        json!({ "artifactLocation": { "uri": "a%20b.yaml" },
                "region": { "startLine": 11, "startColumn": 19 } })
    );
    assert_eq!(results[1]["ruleId"], "equivalent/declared");
    assert_eq!(results[1].get("locations"), None, "it is nowhere");
    assert_eq!(
        sarif["runs"][0]["invocations"][0]["executionSuccessful"],
        true
    );
}

#[test]
fn what_no_case_is_about_was_not_compared() {
    let elsewhere = NATIVE.replace("[pods]", "[secrets]");
    let (compared, bounded) = both(&elsewhere, &kyverno(&elsewhere), &[]);
    assert_eq!(bounded.untried, ["owned"]);
    let answer = Answer {
        compared: &compared,
        bounded: &bounded,
        declared: &[],
    };
    let native = policies(&elsewhere);
    let sources: Sources<'_> = native.iter().map(|policy| ("p.yaml", policy)).collect();
    let run = &as_sarif(&answer, &sources)["runs"][0];
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    assert!(as_text(&answer).contains("no case is about `owned`"));
}
