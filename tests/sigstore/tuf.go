package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/theupdateframework/go-tuf"
)

// makeTrustRepository makes a TUF repository in a new folder, the way in which a Sigstore hands
// out what it is trusted by: tuf FOLDER TRUSTED-ROOT. Afterwards FOLDER/repository is to be served
// and FOLDER/repository/root.json is to be trusted.
//
// This is the library that Sigstore's own repository was made with: its metadata is read by both
// generations of clients, and a verifier may have both in it.
func makeTrustRepository(context.Context) error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: tuf FOLDER TRUSTED-ROOT")
	}
	folder := os.Args[1]
	content, err := os.ReadFile(os.Args[2])
	if err != nil {
		return err
	}
	staged := filepath.Join(folder, "staged", "targets")
	if err := os.MkdirAll(staged, 0o755); err != nil {
		return err
	}
	const target = "trusted_root.json"
	if err := os.WriteFile(filepath.Join(staged, target), content, 0o644); err != nil {
		return err
	}
	repository, err := tuf.NewRepo(tuf.FileSystemStore(folder, nil))
	if err != nil {
		return err
	}
	if err := repository.Init(true); err != nil {
		return err
	}
	for _, role := range []string{"root", "targets", "snapshot", "timestamp"} {
		if _, err := repository.GenKey(role); err != nil {
			return err
		}
	}
	if err := repository.AddTarget(target, nil); err != nil {
		return err
	}
	for _, step := range []func() error{
		repository.Snapshot, repository.Timestamp, repository.Commit,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
