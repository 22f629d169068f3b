//! The rendered job that makes the bucket of recordings, run on a real MinIO by the commands and
//! the environment that stand in it (P-1, R-2).
//!
//! Runs with the programs that `cargo xtask object-store build` makes. What stands in for the pod:
//! this machine's `/bin/sh`, a `PATH` with nothing but `mc`, and a folder in place of `/tmp`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use breakglass_tests::cli;
use breakglass_tests::object_store::{Answer, Key, ObjectStore};
use http::Method;
use serde_json::{Value, json};
use std::process::{Command, Output};

const BUCKET: &str = "tower-breakglass-v2";

/// The job as it is rendered for this store.
fn rendered(store: &ObjectStore, bucket: &str) -> Value {
    let digest = format!("example.com/x@sha256:{}", "a".repeat(64));
    let configuration = json!({
        "installation": "tower", "socket": "/run/x.sock", "spool": "/spool",
        "recordings": { "folder": { "path": "/recordings" } },
        "debugImages": [digest],
        "clusters": { "real": { "kubeconfig": { "path": "/none" } } },
        "policies": {
            "clusters": { "real": { "backend": "system:serviceaccount:backstage:breakglass" } },
            "operators": ["platform:oncall"],
            "imageSigning": { "glob": "example.com/*", "issuer": "https://i", "subject": "s" },
            "bucketJob": { "cluster": "real", "namespace": "backstage", "image": digest,
                           "endpoint": store.url(), "bucket": bucket,
                           "adminSecret": "owner", "keySecret": "recordings" },
        },
    });
    let folder = tempfile::tempdir().expect("a folder");
    let [file, out] = ["b.yaml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&file, configuration.to_string()).expect("written");
    let mut render = Command::new(cli::binary().expect("the binary is built"));
    render.args(["policies", "render", "--cluster", "real", "--config"]);
    let output = render
        .arg(&file)
        .arg("--out")
        .arg(&out)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let text = std::fs::read_to_string(out.join("bucket-10-job.yaml")).expect("the job");
    serde_saphyr::from_str(&text).expect("an object")
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// Runs the job's container as the kubelet would.
fn run(store: &ObjectStore, bucket: &str, sidecar: &Key) -> Output {
    let job = rendered(store, bucket);
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let only = store.folder().join("bin");
    std::fs::create_dir_all(&only).expect("a folder");
    let client = only.join("mc");
    if !client.exists() {
        std::os::unix::fs::symlink(store.client(), client).expect("linked");
    }
    let tmp = store.folder().join("tmp");
    std::fs::create_dir_all(&tmp).expect("a folder");
    let here = |word: &Value| {
        let word = word.as_str().expect("text");
        word.replace("/tmp/", &format!("{}/", tmp.display()))
    };
    let words = container["command"].as_array().expect("a command");
    let mut command = Command::new(here(&words[0]));
    command.args(words[1..].iter().map(here));
    command.env_clear().env("PATH", &only).env("TMPDIR", &tmp);
    for variable in container["env"].as_array().expect("variables") {
        let key = &variable["valueFrom"]["secretKeyRef"];
        let holder = if key["name"] == "owner" {
            store.root()
        } else {
            sidecar
        };
        let value = match key["key"].as_str() {
            Some("accessKey") => holder.access.clone(),
            Some("secretKey") => holder.secret.clone(),
            Some(_) | None => here(&variable["value"]),
        };
        command.env(variable["name"].as_str().expect("a name"), value);
    }
    command.output().expect("the shell runs")
}

/// The settings of a bucket, and the rights and the key, as the store has them.
async fn settings(store: &ObjectStore, sidecar: &Key) -> Vec<String> {
    let mut settings = Vec::new();
    for query in ["versioning=", "object-lock=", "lifecycle="] {
        let path = format!("/{BUCKET}");
        let answer = store
            .send(store.root(), Method::GET, (&path, query), &[], "")
            .await;
        settings.push(answer.expect("it answers").body);
    }
    let policy = format!("{BUCKET}-put-get");
    for arguments in [
        ["--json", "admin", "policy", "info", "store", &policy],
        ["--json", "admin", "user", "info", "store", &sidecar.access],
    ] {
        let answer = store.run(store.root(), &arguments).await.expect("it runs");
        let mut answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        // The store keeps them in no order.
        let actions = answer.pointer_mut("/policyInfo/Policy/Statement/0/Action");
        if let Some(actions) = actions.and_then(Value::as_array_mut) {
            actions.sort_by_key(Value::to_string);
        }
        let rights = &answer["policyInfo"]["Policy"];
        let held = &answer["policyName"];
        settings.push(if rights.is_null() {
            held.to_string()
        } else {
            rights.to_string()
        });
    }
    settings
}

#[tokio::test]
async fn p_1_the_bucket_is_made_once_and_again_without_harm() {
    let store = ObjectStore::start().await.expect("MinIO starts");
    let sidecar = Key::new("the-sidecar");
    let first = run(&store, BUCKET, &sidecar);
    assert!(first.status.success(), "{}", said(&first));
    let made = settings(&store, &sidecar).await;
    let kept = format!("/{BUCKET}/a-recording");
    let put = store
        .send(&sidecar, Method::PUT, (&kept, ""), &[], "bytes")
        .await;
    assert_eq!(put.expect("it answers").status, 200);
    let again = run(&store, BUCKET, &sidecar);
    assert!(again.status.success(), "{}", said(&again));

    let has = |at: usize, words: &str| assert!(made[at].contains(words), "{words}: {}", made[at]);
    has(0, "<Status>Enabled</Status>");
    has(1, "<ObjectLockEnabled>Enabled</ObjectLockEnabled>");
    has(
        1,
        "<DefaultRetention><Mode>GOVERNANCE</Mode><Days>365</Days></DefaultRetention>",
    );
    has(2, "<Expiration><Days>365</Days></Expiration>");
    has(2, "<NoncurrentDays>365</NoncurrentDays>");
    has(3, "\"s3:PutObject\"");
    assert_eq!(made[4], format!("\"{BUCKET}-put-get\""));
    let same = settings(&store, &sidecar).await;
    assert_eq!(same, made, "a second run changes nothing");
    let still = store
        .send(&sidecar, Method::GET, (&kept, ""), &[], "")
        .await;
    assert_eq!(still.expect("it answers").body, "bytes");
    for output in [first, again] {
        let said = said(&output);
        for secret in [&store.root().secret, &sidecar.secret] {
            assert!(!said.contains(secret.as_str()), "no secret is printed");
        }
    }
}

/// A lock that ends tomorrow.
fn shorter() -> String {
    let since_1970 = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    let tomorrow = i64::try_from(since_1970.as_secs()).expect("a time") + 24 * 60 * 60;
    let tomorrow = jiff::Timestamp::from_second(tomorrow).expect("a time");
    format!(
        "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{tomorrow}</RetainUntilDate>\
         </Retention>"
    )
}

const BYPASS: (&str, &str) = ("x-amz-bypass-governance-retention", "true");

/// Everything but putting and getting, of the object and of the bucket.
fn forbidden<'a>(version: &str, shorter: &'a str) -> Vec<(Method, &'static str, String, &'a str)> {
    let of = |query: &str| query.to_owned();
    let (object, bucket) = ("/a-recording", "");
    vec![
        (Method::DELETE, object, of(""), ""),
        (Method::DELETE, object, format!("versionId={version}"), ""),
        (
            Method::PUT,
            object,
            format!("retention=&versionId={version}"),
            shorter,
        ),
        (
            Method::PUT,
            object,
            of("legal-hold="),
            "<LegalHold><Status>OFF</Status></LegalHold>",
        ),
        (
            Method::PUT,
            object,
            of("tagging="),
            "<Tagging><TagSet></TagSet></Tagging>",
        ),
        (Method::GET, bucket, of("list-type=2"), ""),
        (Method::GET, bucket, of("versions="), ""),
        (Method::GET, bucket, of("policy="), ""),
        (
            Method::PUT,
            bucket,
            of("policy="),
            "{\"Version\":\"2012-10-17\",\"Statement\":[]}",
        ),
        (Method::DELETE, bucket, of("lifecycle="), ""),
        (
            Method::PUT,
            bucket,
            of("versioning="),
            "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
        ),
        (
            Method::PUT,
            bucket,
            of("object-lock="),
            "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
             </ObjectLockConfiguration>",
        ),
        (Method::DELETE, bucket, of(""), ""),
        (Method::PUT, "-other", of(""), ""),
    ]
}

/// Which of them the store let through.
async fn let_through(store: &ObjectStore, sidecar: &Key, version: &str) -> Vec<String> {
    let (mut let_through, shorter) = (Vec::new(), shorter());
    for (method, path, query, body) in forbidden(version, &shorter) {
        let path = format!("/{BUCKET}{path}");
        let answer = send(store, sidecar, method.clone(), &path, &query, body).await;
        if answer.status != 403 || !answer.body.contains("<Code>AccessDenied</Code>") {
            let_through.push(format!("{method} {path}?{query}: {answer:?}"));
        }
    }
    let user = sidecar.access.as_str();
    for arguments in [
        &["admin", "user", "list", "store"][..],
        &["admin", "policy", "list", "store"],
        &[
            "admin",
            "policy",
            "attach",
            "store",
            "readwrite",
            "--user",
            user,
        ],
    ] {
        let output = store.run(sidecar, arguments).await.expect("it runs");
        if output.status.success() || !said(&output).contains("Access Denied") {
            let_through.push(format!("{arguments:?}: {}", said(&output)));
        }
    }
    let_through
}

/// Past the governance, for who may.
async fn send(
    store: &ObjectStore,
    key: &Key,
    method: Method,
    path: &str,
    query: &str,
    body: &str,
) -> Answer {
    let answer = store
        .send(key, method, (path, query), &[BYPASS], body)
        .await;
    answer.expect("it answers")
}

#[tokio::test]
async fn p_1_the_sidecars_key_may_put_and_get_and_nothing_else() {
    let store = ObjectStore::start().await.expect("MinIO starts");
    let sidecar = Key::new("the-sidecar");
    let made = run(&store, BUCKET, &sidecar);
    assert!(made.status.success(), "{}", said(&made));
    let object = format!("/{BUCKET}/a-recording");
    let bucket = format!("/{BUCKET}");
    let put = send(&store, &sidecar, Method::PUT, &object, "", "bytes").await;
    let get = send(&store, &sidecar, Method::GET, &object, "", "").await;
    let retention = send(&store, &sidecar, Method::GET, &object, "retention=", "").await;
    let versions = send(&store, store.root(), Method::GET, &bucket, "versions=", "").await;
    let version = versions
        .body
        .split("<VersionId>")
        .nth(1)
        .expect("a version");
    let version = version.split('<').next().expect("its id").to_owned();
    let by_version = format!("versionId={version}");
    let of_version = send(&store, &sidecar, Method::GET, &object, &by_version, "").await;
    let let_through = let_through(&store, &sidecar, &version).await;
    // Nor does anybody else by chance: who may delete, but does not bypass, is stopped by the lock.
    let at = (object.as_str(), by_version.as_str());
    let owner = store.send(store.root(), Method::DELETE, at, &[], "").await;
    let owner = owner.expect("it answers");
    // By a key that says it may: the lock is not what keeps the sidecar's from deleting.
    let still = send(&store, &sidecar, Method::DELETE, &object, &by_version, "").await;

    assert_eq!(put.status, 200, "{put:?}");
    let bodies = (get.body.as_str(), of_version.body.as_str());
    assert_eq!(bodies, ("bytes", "bytes"));
    assert!(
        retention.body.contains("<Mode>GOVERNANCE</Mode>"),
        "{retention:?}"
    );
    assert_eq!(let_through, [""; 0]);
    assert_eq!(still.status, 403, "{still:?}");
    assert!(
        owner.status.is_client_error() && owner.body.contains("WORM"),
        "{owner:?}"
    );
}

/// Runs the job where something stands in its way; what it says.
fn refused(store: &ObjectStore, bucket: &str, sidecar: &Key) -> String {
    let output = run(store, bucket, sidecar);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    said(&output)
}

#[tokio::test]
async fn p_1_a_bucket_without_a_lock_and_a_key_with_other_rights_are_told() {
    let store = ObjectStore::start().await.expect("MinIO starts");
    let sidecar = Key::new("the-sidecar");
    let mc = async |arguments: &[&str]| {
        let output = store.run(store.root(), arguments).await.expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
    };
    mc(&["mb", "store/plain"]).await;
    let plain = refused(&store, "plain", &sidecar);
    let user = ["admin", "user", "info", "store", &sidecar.access];
    let user = store.run(store.root(), &user).await.expect("it runs");

    let other = Key::new("of-somebody");
    mc(&[
        "admin",
        "user",
        "add",
        "store",
        &other.access,
        &other.secret,
    ])
    .await;
    mc(&[
        "admin",
        "policy",
        "attach",
        "store",
        "readwrite",
        "--user",
        &other.access,
    ])
    .await;
    let holds = refused(&store, BUCKET, &other);

    let wrong = "plain has no retention and no key was made. If it was made without object lock";
    assert!(plain.contains(wrong), "{plain}");
    assert!(!user.status.success(), "no key was made");
    assert!(
        holds.contains("the sidecar's key holds other rights too"),
        "{holds}"
    );
    assert!(
        holds.contains("readwrite") && !holds.contains(&other.secret),
        "{holds}"
    );
}
