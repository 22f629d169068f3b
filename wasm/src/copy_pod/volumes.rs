//! Which of a pod's volumes a copy has (C-12).
//!
//! Invariant: what lasts is read-only; what can be attached once stays with the original; nothing
//! of the node's, and nothing that proves an identity. What is not known is left out, and said.

use super::{ClaimFacts, CopyRefusal};
use crate::debug_container::is_pinned;
use crate::mounts::{is_identity, is_identity_source};
use crate::pod::{PodFacts, Volume};
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Value, json};

/// A copy's volumes.
#[derive(Debug, Default)]
pub(super) struct CopiedVolumes {
    pub(super) kept: Vec<Volume>,
    /// Those of `kept` that outlive a pod, and so may only be read.
    lasting: BTreeSet<String>,
    /// Whether a volume may be attachable on the original's node alone.
    pub(super) same_node: bool,
    pub(super) notes: Vec<String>,
}

impl CopiedVolumes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.kept.iter().any(|v| v.name == name)
    }

    pub(super) fn is_lasting(&self, name: &str) -> bool {
        self.lasting.contains(name)
    }

    fn keep(&mut self, volume: &Volume, kind: &str, source: Value) {
        let source = BTreeMap::from([(kind.to_owned(), source)]);
        self.kept.push(Volume {
            name: volume.name.clone(),
            source,
        });
    }

    fn keep_read_only(&mut self, volume: &Volume, kind: &str, mut source: Value) {
        if let Some(fields) = source.as_object_mut() {
            fields.insert("readOnly".to_owned(), json!(true));
            self.lasting.insert(volume.name.clone());
            self.keep(volume, kind, source);
        }
    }

    fn leave_out(&mut self, volume: &Volume, why: &str) {
        self.notes.push(format!(
            "volume `{}` is not in the copy: {why}",
            volume.name
        ));
    }
}

/// The copy's volumes, in the pod's order.
pub(super) fn copy_volumes(
    pod: &PodFacts,
    claims: &BTreeMap<String, ClaimFacts>,
) -> Result<CopiedVolumes, CopyRefusal> {
    let mut out = CopiedVolumes::default();
    let devices: BTreeSet<&str> = pod
        .app_containers()
        .flat_map(|c| &c.volume_devices)
        .filter_map(|device| device.get("name")?.as_str())
        .collect();
    for volume in &pod.spec.volumes {
        let source = volume.source.iter().find(|(_, source)| !source.is_null());
        // A volume without a source is an empty folder.
        let (kind, source) = match source {
            Some((kind, source)) => (kind.as_str(), source.clone()),
            None => ("emptyDir", json!({})),
        };
        if volume.source.contains_key("hostPath") {
            return Err(CopyRefusal::HostPath {
                volume: volume.name.clone(),
            });
        }
        if devices.contains(volume.name.as_str()) {
            out.leave_out(volume, "it is a raw block device");
            continue;
        }
        match kind {
            "projected" => without_identity(&mut out, volume, source),
            _ if is_identity(pod, volume) => {}
            "emptyDir" | "configMap" | "secret" | "downwardAPI" => out.keep(volume, kind, source),
            "persistentVolumeClaim" => claim(&mut out, volume, source, claims),
            // A claim of its own would be as empty, and slower to come and go.
            "ephemeral" => {
                out.notes.push(format!(
                    "volume `{}` is an empty folder in the copy",
                    volume.name
                ));
                out.keep(volume, "emptyDir", json!({}));
            }
            "nfs" | "cephfs" | "azureFile" | "glusterfs" => {
                out.leave_out(volume, "the pod names its server, which no policy can know");
            }
            "image" if source["reference"].as_str().is_some_and(is_pinned) => {
                out.keep(volume, kind, source);
            }
            "image" => out.leave_out(volume, "its image is not pinned by a digest"),
            "csi" => out.leave_out(volume, "its driver makes it for one pod"),
            _ => out.leave_out(volume, "it may not be attachable twice"),
        }
    }
    Ok(out)
}

/// A projected volume without its tokens; nothing at all if that is what it was for.
fn without_identity(out: &mut CopiedVolumes, volume: &Volume, mut source: Value) {
    let token_volume = volume.name.starts_with("kube-api-access-");
    let Some(sources) = source.get_mut("sources").and_then(Value::as_array_mut) else {
        return;
    };
    let all = sources.len();
    sources.retain(|s| !is_identity_source(s));
    if token_volume || (sources.is_empty() && all > 0) {
        return;
    }
    if sources.len() < all {
        out.notes
            .push(format!("volume `{}` has no token in the copy", volume.name));
    }
    out.keep(volume, "projected", source);
}

fn claim(
    out: &mut CopiedVolumes,
    volume: &Volume,
    source: Value,
    claims: &BTreeMap<String, ClaimFacts>,
) {
    let facts = source["claimName"]
        .as_str()
        .and_then(|name| claims.get(name));
    let modes: &[String] = facts.map_or(&[], |f| &f.access_modes);
    let offers = |mode: &str| modes.iter().any(|m| m == mode);
    if offers("ReadWriteOncePod") {
        out.leave_out(volume, "it can be attached to one pod only");
        return;
    }
    if !offers("ReadWriteMany") && !offers("ReadOnlyMany") {
        out.same_node = true;
    }
    if modes.is_empty() {
        out.notes.push(format!(
            "it is not known whether volume `{}` can be attached twice: if not, the copy does not \
             start",
            volume.name
        ));
    }
    out.keep_read_only(volume, "persistentVolumeClaim", source);
}
