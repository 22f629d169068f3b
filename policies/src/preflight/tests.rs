use super::*;
use crate::fence::tests::config;
use decisions::session::Tier;

fn preflight(tier: Tier) -> Preflight {
    Preflight::new(&config(tier), KubernetesVersion::OLDEST).expect("a preflight")
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "shop", "namespace": "shop" },
        "spec": { "containers": [{ "name": "app", "image": "x" }] },
    })
}

#[test]
fn threads_may_share_it() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Preflight>();
}

#[test]
fn every_dialect_that_is_known_judges() {
    for version in [KubernetesVersion::OLDEST, KubernetesVersion::NEWEST] {
        for tier in [Tier::Ground, Tier::Flight] {
            let preflight = Preflight::new(&config(tier), version).expect("a preflight");
            let told = preflight.check(&Sending::Delete(&pod()), "shop", None);
            assert!(
                matches!(told, Err(Refused::Denied(_))),
                "{version}: {told:?}"
            );
        }
    }
}

#[test]
fn a_refusal_is_in_the_policys_own_words() {
    let refused = preflight(Tier::Flight).check(&Sending::Delete(&pod()), "shop", None);
    let told = refused.expect_err("a pod of nobody's session").to_string();
    assert_eq!(
        told,
        "ValidatingAdmissionPolicy 'tower-breakglass-pod-delete' with binding \
         'tower-breakglass-pod-delete' denied request: Break-glass may delete only a session's \
         copy, or a pod that carries a debug container"
    );
    let refused = preflight(Tier::Ground).check(&Sending::Delete(&pod()), "shop", None);
    let told = refused.expect_err("the same").to_string();
    assert!(
        told.contains("'vpol-tower-breakglass-pod-delete'"),
        "{told}"
    );
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let options = attach_options("debug-0123456789ab");
    let attach = Sending::Attach {
        pod: "shop",
        options: &options,
    };
    let flight = preflight(Tier::Flight);
    let app = labels(&[("hangar.io/app", "shop")]);
    assert_eq!(flight.check(&attach, "shop", Some(&app)), Ok(()));
    // Whose namespace it is decides, and nobody could read it.
    let told = flight.check(&attach, "shop", None).expect_err("not known");
    assert!(matches!(told, Refused::Undecided { .. }), "{told:?}");
    assert!(
        told.to_string().contains("cannot be judged beforehand"),
        "{told}"
    );
    let text = json!("no object");
    let told = flight.check(&Sending::Grant(&text), "shop", Some(&app));
    assert!(matches!(told, Err(Refused::Undecided { .. })), "{told:?}");
}

#[test]
fn a_pod_without_marks_or_containers_gets_them() {
    let container = json!({ "name": "debug-0123456789ab" });
    let once = with_debug_container(&pod(), &container);
    assert_eq!(once["spec"]["ephemeralContainers"], json!([container]));
    let twice = with_debug_container(&once, &container);
    assert_eq!(
        twice["spec"]["ephemeralContainers"],
        json!([container, container])
    );

    let marked = with_process_access(&pod(), Some("0123456789ab"));
    assert_eq!(
        marked["metadata"]["annotations"],
        json!({ PROCESS_ACCESS: "0123456789ab" })
    );
    let other = with_process_access(&marked, Some("zzzzzzzzzzzz"));
    assert_eq!(
        other["metadata"]["annotations"][PROCESS_ACCESS],
        "zzzzzzzzzzzz"
    );
    assert_eq!(with_process_access(&pod(), None), pod());
    assert_eq!(
        with_process_access(&other, None)["metadata"]["annotations"],
        json!({})
    );
}
