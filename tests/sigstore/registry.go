package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

// serveRegistry serves a registry that keeps everything in memory: registry ADDRESS
func serveRegistry(context.Context) error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: registry ADDRESS")
	}
	return http.ListenAndServe(os.Args[1], registry.New())
}
