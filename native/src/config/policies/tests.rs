use super::super::ConfigError;
use super::super::check::parse;
use super::*;
use serde_json::{Value, json};

fn image(of: &str) -> String {
    format!("ghcr.io/hangar/tower-debug@sha256:{}", of.repeat(64))
}

fn file() -> Value {
    json!({
        "socket": "/run/breakglass/api.sock",
        "spool": "/var/lib/breakglass/spool",
        "recordings": { "folder": { "path": "/var/lib/breakglass/recordings" } },
        "debugImages": [image("a")],
        "clusters": { "home-1": { "inCluster": {} }, "dev-1": { "kubeconfig": {} } },
        "groundClusters": ["dev-1"],
        "policies": {
            "clusters": {
                "home-1": { "backend": "system:serviceaccount:backstage:breakglass" },
                "dev-1": { "backend": "backstage@hangar.example" },
            },
            "operators": ["platform:oncall"],
            "imageSigning": {
                "glob": "ghcr.io/hangar/tower-debug*",
                "issuer": "https://token.actions.githubusercontent.com",
                "subject": "https://github.com/hangar/image/.github/workflows/r.yml@refs/heads/main",
            },
        },
    })
}

fn read(change: impl FnOnce(&mut Value)) -> Result<Config, ConfigError> {
    let mut value = file();
    change(&mut value);
    parse(value, &|_| None)
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), expected: &[&str]) {
    let problems = match read(change) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Problems(problems)) => problems,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, part) in problems.iter().zip(expected) {
        assert!(problem.contains(part), "{problem} does not say {part}");
    }
}

#[test]
fn a_fence_is_the_clusters_own_and_shares_the_sidecars_settings() {
    let config = read(|_| {}).expect("usable");
    let home = config.fence("home-1").expect("a fence").fence;
    assert_eq!(home.tier, Tier::Flight);
    assert_eq!(
        home.backend.to_string(),
        "system:serviceaccount:backstage:breakglass"
    );
    assert_eq!(
        (home.installation.as_str(), home.debug_images),
        ("tower", vec![image("a")])
    );
    assert_eq!(home.kyverno.len(), 4);
    assert_eq!(
        config.fence("dev-1").expect("a fence").fence.tier,
        Tier::Ground
    );
    assert!(matches!(
        config.fence("prod"),
        Err(FenceError::NoCluster(_))
    ));
}

#[test]
fn a_tier_that_is_written_wins() {
    let config = read(|file| {
        file["policies"]["clusters"]["dev-1"]["tier"] = json!("flight");
        file["policies"]["clusters"]["home-1"]["tier"] = json!("ground");
    });
    let config = config.expect("usable");
    assert_eq!(
        config.fence("dev-1").expect("a fence").fence.tier,
        Tier::Flight
    );
    assert_eq!(
        config.fence("home-1").expect("a fence").fence.tier,
        Tier::Ground
    );
}

#[test]
fn without_the_section_the_sidecar_runs_and_nothing_is_rendered() {
    let config = read(|file| {
        file.as_object_mut().expect("a map").remove("policies");
    });
    assert!(matches!(
        config.expect("usable").fence("home-1"),
        Err(FenceError::NoSection)
    ));
}

#[test]
fn the_job_and_the_application_are_the_configured_ones() {
    let config = read(|file| {
        file["policies"]["bucketJob"] = json!({
            "cluster": "home-1", "namespace": "backstage", "image": image("c"),
            "endpoint": "https://o.example", "adminSecret": "a", "keySecret": "k",
        });
        file["policies"]["argoCd"] = json!({ "repository": "https://g.example", "path": "c/" });
    });
    let config = config.expect("usable");
    let home = config.fence("home-1").expect("a fence").fence;
    let job = home.bucket.expect("a job");
    assert_eq!(
        (job.bucket.as_str(), job.days),
        ("tower-breakglass-v2", 365)
    );
    assert_eq!(home.application.expect("an Application").path, "c/home-1");
    assert!(
        config
            .fence("dev-1")
            .expect("a fence")
            .fence
            .bucket
            .is_none()
    );
}

