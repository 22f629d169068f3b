//! The part of the configuration that decisions and policies both read, and every fixed time.
//!
//! Invariant: a value left out means its default here, so that the sidecar, the rendered policies
//! and the form cannot disagree. What is allowed in a configuration file is the sidecar's to judge.

use crate::limits::Limits;
use crate::request::DURATIONS_MINUTES;
use crate::session::Tier;
use crate::time;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long a request waits for its approval.
pub const APPROVAL_WINDOW: SignedDuration = SignedDuration::from_mins(30);
/// How long an approval waits for its start.
pub const START_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// What an extension adds, once.
pub const EXTENSION: SignedDuration = SignedDuration::from_mins(15);
/// A review not done this long after the end is overdue (S-8) and escalated (W-1).
pub const REVIEW_OVERDUE: SignedDuration = SignedDuration::from_hours(72);

/// `at` plus `by`, in whole microseconds; the end of time where the sum lies beyond it.
pub(crate) fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    stored(time::plus(at, by).unwrap_or(Timestamp::MAX))
}

/// A time as the database keeps it (timestamptz: whole microseconds), so that a row read back
/// compares equal to what was decided.
pub(crate) fn stored(at: Timestamp) -> Timestamp {
    time::whole_micros(at)
}

/// The names of labels and annotations that decide something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct LabelNames {
    /// On a namespace: the app it belongs to (S-14).
    pub app: String,
    /// On a namespace: the app's environment (S-14).
    pub env: String,
    /// On a namespace: `"true"` marks a preview (S-9).
    pub ephemeral_env: String,
    /// On a namespace: `"Ground"` lets a Flight cluster's fence treat it as Ground (S-9a).
    pub tier: String,
    /// On a pod (an annotation): the session that may see its processes (C-8).
    pub process_access: String,
}

impl Default for LabelNames {
    fn default() -> Self {
        Self {
            app: "hangar.io/app".to_owned(),
            env: "hangar.io/env".to_owned(),
            ephemeral_env: "hangar.io/ephemeral-env".to_owned(),
            tier: "hangar.io/tier".to_owned(),
            process_access: "hangar.io/breakglass-process-access".to_owned(),
        }
    }
}

/// What decisions and policies are configured by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Settings {
    /// This installation's name, on every object it makes (C-2c).
    pub installation: String,
    /// The clusters whose environments are Ground unless declared otherwise (S-9).
    pub ground_clusters: Vec<String>,
    /// How many sessions may be open at once (S-14c).
    pub limits: Limits,
    /// Debug images by digest (P-2): the first is used, all are accepted.
    pub debug_images: Vec<String>,
    /// Label and annotation names.
    pub labels: LabelNames,
    /// Whether an active session is taken up again after a restart (T-11).
    pub resume_sessions: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            installation: "tower".to_owned(),
            ground_clusters: Vec::new(),
            limits: Limits::default(),
            debug_images: Vec::new(),
            labels: LabelNames::default(),
            resume_sessions: true,
        }
    }
}

impl Settings {
    /// Whether a cluster's environments are Ground unless declared otherwise. A cluster that
    /// nobody listed is Flight.
    pub fn is_ground_cluster(&self, cluster: &str) -> bool {
        self.ground_clusters.iter().any(|name| name == cluster)
    }

    /// The debug image that sessions get; `None` where none is configured.
    pub fn debug_image(&self) -> Option<&str> {
        self.debug_images.first().map(String::as_str)
    }

    /// What the form needs for its previews (S-10). `declared` is the environment's tier in the
    /// app's release plan.
    pub fn preview(&self, declared: Option<Tier>) -> Preview {
        Preview {
            declared_tier: declared,
            ground_clusters: self.ground_clusters.clone(),
            limits: self.limits,
            durations: DURATIONS_MINUTES.to_vec(),
        }
    }
}

/// What the form's previews need, part of the list's answer (S-10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Preview {
    /// What the app's release plan declares for the environment.
    pub declared_tier: Option<Tier>,
    /// `Settings::ground_clusters`.
    pub ground_clusters: Vec<String>,
    /// `Settings::limits`.
    pub limits: Limits,
    /// The lengths a session can be asked for, in minutes.
    pub durations: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let given = serde_json::json!({"groundClusters": ["dev"], "limits": {"perUser": 1}});
        let settings: Settings = serde_json::from_value(given).unwrap();
        assert!(settings.is_ground_cluster("dev"));
        assert!(!settings.is_ground_cluster("Dev"));
        assert_eq!(
            settings.limits,
            Limits {
                per_user: 1,
                ..Limits::default()
            }
        );
        assert_eq!(settings.labels, LabelNames::default());
        assert_eq!(settings.debug_image(), None);
    }

    #[test]
    fn the_first_debug_image_is_used() {
        let images = vec!["a@sha256:1".to_owned(), "a@sha256:2".to_owned()];
        let settings = Settings {
            debug_images: images,
            ..Settings::default()
        };
        assert_eq!(settings.debug_image(), Some("a@sha256:1"));
    }

    #[test]
    fn a_time_beyond_the_end_of_time_is_the_end_of_time() {
        assert_eq!(later(Timestamp::MAX, EXTENSION), stored(Timestamp::MAX));
        let at: Timestamp = "2026-03-01T10:00:00.123456789Z".parse().unwrap();
        assert_eq!(
            later(at, EXTENSION).to_string(),
            "2026-03-01T10:15:00.123456Z"
        );
    }
}
