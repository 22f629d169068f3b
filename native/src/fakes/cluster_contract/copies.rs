//! The cases of the contract that are about copy pods.

use super::*;
use serde_json::json;

/// C-8, C-10a, C-12.
pub async fn a_copy_pod_is_made_once_under_its_own_grant(world: &dyn World) {
    let (id, cluster) = (new_session(), world.cluster());
    let mut binding = grant_for(world, &id, &world.installation()).await;
    binding["roleRef"]["name"] = json!(names::DEBUG_COPY_ROLE);
    cluster.create_grant(&id, &binding).await.expect("granted");
    let mut labels = names::our_labels(&world.installation(), &id);
    labels.insert(names::COPY.to_owned(), names::TRUE.to_owned());
    let image = &world.debug_container("app")["image"];
    let copy = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": world.namespace(),
            "name": format!("web-copy-{id}"),
            "labels": labels,
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "app", "image": image }],
        },
    });
    let made = cluster.create_copy_pod(&id, &copy).await.expect("made");
    assert_eq!(
        (made.kind, &made.session),
        (ObjectKind::CopyPod, &id),
        "{made:?}"
    );
    let again = cluster.create_copy_pod(&id, &copy).await.expect("adopted");
    assert_eq!(again, made, "an earlier try whose answer was lost");

    // Somebody else's pod of that name is not taken.
    let (other, mut theirs) = (new_session(), copy.clone());
    let labels = names::our_labels(&world.installation(), &other);
    theirs["metadata"]["labels"] = json!(labels);
    let taken = cluster.create_copy_pod(&other, &theirs).await;
    assert!(
        matches!(taken, Err(ClusterError::Conflict { .. })),
        "{taken:?}"
    );
    let pod = PodRef {
        namespace: made.namespace,
        name: made.name,
        uid: Some(made.uid),
    };
    let now = Some(Duration::ZERO);
    cluster.delete_pod(&pod, now).await.expect("deleted");
}