/// Who may apply the fence of a cluster.
#[track_caller]
fn appliers(cluster: &str, change: impl FnOnce(&mut Value), expected: &[&str]) {
    let config = read(change).expect("usable");
    let found = config.fence(cluster).expect("a fence").fence.appliers;
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn p_4a_who_rolls_the_fence_out_is_who_is_named_or_argo_cd_on_that_cluster() {
    let argo = |file: &mut Value| {
        file["policies"]["argoCd"] =
            json!({ "repository": "https://g.example", "path": "c", "namespace": "cd" });
        file["policies"]["clusters"]["dev-1"]["argoCdServer"] = json!("https://dev-1:6443");
    };
    appliers("home-1", |_| {}, &[]);
    let controller = "system:serviceaccount:cd:argocd-application-controller";
    appliers("home-1", argo, &[controller]);
    let manager = "system:serviceaccount:kube-system:argocd-manager";
    appliers("dev-1", argo, &[manager]);
    let named = |file: &mut Value| {
        argo(file);
        file["policies"]["appliers"] = json!(["ci@hangar.example"]);
    };
    appliers("home-1", named, &["ci@hangar.example"]);
    let nobody = |file: &mut Value| {
        argo(file);
        file["policies"]["appliers"] = json!([]);
    };
    appliers("home-1", nobody, &[]);
}

#[test]
fn p_4a_a_fence_that_nobody_may_apply_or_that_break_glass_may_is_told() {
    check(
        |file| file["policies"]["operators"] = json!([]),
        &["name nobody, so nobody could apply the fence"],
    );
    check(
        |file| {
            file["policies"]["operators"] = json!([]);
            file["policies"]["appliers"] = json!(["ci@hangar.example"]);
        },
        &[],
    );
    check(
        |file| file["policies"]["appliers"] = json!(["ci", ""]),
        &["`policies.appliers[1]`"],
    );
    let own = "system:serviceaccount:backstage:breakglass";
    check(
        |file| file["policies"]["appliers"] = json!(["ci", own]),
        &["names Break-glass's own account on `home-1`"],
    );
}

#[test]
fn what_cannot_work_is_told_with_its_key() {
    check(|_| {}, &[]);
    check(
        |file| file["policies"]["clusters"]["other"] = json!({ "backend": "x" }),
        &["`other`"],
    );
    check(
        |file| file["policies"]["clusters"]["dev-1"]["backend"] = json!(""),
        &["policies.clusters.dev-1.backend"],
    );
    check(
        |file| file["policies"]["kyverno"] = json!(["kyverno"]),
        &["policies.kyverno[0]"],
    );
    check(
        |file| file["policies"]["imageSigning"]["glob"] = json!("ghcr.io/hangar/other*"),
        &["does not cover `debugImages[0]`"],
    );
    for glob in ["*", "ghcr.io/hangar/tower-debug", "ghcr.io/*/tower-debug*"] {
        let change = |file: &mut Value| file["policies"]["imageSigning"]["glob"] = json!(glob);
        check(change, &["a beginning and then one `*`"]);
    }
    check(
        |file| file["clusters"]["dev-1"]["callTimeoutSeconds"] = json!(8),
        &["`clusters.dev-1.callTimeoutSeconds` must be at least 9"],
    );
    check(
        |file| file["clusters"]["dev-1"]["callTimeoutSeconds"] = json!(9),
        &[],
    );
    check(
        |file| file["policies"]["imageSigning"]["subject"] = json!("https://x/workflows/*"),
        &["compared exactly"],
    );
    check(
        |file| {
            file["policies"]["imageSigning"]["trustRoots"] = json!({ "mirror": "x", "root": "{}" });
        },
        &[
            "trustRoots.mirror` must be an address",
            "trustRoots.root` must be the whole text",
        ],
    );
    check(
        |file| file["policies"]["unknown"] = json!(1),
        &["`policies.unknown`"],
    );
}

/// Two Applications of one name in one Argo CD: the second overwrites the first.
#[test]
fn clusters_under_one_argo_cd_are_refused() {
    let with = |servers: &'static [(&'static str, &'static str)], argo: bool| {
        move |file: &mut Value| {
            if argo {
                file["policies"]["argoCd"] =
                    json!({ "repository": "https://git.example/fences", "path": "fence" });
            }
            for (cluster, server) in servers {
                file["policies"]["clusters"][cluster]["argoCdServer"] = json!(server);
            }
        }
    };
    let two = &[
        ("home-1", "https://home.example"),
        ("dev-1", "https://dev.example"),
    ];
    check(
        with(two, true),
        &["for `dev-1` and `home-1`: in one Argo CD"],
    );
    check(with(two, false), &[]);
    check(with(&two[..1], true), &[]);
    check(with(&[], true), &[]);
}
