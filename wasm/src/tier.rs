//! Which tier a session has, and which rule decided (S-9); whether the cluster's own fence will
//! agree (S-9a).
//!
//! Invariant: what is unknown is the stricter one. An unreadable namespace is never a preview, an
//! unreadable release plan declares nothing, a cluster that nobody listed is Flight.

use crate::session::Tier;
use crate::settings::{LabelNames, Settings};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Labels of one object. A list, not a tree: a second kind of tree weighs a kilobyte (B-11).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Deserialize), serde(from = "BTreeMap<String, String>"))]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// The value of the label of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let label = self.0.iter().find(|(found, _)| found == name);
        label.map(|(_, value)| value.as_str())
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        Self(labels.into_iter().collect())
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        labels.into_iter().collect()
    }
}

/// What the tier is decided from (S-9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct TierFacts {
    /// The namespace carries the preview label; false where it could not be read.
    #[serde(default)]
    pub preview: bool,
    /// What the app's release plan declares for the environment.
    #[serde(default)]
    pub declared: Option<Tier>,
    /// The cluster's name.
    pub cluster: String,
    /// The clusters whose environments are Ground unless declared otherwise.
    #[serde(default)]
    pub ground_clusters: Vec<String>,
}

/// Which rule decided (S-9), so that the form can explain itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum TierRule {
    /// The namespace is a preview.
    Preview,
    /// The release plan declares it.
    Declared,
    /// The cluster is listed as Ground.
    GroundCluster,
    /// The cluster is not listed as Ground.
    FlightCluster,
}

/// A tier and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct TierDecision {
    /// The tier.
    pub tier: Tier,
    /// The rule that decided.
    pub rule: TierRule,
}

/// Decides the tier: preview, else declared, else the cluster (S-9).
pub fn tier_for(facts: &TierFacts) -> TierDecision {
    if facts.preview {
        return TierDecision {
            tier: Tier::Ground,
            rule: TierRule::Preview,
        };
    }
    if let Some(tier) = facts.declared {
        return TierDecision {
            tier,
            rule: TierRule::Declared,
        };
    }
    if facts.ground_clusters.contains(&facts.cluster) {
        TierDecision {
            tier: Tier::Ground,
            rule: TierRule::GroundCluster,
        }
    } else {
        TierDecision {
            tier: Tier::Flight,
            rule: TierRule::FlightCluster,
        }
    }
}

/// Whether these labels mark the namespace as a preview; `None` is one that could not be read.
pub fn is_preview(labels: Option<&Labels>, names: &LabelNames) -> bool {
    has(labels, &names.ephemeral_env, "true")
}

fn has(labels: Option<&Labels>, name: &str, value: &str) -> bool {
    labels
        .and_then(|labels| labels.get(name))
        .is_some_and(|found| found == value)
}

/// The Flight cluster's fence would refuse a Ground session in this namespace (S-9a).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster `{cluster}` guards its namespaces as Flight, so a session without an approver cannot \
     be opened in `{namespace}`: label the namespace `{tier_label}: Ground` (or, for a preview, \
     `{preview_label}: \"true\"`)"
)]
#[non_exhaustive]
pub struct FenceRefusal {
    /// The Flight cluster.
    pub cluster: String,
    /// The namespace whose labels do not say Ground.
    pub namespace: String,
    /// The label that makes it Ground.
    pub tier_label: String,
    /// The label that makes it a preview.
    pub preview_label: String,
}

