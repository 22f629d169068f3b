//! `cargo xtask test`: every test there is, in parts.
//!
//! Invariant: a part that cannot run fails, unless it is named in `--skip`; the last line says
//! how many tests passed, failed and were skipped.

use crate::needs::{Made, Need, PRODUCT};
use crate::run::{cargo, chain, program, say, watch};
use crate::{bindings, cluster, demo};
use clap::Args;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

#[derive(Args)]
pub(crate) struct Options {
    /// The inner loop: formats, lints and runs what needs no server
    #[arg(long)]
    fast: bool,
    /// Parts to leave out, such as `cluster,browser`
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
    /// Runs these parts alone
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// How many tests did what.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

struct Part {
    name: &'static str,
    fast: bool,
    what: &'static str,
    /// What must be there before it runs; nothing else prepares it.
    needs: &'static [Need],
    run: fn(&Path, &mut Count) -> Result<(), String>,
}

const PARTS: [Part; 15] = [
    Part {
        name: "lint",
        fast: true,
        what: "format and lints",
        needs: &[],
        run: lint,
    },
    Part {
        name: "unit",
        fast: true,
        what: "rules, formats, state machines",
        needs: &[],
        run: unit,
    },
    Part {
        name: "tidy",
        fast: true,
        what: "the repository's own rules",
        needs: &[],
        run: tidy,
    },
    Part {
        name: "hostile",
        fast: false,
        what: "files that mean harm, under the kernel's bounds",
        needs: &[Need::Programs],
        run: hostile,
    },
    Part {
        name: "bindings",
        fast: false,
        what: "the doors to Node and the browser",
        needs: &[Need::WasmTarget],
        run: doors,
    },
    Part {
        name: "vectors",
        fast: false,
        what: "one set of answers in Node",
        needs: &[Need::NodePackages, Need::Addon, Need::Wasm],
        run: vectors,
    },
    Part {
        name: "browser",
        fast: false,
        what: "the same answers in Chromium",
        needs: &[Need::NodePackages, Need::Chromium, Need::Wasm],
        run: browser,
    },
    Part {
        name: "shim",
        fast: false,
        what: "the Backstage plugin",
        needs: &[Need::Plugin],
        run: shim,
    },
    Part {
        name: "store",
        fast: false,
        what: "the store on a real Postgres",
        needs: &[Need::NodePackages],
        run: store,
    },
    Part {
        name: "standin",
        fast: false,
        what: "sessions on the stand-in",
        needs: PRODUCT,
        run: standin,
    },
    Part {
        name: "demo",
        fast: false,
        what: "the demo, typed by a script",
        needs: PRODUCT,
        run: smoke,
    },
    Part {
        name: "sigstore",
        fast: false,
        what: "the log on a real Rekor",
        // Its database.
        needs: &[Need::NodePackages],
        run: real_sigstore,
    },
    Part {
        name: "bucket",
        fast: false,
        what: "the bucket's job on a real object store",
        // It renders the job by the operator's own command.
        needs: &[Need::Programs],
        run: real_bucket,
    },
    Part {
        name: "cluster",
        fast: false,
        what: "a real Kubernetes",
        needs: PRODUCT,
        run: real_cluster,
    },
    Part {
        name: "kyverno",
        fast: false,
        what: "Kyverno itself on a real Kubernetes",
        // The log's database that signatures are in, and the operator's own command.
        needs: &[Need::NodePackages, Need::Programs],
        run: real_kyverno,
    },
];

/// Runs the parts that the options choose.
pub(crate) fn test(root: &Path, options: &Options) -> ExitCode {
    for name in options.skip.iter().chain(&options.only) {
        if !PARTS.iter().any(|part| part.name == name) {
            let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
            say(&format!(
                "there is no part `{name}`; there are {}",
                names.join(", ")
            ));
            return ExitCode::from(2);
        }
    }
    let mut count = Count::default();
    let mut problems = Vec::new();
    let mut made = Made::default();
    for part in &PARTS {
        let named = |list: &[String]| list.iter().any(|name| name == part.name);
        if (options.fast && !part.fast) || (!options.only.is_empty() && !named(&options.only)) {
            continue;
        }
        if named(&options.skip) {
            say(&format!("── {}: skipped as asked", part.name));
            count.skipped += 1;
            continue;
        }
        say(&format!("── {}: {}", part.name, part.what));
        #[expect(
            clippy::disallowed_methods,
            reason = "how long a part took, for the person"
        )]
        let started = Instant::now();
        let before = count.failed;
        let prepared = made.meet(root, part.needs);
        if let Err(problem) = prepared.and_then(|()| (part.run)(root, &mut count)) {
            if count.failed == before {
                count.failed += 1;
            }
            problems.push(format!("{}: {problem}", part.name));
        }
        say(&format!(
            "── {}: {:.0} s",
            part.name,
            started.elapsed().as_secs_f64()
        ));
    }
    for problem in &problems {
        say(&format!("failed: {problem}"));
    }
    #[expect(
        clippy::print_stdout,
        reason = "the closing line is this command's answer"
    )]
    {
        let Count {
            passed,
            failed,
            skipped,
        } = count;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
    if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What came of steps that do not rest on each other: all have run, the first failure is told.
fn all_of(ran: impl IntoIterator<Item = Result<(), String>>) -> Result<(), String> {
    let ran: Vec<_> = ran.into_iter().collect();
    ran.into_iter().collect()
}

/// Runs a test command and adds up what its runner says.
fn tests(command: &mut Command, count: &mut Count) -> Result<(), String> {
    let before = count.passed + count.failed;
    let succeeded = watch(command, |line| {
        // cargo test: `test result: ok. 3 passed; 0 failed; 1 ignored; …`
        if let Some(result) = line.strip_prefix("test result: ") {
            count.passed += number_before(result, " passed");
            count.failed += number_before(result, " failed");
            count.skipped += number_before(result, " ignored");
        }
        // node's test runner: `ℹ pass 3`, or `# pass 3` where stdout is not a terminal
        let line = line.trim_start_matches(['ℹ', '#', ' ']);
        for (word, into) in [
            ("pass ", &mut count.passed),
            ("fail ", &mut count.failed),
            ("skipped ", &mut count.skipped),
        ] {
            *into += line
                .strip_prefix(word)
                .and_then(|n| n.parse::<u64>().ok())
                .unwrap_or(0);
        }
    })?;
    if count.passed + count.failed == before {
        return Err("its runner ran no test".to_owned());
    }
    if succeeded {
        Ok(())
    } else {
        Err("tests failed; see above".to_owned())
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    let Some(end) = text.find(word) else { return 0 };
    let digits = text[..end].rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn checked(command: &mut Command, count: &mut Count) -> Result<(), String> {
    if watch(command, |_| {})? {
        count.passed += 1;
        Ok(())
    } else {
        count.failed += 1;
        Err("see above".to_owned())
    }
}

fn lint(root: &Path, count: &mut Count) -> Result<(), String> {
    let format = ["fmt", "--all", "--check"];
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    all_of([
        checked(&mut cargo(root, &format), count),
        checked(&mut cargo(root, &clippy), count),
    ])
}

fn unit(root: &Path, count: &mut Count) -> Result<(), String> {
    let inside = ["test", "--workspace", "--lib", "--bins", "--no-fail-fast"];
    let names = ["vectors", "proofs", "preflight", "policy_cases"];
    all_of([
        tests(&mut cargo(root, &inside), count),
        tests(&mut integration_tests(root, &names), count),
    ])
}

/// The integration tests of these names. Of the whole workspace, whatever they are in: so all that
/// they rest on is built once, with one set of features.
fn integration_tests(root: &Path, names: &[&str]) -> Command {
    let mut command = cargo(root, &["test", "--workspace", "--no-fail-fast"]);
    for name in names {
        command.args(["--test", name]);
    }
    command
}

fn tidy(root: &Path, count: &mut Count) -> Result<(), String> {
    tests(&mut integration_tests(root, &["tidy"]), count)
}

fn hostile(root: &Path, count: &mut Count) -> Result<(), String> {
    integration(root, "hostile_files", count)
}

fn doors(root: &Path, count: &mut Count) -> Result<(), String> {
    let report = bindings::check(root).map_err(|error| chain(&error))?;
    say(&report.to_string());
    count.passed += 1;
    Ok(())
}

fn npm(root: &Path, folder: &str, script: &str) -> Command {
    let mut command = program(&root.join(folder), "npm");
    command.args(["run", "--silent", script]);
    command
}

fn vectors(root: &Path, count: &mut Count) -> Result<(), String> {
    all_of([
        checked(&mut npm(root, "tests/vectors", "types"), count),
        tests(&mut npm(root, "tests/vectors", "node"), count),
    ])
}

fn browser(root: &Path, count: &mut Count) -> Result<(), String> {
    tests(&mut npm(root, "tests/vectors", "browser"), count)
}

fn shim(root: &Path, count: &mut Count) -> Result<(), String> {
    tests(program(root, "npm").args(["test"]), count)
}

fn store(root: &Path, count: &mut Count) -> Result<(), String> {
    integration(root, "store_on_postgres", count)
}

fn integration(root: &Path, name: &str, count: &mut Count) -> Result<(), String> {
    // One test at a time where each starts servers: they share two cores.
    let threads = ["--", "--test-threads=2"];
    tests(integration_tests(root, &[name]).args(threads), count)
}

fn standin(root: &Path, count: &mut Count) -> Result<(), String> {
    // The stand-in itself first: what it promises the other tests rest on.
    let names = ["attach", "faults", "kube_client", "rights"];
    let itself = tests(&mut integration_tests(root, &names), count);
    let on_it = ["kube_on_standin", "sidecar", "sidecar_logs", "sessions"];
    let on_it = on_it.map(|name| integration(root, name, count));
    itself.and(all_of(on_it))
}

fn smoke(root: &Path, count: &mut Count) -> Result<(), String> {
    demo::smoke(root)?;
    count.passed += 1;
    Ok(())
}

fn real_sigstore(root: &Path, count: &mut Count) -> Result<(), String> {
    let parts = cluster::build_sigstore().map_err(|error| chain(&error))?;
    let mut test = integration_tests(root, &["log_on_sigstore"]);
    tests(test.env(demo::SIGSTORE, parts), count)
}

fn real_bucket(root: &Path, count: &mut Count) -> Result<(), String> {
    let programs = cluster::build_object_store().map_err(|error| chain(&error))?;
    let mut test = integration_tests(root, &["bucket_on_a_real_store"]);
    tests(test.env(demo::OBJECT_STORE, programs), count)
}

/// On a cluster that is there for this alone.
fn with_cluster(
    ran: impl FnOnce(&cluster::ClusterDir) -> Result<(), String>,
) -> Result<(), String> {
    let dir = std::env::temp_dir().join("breakglass-test-cluster");
    let packages = cluster::Packages::Install;
    let up = cluster::up(&dir, packages, cluster::Lifetime::OfThisProcess);
    let cluster = up.map_err(|error| chain(&error))?;
    let ran = ran(cluster.dir());
    let down = cluster.down().map_err(|error| chain(&error));
    ran.and(down)
}

fn on_cluster(
    root: &Path,
    dir: &cluster::ClusterDir,
    name: &str,
    which: &[&str],
    count: &mut Count,
) -> Result<(), String> {
    let threads = match name {
        // Each of its cases has a namespace of its own, and waits more than it works.
        CONTRACT_TESTS => "--test-threads=4",
        _ => "--test-threads=1",
    };
    let mut command = integration_tests(root, &[name]);
    command
        .args(["--", threads])
        .args(which)
        .env("BREAKGLASS_TEST_CLUSTER", dir.path());
    tests(&mut command, count)
}

fn real_cluster(root: &Path, count: &mut Count) -> Result<(), String> {
    with_cluster(|dir| {
        let app = cluster::App {
            namespace: "shop".to_owned(),
            app: "shop".to_owned(),
            env: "dev".to_owned(),
            replicas: 2,
        };
        cluster::deploy_app(dir, &app).map_err(|error| chain(&error))?;
        demo::smoke_on(root, dir.path())?;
        count.passed += 1;
        let without_kyverno = ["--skip", KYVERNO_TESTS];
        all_of([
            on_cluster(root, dir, "rbac_on_a_real_cluster", &[], count),
            on_cluster(root, dir, "session_on_a_real_cluster", &[], count),
            on_cluster(root, dir, CONTRACT_TESTS, &[], count),
            on_cluster(root, dir, POLICY_TESTS, &without_kyverno, count),
        ])
    })
}

const CONTRACT_TESTS: &str = "contract_on_a_real_cluster";
const POLICY_TESTS: &str = "policies_on_a_real_cluster";
/// The tests among them that want Kyverno beside the cluster.
const KYVERNO_TESTS: &str = "real_kyverno::";

fn real_kyverno(root: &Path, count: &mut Count) -> Result<(), String> {
    let sigstore = cluster::build_sigstore().map_err(|error| chain(&error))?;
    with_cluster(|dir| {
        cluster::kyverno_up(dir).map_err(|error| chain(&error))?;
        let mut images = integration_tests(root, &["image_policy_on_a_real_cluster"]);
        images.env("BREAKGLASS_TEST_CLUSTER", dir.path());
        all_of([
            on_cluster(root, dir, POLICY_TESTS, &[KYVERNO_TESTS], count),
            tests(images.env(demo::SIGSTORE, sigstore), count),
        ])
    })
}
