package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestDevDeliversTheFirstPushWithinASecond(t *testing.T) {
	t.Parallel()
	dev := testenv.StartPushq(t, []string{"dev", "--listen", "127.0.0.1:0"})
	dev.WaitReady()

	posted := time.Now()
	id := accept(t, dev, "463B3209-6E33-4E88-AF52-CDA87C0550EC")
	push := waitFor(t, dev, id, tasks.Sent, 5*time.Second)
	require.Less(t, time.Since(posted), time.Second)
	require.Len(t, push.Attempts, 1)
	require.Equal(t, "OK", push.Attempts[0].Status)

	printed := strings.Join(dev.Stdout(), "\n")
	require.Contains(t, printed, "nothing survives a restart")
	require.Contains(t, printed, "curl -i http://"+dev.HTTPAddress()+"/push")
	require.Contains(t, printed, "/ledger")
	require.Contains(t, printed, "http://"+dev.HTTPAddress()+"/monitoring")
}

func TestATakenPortNamesTheFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })

	dev := testenv.StartPushq(t, []string{"dev", "--listen", taken.Addr().String()})
	require.Equal(t, 1, dev.Wait(30*time.Second))
	require.Contains(t, strings.Join(dev.Stderr(), "\n"), "--listen")
}
