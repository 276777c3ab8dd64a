package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"pushq/tasks"
)

// processName is what others know a process by: "worker of host-7, process 4711".
func processName(does roles) string {
	role := "serve"
	switch {
	case !does.worker:
		role = "api"
	case !does.api:
		role = "worker"
	}
	return fmt.Sprintf("%s of %s, process %d", role, hostName(), os.Getpid())
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "an unknown host"
	}
	return name
}

// leave tells the others that this process is gone, as they would find out by themselves
// in half a minute.
func (s *service) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := tasks.Leave(ctx, s.clients.Read, s.name); err != nil {
		s.log.Debug("redis", slog.Any("error", err))
	}
}
