//! The figures, each with its goal and whether it was met.

use serde::{Serialize, Serializer};
use std::fmt;

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::AtMost(most) => write!(f, "<= {most}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One figure. What only explains others has neither goal nor `met`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<Goal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
    /// Each run, where `value` is their median.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<f64>,
}

impl Figure {
    /// One that explains others.
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let (goal, met, runs) = (None, None, Vec::new());
        Self {
            name: name.into(),
            value: rounded(value),
            unit,
            goal,
            met,
            runs,
        }
    }

    /// The median of several runs.
    pub(super) fn median(name: impl Into<String>, runs: &[f64], unit: &'static str) -> Self {
        let runs: Vec<f64> = runs.iter().copied().map(rounded).collect();
        Self {
            runs: runs.clone(),
            ..Self::new(name, percentile(&runs, 50), unit)
        }
    }

    /// The same, judged.
    pub(super) fn goal(self, goal: Goal) -> Self {
        let met = Some(goal.is_met(self.value));
        Self {
            goal: Some(goal),
            met,
            ..self
        }
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            unit,
            goal,
            met,
            runs,
        } = self;
        write!(f, "{name:<58} {value:>9} {unit:<13}")?;
        if let (Some(goal), Some(met)) = (goal, met) {
            let judged = if *met { "met" } else { "MISSED" };
            write!(f, " goal {:<8} {judged}", goal.to_string())?;
        }
        if runs.len() > 1 {
            write!(f, " runs {runs:?}")?;
        }
        Ok(())
    }
}

/// The value below which so many of a hundred are (nearest rank); 0 for none.
pub(super) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Three digits say what a shared machine can repeat.
fn rounded(value: f64) -> f64 {
    let digits = if value.abs() < 10.0 { 100.0 } else { 10.0 };
    (value * digits).round() / digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 50.0);
        assert_eq!(percentile(&values, 99), 99.0);
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 50), 2.0);
        assert_eq!(percentile(&[], 50), 0.0);
    }

    #[test]
    fn a_figure_says_its_goal_and_whether_it_was_met() {
        let met = Figure::new("a", 300.04, "MiB").goal(Goal::AtLeast(300.0));
        let json = serde_json::json!(met);
        assert_eq!(json["goal"], ">= 300");
        assert_eq!(json["met"], true);
        assert_eq!(json["value"], 300.0);
        let missed = Figure::new("b", 41.0, "kB").goal(Goal::AtMost(40.0));
        assert_eq!(serde_json::json!(missed)["met"], false);
        assert!(
            serde_json::json!(Figure::new("c", 1.0, ""))
                .get("met")
                .is_none()
        );
    }
}
