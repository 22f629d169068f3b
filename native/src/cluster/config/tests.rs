use super::*;

fn read(yaml: &str) -> Result<ClusterConfig, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

#[track_caller]
fn accepted(yaml: &str) -> ClusterConfig {
    read(yaml).unwrap_or_else(|error| panic!("`{yaml}` was refused: {error}"))
}

#[track_caller]
fn refused(yaml: &str, because: &str) {
    let error = read(yaml).expect_err(yaml);
    assert!(
        error.contains(because),
        "`{yaml}` was refused with `{error}`, not `{because}`"
    );
}

#[test]
fn a_cluster_needs_no_more_than_its_way() {
    let config = accepted("inCluster: {}");
    assert_eq!(
        config,
        ClusterConfig {
            way: Way::InCluster,
            act_as: None,
            limits: Limits::default()
        }
    );
    assert_eq!(config.limits.call, Duration::from_secs(10));
}

/// The API server answers before we give up, with time for a place and a connection.
#[test]
fn a_signature_that_nobody_can_judge_ends_in_an_answer() {
    let signature = Duration::from_secs(u64::from(policies::fence::SIGNATURE_SECONDS));
    assert!(signature + Duration::from_secs(2) < Limits::default().call);
}

#[test]
fn the_home_cluster_may_be_used_as_another_service_account() {
    let config = accepted("inCluster: {}\nserviceAccount: tower/breakglass");
    let account = config.act_as.expect("an account");
    assert_eq!(account.service_account.namespace, "tower");
    assert_eq!(account.service_account.name, "breakglass");
    assert_eq!(account.audience, None);
}

#[test]
fn a_kubeconfig_context_is_read() {
    let config = accepted("kubeconfig: { path: /etc/kubeconfig, context: dev }");
    let way = KubeconfigWay {
        path: Some("/etc/kubeconfig".into()),
        context: Some("dev".into()),
    };
    assert_eq!(config.way, Way::Kubeconfig(way));
}

#[test]
fn a_minted_token_names_its_home_account_audience_and_server() {
    let config = accepted(
        "mintedToken: { home: ground, serviceAccount: tower/breakglass, audience: flight,
          server: 'https://flight.example:6443', caFile: /etc/flight.pem }
callTimeoutSeconds: 3",
    );
    assert!(matches!(config.way, Way::MintedToken(way) if way.home == "ground"));
    assert_eq!(config.limits.call, Duration::from_secs(3));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    refused("{}", "exactly one of");
    refused("inCluster: {}\nkubeconfig: {}", "exactly one of");
    refused("inCluster: {}\nserviceAcount: a/b", "serviceAcount");
    refused(
        "inCluster: {}\nserviceAccount: breakglass",
        "namespace/name",
    );
    refused("inCluster: {}\nserviceAccount: a/b/c", "namespace/name");
    refused("inCluster: {}\nserviceAccount: ../b", "namespace/name");
    refused("inCluster: {}\naudience: x", "needs a `serviceAccount`");
    refused("inCluster: {}\ncallTimeoutSeconds: 0", "from 1 to 120");
    refused("inCluster: {}\nconcurrentCalls: 1000", "from 1 to 256");
    let minted = "mintedToken: { home: h, serviceAccount: a/b, server: 'https://x' }";
    refused(
        &format!("{minted}\nserviceAccount: c/d"),
        "belongs inside `mintedToken`",
    );
}

#[test]
fn a_token_is_not_sent_in_the_clear() {
    for server in [
        "http://flight.example:6443",
        "flight.example",
        "ftp://x",
        "http://10.0.0.1",
    ] {
        assert!(parse_server(server).is_err(), "{server}");
    }
    for server in [
        "https://flight.example:6443",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
    ] {
        assert!(parse_server(server).is_ok(), "{server}");
    }
}

#[test]
fn the_schema_is_that_of_the_written_form() {
    let schema = schemars::schema_for!(ClusterConfig).to_value();
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema["properties"]["mintedToken"].is_object(), "{schema}");
    assert!(schema["properties"].get("way").is_none(), "{schema}");
}

#[test]
fn what_is_written_is_read_again() {
    for yaml in [
        "inCluster: {}\nserviceAccount: tower/breakglass\naudience: here",
        "kubeconfig: { path: /etc/kubeconfig, context: dev }\nconcurrentCalls: 3",
        "mintedToken: { home: ground, serviceAccount: tower/breakglass, server: 'https://x:6443' }",
    ] {
        let config = accepted(yaml);
        let json = serde_json::to_value(&config).expect("JSON");
        let again: ClusterConfig = serde_json::from_value(json).expect("read again");
        assert_eq!(again, config);
    }
}
