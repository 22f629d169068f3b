//! Cases from public reports, by their rows: what the fence says of each, offline. A real API
//! server is asked the same cases (P-10). `docs/traceability.md` has the rows that are elsewhere.

use crate::fence::{VERSION, cases, judged, policies, root};
use decisions::session::Tier;
use policies::eval::{Case, Decision, Outcome, PolicySet, Verdict};
use policies::lint::{Severity, lint};
use policies::model::{Policy, ResourceRule};

const TIERS: [Tier; 2] = [Tier::Flight, Tier::Ground];

/// `pod-delete: an app's pod`
fn short(case: &Case) -> &str {
    let name = case.name.as_str();
    name.strip_prefix("tower-breakglass-").unwrap_or(name)
}

/// Each of the named cases is there, on Flight at least, and comes out as it says.
fn hold(names: &[&str]) {
    for tier in TIERS {
        let set = PolicySet::new(judged(tier), VERSION).expect("policies");
        let all = cases(tier);
        for name in names {
            let of = |case: &&Case| {
                let rest = short(case).strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || !rest.starts_with(char::is_alphabetic))
            };
            let found: Vec<&Case> = all.iter().filter(of).collect();
            assert!(
                !found.is_empty() || tier == Tier::Ground,
                "no case `{name}`"
            );
            for case in found {
                let decision = set.judge(&case.request, None).decision();
                let wanted = match case.denied {
                    Some(_) => Decision::Denied,
                    None => Decision::Allowed,
                };
                assert_eq!(decision, wanted, "{tier:?}: {}", case.name);
            }
        }
    }
}

macro_rules! rows {
    ($($row:ident: $($case:literal),+;)*) => {
        $(#[test] fn $row() { hold(&[$($case),+]); })*
    };
}

rows! {
    qp5_qk23_an_exception_from_a_policy_of_ours_is_refused_of_either_group:
        "guard: an exception from a policy of ours", "guard: an operator's exception",
        "guard: an older exception from a policy of ours",
        "guard: an older exception from ours in no namespace";
    qp8_the_second_session_on_a_pod_is_judged_as_the_first:
        "debug-container: a second session's beside the first",
        "debug-container: two good ones at once";
    qp9_qp11_qk34_qk35_a_persons_attach_and_exec_are_refused:
        "no-exec: a developer attaches to an app", "no-exec: a developer's exec",
        "no-exec: a developer attaches to whatever comes first";
    qp12_qk31_operators_are_excepted_and_ports_are_no_shells:
        "no-exec: an operator's exec", "no-exec: an operator's attach",
        "no-exec: a port is not a shell";
    qp18_qk56_a_grant_is_for_one_of_two_roles:
        "rolebinding: another ClusterRole", "rolebinding: a Role of the same name",
        "rolebinding: Break-glass makes a binding of another name";
    qk1_bindings_without_labels_are_refused_or_none_of_our_business:
        "rolebinding: no labels", "rolebinding: no annotations on Flight",
        "rolebinding: a binding without labels of another name";
    qk2_neither_mounts_nor_volumes_need_be_there:
        "debug-container: without a mount", "debug-container: in a pod without volumes";
    qk26_a_person_deletes_a_copy: "pod-delete: a developer deletes a copy";
    qk29_qk32_break_glass_attaches_and_an_exec_is_refused_in_words:
        "attach: Break-glass attaches to its debug container", "no-exec: a developer's exec";
    qk37_a_collection_has_no_name: "pod-delete: a collection of pods with debug containers",
        "pod-delete: a collection of copies";
    qk40_no_eviction_by_break_glass: "pod-delete: an eviction of an app's pod",
        "pod-delete: an eviction of a copy";
    qk49_every_session_adds_a_container_beside_the_others:
        "debug-container: a second session's beside the first",
        "debug-container: beside an operator's root debugger";
    qk61_a_ttl_that_no_cleaner_reads_is_refused:
        "rolebinding: a TTL that is too short, too long or not canonical";
    qk70_others_pods_are_none_of_our_business:
        "debug-container: a developer's pod is not our business",
        "debug-container: a controller's pod is not our business";
}

/// Rules of a policy that match this resource.
fn rules<'p>(policy: &'p Policy, resource: &str) -> Vec<&'p ResourceRule> {
    let all = policy.match_constraints.iter();
    all.flat_map(|constraints| &constraints.resource_rules)
        .filter(|rule| rule.resources.iter().any(|r| r.value == resource))
        .collect()
}

#[test]
fn qp6_qp17_what_judges_containers_matches_the_subresource() {
    for tier in TIERS {
        let all = policies(tier);
        for name in [
            "tower-breakglass-debug-container",
            "tower-breakglass-debug-image",
        ] {
            let policy = all.iter().find(|policy| policy.name.value == name);
            let policy = policy.expect("a policy");
            let added = rules(policy, "pods/ephemeralcontainers");
            let updates =
                |rule: &&ResourceRule| rule.operations.iter().any(|o| o.value == "UPDATE");
            assert!(added.iter().any(updates), "{tier:?} {name}");
        }
    }
}

#[test]
fn qp17_qk47_the_linter_finds_nothing_in_the_fence_but_notes() {
    for folder in ["flight", "ground"] {
        let folder = root().join("tests/golden/policies").join(folder);
        let read = std::fs::read_dir(folder).expect("what was rendered");
        let read: Vec<_> = read
            .map(|entry| {
                let path = entry.expect("a file").path();
                let bytes = std::fs::read(&path).expect("a file");
                let name = path.display().to_string();
                (name.clone(), Policy::parse_all(&name, &bytes))
            })
            .collect();
        let report = lint(&read, VERSION);
        assert!(report.policies >= 6, "{report:?}");
        let found = report
            .findings
            .iter()
            .filter(|f| f.severity != Severity::Note);
        assert_eq!(
            found.collect::<Vec<_>>(),
            Vec::<&policies::lint::Finding>::new()
        );
    }
}

#[test]
fn qk25_of_a_deletion_only_pod_delete_speaks() {
    for tier in TIERS {
        let set = PolicySet::new(judged(tier), VERSION).expect("policies");
        let mut spoke = 0;
        for case in cases(tier) {
            if !short(&case).starts_with("pod-delete: ") || case.name.contains("evict") {
                continue;
            }
            let speaks = |verdict: &&Verdict| match verdict.outcome {
                Outcome::NotMatched(_) | Outcome::Skipped(_) => false,
                Outcome::Allowed
                | Outcome::Denied(_)
                | Outcome::Noted(_)
                | Outcome::Undecided(_) => true,
            };
            for verdict in set
                .judge(&case.request, None)
                .verdicts
                .iter()
                .filter(speaks)
            {
                spoke += 1;
                assert!(
                    verdict.policy.ends_with("pod-delete"),
                    "{}: {verdict:?}",
                    case.name
                );
            }
        }
        assert!(spoke > 0);
    }
}

#[test]
fn qk41_no_policy_of_ours_selects_by_the_objects_labels() {
    for policy in TIERS.into_iter().flat_map(policies) {
        let constraints = policy.match_constraints.as_ref().expect("constraints");
        let selector = constraints.object_selector.as_ref();
        assert!(
            selector.is_none_or(|all| all.is_empty()),
            "{}",
            policy.name.value
        );
    }
}

#[test]
fn qk58_qk59_no_policy_of_ours_has_parameters() {
    for policy in TIERS.into_iter().flat_map(policies) {
        assert_eq!(policy.param_kind, None, "{}", policy.name.value);
    }
}
