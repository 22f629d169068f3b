// Command sigstoreparts is every program of the tests' Sigstore in one binary: the transparency
// log, the certificate authority, the client that signs, and a registry. It is what its own name
// or its first argument says.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigstore/cosign/v3/cmd/cosign/cli"
	fulcio "github.com/sigstore/fulcio/cmd/app"
	rekor "github.com/sigstore/rekor/cmd/rekor-server/app"
)

// programs maps a name to what runs as that program with os.Args.
var programs = map[string]func(context.Context) error{
	"cosign":   func(ctx context.Context) error { return cli.New().ExecuteContext(ctx) },
	"fulcio":   func(ctx context.Context) error { fulcio.Execute(ctx); return nil },
	"registry": serveRegistry,
	"rekor":    func(context.Context) error { rekor.Execute(); return nil },
	"trillian": serveTrillian,
	"tuf":      makeTrustRepository,
}

func main() {
	run, known := programs[filepath.Base(os.Args[0])]
	if !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		run, known = programs[os.Args[0]]
	}
	if !known {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: %s\n", strings.Join(names, " | "))
		os.Exit(2)
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
