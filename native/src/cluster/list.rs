//! Lists, page by page.
//!
//! Invariant: an answer is never held whole: each page is looked at and dropped.

use super::call::Caller;
use super::error;
use super::object::items;
use crate::ports::ClusterError;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;

const PAGE: u32 = 250;
/// A namespace of 100,000 objects is not one that we can say something true about.
const PAGES_MAX: usize = 400;

/// Shows every object of a collection that matches `selector` to `look`.
pub(super) async fn each(
    caller: &Caller<'_>,
    collection: &Request,
    selector: &str,
    what: &str,
    mut look: impl FnMut(Value) + Send,
) -> Result<(), ClusterError> {
    let mut params = ListParams::default().limit(PAGE);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    for _ in 0..PAGES_MAX {
        let page = caller.json(collection.list(&params), what).await?;
        let next = page
            .pointer("/metadata/continue")
            .and_then(Value::as_str)
            .map(str::to_owned);
        items(caller.cluster(), page)?
            .into_iter()
            .for_each(&mut look);
        match next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
    Err(error::unexpected(
        caller.cluster(),
        format!("the list of {what} does not end"),
    ))
}
