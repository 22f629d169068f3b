//! Any bytes as a file of policies: read, linted, written in each format, and judged.
//!
//! Must hold: no panic; a second and 256 MB for reading and linting, and once more for judging;
//! every place that is told is one of the file.
#![no_main]

mod bounds;

use bounds::within;
use libfuzzer_sys::fuzz_target;
use policies::cel::KubernetesVersion;
use policies::eval::{PolicySet, Request};
use policies::lint::{Format, format, lint};
use policies::model::{Document, Policy};
use policies::source::SourceError;

type Read = Result<Vec<Document>, SourceError>;

const REQUEST: &str = r#"{"operation": "UPDATE", "namespace": "shop", "name": "web",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "userInfo": {"username": "alice", "groups": ["dev"]},
    "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "a", "image": "b"}]}},
    "oldObject": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}}}"#;

fuzz_target!(|bytes: &[u8]| {
    let read = within(|| linted(bytes));
    within(|| judged(read, bytes));
});

fn linted(bytes: &[u8]) -> Read {
    let read = Policy::parse_all("f", bytes);
    let lines = bytes
        .iter()
        .filter(|byte| matches!(byte, b'\n' | b'\r'))
        .count() as u32
        + 1;
    let report = lint(&[("f".to_owned(), read.clone())], KubernetesVersion::NEWEST);
    for finding in &report.findings {
        assert!(
            (1..=lines).contains(&finding.line) && finding.column > 0,
            "{finding:?}"
        );
    }
    for error in &report.unread {
        assert!((1..=lines + 1).contains(&error.at().line), "{error}");
    }
    for kind in [Format::Text, Format::Json, Format::Sarif] {
        assert!(!format(&report, kind).is_empty());
    }
    read
}

fn judged(read: Read, bytes: &[u8]) {
    // A request of any shape is read or refused.
    let _ = Request::parse("f", bytes);
    let request = Request::parse("r", REQUEST.as_bytes()).expect("this request is one");
    if let Ok(set) = PolicySet::new(read.into_iter().flatten(), KubernetesVersion::NEWEST) {
        let _ = set.judge(&request, None).decision();
    }
}
