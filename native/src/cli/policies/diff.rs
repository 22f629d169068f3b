//! `breakglass policies diff`: the rendered fence and the live one, in words (P-2, P-4a).
//!
//! Invariant: it reads and changes nothing. "Same" is said only where every object was read.

use super::super::failure::Failure;
use super::super::{print, serve};
use super::render::manifests;
use crate::cluster::config::{KubeconfigWay, Way};
use crate::cluster::{ClusterConfig, fence};
use crate::http::error::chain;
use clap::Args;
use policies::compare::{differences, not_asked, wanted};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct Diff {
    /// The configuration file
    #[arg(long, env = "BREAKGLASS_CONFIG")]
    config: PathBuf,
    /// The cluster, as `policies.clusters` calls it
    #[arg(long)]
    cluster: String,
    /// A kubeconfig of somebody who may read policies, in place of the sidecar's own way
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Its context
    #[arg(long)]
    context: Option<String>,
    /// Prints the differences as a JSON list
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: Diff) -> Result<(), Failure> {
    let config = serve::configuration(&arguments.config)?;
    let cluster = arguments.cluster.as_str();
    let wanted =
        wanted(&manifests(&config, cluster)?).map_err(|error| Failure::Local(error.to_string()))?;
    let mut clusters = config.clusters.clone();
    if arguments.kubeconfig.is_some() || arguments.context.is_some() {
        let way = KubeconfigWay {
            path: arguments.kubeconfig,
            context: arguments.context,
        };
        let own = ClusterConfig {
            way: Way::Kubeconfig(way),
            act_as: None,
            limits: clusters
                .get(cluster)
                .map(|known| known.limits.clone())
                .unwrap_or_default(),
        };
        clusters.insert(cluster.to_owned(), own);
    }
    let live = fence::read(cluster, &clusters, wanted.keys())
        .await
        .map_err(|error| {
            Failure::Usage(format!("cannot say whether it differs: {}", chain(&error)))
        })?;
    let mut said = differences(&wanted, &live.objects, &live.exceptions);
    said.extend(not_asked(&wanted, &live.objects, &live.webhooks));
    if arguments.json {
        print(&serde_json::Value::from(said.clone()).to_string())?;
    } else if said.is_empty() {
        print(&format!("the fence of `{cluster}` is as rendered"))?;
    } else {
        print(&said.join("\n"))?;
    }
    match said.len() {
        0 => Ok(()),
        count => Err(Failure::Local(format!(
            "{count} differences on `{cluster}`"
        ))),
    }
}
