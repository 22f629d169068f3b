//! The rules' names, and why each is a rule.

use serde::{Serialize, Serializer};
use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Requests are wrongly refused or let through.
    Error,
    /// They may be, or will be one day.
    Warning,
    /// Worth a look.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident $id:literal $name:literal $why:literal)*) => {
        /// A rule of the linter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// `L1` to `L12`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// Its name in a few words.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Why it is a rule.
            #[must_use]
            pub const fn why(self) -> &'static str {
                match self { $(Self::$variant => $why,)* }
            }
        }
    };
}

rules! {
    /// A field or key is read that may be absent.
    Presence "L1" "presence"
        "reading what is absent is an error, and under failurePolicy Fail an error refuses the \
         request"
    /// `object` or `oldObject` is read where it is null.
    Nullness "L2" "nullness"
        "object is null on DELETE, oldObject on CREATE and CONNECT; reading a field of null is \
         an error"
    /// A selector or rule that nothing can match.
    NeverMatches "L3" "never-matches"
        "what never matches is never enforced, and nothing says so"
    /// A name that is not there in match conditions.
    ConditionNames "L4" "condition-names"
        "namespaceObject is null, and other names are absent or undocumented, while conditions \
         are decided"
    /// A policy that speaks about everything.
    Scope "L5" "scope"
        "a fault in a policy that matches everything stops everything"
    /// Enforcement: failurePolicy, actions and bindings.
    Enforcement "L6" "enforcement"
        "a policy refuses only with failurePolicy Fail and a binding, or actions, with Deny"
    /// `orValue` and the like on what is no optional.
    Optionals "L7" "optionals"
        "from Kubernetes 1.37 on, orValue, hasValue and value of what is no optional are errors"
    /// A subresource that leads around the policy.
    Subresources "L8" "subresources"
        "`pods` does not match its subresources: what is asked through them is not looked at"
    /// Parameters and audit annotations.
    Parameters "L9" "parameters"
        "missing parameters, and errors in audit annotations, refuse requests whatever the \
         actions say"
    /// What the release does not understand, and regular expressions without anchors.
    Dialect "L10" "dialect"
        "an expression that does not compile is an error each time; a pattern matches anywhere \
         unless anchored"
    /// Traps of ImageValidatingPolicy.
    Images "L11" "images"
        "an image policy that is written too widely verifies nothing"
    /// Traps of Kyverno's other kinds.
    Kyverno "L12" "kyverno"
        "what Kyverno generates from a policy is not always what the policy says"
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.name())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
