use super::*;
use proptest::prelude::*;

fn id(text: &str) -> SessionId {
    SessionId::parse(text).expect("a session id")
}

#[test]
fn names_carry_the_session_id() {
    let id = id("k3v9x0a1b2c3");
    assert_eq!(grant_name(&id), "tower-breakglass-k3v9x0a1b2c3");
    assert_eq!(second_grant_name(&id), "tower-breakglass-k3v9x0a1b2c3-2");
    assert_eq!(debug_container_name(&id), "debug-k3v9x0a1b2c3");
    assert_eq!(
        copy_pod_name("shop-7d9f", &id),
        "shop-7d9f-copy-k3v9x0a1b2c3"
    );
}

#[test]
fn only_our_own_debug_containers_match() {
    let ours = debug_container_session("debug-k3v9x0a1b2c3");
    assert_eq!(ours, Some(id("k3v9x0a1b2c3")));
    for theirs in [
        "debug-proxy",
        "debug-",
        "debug-k3v9x0a1b2c",
        "debug-k3v9x0a1b2c34",
        "debug-K3v9x0a1b2c3",
        "xdebug-k3v9x0a1b2c3",
        "debug-k3v9x0a1b2c3\n",
        "debug-debug-a1b2c3",
        "",
    ] {
        assert_eq!(debug_container_session(theirs), None, "{theirs:?}");
    }
}

#[test]
fn another_installations_object_is_not_ours() {
    let labels = our_labels("east", &id("k3v9x0a1b2c3"));
    assert_eq!(our_session(&labels, "east"), Some(id("k3v9x0a1b2c3")));
    assert_eq!(our_session(&labels, "west"), None);
    for key in [MANAGED_BY, SESSION, INSTALLATION] {
        let mut fewer = labels.clone();
        fewer.remove(key);
        assert_eq!(our_session(&fewer, "east"), None, "without {key}");
    }
    assert_eq!(
        our_selector("east"),
        "app.kubernetes.io/managed-by=tower-breakglass,hangar.io/breakglass-installation=east"
    );
}

#[test]
fn a_label_value_is_what_kubernetes_takes() {
    for good in ["east", "a", "A-1_b.c", &"x".repeat(63)] {
        assert!(is_label_value(good), "{good:?}");
    }
    for bad in ["", "-a", "a-", "a b", "a/b", "é", &"x".repeat(64)] {
        assert!(!is_label_value(bad), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn a_copys_name_is_a_dns_label_whatever_the_pod_is_called(
        pod in ".{0,300}", id in "[0-9a-z]{12}",
    ) {
        let id = SessionId::parse(&id).expect("an id");
        let name = copy_pod_name(&pod, &id);
        prop_assert!(name.len() <= 63, "{}", name);
        prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        prop_assert!(!name.starts_with('-') && name.ends_with(id.as_str()));
    }

    #[test]
    fn qk49_names_of_two_sessions_differ(a in "[0-9a-z]{12}", b in "[0-9a-z]{12}", pod in "[a-z.]{1,253}") {
        prop_assume!(a != b);
        let (a, b) = (SessionId::parse(&a).expect("an id"), SessionId::parse(&b).expect("an id"));
        prop_assert_ne!(debug_container_name(&a), debug_container_name(&b));
        prop_assert_ne!(copy_pod_name(&pod, &a), copy_pod_name(&pod, &b));
        prop_assert_ne!(grant_name(&a), grant_name(&b));
        prop_assert_ne!(second_grant_name(&a), second_grant_name(&b));
    }
}
