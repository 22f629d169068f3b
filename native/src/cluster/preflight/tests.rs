use super::*;
use crate::fakes::cluster::{FakeCluster, Fault, Step};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::names;
use decisions::pod::PodFacts;
use decisions::session::{Mode, Tier, UserRef};
use policies::fence::Signing;
use policies::identity::Identity;
use serde_json::json;

const NAMESPACE: &str = "shop";
const ID: &str = "0123456789ab";
const BACKEND: &str = "system:serviceaccount:tower:backstage";
const IMAGE: &str =
    "ghcr.io/hangar/debug@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn fence() -> FenceConfig {
    FenceConfig {
        tier: Tier::Flight,
        installation: "tests".to_owned(),
        backend: Identity::of_user_name(BACKEND).expect("a user"),
        debug_images: vec![IMAGE.to_owned()],
        operators: Vec::new(),
        kyverno: Vec::new(),
        copy_annotations: Vec::new(),
        appliers: Vec::new(),
        signing: Signing {
            glob: "ghcr.io/hangar/debug*".to_owned(),
            issuer: "https://issuer.example.org".to_owned(),
            subject: "https://example.org/release.yml@refs/heads/main".to_owned(),
            rekor_url: "https://rekor.sigstore.dev".to_owned(),
            roots: None,
        },
        bucket: None,
        application: None,
    }
}

struct World {
    fake: FakeCluster,
    fenced: Arc<dyn Cluster>,
    pod: PodRef,
    id: SessionId,
}

fn world() -> World {
    let fake = FakeCluster::new("prod", "tests");
    fake.set_username(BACKEND);
    fake.set_namespace(NAMESPACE, &[(names::APP, "shop")]);
    let pod = fake.add_pod(NAMESPACE, "web-1", Some("web"));
    let clusters: Clusters = BTreeMap::from([(
        "prod".to_owned(),
        Arc::new(fake.clone()) as Arc<dyn Cluster>,
    )]);
    let fences = BTreeMap::from([("prod".to_owned(), fence())]);
    let clusters = fenced(clusters, &fences).expect("the fence compiles");
    World {
        fenced: Arc::clone(&clusters["prod"]),
        fake,
        pod,
        id: SessionId::parse(ID).expect("an id"),
    }
}

impl World {
    fn grant(&self, sanction: Sanction) -> Value {
        grant(&GrantSpec {
            id: self.id.clone(),
            namespace: NAMESPACE.to_owned(),
            mode: Mode::Live,
            subject: Subject::from_username(BACKEND),
            duration_minutes: 30,
            requester: UserRef::new("user:default/alice"),
            sanction,
            expires_at: "2030-01-01T10:30:00Z".parse().expect("a time"),
            installation: "tests".to_owned(),
            second: false,
        })
    }

    fn good_grant(&self) -> Value {
        self.grant(Sanction::Approved(UserRef::new("user:default/bob")))
    }

    fn container(&self, process_access: bool) -> Value {
        let pod: PodFacts = serde_json::from_value(json!({
            "metadata": { "name": "web-1" },
            "spec": { "containers": [{ "name": "app", "securityContext": { "runAsUser": 7 } }] },
        }))
        .expect("a pod");
        let made = debug_container(&DebugSpec {
            id: &self.id,
            image: IMAGE,
            pod: &pod,
            container: "app",
            process_access,
            mounts: &[],
            deadline_seconds: 2760,
            user: DebugUser::default(),
        });
        json!(made.expect("a debug container"))
    }

    /// From here on, whatever reaches the cluster is told by its failure.
    fn cut(&self, step: Step) {
        self.fake.fail_always(step, Some(Fault::Unreachable));
    }
}

