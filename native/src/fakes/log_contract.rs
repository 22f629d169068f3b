//! What every adapter of `TransparencyLog` must do.

use super::log::{key, pem};
use crate::ports::log::{Entered, Entry, LogError, Submitted, TransparencyLog};
use crate::rekor::LogKey;
use p256::ecdsa::Signature;
use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use sha2::{Digest, Sha256};

/// An entry for these bytes, signed with the key of this number.
///
/// # Panics
/// Where a key cannot sign: it is a test's helper.
#[expect(clippy::expect_used, reason = "a test's helper panics to fail")]
pub fn entry(bytes: &[u8], number: u8) -> Entry {
    let sha256: [u8; 32] = Sha256::digest(bytes).into();
    let key = key(number);
    let signature: Signature = key.sign_prehash(&sha256).expect("a signature");
    Entry {
        sha256,
        signature: signature.to_der().as_bytes().to_vec(),
        public_key: pem(&key),
    }
}

/// What every adapter must do, on a log that answers.
///
/// # Panics
/// Where the adapter does not: it is a test's body.
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a contract is a test's body: it panics to fail"
)]
pub async fn contract(log: &dyn TransparencyLog) {
    let public = LogKey::from_pem(&log.public_key().await.unwrap()).unwrap();
    let one = entry(b"one recording", 9);
    assert_eq!(log.find(&one).await.unwrap(), None, "nothing yet");

    let Submitted::New(first) = log.submit(&one).await.unwrap() else {
        panic!("it was not there");
    };
    assert_holds(&first, &one);
    assert_eq!(first.log_id, public.id());

    // The same again meets the first.
    let again = log.submit(&one).await.unwrap();
    let Submitted::AlreadyThere(again) = again else {
        panic!("it was there");
    };
    assert_same(&again, &first);

    // Another recording, and another signature over the same one, are entries of their own.
    let mut seen = vec![first.clone()];
    for other in [entry(b"another recording", 9), entry(b"one recording", 8)] {
        let Submitted::New(entered) = log.submit(&other).await.unwrap() else {
            panic!("it was not there");
        };
        assert_holds(&entered, &other);
        assert!(
            seen.iter()
                .all(|it| it.uuid != entered.uuid && it.index < entered.index)
        );
        seen.push(entered);
    }

    // Read back in each way.
    assert_same(&log.find(&one).await.unwrap().unwrap(), &first);
    assert_same(&log.get(&first.uuid).await.unwrap().unwrap(), &first);
    let leaf = first.uuid.get(first.uuid.len() - 64..).unwrap();
    assert_same(&log.get(leaf).await.unwrap().unwrap(), &first);
    assert_same(&log.at(first.index).await.unwrap().unwrap(), &first);
    not_there(log).await;
    refuses(log).await;
}

#[expect(
    clippy::unwrap_used,
    reason = "a contract is a test's body: it panics to fail"
)]
async fn not_there(log: &dyn TransparencyLog) {
    let unknown = "0".repeat(64);
    for name in [
        unknown.as_str(),
        "",
        "../publicKey",
        "?",
        &"g".repeat(64),
        &"0".repeat(79),
    ] {
        assert_eq!(log.get(name).await.unwrap(), None, "{name:?}");
    }
    assert_eq!(log.at(u64::from(u32::MAX)).await.unwrap(), None);
    assert_eq!(log.find(&entry(b"never entered", 9)).await.unwrap(), None);
}

#[expect(
    clippy::unwrap_used,
    reason = "a contract is a test's body: it panics to fail"
)]
async fn refuses(log: &dyn TransparencyLog) {
    let good = entry(b"a third recording", 9);
    let wrong = [
        Entry {
            sha256: [1; 32],
            ..good.clone()
        },
        Entry {
            signature: entry(b"another recording", 9).signature,
            ..good.clone()
        },
        Entry {
            signature: b"no signature".to_vec(),
            ..good.clone()
        },
        Entry {
            public_key: pem(&key(8)),
            ..good.clone()
        },
        Entry {
            public_key: "no key".to_owned(),
            ..good.clone()
        },
    ];
    for entry in wrong {
        let answer = log.submit(&entry).await;
        assert!(
            matches!(answer, Err(LogError::Refused { .. })),
            "{answer:?}"
        );
    }
    assert_eq!(log.find(&good).await.unwrap(), None, "nothing was entered");
}

fn assert_same(one: &Entered, other: &Entered) {
    assert_eq!(
        (&one.body, one.index, one.integrated_at, &one.entry),
        (&other.body, other.index, other.integrated_at, &other.entry)
    );
    assert!(one.uuid.ends_with(&other.uuid) || other.uuid.ends_with(&one.uuid));
}

fn assert_holds(entered: &Entered, entry: &Entry) {
    assert_eq!(entered.entry.sha256, entry.sha256);
    assert_eq!(entered.entry.signature, entry.signature);
    let id = |pem: &str| LogKey::from_pem(pem).map(|it| it.id().to_owned());
    assert_eq!(id(&entered.entry.public_key), id(&entry.public_key));
}