/// Why a session of this tier cannot pass the cluster's fence, if so (S-9a). The Flight policy
/// takes a grant without approver only in a namespace whose own labels say so; the labels are
/// `None` where they could not be read.
pub fn fence_refusal(
    tier: Tier,
    cluster: &str,
    namespace: &str,
    labels: Option<&Labels>,
    settings: &Settings,
) -> Option<FenceRefusal> {
    let names = &settings.labels;
    let passes = tier == Tier::Flight
        || settings.is_ground_cluster(cluster)
        || is_preview(labels, names)
        || has(labels, &names.tier, "Ground");
    (!passes).then(|| FenceRefusal {
        cluster: cluster.to_owned(),
        namespace: namespace.to_owned(),
        tier_label: names.tier.clone(),
        preview_label: names.ephemeral_env.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(preview: bool, declared: Option<Tier>, cluster: &str, tier: Tier, rule: TierRule) {
        let ground_clusters = vec!["dev".to_owned()];
        let facts = TierFacts {
            preview,
            declared,
            cluster: cluster.to_owned(),
            ground_clusters,
        };
        assert_eq!(tier_for(&facts), TierDecision { tier, rule }, "{facts:?}");
    }

    #[test]
    fn a_preview_is_ground_whatever_else_is_said() {
        for declared in [None, Some(Tier::Ground), Some(Tier::Flight)] {
            for cluster in ["dev", "prod"] {
                check(true, declared, cluster, Tier::Ground, TierRule::Preview);
            }
        }
    }

    #[test]
    fn a_declaration_goes_before_the_cluster() {
        check(
            false,
            Some(Tier::Flight),
            "dev",
            Tier::Flight,
            TierRule::Declared,
        );
        check(
            false,
            Some(Tier::Ground),
            "prod",
            Tier::Ground,
            TierRule::Declared,
        );
    }

    #[test]
    fn otherwise_the_cluster_decides_and_one_nobody_listed_is_flight() {
        check(false, None, "dev", Tier::Ground, TierRule::GroundCluster);
        for cluster in ["prod", "Dev", "dev ", ""] {
            check(false, None, cluster, Tier::Flight, TierRule::FlightCluster);
        }
    }

    #[test]
    fn only_the_exact_label_makes_a_preview_and_an_unreadable_namespace_is_none() {
        let names = LabelNames::default();
        let labels =
            |value: &str| Labels::from_iter([(names.ephemeral_env.clone(), value.to_owned())]);
        assert!(is_preview(Some(&labels("true")), &names));
        for value in ["True", "1", "", "false", "true "] {
            assert!(!is_preview(Some(&labels(value)), &names), "{value:?}");
        }
        assert!(!is_preview(Some(&Labels::from_iter([])), &names));
        assert!(!is_preview(None, &names));
    }

    #[test]
    fn ground_on_a_flight_cluster_needs_the_namespaces_own_word() {
        let settings = Settings {
            ground_clusters: vec!["dev".to_owned()],
            ..Settings::default()
        };
        let fence = |tier, cluster, labels: Option<&[(&str, &str)]>| {
            let labels: Option<Labels> = labels.map(|pairs| {
                pairs
                    .iter()
                    .map(|(k, v)| ((*k).into(), (*v).into()))
                    .collect()
            });
            fence_refusal(tier, cluster, "shop", labels.as_ref(), &settings).is_some()
        };
        let refused = [
            (Tier::Ground, None),
            (Tier::Ground, Some(&[][..])),
            (Tier::Ground, Some(&[("hangar.io/tier", "ground")][..])),
            (Tier::Ground, Some(&[("hangar.io/tier", "Flight")][..])),
            (
                Tier::Ground,
                Some(&[("hangar.io/ephemeral-env", "yes")][..]),
            ),
        ];
        for (tier, labels) in refused {
            assert!(fence(tier, "prod", labels), "{labels:?}");
            assert!(
                !fence(tier, "dev", labels),
                "a Ground cluster has no such fence: {labels:?}"
            );
            assert!(
                !fence(Tier::Flight, "prod", labels),
                "Flight has an approver: {labels:?}"
            );
        }
        assert!(!fence(
            Tier::Ground,
            "prod",
            Some(&[("hangar.io/tier", "Ground")])
        ));
        assert!(!fence(
            Tier::Ground,
            "prod",
            Some(&[("hangar.io/ephemeral-env", "true")])
        ));
    }

    #[test]
    fn the_fences_refusal_says_what_to_label() {
        let settings = Settings::default();
        let refusal = fence_refusal(Tier::Ground, "prod", "shop", None, &settings).unwrap();
        let text = refusal.to_string();
        for part in [
            "`prod`",
            "`shop`",
            "`hangar.io/tier: Ground`",
            "hangar.io/ephemeral-env",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