#[track_caller]
fn refused<T>(result: Result<T, ClusterError>, policy: &str, says: &str) {
    match result {
        Err(ClusterError::RefusedByPolicy { message }) => {
            assert!(
                message.contains(policy) && message.contains(says),
                "{message}"
            );
            assert!(message.contains("nothing was sent"), "{message}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was sent"),
    }
}

#[track_caller]
fn sent<T>(result: Result<T, ClusterError>) {
    assert!(
        matches!(result, Err(ClusterError::Away { .. })),
        "it never arrived"
    );
}

#[tokio::test]
async fn a_grant_that_the_fence_refuses_is_not_sent() {
    let world = world();
    world.cut(Step::CreateGrant);
    let nobody = world.grant(Sanction::Ground);
    let made = world.fenced.create_grant(&world.id, &nobody).await;
    refused(made, "tower-breakglass-rolebinding", "a second person");
    sent(
        world
            .fenced
            .create_grant(&world.id, &world.good_grant())
            .await,
    );
    world.fake.set_namespace(NAMESPACE, &[]);
    let made = world
        .fenced
        .create_grant(&world.id, &world.good_grant())
        .await;
    refused(
        made,
        "tower-breakglass-rolebinding",
        "no label hangar.io/app",
    );
}

#[tokio::test]
async fn a_debug_container_that_the_fence_refuses_is_not_sent() {
    let world = world();
    world.cut(Step::AddDebugContainer);
    let policy = "tower-breakglass-debug-container";
    let mut rooted = world.container(false);
    rooted["securityContext"]["runAsUser"] = json!(0);
    let added = world.fenced.add_debug_container(&world.pod, &rooted).await;
    refused(added, policy, "not root");
    let peeks = world.container(true);
    let added = world.fenced.add_debug_container(&world.pod, &peeks).await;
    refused(added, policy, "names its session");
    let good = world.container(false);
    sent(world.fenced.add_debug_container(&world.pod, &good).await);
    // Marked for the session, the pod may be looked into.
    world.fake.edit_pod(&world.pod, |pod| {
        pod["metadata"]["annotations"] = json!({ names::PROCESS_ACCESS: ID });
    });
    sent(world.fenced.add_debug_container(&world.pod, &peeks).await);
}

#[tokio::test]
async fn a_delete_that_the_fence_refuses_is_not_sent() {
    let world = world();
    world.cut(Step::DeletePod);
    let deleted = world.fenced.delete_pod(&world.pod, None).await;
    refused(
        deleted,
        "tower-breakglass-pod-delete",
        "carries a debug container",
    );
    let container = world.container(false);
    world.fake.edit_pod(&world.pod, |pod| {
        pod["spec"]["ephemeralContainers"] = json!([container]);
    });
    sent(world.fenced.delete_pod(&world.pod, None).await);
}

#[tokio::test]
async fn an_attach_that_the_fence_refuses_is_not_sent() {
    let world = world();
    world.cut(Step::Attach);
    let shell = world.fenced.attach(&world.pod, "app").await;
    refused(
        shell,
        "tower-breakglass-attach",
        "attaches to a session's debug container",
    );
    sent(
        world
            .fenced
            .attach(&world.pod, &names::debug_container_name(&world.id))
            .await,
    );
}

#[tokio::test]
async fn a_mark_is_judged_and_sent() {
    let world = world();
    world.cut(Step::AnnotateProcessAccess);
    let marked = world
        .fenced
        .annotate_process_access(&world.pod, Some(&world.id));
    sent(marked.await);
    sent(world.fenced.annotate_process_access(&world.pod, None).await);
}

#[tokio::test]
async fn nothing_is_sent_as_another_account_than_the_fences() {
    let world = world();
    world.fake.set_username("system:serviceaccount:tower:other");
    let grant = world.good_grant();
    let made = world.fenced.create_grant(&world.id, &grant).await;
    refused(made, BACKEND, "`system:serviceaccount:tower:other`");
    // No policy is about another account's deletes: they would not be fenced.
    let container = world.container(false);
    world.fake.edit_pod(&world.pod, |pod| {
        pod["spec"]["ephemeralContainers"] = json!([container]);
    });
    let deleted = world.fenced.delete_pod(&world.pod, None).await;
    refused(deleted, BACKEND, "render and apply again");
    assert_eq!(world.fake.effects(), []);
}

/// It only takes a right away, and the grant would stay until it lapses.
#[tokio::test]
async fn a_grants_deletion_is_sent_whoever_we_are() {
    let world = world();
    let grant = world.good_grant();
    let made = world.fenced.create_grant(&world.id, &grant).await;
    let made = made.expect("a grant");
    world.fake.set_username("system:serviceaccount:tower:other");
    world.cut(Step::DeleteGrant);
    sent(world.fenced.delete_grant(&made).await);
    world.cut(Step::Username);
    sent(world.fenced.delete_grant(&made).await);
}

#[tokio::test]
async fn who_we_are_must_be_known() {
    let world = world();
    world.cut(Step::Username);
    let grant = world.good_grant();
    sent(world.fenced.create_grant(&world.id, &grant).await);
    assert_eq!(world.fake.effects(), []);
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_not_sent() {
    let world = world();
    world.cut(Step::LookAt);
    let grant = world.good_grant();
    sent(world.fenced.create_grant(&world.id, &grant).await);
    sent(world.fenced.delete_pod(&world.pod, None).await);
    assert_eq!(world.fake.effects(), []);
}

#[tokio::test]
async fn a_session_passes_the_fence_from_grant_to_recycle() {
    let world = world();
    let made = world
        .fenced
        .create_grant(&world.id, &world.good_grant())
        .await;
    let made = made.expect("a grant");
    let marked = world
        .fenced
        .annotate_process_access(&world.pod, Some(&world.id));
    marked.await.expect("marked");
    let container = world.container(true);
    for _ in 0..2 {
        let added = world
            .fenced
            .add_debug_container(&world.pod, &container)
            .await;
        added.expect("added, the second time without being sent");
    }
    let name = names::debug_container_name(&world.id);
    drop(
        world
            .fenced
            .attach(&world.pod, &name)
            .await
            .expect("a shell"),
    );
    let deleted = world.fenced.delete_pod(&world.pod, None).await;
    assert_eq!(deleted.expect("deleted"), Deleted::Gone);
    // Another pod has the name now: it is neither judged nor touched.
    world.fake.put_pod(json!({
        "metadata": { "name": "web-1", "namespace": NAMESPACE, "uid": "another" },
        "spec": { "containers": [] },
    }));
    let deleted = world.fenced.delete_pod(&world.pod, None).await;
    assert_eq!(deleted.expect("left alone"), Deleted::Replaced);
    world.fenced.delete_grant(&made).await.expect("gone");
}

#[tokio::test]
async fn a_cluster_without_a_fence_stays_as_it_is() {
    let fake = FakeCluster::new("other", "tests");
    let clusters: Clusters =
        BTreeMap::from([("other".to_owned(), Arc::new(fake) as Arc<dyn Cluster>)]);
    let before = Arc::clone(&clusters["other"]);
    let fences = BTreeMap::from([("prod".to_owned(), fence())]);
    let clusters = fenced(clusters, &fences).expect("nothing to compile");
    assert!(Arc::ptr_eq(&before, &clusters["other"]));
    assert_eq!(clusters.len(), 1, "a fence makes no cluster");
}

#[tokio::test]
async fn another_binding_than_a_grant_is_not_deleted() {
    let world = world();
    let grant = world.good_grant();
    let made = world.fenced.create_grant(&world.id, &grant).await;
    let mut other = made.expect("a grant");
    other.name = "own-binding".to_owned();
    refused(
        world.fenced.delete_grant(&other).await,
        "tower-breakglass-rolebinding",
        "deletes no other RoleBinding",
    );
}
