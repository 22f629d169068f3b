//! Who may do what: a small but real RBAC.
//!
//! What must hold (C-2a): at rest the sidecar's account can make and remove RoleBindings, `bind`
//! exactly the two debug roles, and read pods and namespaces by name; every other right comes
//! from a RoleBinding, in its namespace alone, and goes with it.

use serde_json::Value;

use crate::refusal::Refusal;
use crate::route::Action;

/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The ClusterRole that a `debug-live` grant binds.
pub const LIVE_ROLE: &str = "tower-breakglass-debug-live";
/// The ClusterRole that a `debug-copy` grant binds.
pub const COPY_ROLE: &str = "tower-breakglass-debug-copy";

/// One rule: these verbs on these resources, of these names if any are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    group: String,
    resources: Vec<String>,
    verbs: Vec<String>,
    names: Vec<String>,
}

impl Rule {
    /// `verbs` on `resources` (`pods`, `pods/attach`) of API group `group`.
    #[must_use]
    pub fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect();
        Self {
            group: group.to_owned(),
            resources: owned(resources),
            verbs: owned(verbs),
            names: Vec::new(),
        }
    }

    /// Only for objects of these names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.names = names.iter().map(|&one| one.to_owned()).collect();
        self
    }

    fn allows(&self, action: &Action) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|x| x == one || x == "*");
        self.group == action.group
            && has(&self.resources, &action.full_resource())
            && has(&self.verbs, action.verb)
            && (self.names.is_empty()
                || action
                    .name
                    .as_ref()
                    .is_some_and(|name| self.names.contains(name)))
    }

    /// The rule as an entry of a ClusterRole's `rules`.
    pub(crate) fn to_json(&self) -> Value {
        let mut rule = serde_json::json!({
            "apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs,
        });
        if !self.names.is_empty() {
            rule["resourceNames"] = self.names.clone().into();
        }
        rule
    }
}

/// A caller that has shown a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// A user by name; a service account's full name gives it that account's groups.
    pub(crate) fn named(name: &str) -> Self {
        if let Some((namespace, account)) = name
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.split_once(':'))
        {
            return Self::service_account(namespace, account);
        }
        Self {
            name: name.to_owned(),
            groups: vec!["system:authenticated".to_owned()],
        }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// What a grant of a built-in ClusterRole allows in its namespace (C-2a).
pub(crate) fn cluster_role(name: &str) -> Option<Vec<Rule>> {
    let attach = || Rule::new("", &["pods/attach"], &["get", "create"]);
    match name {
        LIVE_ROLE => Some(vec![
            Rule::new("", &["pods"], &["get", "list", "watch", "patch", "delete"]),
            Rule::new("", &["pods/ephemeralcontainers"], &["patch"]),
            attach(),
            Rule::new("policy", &["poddisruptionbudgets"], &["list"]),
        ]),
        COPY_ROLE => Some(vec![
            Rule::new("", &["pods"], &["get", "list", "watch", "create", "delete"]),
            attach(),
        ]),
        _ => None,
    }
}

/// The rights of the sidecar's account while no session is open (C-2a), no more.
#[must_use]
pub fn rights_at_rest() -> Vec<Rule> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    vec![
        Rule::new(
            RBAC,
            &["rolebindings"],
            &["create", "delete", "get", "list"],
        ),
        Rule::new(RBAC, &["clusterroles"], &["bind"]).named(&[LIVE_ROLE, COPY_ROLE]),
        Rule::new("", &["pods", "namespaces"], &["get"]),
    ]
}

/// Everything that decides: the caller's standing rules and the RoleBindings in effect.
pub(crate) struct Authorizer<'a> {
    pub(crate) user: &'a User,
    pub(crate) standing: &'a [Rule],
    /// RoleBinding objects that have taken effect.
    pub(crate) bindings: Vec<&'a Value>,
}

