//! Who somebody is to a Kubernetes API server.
//!
//! Invariant: a value of these types can be written into a manifest as it is: it was checked when
//! it was made.

use std::fmt;

/// The name that the API server gives to a service account is this, its namespace and its name.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The longest user name taken from a configuration, in bytes.
const USER_BYTES_MAX: usize = 512;

/// Why a name cannot stand in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not an RFC 1123 name of the length that its place allows.
    #[error(
        "{what} `{name}` is not a Kubernetes name: use at most {max} lower-case letters, digits \
         and `-`, and begin and end with a letter or digit"
    )]
    NotAName {
        /// Which setting is meant.
        what: &'static str,
        /// The name as it was given.
        name: String,
        /// How many characters its place allows.
        max: usize,
    },
    /// Not a label's value, so not an installation's name either.
    #[error(
        "the installation `{0}` is not a label value: use letters, digits, `.`, `_` and `-`, at \
         most 63, and begin and end with a letter or digit"
    )]
    NotAnInstallation(String),
    /// A user name that is empty, too long or carries control characters.
    #[error(
        "user name `{}` is empty, longer than {USER_BYTES_MAX} bytes or not printable",
        .0.escape_debug()
    )]
    NotAUser(String),
}

/// A service account: its namespace and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceAccount {
    namespace: String,
    name: String,
}

impl ServiceAccount {
    /// The account `name` in `namespace`.
    ///
    /// # Errors
    /// [`NameError::NotAName`] where the API server would not accept one of the two.
    pub fn new(namespace: &str, name: &str) -> Result<Self, NameError> {
        let namespace = checked_label("the namespace", namespace, 63)?;
        // The API allows dots and 253 characters here; each dotted part is a label.
        if name.len() > 253 {
            return Err(not_a_name("the service account", name, 253));
        }
        for part in name.split('.') {
            checked_label("the service account", part, 253)
                .map_err(|_| not_a_name("the service account", name, 253))?;
        }
        Ok(Self {
            namespace,
            name: name.to_owned(),
        })
    }

    /// The namespace that the account lives in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The account's name within its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// An identity as a cluster reports it (C-1): the sole subject of a grant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// A service account of this cluster.
    ServiceAccount(ServiceAccount),
    /// Anybody else: a certificate's common name, an OIDC user.
    User(UserName),
}

/// A user name that is not a service account's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserName(String);

impl Identity {
    /// Reads the user name of a SelfSubjectReview: `system:serviceaccount:<ns>:<name>` is a
    /// service account, anything else a user (C-1).
    ///
    /// # Errors
    /// [`NameError`] where the name is not one that an API server gives.
    pub fn of_user_name(user: &str) -> Result<Self, NameError> {
        if let Some(account) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX) {
            let (namespace, name) = account.split_once(':').unwrap_or((account, ""));
            return Ok(Self::ServiceAccount(ServiceAccount::new(namespace, name)?));
        }
        let printable = !user.chars().any(char::is_control);
        if user.trim().is_empty() || user.len() > USER_BYTES_MAX || !printable {
            return Err(NameError::NotAUser(user.to_owned()));
        }
        Ok(Self::User(UserName(user.to_owned())))
    }
}

impl fmt::Display for Identity {
    /// The user name as the API server writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceAccount(account) => {
                write!(
                    f,
                    "{SERVICE_ACCOUNT_PREFIX}{}:{}",
                    account.namespace, account.name
                )
            }
            Self::User(UserName(name)) => f.write_str(name),
        }
    }
}

/// `name`, if it is an RFC 1123 label of at most `max` characters.
pub(crate) fn checked_label(
    what: &'static str,
    name: &str,
    max: usize,
) -> Result<String, NameError> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|&b| inner(b) && b != b'-');
    let bytes = name.as_bytes();
    let good = bytes.len() <= max && bytes.iter().all(|&b| inner(b));
    if good && edge(bytes.first()) && edge(bytes.last()) {
        return Ok(name.to_owned());
    }
    Err(not_a_name(what, name, max))
}

fn not_a_name(what: &'static str, name: &str, max: usize) -> NameError {
    let name = name.chars().take(max.saturating_add(1)).collect();
    NameError::NotAName { what, name, max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads_as(user: &str, account: Option<(&str, &str)>) {
        let identity = Identity::of_user_name(user).expect(user);
        let read = match &identity {
            Identity::ServiceAccount(a) => Some((a.namespace(), a.name())),
            Identity::User(_) => None,
        };
        assert_eq!(read, account, "{user}");
        assert_eq!(
            identity.to_string(),
            user,
            "it is written back as it was read"
        );
    }

    #[test]
    fn a_service_account_is_told_by_its_prefix() {
        reads_as(
            "system:serviceaccount:backstage:breakglass",
            Some(("backstage", "breakglass")),
        );
        reads_as("system:serviceaccount:a:b.c", Some(("a", "b.c")));
    }

    #[test]
    fn everybody_else_is_a_user() {
        reads_as("backstage", None);
        reads_as("system:node:localhost", None);
        reads_as("https://issuer.example/#jane \"x\"", None);
    }

    #[test]
    fn what_no_api_server_gives_is_refused() {
        let long = "x".repeat(USER_BYTES_MAX + 1);
        for bad in [
            "",
            " ",
            "a\nb",
            long.as_str(),
            "system:serviceaccount:",
            "system:serviceaccount:ns",
            "system:serviceaccount:ns:",
            "system:serviceaccount:-ns:a",
            "system:serviceaccount:ns:a:b",
            "system:serviceaccount:NS:a",
            "system:serviceaccount:ns:a..b",
        ] {
            assert!(Identity::of_user_name(bad).is_err(), "{bad:?}");
        }
    }
}
