//! Reading the configuration: everything that is wrong with it, at once (O-7).

mod mend;

use super::{Config, Secret};
use mend::mended;
use policies::fence::SIGNATURE_SECONDS;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A configuration file is small; a larger one is not one.
const LARGEST_FILE: u64 = 1 << 20;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file `{path}`", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It is not YAML.
    #[error("`{path}` is not YAML: {why}", path = path.display())]
    NotYaml {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        why: String,
    },
    /// It is YAML, and wrong: every problem, a line each.
    #[error("the configuration is not usable:\n{}", .0.join("\n"))]
    Problems(Vec<String>),
}

/// The JSON schema of the file, shipped as `docs/config.schema.json`.
pub fn schema() -> Value {
    schemars::schema_for!(Config).to_value()
}

/// Reads the file and the environment; `env` answers for a variable's name.
pub fn read(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST_FILE {
        return Err(ConfigError::Problems(vec![format!(
            "the file has {size} bytes; at most {LARGEST_FILE} are read"
        )]));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| ConfigError::NotYaml {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    parse(value, env)
}

/// Judges a parsed file together with the environment.
pub(crate) fn parse(
    value: Value,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let schema = schema();
    let mut problems = Vec::new();
    let mut known = value;
    remove_unknown(&mut known, &schema, &schema, "", &mut problems);
    let (config, whole) = mended(known, &mut problems);
    let Some(mut config) = config else {
        return Err(ConfigError::Problems(problems));
    };
    from_environment(&mut config, env, &mut problems);
    problems.extend(impossible(&config, whole));
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError::Problems(problems))
    }
}

/// Takes out keys that the schema does not know, noting each, so that one unknown key does not
/// hide the next problem.
fn remove_unknown(
    value: &mut Value,
    schema: &Value,
    root: &Value,
    path: &str,
    problems: &mut Vec<String>,
) {
    let Value::Object(map) = value else { return };
    let shapes = shapes(schema, root);
    let mut properties: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut others = None;
    for shape in shapes {
        if let Some(known) = shape.get("properties").and_then(Value::as_object) {
            properties.extend(known.iter().map(|(key, value)| (key.as_str(), value)));
        }
        others = others.or(shape.get("additionalProperties").filter(|v| v.is_object()));
    }
    if properties.is_empty() && others.is_none() {
        return;
    }
    map.retain(|key, below| {
        let here = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match properties.get(key.as_str()).copied().or(others) {
            Some(schema) => {
                remove_unknown(below, schema, root, &here, problems);
                true
            }
            None => {
                problems.push(format!("`{here}` is not a key of the configuration"));
                false
            }
        }
    });
}

/// The object shapes behind a schema: itself, what it refers to, and its alternatives.
fn shapes<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![schema];
    if let Some(name) = schema.get("$ref").and_then(Value::as_str)
        && let Some(target) = name
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
    {
        found.extend(shapes(target, root));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for alternative in schema
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            found.extend(shapes(alternative, root));
        }
    }
    found
}

/// Backstage's own variables (D-3); `NAME_FILE` names a file that holds the value.
fn from_environment(
    config: &mut Config,
    env: &dyn Fn(&str) -> Option<String>,
    problems: &mut Vec<String>,
) {
    let mut lookup = |name: &str| -> Option<String> {
        if let Some(value) = env(name) {
            return Some(value);
        }
        let file = env(&format!("{name}_FILE"))?;
        let text = std::fs::read_to_string(&file)
            .inspect_err(|error| problems.push(format!("{name}_FILE cannot be read: {error}")));
        // What writes such a file ends its line, and no value of ours does.
        Some(text.ok()?.trim_end_matches(['\r', '\n']).to_owned())
    };
    let database = &mut config.database;
    database.host = database.host.take().or_else(|| lookup("POSTGRES_HOST"));
    database.user = database.user.take().or_else(|| lookup("POSTGRES_USER"));
    database.password = lookup("POSTGRES_PASSWORD").map(|value| Secret::new(&value));
    if database.port.is_none()
        && let Some(text) = lookup("POSTGRES_PORT")
    {
        match text.trim().parse() {
            Ok(port) => database.port = Some(port),
            Err(_) => problems.push("POSTGRES_PORT is not a port number".to_owned()),
        }
    }
}

/// Values that parse and cannot work. What is not `whole` lacks what was wrong in the file.
fn impossible(config: &Config, whole: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut require = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    require(
        decisions::names::is_label_value(&config.installation),
        "`installation` must be a label value: letters, digits, `.`, `_`, `-`, at most 63",
    );
    require(
        config.socket.is_absolute(),
        "`socket` must be an absolute path",
    );
    require(
        config.socket.as_os_str().len() < 108,
        "`socket` is longer than the 107 bytes that a socket's path may have",
    );
    require(
        config.spool.is_absolute(),
        "`spool` must be an absolute path",
    );
    require(
        config.recordings.folder.path.is_absolute(),
        "`recordings.folder.path` must be an absolute path",
    );
    require(
        config.recordings.retention_days > 0,
        "`recordings.retentionDays` must be at least 1",
    );
    require(
        !config.debug_images.is_empty(),
        "`debugImages` must name at least one image",
    );
    for (position, image) in config.debug_images.iter().enumerate() {
        require(
            is_pinned(image),
            &format!("`debugImages[{position}]` must end in `@sha256:` and 64 hex digits"),
        );
    }
    for (key, limit) in [
        ("perUser", config.limits.per_user),
        ("perApp", config.limits.per_app),
        ("perCluster", config.limits.per_cluster),
    ] {
        require(limit > 0, &format!("`limits.{key}` must be at least 1"));
    }
    for cluster in &config.ground_clusters {
        require(
            // A cluster whose entry is wrong was told already.
            !whole || config.clusters.contains_key(cluster),
            &format!("`groundClusters` names `{cluster}`, which `clusters` does not have"),
        );
    }
    for (key, seconds, most) in [
        // Backstage's plugin waits 240 s for an opening, the cleaning up after it included.
        ("start", config.timeouts.start, 120),
        ("recycle", config.timeouts.recycle, 600),
        ("cleanupStep", config.timeouts.cleanup_step, 120),
    ] {
        require(
            (1..=most).contains(&seconds),
            &format!("`timeouts.{key}` must be 1 to {most} seconds"),
        );
    }
    if let Some(policies) = &config.policies {
        problems.extend(policies.problems(config, whole));
        for cluster in policies.clusters.keys() {
            problems.extend(gives_up_on_signatures(config, cluster));
        }
    }
    problems
}

/// What a call takes besides the wait for a signature: a place, a connection, the API server.
const BESIDES_SECONDS: u16 = 2;

/// The API server answers a call whose signature nobody can judge after [`SIGNATURE_SECONDS`]; who
/// gave it up before does not know whether it was done (P-1).
fn gives_up_on_signatures(config: &Config, cluster: &str) -> Option<String> {
    let call = config.clusters.get(cluster)?.limits.call;
    let least = SIGNATURE_SECONDS + BESIDES_SECONDS;
    (call < Duration::from_secs(u64::from(least))).then(|| {
        format!(
            "`clusters.{cluster}.callTimeoutSeconds` must be at least {least}: the API server may \
             wait {SIGNATURE_SECONDS} s for the debug image's signature to be judged, and whether \
             a call that was given up before was done is not known"
        )
    })
}

pub(super) fn is_pinned(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(name, digest)| {
        !name.is_empty() && digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests;