impl Authorizer<'_> {
    pub(crate) fn allows(&self, action: &Action) -> bool {
        let everyone = action.verb == "create"
            && matches!(
                action.resource.as_str(),
                "selfsubjectreviews" | "selfsubjectaccessreviews"
            );
        everyone
            || self.user.is_master()
            || self.standing.iter().any(|rule| rule.allows(action))
            || self.granted(action)
    }

    pub(crate) fn check(&self, action: &Action) -> Result<(), Refusal> {
        if self.allows(action) {
            return Ok(());
        }
        Err(Refusal::forbidden(action, &self.user.name))
    }

    /// Nobody hands out rights that they neither hold nor may `bind`.
    pub(crate) fn check_bind(&self, binding: &Value, action: &Action) -> Result<(), Refusal> {
        let role = binding["roleRef"]["name"].as_str().unwrap_or_default();
        let kind = binding["roleRef"]["kind"].as_str().unwrap_or_default();
        let bind = Action {
            verb: "bind",
            group: action.group.clone(),
            resource: if kind == "ClusterRole" {
                "clusterroles"
            } else {
                "roles"
            }
            .to_owned(),
            subresource: None,
            namespace: action.namespace.clone(),
            name: Some(role.to_owned()),
        };
        if self.allows(&bind) {
            return Ok(());
        }
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        let message = format!(
            "{} \"{name}\" is forbidden: user \"{}\" (groups={:?}) is attempting to grant RBAC \
             permissions not currently held",
            action.qualified_resource(),
            self.user.name,
            self.user.groups,
        );
        Err(Refusal::new(403, "Forbidden", message).about(action, name))
    }

    fn granted(&self, action: &Action) -> bool {
        let Some(namespace) = &action.namespace else {
            return false;
        };
        self.bindings.iter().any(|binding| {
            binding["metadata"]["namespace"] == namespace.as_str()
                && self.is_subject(binding)
                && binding["roleRef"]["kind"] == "ClusterRole"
                && binding["roleRef"]["name"]
                    .as_str()
                    .and_then(cluster_role)
                    .is_some_and(|rules| rules.iter().any(|rule| rule.allows(action)))
        })
    }

    fn is_subject(&self, binding: &Value) -> bool {
        let Some(subjects) = binding["subjects"].as_array() else {
            return false;
        };
        subjects.iter().any(|subject| {
            let name = subject["name"].as_str().unwrap_or_default();
            match subject["kind"].as_str() {
                Some("User") => name == self.user.name,
                Some("Group") => self.user.groups.iter().any(|group| group == name),
                Some("ServiceAccount") => {
                    let namespace = subject["namespace"].as_str().unwrap_or_default();
                    User::service_account(namespace, name).name == self.user.name
                }
                _ => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn action(verb: &'static str, resource: &str, namespace: Option<&str>) -> Action {
        let (resource, sub) = resource
            .split_once('/')
            .map_or((resource, None), |(r, s)| (r, Some(s)));
        let group = if resource == "rolebindings" {
            "rbac.authorization.k8s.io"
        } else {
            ""
        };
        Action {
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: sub.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            name: Some("x".to_owned()),
        }
    }

    fn grant(role: &str) -> Value {
        json!({
            "metadata": { "name": "g", "namespace": "shop" },
            "roleRef": { "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "tower", "name": "breakglass" }],
        })
    }

    #[track_caller]
    fn check(bindings: &[Value], action: &Action, expected: bool) {
        let user = User::service_account("tower", "breakglass");
        let standing = rights_at_rest();
        let authorizer = Authorizer {
            user: &user,
            standing: &standing,
            bindings: bindings.iter().collect(),
        };
        assert_eq!(authorizer.allows(action), expected, "{action:?}");
    }

    #[test]
    fn at_rest_a_pod_can_be_read_and_nothing_done_to_it() {
        check(&[], &action("get", "pods", Some("shop")), true);
        for verb in ["list", "watch", "patch", "delete", "create"] {
            check(&[], &action(verb, "pods", Some("shop")), false);
        }
        check(&[], &action("create", "pods/attach", Some("shop")), false);
        check(
            &[],
            &action("patch", "pods/ephemeralcontainers", Some("shop")),
            false,
        );
    }

    #[test]
    fn at_rest_role_bindings_are_made_in_any_namespace() {
        check(&[], &action("create", "rolebindings", Some("shop")), true);
        check(&[], &action("list", "rolebindings", None), true);
        check(&[], &action("update", "rolebindings", Some("shop")), false);
    }

    #[test]
    fn a_live_grant_allows_its_steps_in_its_namespace_alone() {
        let grants = [grant(LIVE_ROLE)];
        check(
            &grants,
            &action("patch", "pods/ephemeralcontainers", Some("shop")),
            true,
        );
        check(
            &grants,
            &action("patch", "pods/ephemeralcontainers", Some("bank")),
            false,
        );
        check(&grants, &action("get", "pods/attach", Some("shop")), true);
        check(&grants, &action("create", "pods", Some("shop")), false);
        check(&grants, &action("create", "pods/exec", Some("shop")), false);
    }

    #[test]
    fn a_copy_grant_makes_pods_and_touches_no_ephemeral_container() {
        let grants = [grant(COPY_ROLE)];
        check(&grants, &action("create", "pods", Some("shop")), true);
        check(&grants, &action("patch", "pods", Some("shop")), false);
        check(
            &grants,
            &action("patch", "pods/ephemeralcontainers", Some("shop")),
            false,
        );
    }

    #[test]
    fn another_subject_gets_nothing_from_a_grant() {
        let mut other = grant(LIVE_ROLE);
        other["subjects"][0]["name"] = "somebody".into();
        check(&[other], &action("delete", "pods", Some("shop")), false);
    }

    #[test]
    fn a_role_outside_the_two_cannot_be_bound() {
        let user = User::service_account("tower", "breakglass");
        let standing = rights_at_rest();
        let authorizer = Authorizer {
            user: &user,
            standing: &standing,
            bindings: Vec::new(),
        };
        let create = action("create", "rolebindings", Some("shop"));
        assert!(authorizer.check_bind(&grant(LIVE_ROLE), &create).is_ok());
        let refusal = authorizer
            .check_bind(&grant("cluster-admin"), &create)
            .unwrap_err();
        assert_eq!(refusal.code, 403);
        assert!(
            refusal.message.contains("not currently held"),
            "{}",
            refusal.message
        );
    }
}
