//! Paths of the API, built from names that were checked.
//!
//! Invariant: a name from a row or from an API server never leaves its segment of a path.

use crate::ports::ClusterError;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Resource;
use kube::core::Request;

/// Names in Kubernetes that we use: DNS subdomains, 253 characters at most.
pub(super) fn is_name(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253
        && text.starts_with(edge)
        && text.ends_with(edge)
        && !text.contains("..")
        && text.chars().all(|c| edge(c) || c == '-' || c == '.')
}

fn checked<'n>(kind: &str, name: &'n str) -> Result<&'n str, ClusterError> {
    if is_name(name) {
        Ok(name)
    } else {
        Err(ClusterError::Invalid {
            message: format!("`{name}` is not a name of a {kind}"),
        })
    }
}

/// A checked name of an object.
pub(super) fn object(name: &str) -> Result<&str, ClusterError> {
    checked("resource", name)
}

pub(super) fn pods(namespace: &str) -> Result<Request, ClusterError> {
    in_namespace::<Pod>(namespace)
}

pub(super) fn all_pods() -> Request {
    Request::new(Pod::url_path(&(), None))
}

pub(super) fn role_bindings(namespace: &str) -> Result<Request, ClusterError> {
    in_namespace::<RoleBinding>(namespace)
}

pub(super) fn all_role_bindings() -> Request {
    Request::new(RoleBinding::url_path(&(), None))
}

pub(super) fn budgets(namespace: &str) -> Result<Request, ClusterError> {
    in_namespace::<PodDisruptionBudget>(namespace)
}

fn in_namespace<K>(namespace: &str) -> Result<Request, ClusterError>
where
    K: Resource<DynamicType = ()>,
{
    let namespace = checked("namespace", namespace)?;
    Ok(Request::new(K::url_path(&(), Some(namespace))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_segment() {
        for good in ["web", "web-0", "a.b", "0"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "", "-web", "web-", "a/b", "..", "a..b", "a?b", "a#b", "a%2fb", "Web", "a b",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }

    #[test]
    fn a_path_has_the_namespace_in_it() {
        let path = pods("shop").expect("a path").url_path;
        assert_eq!(path, "/api/v1/namespaces/shop/pods");
        assert!(matches!(pods("a/../b"), Err(ClusterError::Invalid { .. })));
        assert_eq!(all_pods().url_path, "/api/v1/pods");
    }
}
