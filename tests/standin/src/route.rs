//! From method, path and query to what is asked: verb, group, resource, name.
//!
//! Pure. What is not understood is `None`, which becomes a 404.

use std::collections::BTreeMap;

use http::Method;

/// What a request asks, in the terms that RBAC and the fault rules use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

/// The query's parameters; of a repeated one the last counts.
pub(crate) type Query = BTreeMap<String, String>;

/// Group, version and resource that are served. Anything else is a 404, as on a real server.
const SERVED: [(&str, &str, &str); 11] = [
    ("", "v1", "namespaces"),
    ("", "v1", "pods"),
    ("", "v1", "serviceaccounts"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
    ("policy", "v1", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "v1", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings"),
    ("rbac.authorization.k8s.io", "v1", "roles"),
];

impl Action {
    /// Reads a request's method, path and query.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, resource, ..] if !is_own_subresource(resource) => {
                (Some((*namespace).to_owned()), &rest[2..])
            }
            ["namespaces", namespace, ..] => (Some((*namespace).to_owned()), rest.as_slice()),
            all => (None, all),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(*name), None),
            [resource, name, sub] => (*resource, Some(*name), Some(*sub)),
            _ => return None,
        };
        if !SERVED.contains(&(group, version, resource)) || name == Some("") {
            return None;
        }
        Some(Self {
            verb: verb(method, name.is_some(), query)?,
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            namespace,
            name: name.map(str::to_owned),
        })
    }

    /// `pods/attach`
    pub(crate) fn full_resource(&self) -> String {
        match &self.subresource {
            Some(sub) => format!("{}/{sub}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// `rolebindings.rbac.authorization.k8s.io`
    pub(crate) fn qualified_resource(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    /// The same request under another verb (a WebSocket attach is both `get` and `create`).
    pub(crate) fn with_verb(&self, verb: &'static str) -> Self {
        Self {
            verb,
            ..self.clone()
        }
    }
}

fn is_own_subresource(resource: &str) -> bool {
    matches!(resource, "status" | "finalize")
}

fn verb(method: &Method, named: bool, query: &Query) -> Option<&'static str> {
    let watch = matches!(query.get("watch").map(String::as_str), Some("1" | "true"));
    Some(match (method.as_str(), named) {
        ("GET", _) if watch => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", true) => "update",
        ("PATCH", true) => "patch",
        ("DELETE", true) => "delete",
        _ => return None,
    })
}

/// Splits and decodes a query string.
pub(crate) fn query(text: Option<&str>) -> Query {
    let pairs = url::form_urlencoded::parse(text.unwrap_or_default().as_bytes());
    pairs.into_owned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, uri: &str, expected: Option<(&str, &str, Option<&str>, Option<&str>)>) {
        let (path, text) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let action = Action::parse(&method, path, &query(Some(text)));
        let seen = action.as_ref().map(|a| {
            (
                a.verb,
                a.full_resource(),
                a.namespace.as_deref(),
                a.name.as_deref(),
            )
        });
        let expected = expected.map(|(v, r, ns, n)| (v, r.to_owned(), ns, n));
        assert_eq!(seen, expected, "{method} {uri}");
    }

    #[test]
    fn a_pod_is_got_by_name() {
        let uri = "/api/v1/namespaces/shop/pods/a";
        check("GET", uri, Some(("get", "pods", Some("shop"), Some("a"))));
    }

    #[test]
    fn a_namespace_is_a_resource_of_its_own_and_its_own_scope() {
        let uri = "/api/v1/namespaces/shop";
        check(
            "GET",
            uri,
            Some(("get", "namespaces", Some("shop"), Some("shop"))),
        );
    }

    #[test]
    fn a_watch_is_a_list_with_a_parameter() {
        let uri = "/api/v1/namespaces/shop/pods?watch=true&fieldSelector=metadata.name%3Da";
        check("GET", uri, Some(("watch", "pods", Some("shop"), None)));
    }

    #[test]
    fn a_subresource_is_kept_apart() {
        let uri = "/api/v1/namespaces/shop/pods/a/ephemeralcontainers";
        check(
            "PATCH",
            uri,
            Some(("patch", "pods/ephemeralcontainers", Some("shop"), Some("a"))),
        );
    }

    #[test]
    fn all_namespaces_are_no_namespace() {
        let uri = "/apis/rbac.authorization.k8s.io/v1/rolebindings";
        check("GET", uri, Some(("list", "rolebindings", None, None)));
    }

    #[test]
    fn what_is_not_served_is_unknown() {
        check("GET", "/api/v1/namespaces/shop/secrets/a", None);
        check("GET", "/apis/apps/v1beta1/deployments", None);
        check("GET", "/metrics", None);
        check("DELETE", "/api/v1/namespaces/shop/pods", None);
    }
}
