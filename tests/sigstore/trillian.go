package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/google/trillian"
	"github.com/google/trillian/extension"
	"github.com/google/trillian/log"
	"github.com/google/trillian/monitoring"
	"github.com/google/trillian/quota"
	"github.com/google/trillian/server"
	"github.com/google/trillian/server/admin"
	"github.com/google/trillian/server/interceptor"
	"github.com/google/trillian/storage/postgresql"
	"github.com/google/trillian/util/clock"
	"github.com/google/trillian/util/election2"
	"google.golang.org/grpc"
)

// How often new entries are put into the tree.
const sequenceEvery = 100 * time.Millisecond

// serveTrillian is Trillian's log server and its sequencer in one process, on Postgres:
// trillian POSTGRES-URI ADDRESS
//
// Trillian's own programs bring every storage and quota system with them; of what they compile,
// this is what a log on Postgres needs.
func serveTrillian(ctx context.Context) error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: trillian POSTGRES-URI ADDRESS")
	}
	database, err := postgresql.OpenDB(os.Args[1])
	if err != nil {
		return err
	}
	defer database.Close()
	metrics := monitoring.InertMetricFactory{}
	registry := extension.Registry{
		AdminStorage:    postgresql.NewAdminStorage(database),
		LogStorage:      postgresql.NewLogStorage(database, metrics),
		ElectionFactory: election2.NoopFactory{},
		QuotaManager:    quota.Noop(),
		MetricFactory:   metrics,
	}

	go log.NewOperationManager(log.OperationInfo{
		Registry:    registry,
		BatchSize:   1000,
		NumWorkers:  1,
		RunInterval: sequenceEvery,
		TimeSource:  clock.System,
	}, log.NewSequencerManager(registry, 0)).OperationLoop(ctx)

	trees := interceptor.New(registry.AdminStorage, registry.QuotaManager, false, metrics)
	serving := grpc.NewServer(
		grpc.ChainUnaryInterceptor(interceptor.ErrorWrapper, trees.UnaryInterceptor),
	)
	trillian.RegisterTrillianLogServer(serving, server.NewTrillianLogRPCServer(registry, clock.System))
	trillian.RegisterTrillianAdminServer(serving, admin.New(registry, nil))
	listening, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		return err
	}
	return serving.Serve(listening)
}
