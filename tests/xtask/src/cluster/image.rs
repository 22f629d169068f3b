//! Container images made on the spot: there is no registry and no image builder.
//!
//! Invariant: the same files give the same bytes and so the same digest. The digest is the
//! manifest's own, computed here, so an image can be imported under a reference by digest and a
//! pod that names it so starts from it.

use std::io::{self, Write};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// One thing in an image's file system. Parents come before what is in them.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Folder {
        path: &'static str,
        mode: u32,
    },
    File {
        path: &'static str,
        mode: u32,
        bytes: Vec<u8>,
    },
    Link {
        path: String,
        to: &'static str,
    },
}

/// An image before it has a name.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) entries: Vec<Entry>,
    /// The numeric user and group that it runs as, unless the pod says otherwise.
    pub(super) user: &'static str,
    pub(super) command: &'static [&'static str],
}

/// An image whose digests are known.
#[derive(Debug)]
pub(super) struct Built {
    manifest: Value,
    digest: String,
    /// The configuration and the layer, by digest.
    blobs: Vec<(String, Vec<u8>)>,
    manifest_bytes: Vec<u8>,
}

impl Image {
    pub(super) fn build(&self) -> io::Result<Built> {
        let layer = self.layer()?;
        let layer_digest = digest(&layer);
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": ["PATH=/bin:/usr/bin:/sbin"],
                "Cmd": self.command,
                "WorkingDir": "/",
            },
            "rootfs": { "type": "layers", "diff_ids": [&layer_digest] },
        })
        .to_string()
        .into_bytes();
        let config_digest = digest(&config);
        let manifest_bytes = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config_digest, &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer_digest, &layer)],
        })
        .to_string()
        .into_bytes();
        let digest = digest(&manifest_bytes);
        let manifest = descriptor(MANIFEST, &digest, &manifest_bytes);
        let blobs = vec![(config_digest, config), (layer_digest, layer)];
        Ok(Built {
            manifest,
            digest,
            blobs,
            manifest_bytes,
        })
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        for entry in &self.entries {
            match entry {
                Entry::Folder { path, mode } => {
                    append(&mut layer, path, EntryType::Directory, *mode, &[])?;
                }
                Entry::File { path, mode, bytes } => {
                    append(&mut layer, path, EntryType::Regular, *mode, bytes)?;
                }
                Entry::Link { path, to } => {
                    let mut header = header(EntryType::Symlink, 0o777, 0);
                    layer.append_link(&mut header, path, to)?;
                }
            }
        }
        layer.into_inner()
    }
}

impl Built {
    /// `sha256:…` of the manifest.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// The image as an OCI archive that carries every one of `names`.
    pub(super) fn archive(&self, names: &[String]) -> io::Result<Vec<u8>> {
        let manifests: Vec<Value> = names
            .iter()
            .map(|name| {
                let mut manifest = self.manifest.clone();
                manifest["annotations"] = json!({ "io.containerd.image.name": name });
                manifest
            })
            .collect();
        let index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
        let mut archive = Builder::new(Vec::new());
        let file = EntryType::Regular;
        append(
            &mut archive,
            "oci-layout",
            file,
            0o644,
            br#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        append(&mut archive, "index.json", file, 0o644, index.as_bytes())?;
        let manifest = (self.digest.clone(), self.manifest_bytes.clone());
        for (digest, bytes) in self.blobs.iter().chain([&manifest]) {
            let path = format!("blobs/{}", digest.replace(':', "/"));
            append(&mut archive, &path, file, 0o644, bytes)?;
        }
        archive.into_inner()
    }
}

fn append(
    to: &mut Builder<impl Write>,
    path: &str,
    kind: EntryType,
    mode: u32,
    bytes: &[u8],
) -> io::Result<()> {
    let mut header = header(kind, mode, bytes.len() as u64);
    to.append_data(&mut header, path, bytes)
}

/// No time and no owner's name: they would change the digest.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn descriptor(media_type: &str, digest: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// This machine's architecture as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn image(text: &str) -> Image {
        Image {
            entries: vec![
                Entry::Folder {
                    path: "bin",
                    mode: 0o755,
                },
                Entry::File {
                    path: "bin/busybox",
                    mode: 0o755,
                    bytes: text.into(),
                },
                Entry::Link {
                    path: "bin/sh".to_owned(),
                    to: "busybox",
                },
            ],
            user: "65532:65532",
            command: &["sh"],
        }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().expect("a tar file") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").to_string_lossy().into_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            files.insert(path, bytes);
        }
        files
    }

    #[test]
    fn the_digest_depends_on_the_files_and_on_nothing_else() {
        let digest = |text| image(text).build().expect("built").digest().to_owned();
        assert_eq!(digest("a"), digest("a"));
        assert_ne!(digest("a"), digest("b"));
    }

    #[test]
    fn every_blob_lies_under_its_own_digest_and_every_reference_leads_to_one() {
        let built = image("x").build().expect("built");
        let name = format!("ghcr.io/hangar/tower-debug@{}", built.digest());
        let files = files(
            &built
                .archive(std::slice::from_ref(&name))
                .expect("archived"),
        );
        for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("blobs/")) {
            assert_eq!(*path, format!("blobs/{}", digest(bytes).replace(':', "/")));
        }
        let index: Value = serde_json::from_slice(&files["index.json"]).expect("JSON");
        let manifest = &index["manifests"][0];
        assert_eq!(
            manifest["annotations"]["io.containerd.image.name"],
            name.as_str()
        );
        assert_eq!(manifest["digest"], built.digest());
        let text = String::from_utf8(built.manifest_bytes.clone()).expect("text");
        let parsed: Value = serde_json::from_str(&text).expect("JSON");
        for blob in [&parsed["config"], &parsed["layers"][0]] {
            let path = blob["digest"].as_str().expect("a digest").replace(':', "/");
            let bytes = &files[&format!("blobs/{path}")];
            assert_eq!(blob["size"], bytes.len());
        }
    }
}
